"""What theory says: entropy and error bound against NC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ncgnn.experiments.figures._parts import FigureData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig, RunResult

CLASSES = (2, 3, 5, 10, 15)
CONFUSION = tuple(round(step / 100, 2) for step in range(101))


@dataclass(frozen=True)
class EntropyCurve:
    """One number of classes: conditional entropy in bits, and Fano's bound of the error rate."""

    classes: int
    entropy: tuple[float, ...]
    bound: tuple[float, ...]


@dataclass(frozen=True)
class EntropyData(FigureData):
    """Curves at the same values of NC."""

    confusion: tuple[float, ...]
    curves: tuple[EntropyCurve, ...]


class Entropy:
    """Fig. "The curve of conditional entropy and classification error bound versus NC"."""

    name = "entropy"
    title = "conditional entropy and error bound against NC"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()

    def cells(self, request: Request) -> list[RunConfig]:
        """None: it is theory."""
        return []

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> EntropyData:
        """Eqs. (6) to (14) of the paper, for several numbers of classes."""
        from ncgnn.metrics import conditional_entropy, error_lower_bound

        places = np.array(CONFUSION)
        curves = tuple(
            EntropyCurve(
                count,
                tuple(conditional_entropy(places, count).tolist()),
                tuple(error_lower_bound(places, count).tolist()),
            )
            for count in CLASSES
        )
        return EntropyData((), CONFUSION, curves)
