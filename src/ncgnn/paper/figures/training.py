"""The paper's figures of separated models: interplay, sensitivity, and α.

How much each group relies on message passing: densities of α over runs.

Estimated NC and accuracy over the epochs.

Accuracy of a separated model against the hop count k and the threshold T.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.ticker import MaxNLocator

from ncgnn.paper.figures.parts import (
    FigureData,
    OneModelFigure,
    axes_of,
    common_legend,
    drawing,
    filled,
    missing_cells,
    multiples,
    outer_labels,
    panel_title,
    present,
    say_below,
    say_missing,
    separated_model,
    short_name,
    spread,
    whiskers,
)
from ncgnn.paper.request import DATASETS, model_title
from ncgnn.report import BLUE, GREEN, GREY, LOOKS, ORANGE, VERMILION, group_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ncgnn.paper.request import Request
    from ncgnn.training import RunConfig, RunResult, Spread

GRID = tuple(round(step / 200, 3) for step in range(201))
#: The narrowest kernel: runs that agree would otherwise make a needle.
LEAST_BANDWIDTH = 0.01


@dataclass(frozen=True)
class AlphaGroup:
    """One group of nodes, the least confused first.

    Attributes:
        values: α of message passing in the best epoch, one per run; 1 - α is that of raw features.
        density: Kernel density estimate on the grid.
    """

    values: tuple[float, ...]
    density: tuple[float, ...]


@dataclass(frozen=True)
class AlphaPanel:
    """One data set."""

    dataset: str
    groups: tuple[AlphaGroup, ...]


@dataclass(frozen=True)
class AlphaData(FigureData):
    """One model on all data sets; ``grid`` is where densities are given."""

    model: str
    grid: tuple[float, ...]
    panels: tuple[AlphaPanel, ...]


class Alpha(OneModelFigure):
    """Fig. "The kernel density estimates of weights α".

    The paper takes the density "across ten runs": here over the seeds of a data set, one α per run
    and group, that of the epoch which counts.
    """

    name = "alpha"
    title = "densities of α in the low- and the high-NC group"

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> AlphaData:
        """α as the runs keep it, and its densities."""
        missing, model, by_dataset = self.found(request, runs)
        panels: list[AlphaPanel] = []
        for dataset, found in by_dataset.items():
            columns = zip(*(run.result["alpha"] for run in found), strict=True)
            groups = tuple(AlphaGroup(tuple(c), kernel_density(c, GRID)) for c in columns)
            panels.append(AlphaPanel(short_name(request, dataset), groups))
        return AlphaData(missing, model, GRID, tuple(panels))


def kernel_density(values: Sequence[float], grid: Sequence[float]) -> tuple[float, ...]:
    r"""Density of values at the places of a grid, from Gaussian kernels.

    .. math:: \hat f(x) = \frac{1}{n h} \sum_i \varphi\left(\frac{x - x_i}{h}\right),
        \qquad h = \max(σ \, n^{-1/5},\; h_{least})

    with Scott's bandwidth ("Multivariate Density Estimation", 1992) and σ the sample standard
    deviation, 0 for one value.
    """
    places = np.asarray(values, dtype=np.float64)
    deviation = float(places.std(ddof=1)) if len(places) > 1 else 0.0
    width = max(deviation * len(places) ** -0.2, LEAST_BANDWIDTH)
    distance = (np.asarray(grid)[:, None] - places) / width
    kernels = np.exp(-0.5 * distance**2) / np.sqrt(2 * np.pi)
    return tuple((kernels.mean(axis=1) / width).tolist())


@dataclass(frozen=True)
class Curve:
    """Mean over runs in every epoch, and the sample standard deviation (None for one run)."""

    mean: tuple[float, ...]
    std: tuple[float, ...] | None


@dataclass(frozen=True)
class InterplayPanel:
    """One data set, over the epochs that all its runs reached.

    Attributes:
        dataset: Its name.
        hops: The k of NC.
        runs: Number of runs.
        true_nc: Mean NC of the true labels.
        estimated_nc: Mean NC of the pseudo-labels in force.
        val_accuracy: Validation accuracy.
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


@dataclass(frozen=True)
class InterplayData(FigureData):
    """One model on all data sets."""

    model: str
    panels: tuple[InterplayPanel, ...]


class Interplay(OneModelFigure):
    """Fig. "Illustration of interplay between metric estimation and model inference"."""

    name = "interplay"
    title = "estimated NC and accuracy over the epochs"

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> InterplayData:
        """Curves from the records of the epochs."""
        missing, model, by_dataset = self.found(request, runs)
        panels = tuple(
            _panel(short_name(request, dataset), found) for dataset, found in by_dataset.items()
        )
        return InterplayData(missing, model, panels)


def _panel(dataset: str, runs: Sequence[RunResult]) -> InterplayPanel:
    from ncgnn.training import RunFolder

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
        _curve([_of_the_best(history) for history in kept]) if tested else None,
    )


def _column(history: Sequence[dict[str, Any]], key: str) -> NDArray[np.float64]:
    return np.array([record[key] for record in history], dtype=np.float64)


def _of_the_best(history: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """Test accuracy of the best epoch so far: it is recorded there, and null elsewhere."""
    latest, values = float("nan"), list[float]()
    for record in history:
        latest = latest if record["test_accuracy"] is None else float(record["test_accuracy"])
        values.append(latest)
    return np.array(values)


def _curve(rows: Sequence[NDArray[np.float64]]) -> Curve:
    table = np.stack(rows)
    std = tuple(table.std(axis=0, ddof=1).tolist()) if len(table) > 1 else None
    return Curve(tuple(table.mean(axis=0).tolist()), std)


HOPS = (1, 2, 3)
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)


@dataclass(frozen=True)
class Point:
    """One pair of k and T; accuracies are None where no run is finished.

    Attributes:
        threshold: T.
        runs: Number of runs.
        test: Test accuracy.
        val: Validation accuracy.
    """

    threshold: float
    runs: int
    test: Spread | None
    val: Spread | None


@dataclass(frozen=True)
class HopCurve:
    """All thresholds with one k."""

    hops: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class SensitivityPanel:
    """One data set.

    Attributes:
        dataset: Its name.
        preset_hops: The k that the paper found best; None where it says nothing.
        preset_threshold: The T that it found best; None likewise.
        curves: One per k.
    """

    dataset: str
    preset_hops: int | None
    preset_threshold: float | None
    curves: tuple[HopCurve, ...]


@dataclass(frozen=True)
class SensitivityData(FigureData):
    """One model on all data sets."""

    model: str
    panels: tuple[SensitivityPanel, ...]


class Sensitivity:
    """Fig. "Sensitivity of NCGCN with respect to k hops of NC and the threshold T".

    All other parameters are those of the preset or of a file in its place.
    """

    name = "sensitivity"
    title = "accuracy against k and T"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = ("ncgcn",)

    def cells(self, request: Request) -> list[RunConfig]:
        """One run per data set, k, T and seed."""
        request = filled(self, request)
        separated_model(self, request)
        return [
            cell
            for dataset in request.datasets
            for hops in HOPS
            for threshold in THRESHOLDS
            for cell in _cells(request, dataset, hops, threshold)
        ]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> SensitivityData:
        """Accuracies over seeds."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        panels = [_panel_sensitivity(request, dataset, runs) for dataset in request.datasets]
        shown = tuple(panel for panel in panels if _has_runs(panel))
        return SensitivityData(missing, request.models[0], shown)


def _cells(request: Request, dataset: str, hops: int, threshold: float) -> list[RunConfig]:
    options = {"hops": hops, "threshold": threshold}
    return [request.config(dataset, request.models[0], s, **options) for s in request.seeds]


def _panel_sensitivity(
    request: Request, dataset: str, runs: Mapping[str, RunResult]
) -> SensitivityPanel:
    curves: list[HopCurve] = []
    for hops in HOPS:
        found = {t: present(_cells(request, dataset, hops, t), runs) for t in THRESHOLDS}
        points = [
            Point(t, len(some), _accuracy(some, "test"), _accuracy(some, "val"))
            for t, some in found.items()
        ]
        curves.append(HopCurve(hops, tuple(points)))
    hops, threshold = best_pair(request.models[0], dataset)
    return SensitivityPanel(short_name(request, dataset), hops, threshold, tuple(curves))


def best_pair(model: str, dataset: str) -> tuple[int, float] | tuple[None, None]:
    """The preset's k and T; None where it has none."""
    from ncgnn.training import has_preset, preset

    if not has_preset(model, dataset):
        return None, None
    options = preset(model, dataset)["model"]
    if not options.keys() >= {"hops", "threshold"}:
        return None, None
    return int(options["hops"]), float(options["threshold"])


def _accuracy(runs: list[RunResult], part: str) -> Spread | None:
    return spread(run.result["scores"].get(part, {}).get("accuracy") for run in runs)


def _has_runs(panel: SensitivityPanel) -> bool:
    return any(point.runs for curve in panel.curves for point in curve.points)


#: By how much curves of one threshold stand apart.
_SHIFT = 0.008


def draw_interplay(data: InterplayData) -> Figure:
    """Mean NC (left scales) and accuracy (right scales) over the epochs; bands are deviations."""
    width, height, rows, columns = multiples(len(data.panels), (2.9, 2.1), above=0.55)
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        others: list[Axes] = []
        for place, (axis, panel) in enumerate(zip(axes, data.panels, strict=True)):
            other = axis.twinx()
            _interplay(axis, other, panel)
            if place % columns == columns - 1 or place == len(axes) - 1:
                other.set_ylabel("accuracy")
            others.append(other)
        outer_labels(axes, columns, "epoch", "mean NC")
        for axis in axes:
            axis.yaxis.label.set_color(BLUE)
        common_legend(figure, [*axes, *others], columns=2 if columns < 3 else 4)
        say_missing(figure, data.missing)
    return figure


def _interplay(axis: Axes, other: Axes, panel: InterplayPanel) -> None:
    other.spines.right.set_visible(True)
    axis.set_zorder(other.get_zorder() + 1)
    axis.patch.set_visible(False)
    _band(axis, panel.estimated_nc, "estimated NC", BLUE, "-", 1.8)
    if panel.true_nc is not None:
        axis.axhline(panel.true_nc, color=BLUE, linestyle="--", linewidth=1.2, label="true NC")
    val = replace(panel.val_accuracy, std=None)  # three bands would hide each other
    _band(other, val, "validation accuracy", VERMILION, "-", 0.8)
    if panel.test_accuracy is not None:
        name = "test accuracy of the best epoch so far"
        _band(other, panel.test_accuracy, name, GREEN, "-.", 1.4)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.margins(x=0.02)
    runs = "1 run" if panel.runs == 1 else f"{panel.runs} runs"
    panel_title(axis, f"{panel.dataset}, k = {panel.hops}, {runs}")


def _band(axis: Axes, curve: Curve, label: str, colour: str, dashes: str, width: float) -> None:
    mean, places = np.array(curve.mean), np.arange(len(curve.mean))
    axis.plot(places, mean, color=colour, linestyle=dashes, linewidth=width, label=label)
    if curve.std is not None:
        std = np.array(curve.std)
        axis.fill_between(places, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)


def draw_sensitivity(data: SensitivityData) -> Figure:
    """Test accuracy against T, a curve per k, side by side where they would hide each other."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 2.1))
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            middle = (len(panel.curves) - 1) / 2
            for place, (curve, look) in enumerate(zip(panel.curves, LOOKS, strict=False)):
                shift = _SHIFT * (place - middle)
                _hop_curve(axis, curve, look, shift)
                _preset(axis, panel, curve, shift)
            axis.set_xticks([point.threshold for point in panel.curves[0].points])
            axis.margins(x=0.06)
            panel_title(axis, panel.dataset)
        outer_labels(axes, columns, "threshold T", f"test accuracy of {model_title(data.model)}")
        common_legend(figure, axes, columns=4 if columns > 1 else 2)
        say_missing(figure, data.missing)
    return figure


def _hop_curve(axis: Axes, curve: HopCurve, look: tuple[str, Any, str], shift: float) -> None:
    colour, dashes, marker = look
    known = [(point.threshold, point.test) for point in curve.points if point.test is not None]
    if not known:
        return
    places = [threshold + shift for threshold, _ in known]
    spreads = [spread for _, spread in known]
    error = None if any(spread.std is None for spread in spreads) else whiskers(spreads)
    style: dict[str, Any] = {"linestyle": dashes, "marker": marker, "markersize": 4.5}
    style |= {"color": colour, "linewidth": 1.4, "elinewidth": 0.8, "capsize": 2}
    several = "" if error is None else " ± std"
    label = f"k = {curve.hops}{several}"
    axis.errorbar(places, [spread.mean for spread in spreads], error, label=label, **style)


def _preset(axis: Axes, panel: SensitivityPanel, curve: HopCurve, shift: float) -> None:
    """A ring around the pair that the paper found best."""
    for point in curve.points:
        chosen = (panel.preset_hops, panel.preset_threshold)
        if (curve.hops, point.threshold) == chosen and point.test is not None:
            ring: dict[str, Any] = {"marker": "o", "markersize": 11, "linestyle": "none"}
            ring |= {"markerfacecolor": "none", "markeredgecolor": "black", "clip_on": False}
            axis.plot([point.threshold + shift], [point.test.mean], label="the preset", **ring)


#: Colour, line, filling and mark of a group.
_ALPHA_LOOKS = ((BLUE, "-", "", "|"), (ORANGE, "--", "////", "x"), (GREEN, "-.", "....", "+"))


def draw_alpha(data: AlphaData) -> Figure:
    """Densities of α over runs, a curve per group; ticks at the bottom are the runs."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 1.9))
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            _densities(axis, data.grid, panel)
        runs = max((len(panel.groups[0].values) for panel in data.panels), default=0)
        density = "density" if runs > 1 else ""
        outer_labels(axes, columns, "α: weight of message passing", density)
        common_legend(figure, axes, columns=2)
        marks = "Marks below the curves: one per run. " if runs > 1 else ""
        say_below(figure, f"{marks}α = 1: messages alone count")
        say_missing(figure, data.missing)
    return figure


def _densities(axis: Axes, grid: tuple[float, ...], panel: AlphaPanel) -> None:
    names, runs = group_names(len(panel.groups)), len(panel.groups[0].values)
    panel_title(axis, f"{panel.dataset}, {'1 run' if runs == 1 else f'{runs} runs'}")
    if runs == 1:  # one number has no density
        _single_values(axis, names, panel)
        return
    places, highest = np.array(grid), max(max(group.density) for group in panel.groups)
    for place, (name, group) in enumerate(zip(names, panel.groups, strict=True)):
        colour, dashes, hatch, marker = _ALPHA_LOOKS[place % len(_ALPHA_LOOKS)]
        axis.plot(places, group.density, color=colour, linestyle=dashes, linewidth=1.5, label=name)
        look: dict[str, Any] = {"facecolor": colour + "33", "edgecolor": colour, "hatch": hatch}
        axis.fill_between(places, 0, np.array(group.density), linewidth=0, **look)
        level = np.full(len(group.values), -highest * (0.05 + 0.07 * place))
        axis.plot(group.values, level, linestyle="none", marker=marker, markersize=5, color=colour)
    seen = places[np.max([group.density for group in panel.groups], axis=0) > 0.01 * highest]
    axis.set_xlim(max(0.0, seen[0] - 0.02), min(1.0, seen[-1] + 0.02))
    axis.set_ylim(-highest * (0.05 + 0.07 * len(names)), 1.05 * highest)
    axis.axhline(0, color=GREY, linewidth=0.6)
    axis.yaxis.set_major_locator(MaxNLocator(4, prune=None))
    axis.set_yticks([tick for tick in axis.get_yticks() if 0 <= tick <= highest])


def _single_values(axis: Axes, names: Sequence[str], panel: AlphaPanel) -> None:
    for place, (name, group) in enumerate(zip(names, panel.groups, strict=True)):
        colour, dashes, _, _ = _ALPHA_LOOKS[place % len(_ALPHA_LOOKS)]
        axis.axvline(group.values[0], color=colour, linestyle=dashes, linewidth=1.8, label=name)
    axis.set_xlim(0.0, 1.0)
    axis.set_yticks([])
