"""What the paper's figures have in common: small multiples, one legend, whiskers, names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from matplotlib.figure import Figure

from ncgnn.errors import InputError
from ncgnn.experiments import short_names
from ncgnn.nn import model_class
from ncgnn.paper.targets import Data, Row, Target
from ncgnn.training import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.paper.targets import Request

#: Fewer evaluated nodes than these say little.
FEW_NODES = 5
Panel = TypeVar("Panel")


@dataclass(frozen=True)
class Panels(Generic[Panel]):
    """The numbers of a figure, one panel per dataset."""

    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class ModelPanels(Generic[Panel]):
    """The numbers of a figure of one model, one panel per dataset."""

    model: str
    panels: tuple[Panel, ...]


class SeparatedFigure(Target[Data]):
    """A figure of one model that separates nodes by NC."""

    kind = "figure"
    models = ("ncgcn",)

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """The model as it is; complains of one that does not separate by NC."""
        row = one_row(self.name, request)
        if "hops" not in model_class(row.model).Options.model_fields:
            raise InputError(
                f"figure {self.name} shows how NC separates nodes, which {row.model} does not do; "
                "name a separated model, such as ncgcn."
            )
        if row.configs(request, dataset)[0].model.options["guidance"] != "nc":
            raise InputError(f"figure {self.name} shows NC; leave --set model.guidance out.")
        return [row]


def one_row(figure: str, request: Request) -> Row:
    """The only row of a figure that shows one model."""
    if len(request.models) != 1:
        raise InputError(
            f"figure {figure} shows one model, but {len(request.models)} were named "
            f"({', '.join(request.models)}); name one."
        )
    return Row(request.models[0], request.models[0])


def short_name(request: Request, dataset: str) -> str:
    """What a figure calls a dataset: its name, or as much of its path as tells it from others."""
    names = short_names((*request.datasets, dataset))
    short = names[dataset].removesuffix(".npz")
    return names[dataset] if short in names.values() else short


def spread(values: Iterable[float | None]) -> Spread | None:
    """Mean and deviation of the values that there are; None where there are none."""
    known = [value for value in values if value is not None]
    return Spread.of(known) if known else None


def make_panels(
    count: int, panel: tuple[float, float] = (2.7, 2.1), above: float = 0.4
) -> tuple[Figure, list[Axes], int]:
    """A figure of small multiples.

    Args:
        count: Number of panels.
        panel: Width and height of one.
        above: Height of the legend.

    Returns:
        The figure, its axes row by row, and the number of columns.
    """
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    rows = -(-count // columns)
    wide = panel[0] * (1.6 if columns == 1 else 1.25 if columns == 2 else 1.0)
    tall = panel[1] * (1.3 if columns == 1 else 1.0)
    figure = Figure(figsize=(wide * columns, tall * rows + above), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, n + 1) for n in range(count)], columns


def label_outer(axes: Sequence[Axes], columns: int, x: str, y: str) -> None:
    """Label the lowest panel of every column and the first one of every row."""
    for place, axis in enumerate(axes):
        if place + columns >= len(axes):
            axis.set_xlabel(x)
        if place % columns == 0:
            axis.set_ylabel(y)


def add_legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
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


def set_panel_title(axis: Axes, text: str) -> None:
    """What a panel shows."""
    axis.set_title(text, fontsize=8.5, loc="left")


def count_runs(count: int) -> str:
    """A number of runs in words."""
    return "1 run" if count == 1 else f"{count} runs"


def whiskers(spreads: Sequence[Spread | None]) -> NDArray[np.float64]:
    """Deviations below and above mean accuracies [2, n]; they end where accuracy does."""
    mean = np.array([np.nan if s is None else s.mean for s in spreads])
    std = np.array([np.nan if s is None or s.std is None else s.std for s in spreads])
    return np.stack([np.minimum(std, mean), np.minimum(std, 1 - mean)])


def explain_whiskers(spreads: Iterable[Spread | None]) -> str:
    """What whiskers mean, where there are any."""
    several = any(spread is not None and spread.std is not None for spread in spreads)
    return "Whiskers: standard deviation over runs. " if several else ""
