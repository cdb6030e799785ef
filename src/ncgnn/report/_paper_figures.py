"""All figures of the paper by the names of their targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.report._paper_embeddings import draw_embeddings
from ncgnn.report._paper_metrics import draw_distributions, draw_entropy, draw_observation
from ncgnn.report._paper_models import draw_groups, draw_time
from ncgnn.report._paper_training import draw_alpha, draw_interplay, draw_sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

#: Each draws what the ``collect`` of its target gives.
DRAWN: dict[str, Callable[[Any], Figure]] = {
    "observation": draw_observation,
    "embeddings": draw_embeddings,
    "distributions": draw_distributions,
    "groups": draw_groups,
    "interplay": draw_interplay,
    "sensitivity": draw_sensitivity,
    "alpha": draw_alpha,
    "time": draw_time,
    "entropy": draw_entropy,
}
