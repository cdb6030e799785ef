"""Which classes mix, and how many nodes of each class are of which kind: one picture of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure

from ncgnn.metrics import KINDS, class_names
from ncgnn.report.style import BLUE, GREEN, LIGHT, ORANGE, STYLE, VERMILION, show_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.metrics import Analysis

#: More classes than these are not drawn one by one; the smaller ones become one row.
MOST_CLASSES = 80
KIND_COLORS = dict(zip(KINDS, (GREEN, ORANGE, VERMILION, LIGHT), strict=True))
_SHADES = LinearSegmentedColormap.from_list(
    "shares", ["#ffffff", "#cfe6f3", "#56a7d6", BLUE, "#00253d"]
)


class Mixing(NamedTuple):
    """What the picture shows, in its order of classes.

    Attributes:
        names: The classes; the last one may stand for all small ones.
        nodes: How many nodes each has.
        shares: Shares of the neighbors of a row's nodes, by class; NaN without labeled neighbors.
        kinds: How many nodes of each class are of which kind, [classes, kinds].
    """

    names: list[str]
    nodes: NDArray[np.int64]
    shares: NDArray[np.float64]
    kinds: NDArray[np.int64]


def class_kinds(analysis: Analysis) -> NDArray[np.int64]:
    """How many nodes of each class are of which kind, [classes, kinds]."""
    labels, count = analysis.graph.labels, analysis.graph.num_classes
    columns = [
        np.bincount(labels[(analysis.kinds == kind) & (labels >= 0)], minlength=count)
        for kind in KINDS
    ]
    return np.stack(columns, axis=1)


def mixing(analysis: Analysis, most: int = MOST_CLASSES) -> Mixing:
    """Classes with nodes, ordered so that those which mix stand side by side.

    Where there are too many, the smaller ones are added up as one class at the end.
    """
    kinds, pairs = class_kinds(analysis), analysis.class_pairs
    nodes, names = kinds.sum(axis=1), [*class_names(analysis.graph)]
    present = np.flatnonzero(nodes)
    small = np.zeros(0, dtype=np.int64)
    if len(present) > most:
        by_size = present[np.argsort(-nodes[present], kind="stable")]
        present, small = np.sort(by_size[: most - 1]), by_size[most - 1 :]
    order = present[mixing_order(pairs[np.ix_(present, present)])]
    if len(small):
        # The small classes take the place after the last one.
        places = np.full(len(names), len(order))
        places[order] = np.arange(len(order))
        merged = np.zeros((len(order) + 1,) * 2, dtype=np.int64)
        np.add.at(merged, (places[:, None], places[None, :]), pairs)
        pairs, kinds = merged, np.vstack([kinds[order], kinds[small].sum(axis=0)])
        names = [*(names[c] for c in order), f"{len(small)} others"]
    else:
        pairs, kinds = pairs[np.ix_(order, order)], kinds[order]
        names = [names[c] for c in order]
    totals = pairs.sum(axis=1, keepdims=True)
    shares = np.divide(pairs, totals, out=np.full(pairs.shape, np.nan), where=totals > 0)
    return Mixing(names, kinds.sum(axis=1), shares, kinds)


def mixing_order(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order of classes in which those with many edges between them stand side by side.

    Average linkage with optimal leaf ordering on 1 - e_ab / sqrt(d_a d_b), where e_ab is the number
    of edges between two classes, both directions added, and d_a that of all edges of class a.
    """
    count = len(pairs)
    if count < 3:
        return np.arange(count)
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    between = (pairs + pairs.T).astype(np.float64)
    ends = np.maximum(between.sum(axis=1), 1)
    distance = 1 - np.clip(between / np.sqrt(np.outer(ends, ends)), 0, 1)
    np.fill_diagonal(distance, 0)
    apart = squareform(distance, checks=False)
    return leaves_list(optimal_leaf_ordering(linkage(apart, "average"), apart)).astype(np.int64)


def class_figure(analysis: Analysis) -> Figure:
    """With which classes the nodes of each class are connected, and of which kinds they are."""
    shown = mixing(analysis)
    count = len(shown.names)
    longest = max(map(len, shown.names), default=1)
    size = 9 if count <= 12 else 7.5 if count <= 30 else 6.5
    side = max(2.4, count * (0.42 if count <= 12 else 0.25 if count <= 30 else 0.155))
    margin = min(longest, 22) * size * 0.0085
    with rc_context(STYLE):
        width = side + 2.9 + margin + 0.6
        figure = Figure(figsize=(max(width, 6.4), side + margin + 1.35), layout="constrained")
        matrix, bars = figure.subplots(1, 2, sharey=True, width_ratios=(side, 2.3))
        names = [name if len(name) <= 22 else f"{name[:21]}…" for name in shown.names]
        _draw_shares(figure, matrix, shown, names, size)
        _draw_kinds(bars, shown, size)
        figure.suptitle(f"{analysis.graph.name}: which classes mix?")
        return figure


def _draw_shares(figure: Figure, axis: Axes, shown: Mixing, names: list[str], size: float) -> None:
    count = len(names)
    # The square root lets small shares be seen beside large ones.
    norm = PowerNorm(0.5, 0, 1)
    image = axis.imshow(shown.shares, cmap=_SHADES, norm=norm, aspect="auto")
    upright = max(map(len, names), default=1) <= 2
    axis.set_xticks(range(count), names, rotation=0 if upright else 90, fontsize=size)
    axis.set_yticks(range(count), names, fontsize=size)
    axis.tick_params(length=0)
    axis.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="#e9e9e9", linewidth=0.4)
    axis.tick_params(which="minor", length=0)
    axis.spines[:].set_visible(False)
    axis.set_xlabel("class of the neighbor")
    axis.set_ylabel("class of the node")
    if count <= 12:
        for (row, column), share in np.ndenumerate(shown.shares):
            if not np.isnan(share) and share >= 0.005:
                look: dict[str, Any] = {"color": "white" if share > 0.3 else "black"}
                look |= {"ha": "center", "va": "center", "fontsize": 7.5}
                axis.text(column, row, f"{share:.0%}", **look)
    bar = figure.colorbar(
        image, ax=axis, location="top", aspect=40, pad=0.01, label="share of the row's neighbors"
    )
    bar.set_ticks([0, 0.01, 0.05, 0.1, 0.25, 0.5, 1] if count > 5 else [0, 0.05, 0.25, 0.5, 1])
    bar.ax.tick_params(labelsize=7.5)
    show_percent(bar.ax.xaxis)


def _draw_kinds(axis: Axes, shown: Mixing, size: float) -> None:
    """Stacked shares of kinds in the rows of the picture beside it, with the number of nodes."""
    total = np.maximum(shown.kinds.sum(axis=1), 1)
    left = np.zeros(len(total))
    for place, kind in enumerate(KINDS):
        share = shown.kinds[:, place] / total
        axis.barh(
            np.arange(len(total)),
            share,
            left=left,
            height=0.82,
            color=KIND_COLORS[kind],
            label=kind,
        )
        left += share
    for row, nodes in enumerate(shown.nodes):
        axis.text(1.03, row, f"{nodes:,}", va="center", fontsize=size)
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1])
    show_percent(axis.xaxis)
    axis.set_xlabel("kinds, number of nodes")
    axis.spines[:].set_visible(False)
    axis.tick_params(axis="y", which="both", length=0, labelleft=False)
    axis.legend(
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1),
        ncols=2,
        fontsize=8,
        handlelength=1,
        columnspacing=0.8,
    )
