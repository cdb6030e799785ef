"""What the figures of runs have in common: lines over epochs, and their legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ticker import MaxNLocator

from ncgnn.report.analysis import BLUE, GREEN, ORANGE, PURPLE, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

Record = Mapping[str, Any]

GREY = "#555555"
#: Colour and dashes of one curve after the other.
SERIES: list[tuple[str, Any]] = [
    (BLUE, "-"),
    (ORANGE, "--"),
    (GREEN, "-."),
    (VERMILION, ":"),
    (PURPLE, (0, (5, 1))),
    ("#56B4E9", (0, (3, 1, 1, 1))),
    ("#000000", (0, (1, 1))),
]


def line(
    axis: Axes,
    history: Sequence[Record],
    column: NDArray[np.float64],
    label: str,
    look: tuple[str, Any],
    width: float = 1.2,
) -> None:
    """Draw one curve over the epochs."""
    places = [record["epoch"] for record in history]
    # Few points, or points with gaps between them: one alone makes no line.
    dotted = len(places) <= 12 or bool(np.isnan(column).any())
    marker: dict[str, Any] = {"marker": "o", "markersize": 3} if dotted else {}
    axis.plot(
        places, column, color=look[0], linestyle=look[1], linewidth=width, label=label, **marker
    )


def values(history: Sequence[Record], key: str) -> NDArray[np.float64]:
    """A column of the history; NaN for null."""
    return np.array([record.get(key) for record in history], dtype=np.float64)


def limit_loss(axis: Axes, history: Sequence[Record]) -> None:
    """Keep a high first loss from flattening the rest: cut it off above, and say so."""
    column = np.concatenate([values(history, "loss"), values(history, "val_loss")])
    usual, highest = 1.5 * float(np.quantile(column, 0.97)), float(column.max())
    axis.set_ylim(bottom=0)
    if highest > 2 * usual > 0:
        axis.set_ylim(0, usual)
        text = f"↑ up to {highest:.3g}"
        axis.text(0.98, 0.97, text, ha="right", va="top", transform=axis.transAxes, fontsize=8)


def epochs(axis: Axes, best_epoch: int, *, marked: bool = True) -> None:
    """Make the horizontal axis one of epochs; a dotted line stands at the best one."""
    label: dict[str, Any] = {"label": f"best epoch ({best_epoch})"} if marked else {}
    axis.axvline(best_epoch, color=GREY, linestyle=":", linewidth=1.3, zorder=1, **label)
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.margins(x=0.02)


def legend(axis: Axes, *others: Axes) -> None:
    """One legend for all axes of a panel, above it, where no curve can be."""
    pairs = [one.get_legend_handles_labels() for one in (axis, *others)]
    handles = [handle for pair in pairs for handle in pair[0]]
    labels = [label for pair in pairs for label in pair[1]]
    axis.legend(
        handles,
        labels,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        fontsize=8,
        handlelength=1.7,
        handletextpad=0.5,
        columnspacing=0.9,
        borderaxespad=0.2,
    )


def settled(figure: Figure) -> Figure:
    """Find the layout now and keep it, so that not every file of the figure finds it again."""
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    return figure
