"""What the paper's figures have in common: small multiples, one legend, looks of models."""

from __future__ import annotations

import textwrap
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ncgnn.report._figures import BLUE, GREEN, ORANGE, PURPLE, STYLE, VERMILION
from ncgnn.report._run_axes import GREY, settled

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.training import Spread

#: Colour, dashes and marker of one curve after the other.
LOOKS: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (ORANGE, "--", "s"),
    (GREEN, "-.", "^"),
    (VERMILION, ":", "D"),
    (PURPLE, (0, (5, 1)), "v"),
    ("#56B4E9", (0, (3, 1, 1, 1)), "P"),
    ("#000000", (0, (1, 1)), "X"),
)
PARTS = {"test": "test", "val": "validation"}
#: Fewer evaluated nodes than these say little.
FEW_NODES = 5
_COLUMNS = 3
_LETTERS_PER_INCH = 19
_FOOTNOTE: ContextVar[str] = ContextVar("_FOOTNOTE", default="")


@contextmanager
def drawing(width: float, height: float) -> Generator[Figure]:
    """A figure in the style of the package, laid out when all is drawn."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        below = ". ".join(filter(None, (figure.get_supxlabel(), _FOOTNOTE.get())))
        if below:
            figure.supxlabel(_wrapped(below, width), x=0.99, ha="right", fontsize=7, color=GREY)
        settled(figure)


def _wrapped(text: str, width: float) -> str:
    """Lines of small letters that fit a figure of some inches."""
    return "\n".join(textwrap.wrap(text, int(width * _LETTERS_PER_INCH)))


@contextmanager
def footnote(text: str) -> Generator[None]:
    """Put a sentence below every figure that is drawn in the block."""
    before = _FOOTNOTE.set(text)
    try:
        yield
    finally:
        _FOOTNOTE.reset(before)


def multiples(
    count: int, panel: tuple[float, float] = (2.7, 2.1), above: float = 0.4
) -> tuple[float, float, int, int]:
    """Width and height of a figure of small multiples, with its rows and columns.

    Args:
        count: Number of panels.
        panel: Width and height of one.
        above: Height of the legend.
    """
    columns = {1: 1, 2: 2, 4: 2}.get(count, _COLUMNS)
    rows = -(-count // columns)
    wide = panel[0] * (1.6 if columns == 1 else 1.25 if columns == 2 else 1.0)
    tall = panel[1] * (1.3 if columns == 1 else 1.0)
    return wide * columns, tall * rows + above, rows, columns


def axes_of(figure: Figure, count: int, rows: int, columns: int) -> list[Axes]:
    """As many axes as there are panels, row by row."""
    return [figure.add_subplot(rows, columns, place + 1) for place in range(count)]


def outer_labels(axes: Sequence[Axes], columns: int, x: str, y: str) -> None:
    """Label the lowest panel of every column and the first one of every row."""
    for place, axis in enumerate(axes):
        if place + columns >= len(axes):
            axis.set_xlabel(x)
        if place % columns == 0:
            axis.set_ylabel(y)


def common_legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """One legend for all panels, above them, in some columns; every label once."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside upper left",
        frameon=False,
        ncols=min(columns, len(entries)),
        fontsize=8,
        handlelength=2.4,
    )


def panel_title(axis: Axes, text: str) -> None:
    """What a panel shows."""
    axis.set_title(text, fontsize=8.5, loc="left")


def say_missing(figure: Figure, missing: Sequence[str], noun: str = "run") -> None:
    """Say below the panels how much is missing, so that nobody takes them for complete."""
    if missing:
        say_below(figure, f"{len(missing)} {noun}{'' if len(missing) == 1 else 's'} missing")


def say_below(figure: Figure, text: str) -> None:
    """Add a sentence to those below the panels."""
    figure.supxlabel(". ".join(filter(None, (figure.get_supxlabel(), text))))


def whiskers(spreads: Sequence[Spread | None]) -> NDArray[np.float64]:
    """Deviations below and above mean accuracies [2, n]; they end where accuracy does."""
    mean = np.array([np.nan if s is None else s.mean for s in spreads])
    std = np.array([np.nan if s is None or s.std is None else s.std for s in spreads])
    return np.stack([np.minimum(std, mean), np.minimum(std, 1 - mean)])


def whisker_words(spreads: Iterable[Spread | None]) -> str:
    """What whiskers mean, where there are any."""
    several = any(spread is not None and spread.std is not None for spread in spreads)
    return "Whiskers: standard deviation over runs. " if several else ""


def model_title(name: str) -> str:
    """What papers call a model."""
    from ncgnn.nn._catalog import BY_NAME

    return BY_NAME[name].title if name in BY_NAME else name
