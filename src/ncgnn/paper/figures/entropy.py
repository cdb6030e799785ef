"""What theory says: conditional entropy and error bound against NC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from ncgnn.metrics import conditional_entropy, error_lower_bound
from ncgnn.paper.targets import Target
from ncgnn.report import GRAY, LOOKS, show_percent

if TYPE_CHECKING:
    from ncgnn.paper.targets import Request, Runs

CLASSES = (2, 3, 5, 10, 15)
CONFUSION = tuple(round(step / 100, 2) for step in range(101))


@dataclass(frozen=True)
class EntropyCurve:
    """One number of classes: conditional entropy in bits, and Fano's bound of the error rate."""

    classes: int
    entropy: tuple[float, ...]
    bound: tuple[float, ...]


@dataclass(frozen=True)
class EntropyData:
    """Curves at the same values of NC."""

    confusion: tuple[float, ...]
    curves: tuple[EntropyCurve, ...]


class Entropy(Target[EntropyData]):
    """Fig. "The curve of conditional entropy and classification error bound versus NC"."""

    name = "entropy"
    title = "conditional entropy and error bound against NC"
    kind = "figure"
    datasets = ()

    def collect(self, request: Request, runs: Runs) -> EntropyData:
        """Eqs. (6) to (14) of the paper, for several numbers of classes."""
        places = np.array(CONFUSION)
        curves = tuple(
            EntropyCurve(
                count,
                tuple(conditional_entropy(places, count).tolist()),
                tuple(error_lower_bound(places, count).tolist()),
            )
            for count in CLASSES
        )
        return EntropyData(CONFUSION, curves)

    def draw(self, data: EntropyData) -> Figure:
        """Conditional entropy (left) and Fano's bound (right) against NC."""
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for curve, (color, dashes, _) in zip(data.curves, LOOKS, strict=False):
            line: dict[str, Any] = {"color": color, "linestyle": dashes}
            left.plot(data.confusion, curve.entropy, label=f"C = {curve.classes}", **line)
            right.plot(data.confusion, curve.bound, label=f"C = {curve.classes}", **line)
        right.axhline(0, color=GRAY, linewidth=0.8)
        left.set_ylabel("conditional entropy (bits)")
        right.set_ylabel("lower bound of the error rate")
        show_percent(right.yaxis)
        for axis in (left, right):
            axis.set_xlabel("Neighborhood Confusion")
            axis.set_xlim(0, 1)
        right.legend(frameon=False, loc="lower right")
        return figure
