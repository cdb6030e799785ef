"""The paper's figures of NH and NC: distributions of nodes, and what GCN makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.report._figures import BLUE, ORANGE, theory_figure
from ncgnn.report._paper_axes import (
    FEW_NODES,
    PARTS,
    axes_of,
    common_legend,
    drawing,
    model_title,
    multiples,
    outer_labels,
    panel_title,
    say_below,
    say_missing,
    whisker_words,
    whiskers,
)
from ncgnn.report._run_axes import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ncgnn.experiments.figures._distributions import DistributionsData, Histogram
    from ncgnn.experiments.figures._entropy import EntropyData
    from ncgnn.experiments.figures._observation import ObservationData, ObservationPanel

_PLAIN, _PALE = "#f0f0f0", "#fbe6bd"


def draw_distributions(data: DistributionsData) -> Figure:
    """Histograms of 1 - NH and NC, a panel per data set; vertical lines are the means."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 1.95))
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            _histogram(axis, data.edges, panel.heterophily, BLUE, "1 − NH, closed", "", "--")
            _histogram(axis, data.edges, panel.confusion, ORANGE, "NC", "////", "-.")
            means = f"means {_text(panel.heterophily.mean)} and {_text(panel.confusion.mean)}"
            panel_title(axis, f"{panel.dataset}, k = {panel.hops}\n{means}")
            axis.set_xlim(0, 1)
            axis.set_ylim(bottom=0)
        outer_labels(axes, columns, "1 − NH or NC", "share of nodes")
        common_legend(figure, axes, columns=4 if columns > 1 else 2)
        say_missing(figure, data.missing, "data set")
    return figure


def _histogram(
    axis: Axes,
    edges: tuple[float, ...],
    histogram: Histogram,
    colour: str,
    label: str,
    hatch: str,
    dashes: str,
) -> None:
    axis.stairs(
        histogram.shares,
        edges,
        fill=True,
        facecolor=colour + "55",
        edgecolor=colour,
        linewidth=1.0,
        hatch=hatch,
        label=label,
    )
    if histogram.mean is not None:
        name = f"mean {label.removesuffix(', closed')}"
        axis.axvline(histogram.mean, color=colour, linestyle=dashes, linewidth=1.5, label=name)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def draw_observation(data: ObservationData) -> Figure:
    """Accuracy by tenths of NH (lines), and how many nodes of each tenth have high NC (bars)."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 2.2), above=0.5)
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            _observe(axis, panel, model_title(data.model))
        outer_labels(axes, columns, "node homophily NH", "accuracy, share of nodes")
        common_legend(figure, axes, columns=2 if columns == 1 else 3)
        tenths = [tenth.accuracy for panel in data.panels for tenth in panel.tenths]
        say_below(figure, f"{whisker_words(tenths)}Bars: evaluated nodes of each tenth of NH by NC")
        say_missing(figure, data.missing)
    return figure


def _observe(axis: Axes, panel: ObservationPanel, model: str) -> None:
    middle = np.arange(10) / 10 + 0.05
    filled = np.array([tenth.high_share is not None for tenth in panel.tenths])
    high = np.array([tenth.high_share or 0.0 for tenth in panel.tenths])
    axis.bar(
        middle,
        high,
        width=0.09,
        facecolor=_PALE,
        edgecolor=ORANGE,
        hatch="////",
        linewidth=0.8,
        label="share with high NC",
    )
    low = np.where(filled, 1 - high, 0)
    axis.bar(
        middle,
        low,
        bottom=high,
        width=0.09,
        facecolor=_PLAIN,
        edgecolor="#bbbbbb",
        linewidth=0.8,
        label="share with low NC",
    )
    _accuracy(axis, panel, middle, f"{model}, {PARTS[panel.part]} accuracy")
    label = f"{model}, all {PARTS[panel.part]} nodes"
    axis.axhline(panel.accuracy.mean, color=GREY, linestyle="--", linewidth=1.1, label=label)
    panel_title(axis, f"{panel.dataset}, k = {panel.hops}, T = {panel.threshold:g}")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.02)


def _accuracy(axis: Axes, panel: ObservationPanel, middle: NDArray[np.float64], label: str) -> None:
    spreads = [tenth.accuracy for tenth in panel.tenths]
    mean = np.array([np.nan if s is None else s.mean for s in spreads])
    known = ~np.isnan(mean)  # the line goes on over empty tenths
    look: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 5, "clip_on": False}
    axis.plot(middle[known], mean[known], linewidth=1.6, zorder=4, label=label, **look)
    whisker: dict[str, Any] = {"ecolor": BLUE, "elinewidth": 0.9, "capsize": 2, "zorder": 3}
    axis.errorbar(middle, mean, whiskers(spreads), fmt="none", **whisker)
    few = known & np.array([tenth.nodes < FEW_NODES for tenth in panel.tenths])
    if few.any():
        look |= {"linestyle": "none", "markerfacecolor": "white"}
        axis.plot(middle[few], mean[few], zorder=5, label=f"fewer than {FEW_NODES} nodes", **look)


def draw_entropy(data: EntropyData) -> Figure:
    """Conditional entropy and Fano's bound against NC."""
    return theory_figure([curve.classes for curve in data.curves])
