"""The figures of the paper: which runs each rests on, and its numbers."""

from typing import TYPE_CHECKING

from ncgnn.experiments.figures._alpha import Alpha
from ncgnn.experiments.figures._distributions import Distributions
from ncgnn.experiments.figures._embeddings import Embeddings
from ncgnn.experiments.figures._entropy import Entropy
from ncgnn.experiments.figures._groups import Groups
from ncgnn.experiments.figures._interplay import Interplay
from ncgnn.experiments.figures._observation import Observation
from ncgnn.experiments.figures._sensitivity import Sensitivity
from ncgnn.experiments.figures._time import Time

if TYPE_CHECKING:
    from ncgnn.experiments._request import Target

#: All figures, in the order of the paper.
FIGURES: "tuple[Target, ...]" = (
    Observation(),
    Embeddings(),
    Distributions(),
    Groups(),
    Interplay(),
    Sensitivity(),
    Alpha(),
    Time(),
    Entropy(),
)

__all__ = ["FIGURES"]
