"""The paper's figure of embeddings: where the first layer puts confused nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from ncgnn.report._figures import BLUE, GREEN, ORANGE, PURPLE, VERMILION
from ncgnn.report._paper_axes import PARTS, drawing, model_title, panel_title, say_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ncgnn.experiments.figures._embeddings import EmbeddingPanel, EmbeddingsData

_HUES = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, "#56B4E9", "#F0E442", "#777777")
#: Black and white are mixed in when all hues were used: share of the hue, and of white.
_SHADES = ((1.0, 0.0), (0.55, 0.0), (0.6, 0.4))


def draw_embeddings(data: EmbeddingsData) -> Figure:
    """Triangles are nodes with high NC, dots those with low NC, colours are classes."""
    datasets = list(dict.fromkeys(panel.dataset for panel in data.panels))
    models = list(dict.fromkeys(panel.model for panel in data.panels))
    with drawing(max(4.0 * len(models), 5.0), 3.7 * len(datasets) + 0.3) as figure:
        for panel in data.panels:
            row, column = datasets.index(panel.dataset), models.index(panel.model)
            place = row * len(models) + column + 1
            _scatter(figure.add_subplot(len(datasets), len(models), place), panel)
        handles = [_mark("^", 6, edge=0.7), _mark("o", 4, edge=0)]
        names = ["high NC of the true labels", "low NC"]
        figure.legend(handles, names, loc="outside upper left", ncols=2, frameon=False, fontsize=8)
        _class_legend(
            figure, 1 + max((max(panel.label, default=0) for panel in data.panels), default=0)
        )
        say_missing(figure, data.missing)
    return figure


def _class_legend(figure: Figure, classes: int) -> None:
    """Below the panels; where colours come again, they tell no more."""
    if classes > len(_HUES) * len(_SHADES):
        return
    handles = [_mark("o", 4, edge=0, colour=class_colour(label)) for label in range(classes)]
    names = ["class 0", *(str(label) for label in range(1, classes))]
    columns = min(classes, int(2.6 * figure.get_figwidth()))
    look: dict[str, Any] = {"handletextpad": 0.0, "columnspacing": 0.6, "borderpad": 0.2}
    where = "outside lower left"
    figure.legend(handles, names, loc=where, ncols=columns, frameon=False, fontsize=7.5, **look)


def _mark(marker: str, size: float, edge: float, colour: Any = "#bbbbbb") -> Line2D:
    mark = Line2D([], [], linestyle="none", marker=marker, markersize=size)
    mark.set_markerfacecolor(colour)
    mark.set_markeredgecolor("black")
    mark.set_markeredgewidth(edge)
    return mark


def _scatter(axis: Axes, panel: EmbeddingPanel) -> None:
    x, y, high = np.array(panel.x), np.array(panel.y), np.array(panel.high)
    colours = np.array([class_colour(label) for label in panel.label])
    # As pixels: thousands of marks would make the SVG file huge.
    look: dict[str, Any] = {"rasterized": True}
    axis.scatter(x[~high], y[~high], s=5, c=colours[~high], marker="o", linewidths=0, **look)
    look |= {"marker": "^", "edgecolors": "black", "linewidths": 0.4}
    size = float(np.clip(8000 / max(np.count_nonzero(high), 1), 8, 22))
    axis.scatter(x[high], y[high], s=size, c=colours[high], **look)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set_visible(True)
    axis.spines[:].set_color("#cccccc")
    groups = f"low {_text(panel.low_accuracy)}, high {_text(panel.high_accuracy)}"
    title = f"{model_title(panel.model)} on {panel.dataset}, k = {panel.hops}, "
    title += f"T = {panel.threshold:g}\n{PARTS[panel.part]} accuracy {_text(panel.accuracy)} "
    panel_title(axis, f"{title}({groups})")


def class_colour(label: int) -> tuple[float, float, float]:
    """A colour per class: eight hues, then the same ones darker, then lighter."""
    own, white = _SHADES[label // len(_HUES) % len(_SHADES)]
    red, green, blue = to_rgb(_HUES[label % len(_HUES)])
    return own * red + white, own * green + white, own * blue + white


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
