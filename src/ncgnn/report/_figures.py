"""Figures of the metrics: readable in print and by colour-blind people."""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ncgnn._files import atomic_write
from ncgnn.errors import InputError
from ncgnn.metrics import conditional_entropy, error_lower_bound, mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.metrics import Analysis

# Okabe and Ito's palette.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "svg.hashsalt": "ncgnn",
    "text.parse_math": False,  # names of people's classes are no formulas
}
_BINS = np.linspace(0, 1, 26)


def distribution_figure(analysis: Analysis) -> Figure:
    """How the nodes are distributed by 1 - NH and by NC, one panel per hop count.

    The figure "Distributions of nodes guided by NH and NC" of "Clarify Confused Nodes via Separated
    Learning"; dashed lines are the means. NH is that of the closed neighbourhood, as in the paper's
    table.
    """
    with rc_context(STYLE):
        panels = len(analysis.hops)
        figure = Figure(figsize=(1.2 + 3.4 * panels, 3.3), layout="constrained")
        axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
        heterophily = 1 - analysis.per_node["nh_closed"]
        for axis, hops in zip(axes, analysis.hops, strict=True):
            _histogram(axis, heterophily, BLUE, "1 − NH, closed", hatch="")
            _histogram(axis, analysis.per_node[f"nc_{hops}"], ORANGE, f"NC, k={hops}", hatch="///")
            axis.set_xlabel("value")
            axis.set_xlim(0, 1)
            # Above the panel, where no bar can be.
            axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
        axes[0].set_ylabel("share of nodes")
        figure.suptitle(f"{analysis.graph.name}: how confused are the nodes?")
        return figure


def _histogram(
    axis: Axes, values: NDArray[np.float64], colour: str, label: str, hatch: str
) -> None:
    defined = values[~np.isnan(values)]
    weights = np.full(len(defined), 1 / max(len(defined), 1))
    average = mean(values)
    name = f"{label} (mean {average:.3f})"
    style: dict[str, Any] = {
        "facecolor": colour + "55",
        "edgecolor": colour,
        "linewidth": 1.2,
        "hatch": hatch,
    }
    style |= {"histtype": "stepfilled", "label": name}
    axis.hist(defined, bins=_BINS.tolist(), weights=weights, **style)
    if not np.isnan(average):
        axis.axvline(average, color=colour, linestyle="--", linewidth=1.4)


def class_figure(analysis: Analysis) -> Figure:
    """With which classes the nodes of each class are connected, as shares of each row."""
    with rc_context(STYLE):
        pairs = analysis.class_pairs
        totals = pairs.sum(axis=1, keepdims=True)
        shares = np.divide(pairs, totals, out=np.full(pairs.shape, np.nan), where=totals > 0)
        count = len(pairs)
        side = min(2.6 + 0.32 * count, 9.0)
        figure = Figure(figsize=(side + 0.9, side), layout="constrained")
        axis = figure.subplots()
        image = axis.imshow(shares, cmap="cividis", vmin=0, vmax=1)
        figure.colorbar(image, ax=axis, label="share of the row's edges", shrink=0.8)
        names = analysis.graph.class_names or tuple(str(c) for c in range(count))
        if count <= 40:
            axis.set_xticks(range(count), [_short(name) for name in names], rotation=90)
            axis.set_yticks(range(count), [_short(name) for name in names])
        if count <= 12:
            _write_shares(axis, shares)
        axis.set_xlabel("class of the neighbour")
        axis.set_ylabel("class of the node")
        axis.spines[:].set_visible(False)
        figure.suptitle(f"{analysis.graph.name}: who is connected with whom?")
        return figure


def _write_shares(axis: Axes, shares: NDArray[np.float64]) -> None:
    for (row, column), share in np.ndenumerate(shares):
        if not np.isnan(share):
            colour = "black" if share > 0.55 else "white"
            text = f"{share:.2f}".removeprefix("0")
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)


def theory_figure(classes: Sequence[int] = (2, 3, 5, 10, 15)) -> Figure:
    """Conditional entropy and Fano's error bound against NC, for several numbers of classes.

    The curve of the appendix of "Clarify Confused Nodes via Separated Learning".
    """
    if not 1 <= len(classes) <= 8:
        raise InputError(f"{len(classes)} numbers of classes were given; draw 1 to 8 of them.")
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        confusion = np.linspace(0, 1, 401)
        colours = [BLUE, ORANGE, GREEN, VERMILION, PURPLE, "#56B4E9", "#000000", "#F0E442"]
        dashes = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2))]
        for count, colour, dash in zip(classes, colours, dashes, strict=False):
            line: dict[str, Any] = {"color": colour, "linestyle": dash, "label": f"C = {count}"}
            left.plot(confusion, conditional_entropy(confusion, count), **line)
            right.plot(confusion, error_lower_bound(confusion, count), **line)
        right.axhline(0, color="grey", linewidth=0.8)
        left.set_ylabel("conditional entropy (bits)")
        right.set_ylabel("lower bound of the error rate")
        for axis in (left, right):
            axis.set_xlabel("Neighborhood Confusion")
            axis.set_xlim(0, 1)
        right.legend(frameon=False, loc="lower right")
        return figure


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; returns the paths."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        with atomic_write(path) as stream:
            stream.write(picture(figure, path.suffix[1:]))
    return paths


def picture(figure: Figure, image_format: str, dpi: int = 160) -> bytes:
    """A figure as the bytes of a PNG or SVG file, the same for the same figure."""
    stream = BytesIO()
    FigureCanvasAgg(figure)
    metadata: dict[str, Any] = {"Date": None} if image_format == "svg" else {}
    with rc_context(STYLE), warnings.catch_warnings():
        # A script that the font lacks is drawn as boxes; the names are in the tables.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(stream, format=image_format, dpi=dpi, metadata=metadata)
    return stream.getvalue()


def _short(name: str, limit: int = 18) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"
