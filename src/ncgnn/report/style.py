"""How numbers and pictures look: colors, dashes, markers, names of parts, percent."""

from __future__ import annotations

import math
import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ticker import FuncFormatter

from ncgnn._io import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from ncgnn.training import Spread

# Okabe and Ito's palette, which color-blind people can tell apart.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
SKY, YELLOW, BLACK, GRAY, LIGHT = "#56B4E9", "#F0E442", "#000000", "#555555", "#d4d4d4"
#: Color, dashes and marker of one curve after the other.
LOOKS: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (ORANGE, "--", "s"),
    (GREEN, "-.", "^"),
    (VERMILION, ":", "D"),
    (PURPLE, (0, (5, 1)), "v"),
    (SKY, (0, (3, 1, 1, 1)), "P"),
    (BLACK, (0, (1, 1)), "X"),
)
#: Settings of matplotlib for every figure.
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "svg.hashsalt": "ncgnn",
    "text.parse_math": False,  # names of people's classes are no formulas
}
#: What people call the parts of a split.
PARTS = {"train": "train", "val": "validation", "test": "test"}


def percent(value: float | Spread | None) -> str:
    """A share in percent, without the sign; mean ± deviation of several, nothing of none."""
    if value is None:
        return ""
    if isinstance(value, int | float | np.number):
        return f"{100 * float(value):.2f}"
    deviation = "" if value.std is None else f" ± {100 * value.std:.2f}"
    return f"{100 * value.mean:.2f}{deviation}"


def number(value: float | None, digits: int = 3) -> str:
    """A number that is no share, such as NC; a dash where it is undefined."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def show_percent(*axes: Axis) -> None:
    """Label the ticks of axes that show shares, such as accuracy, in percent."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(_percent_tick))


def _percent_tick(value: float, _: object) -> str:
    """As many digits as the tick has, so that neighboring panels say 20% alike."""
    return f"{100 * value:.4g}%"


def twin(axis: Axes) -> Axes:
    """A second vertical axis at the right, drawn behind the first."""
    behind = axis.twinx()
    behind.spines.right.set_visible(True)
    axis.set_zorder(behind.get_zorder() + 1)
    axis.patch.set_visible(False)
    return behind


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


def freeze_layout(figure: Figure) -> Figure:
    """Find the layout now and keep it, so that not every file of the figure finds it again."""
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    return figure


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


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; returns the paths."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        with atomic_write(path) as stream:
            stream.write(picture(figure, path.suffix[1:]))
    return paths
