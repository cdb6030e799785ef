"""How long a search will probably take, said before it begins.

A few epochs of one candidate are timed on the graph itself. What others take is known as a multiple
of it, from searches on graphs of 2,700 to 20,000 nodes; a fit in one go counts as so many epochs.
How many epochs a candidate needs is not known beforehand, so that the time is right within a factor
of about two.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import torch

from ncgnn.training.loading import new_trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.training.candidates import Candidate

#: How long an epoch takes, where one of gcn takes 1; of those that are fitted in one go, the fit.
EPOCHS_OF_GCN = {
    "majority": 1.0,
    "propagation": 3.0,
    "logistic": 10.0,
    "boosting": 40.0,
    "feature-boosting": 20.0,
    "mlp": 0.9,
    "gcn": 1.0,
    "sage": 1.8,
    "tuned-gcn": 2.2,
    "tuned-sage": 3.3,
    "ncgcn": 2.9,
    "ncsage": 5.0,
}
_OTHERS = 3.0
#: How many epochs a candidate is expected to be trained, if it may be.
MEAN_EPOCHS = 70
# The combination, which trains some of the best ones once more per fold.
_COMBINING = 1.1
# The first epochs compile, and prepare the graph; of some others the median is taken.
_UNTIMED, _TIMED = 2, 3


def forecast(
    candidates: Sequence[Candidate],
    graph: Graph,
    split: Split,
    clock: Callable[[], float],
    *,
    combine: bool,
) -> float | None:
    """Seconds that some candidates probably take, and their combination.

    Args:
        candidates: The candidates.
        graph: The graph.
        split: The split.
        clock: What time is measured by.
        combine: Whether the best ones are combined.

    Returns:
        The seconds, None where none of the candidates learns epoch by epoch.
    """
    stepwise = [one for one in candidates if not one.fits_at_once]
    if not stepwise:
        return None
    first = min(stepwise, key=lambda one: (not one.sees_graph, _relative(one)))
    trainer = new_trainer(first.config, graph, split)
    times: list[float] = []
    with torch.random.fork_rng(devices=[]):
        for _ in range(_UNTIMED + _TIMED):
            if trainer.finished:
                break
            began = clock()
            trainer.epoch()
            times.append(clock() - began)
    unit = median(times[_UNTIMED:] or times[-1:]) / _relative(first)
    epochs = sum(_relative(one) * _expected_epochs(one) for one in candidates)
    return unit * epochs * (_COMBINING if combine else 1.0)


def _relative(candidate: Candidate) -> float:
    return EPOCHS_OF_GCN.get(candidate.model, _OTHERS)


def _expected_epochs(candidate: Candidate) -> int:
    return 1 if candidate.fits_at_once else min(candidate.config.training.epochs, MEAN_EPOCHS)
