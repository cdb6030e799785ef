"""Estimated NC and accuracy over the epochs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from ncgnn.paper.figures import parts
from ncgnn.report import BLUE, GREEN, VERMILION, show_percent, twin
from ncgnn.training import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ncgnn.paper.targets import Request, Runs
    from ncgnn.training import RunResult


@dataclass(frozen=True)
class Curve:
    """Mean over runs in every epoch, and the sample standard deviation (None for one run)."""

    mean: tuple[float, ...]
    std: tuple[float, ...] | None


@dataclass(frozen=True)
class InterplayPanel:
    """One dataset, over the epochs that all its runs reached.

    Attributes:
        hops: The k of NC.
        runs: Number of runs.
        true_nc: Mean NC of the true labels.
        estimated_nc: Mean NC of the pseudo-labels in force.
        test_accuracy: Test accuracy of the best epoch so far; None without test nodes. Runs look
            at test nodes in no other epochs.
    """

    dataset: str
    hops: int
    runs: int
    true_nc: float | None
    estimated_nc: Curve
    val_accuracy: Curve
    test_accuracy: Curve | None


class Interplay(parts.SeparatedFigure[parts.ModelPanels[InterplayPanel]]):
    """Fig. "Illustration of interplay between metric estimation and model inference"."""

    name = "interplay"
    title = "estimated NC and accuracy over the epochs"

    def collect(self, request: Request, runs: Runs) -> parts.ModelPanels[InterplayPanel]:
        """Curves from the records of the epochs."""
        panels = [
            _panel(parts.short_name(request, dataset), found)
            for dataset in request.datasets
            for _, found in self.finished(request, dataset, runs)
        ]
        return parts.ModelPanels(request.models[0], tuple(panels))

    def draw(self, data: parts.ModelPanels[InterplayPanel]) -> Figure:
        """Mean NC (left scales) and accuracy (right scales) over the epochs, with deviations."""
        figure, axes, columns = parts.make_panels(len(data.panels), (2.9, 2.1), above=0.55)
        others = [twin(axis) for axis in axes]
        for place, (axis, other, panel) in enumerate(zip(axes, others, data.panels, strict=True)):
            _draw_panel(axis, other, panel)
            if place % columns == columns - 1 or place == len(axes) - 1:
                other.set_ylabel("accuracy")
        parts.label_outer(axes, columns, "epoch", "mean NC")
        for axis in axes:
            axis.yaxis.label.set_color(BLUE)
        parts.add_legend(figure, [*axes, *others], columns=2 if columns < 3 else 4)
        return figure


def _panel(dataset: str, runs: Sequence[RunResult]) -> InterplayPanel:
    histories = [RunFolder(run.folder).history() for run in runs]
    length = min(len(history) for history in histories)
    kept = [history[:length] for history in histories]
    tested = all(history[0]["test_accuracy"] is not None for history in kept)
    result = runs[0].result
    return InterplayPanel(
        dataset,
        int(result["hops"]),
        len(runs),
        result["true_mean_nc"],
        _curve([_column(history, "mean_nc") for history in kept]),
        _curve([_column(history, "val_accuracy") for history in kept]),
        _curve([_column(history, "test_accuracy") for history in kept]) if tested else None,
    )


def _column(history: Sequence[dict[str, Any]], key: str) -> NDArray[np.float64]:
    """A value over the epochs; where it is null, as test accuracy between best ones, the latest."""
    latest, values = float("nan"), list[float]()
    for record in history:
        latest = latest if record[key] is None else float(record[key])
        values.append(latest)
    return np.array(values)


def _curve(rows: Sequence[NDArray[np.float64]]) -> Curve:
    table = np.stack(rows)
    std = tuple(table.std(axis=0, ddof=1).tolist()) if len(table) > 1 else None
    return Curve(tuple(table.mean(axis=0).tolist()), std)


def _draw_panel(axis: Axes, other: Axes, panel: InterplayPanel) -> None:
    _draw_band(axis, panel.estimated_nc, "estimated NC", (BLUE, "-", 1.8))
    if panel.true_nc is not None:
        axis.axhline(panel.true_nc, color=BLUE, linestyle="--", linewidth=1.2, label="true NC")
    val = replace(panel.val_accuracy, std=None)  # three bands would hide each other
    _draw_band(other, val, "validation accuracy", (VERMILION, "-", 0.8))
    if panel.test_accuracy is not None:
        name = "test accuracy of the best epoch so far"
        _draw_band(other, panel.test_accuracy, name, (GREEN, "-.", 1.4))
    show_percent(other.yaxis)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.margins(x=0.02)
    runs = parts.count_runs(panel.runs)
    parts.set_panel_title(axis, f"{panel.dataset}, k = {panel.hops}, {runs}")


def _draw_band(axis: Axes, curve: Curve, label: str, look: tuple[str, str, float]) -> None:
    color, dashes, width = look
    mean, places = np.array(curve.mean), np.arange(len(curve.mean))
    axis.plot(places, mean, color=color, linestyle=dashes, linewidth=width, label=label)
    if curve.std is not None:
        std = np.array(curve.std)
        axis.fill_between(places, mean - std, mean + std, color=color, alpha=0.18, linewidth=0)
