"""The paper's figures that compare models: accuracy by NC, and running time.

Accuracy of several models where nodes are confused and where not, by the same NC for all.

How long models train, per epoch and per run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ncgnn.errors import InputError
from ncgnn.nn import model_class
from ncgnn.paper.accuracy import METHODS
from ncgnn.paper.appendix import epoch_seconds, sized
from ncgnn.paper.figures.parts import (
    FEW_NODES,
    FigureData,
    answers,
    common_legend,
    drawing,
    evaluated_nodes,
    evaluated_part,
    filled,
    graph_of,
    missing_cells,
    panel_title,
    present,
    preset_rule,
    say_below,
    say_missing,
    share,
    short_name,
    spread,
    whisker_words,
    whiskers,
)
from ncgnn.paper.request import DATASETS, model_title
from ncgnn.report import BLUE, GREY, LOOKS, ORANGE, PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ncgnn.paper.request import Request
    from ncgnn.training import RunConfig, RunResult, Spread

#: As many curves can be told apart.
MOST_MODELS = 7


@dataclass(frozen=True)
class ModelCurve:
    """One model; None where no run has evaluated nodes.

    Attributes:
        model: Its name.
        runs: Number of runs.
        low: Accuracy of nodes with low NC.
        high: Accuracy of nodes with high NC.
        tenths: Accuracy by tenths of NC, from [0, 0.1) to [0.9, 1].
    """

    model: str
    runs: int
    low: Spread | None
    high: Spread | None
    tenths: tuple[Spread | None, ...]


@dataclass(frozen=True)
class GroupsPanel:
    """One data set.

    Attributes:
        dataset: Its name.
        hops: The k of NC.
        threshold: The T between low and high.
        part: Whose accuracy is shown, ``test`` or ``val``.
        low_nodes: Number of evaluated nodes with low NC, a mean over runs.
        high_nodes: Number of evaluated nodes with high NC.
        tenth_nodes: Number of evaluated nodes in each tenth of NC.
        curves: One per model.
    """

    dataset: str
    hops: int
    threshold: float
    part: str
    low_nodes: float
    high_nodes: float
    tenth_nodes: tuple[float, ...]
    curves: tuple[ModelCurve, ...]


@dataclass(frozen=True)
class GroupsData(FigureData):
    """Several models on all data sets."""

    panels: tuple[GroupsPanel, ...]


class Groups:
    """Fig. "Test accuracies of different models under different NC groups".

    NC is that of the true labels, with k and T of NCGCN's preset, or of what stands in its
    place, for every model, whatever the model itself is run with.
    """

    name = "groups"
    title = "accuracy of several models by NC"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = ("mlp", "gcn", "h2gcn", "gprgnn", "acmgcn", "ncgcn")

    def cells(self, request: Request) -> list[RunConfig]:
        """One run per data set, model and seed."""
        request = filled(self, request)
        if len(request.models) > MOST_MODELS:
            raise InputError(
                f"{len(request.models)} models were given; draw at most {MOST_MODELS} of them."
            )
        for dataset in request.datasets:
            preset_rule(request, dataset)  # complains before anything is trained
        return [
            cell
            for dataset in request.datasets
            for model in request.models
            for cell in _cells(request, dataset, model)
        ]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> GroupsData:
        """Accuracies from the predictions of the stored models."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        panels: list[GroupsPanel] = []
        for dataset in request.datasets:
            found = {
                model: present(_cells(request, dataset, model), runs) for model in request.models
            }
            found = {model: some for model, some in found.items() if some}
            if found:
                panels.append(_panel(request, dataset, found))
        return GroupsData(missing, tuple(panels))


def _cells(request: Request, dataset: str, model: str) -> list[RunConfig]:
    return [request.config(dataset, model, seed) for seed in request.seeds]


def _panel(
    request: Request, dataset: str, by_model: Mapping[str, Sequence[RunResult]]
) -> GroupsPanel:
    from ncgnn.metrics import confusion_masks
    from ncgnn.training import deciles

    everything = [run for runs in by_model.values() for run in runs]
    graph, rule = graph_of(everything, dataset, request.data_dir), preset_rule(request, dataset)
    confusion = rule.confusion(graph)
    high, tenth = confusion_masks(confusion, rule.threshold)[1], deciles(confusion)
    curves = tuple(
        _curve(model, [answers(run, request.data_dir) for run in runs], high, tenth)
        for model, runs in by_model.items()
    )
    parts = [evaluated_nodes(run) for run in everything]
    counts = np.mean([np.bincount(tenth[part], minlength=10) for part in parts], axis=0)
    confused = float(np.mean([np.count_nonzero(high[part]) for part in parts]))
    return GroupsPanel(
        short_name(request, dataset),
        rule.hops,
        rule.threshold,
        evaluated_part(everything),
        float(counts.sum()) - confused,
        confused,
        tuple(counts.tolist()),
        curves,
    )


def _curve(
    model: str,
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]],
    high: NDArray[np.bool_],
    tenth: NDArray[np.int64],
) -> ModelCurve:
    def within(members: NDArray[np.bool_]) -> Spread | None:
        return spread(share(right[members[nodes]]) for nodes, right in found)

    tenths = tuple(within(tenth == number) for number in range(10))
    return ModelCurve(model, len(found), within(~high), within(high), tenths)


@dataclass(frozen=True)
class ModelTime:
    """One model.

    Attributes:
        model: Its name.
        runs: Number of runs.
        per_epoch: Milliseconds per epoch, the median of each run.
        per_run: Seconds per run.
        epochs: Epochs per run.
    """

    model: str
    runs: int
    per_epoch: Spread
    per_run: Spread
    epochs: Spread


@dataclass(frozen=True)
class TimePanel:
    """One data set, within which models are compared."""

    dataset: str
    times: tuple[ModelTime, ...]


@dataclass(frozen=True)
class TimeData(FigureData):
    """All models on all data sets."""

    panels: tuple[TimePanel, ...]


class Time:
    """Fig. "Average running time per epoch (ms) and per run (s)": Pubmed, 64 hidden units.

    Times mean something only among runs of one machine that had it to themselves: train them with
    one worker.
    """

    name = "time"
    title = "running time per epoch and per run"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = ("pubmed",)
    models: tuple[str, ...] = METHODS[:-1]  # the paper's figure is without NCSAGE
    sets_options: bool = True

    def cells(self, request: Request) -> list[RunConfig]:
        """One run per data set, model and seed."""
        request = filled(self, request)
        return [
            cell
            for dataset in request.datasets
            for model in request.models
            for cell in _cells_time(request, dataset, model)
        ]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> TimeData:
        """Times as the runs keep them."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        panels: list[TimePanel] = []
        for dataset in request.datasets:
            found = {m: present(_cells_time(request, dataset, m), runs) for m in request.models}
            times = tuple(_time(model, some) for model, some in found.items() if some)
            if times:
                panels.append(TimePanel(short_name(request, dataset), times))
        return TimeData(missing, tuple(panels))


def _cells_time(request: Request, dataset: str, model: str) -> list[RunConfig]:
    return [request.config(dataset, model, seed, **sized(request, model)) for seed in request.seeds]


def _time(model: str, runs: list[RunResult]) -> ModelTime:
    from ncgnn.training import Spread

    each = Spread.of([1000 * epoch_seconds(run) for run in runs])
    epochs = Spread.of([float(run.result["epochs"]) for run in runs])
    return ModelTime(model, len(runs), each, Spread.of([run.seconds for run in runs]), epochs)


def draw_groups(data: GroupsData) -> Figure:
    """Accuracy of models by tenths of true NC (left of each pair), and of low and high NC."""
    models = list(dict.fromkeys(c.model for panel in data.panels for c in panel.curves))
    looks = dict(zip(models, LOOKS, strict=False))
    count = len(data.panels)
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    with drawing(4.4 * columns, 2.3 * rows + 0.5) as figure:
        grid = figure.add_gridspec(rows, 2 * columns, width_ratios=[1.7, 1] * columns)
        axes: list[Axes] = []
        for place, panel in enumerate(data.panels):
            row, column = divmod(place, columns)
            curves = figure.add_subplot(grid[row, 2 * column])
            pair = figure.add_subplot(grid[row, 2 * column + 1], sharey=curves)
            _by_tenth(curves, panel, looks)
            _by_group(pair, panel, looks)
            axes.append(curves)
            if place + columns >= count:
                curves.set_xlabel("NC of the true labels")
        common_legend(figure, axes, columns=2 + columns)
        say_below(
            figure,
            f"{whisker_words(_group_spreads(data))}Where fewer than {FEW_NODES} nodes are "
            "evaluated, nothing is drawn",
        )
        say_missing(figure, data.missing)
    return figure


def _group_spreads(data: GroupsData) -> list[Spread | None]:
    return [s for panel in data.panels for c in panel.curves for s in (c.low, c.high)]


def _by_tenth(axis: Axes, panel: GroupsPanel, looks: dict[str, Any]) -> None:
    middle = np.arange(10) / 10 + 0.05
    # Of a handful of nodes accuracy is chance.
    enough = np.array(panel.tenth_nodes) >= FEW_NODES
    for curve in panel.curves:
        colour, dashes, marker = looks[curve.model]
        mean = np.array([np.nan if s is None else s.mean for s in curve.tenths])
        shown = enough & ~np.isnan(mean)
        axis.plot(
            middle[shown],
            mean[shown],
            color=colour,
            linestyle=dashes,
            marker=marker,
            markersize=4,
            linewidth=1.3,
            label=model_title(curve.model),
        )
    axis.axvline(panel.threshold, color=GREY, linestyle=":", linewidth=1.2, label="threshold T")
    axis.set_xlim(0, 1)
    axis.set_ylabel(f"{PARTS[panel.part]} accuracy")
    panel_title(axis, f"{panel.dataset}, k = {panel.hops}, T = {panel.threshold:g}")


def _by_group(axis: Axes, panel: GroupsPanel, looks: dict[str, Any]) -> None:
    offsets = np.linspace(-0.3, 0.3, len(panel.curves)) if len(panel.curves) > 1 else [0.0]
    counts = (panel.low_nodes, panel.high_nodes)
    for curve, offset in zip(panel.curves, offsets, strict=True):
        colour, _, marker = looks[curve.model]
        for place, value in enumerate((curve.low, curve.high)):
            if value is not None and counts[place] >= FEW_NODES:
                look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5}
                error = None if value.std is None else whiskers([value])
                axis.errorbar([place + offset], [value.mean], error, capsize=2, lw=1, **look)
    for place, count in enumerate(counts):
        if count < FEW_NODES:
            look = {"ha": "center", "va": "center", "fontsize": 7.5, "color": GREY}
            axis.text(place, 0.5, "few\nnodes", transform=axis.get_xaxis_transform(), **look)
    axis.axvline(0.5, color="#cccccc", linewidth=0.8)
    axis.set_xticks(
        [0, 1], [f"{n}\n{_count(c)}" for n, c in zip(("low", "high"), counts, strict=True)]
    )
    axis.set_xlim(-0.5, 1.5)
    axis.tick_params(labelleft=False)
    axis.set_title("by group (nodes)", fontsize=8.5, loc="left")


def _count(nodes: float) -> str:
    return f"{nodes:,.0f}" if nodes >= 10 or nodes == round(nodes) else f"{nodes:.1f}"


def draw_time(data: TimeData) -> Figure:
    """Milliseconds per epoch (left) and seconds per run (right), on logarithmic axes."""
    most = [len(panel.times) for panel in data.panels]
    with drawing(8, sum(0.26 * count + 0.75 for count in most) + 0.3) as figure:
        grid = figure.add_gridspec(len(most), 2, height_ratios=[count + 2 for count in most])
        axes: list[Axes] = []
        for row, panel in enumerate(data.panels):
            left, right = (figure.add_subplot(grid[row, column]) for column in (0, 1))
            _dots(left, panel, [time.per_epoch for time in panel.times])
            _dots(right, panel, [time.per_run for time in panel.times])
            right.tick_params(labelleft=False)
            panel_title(left, f"{panel.dataset}: time per epoch, ms, logarithmic")
            panel_title(right, f"{panel.dataset}: time per run, s, logarithmic")
            axes.append(left)
        common_legend(figure, axes, columns=3)
        say_missing(figure, data.missing)
    return figure


def _dots(axis: Axes, panel: TimePanel, spreads: list[Spread]) -> None:
    means = [value.mean for value in spreads]
    lowest, highest = 0.6 * min(means), 1.15 * max(s.mean + (s.std or 0.0) for s in spreads)
    for place, (time, value) in enumerate(zip(panel.times, spreads, strict=True)):
        separated = model_class(time.model).family == "separated"
        colour, marker = (ORANGE, "D") if separated else (BLUE, "o")
        name = "separated models" if separated else "other models"
        several = f"{name}, mean ± deviation over runs" if value.std is not None else name
        # The whisker ends within the axis, which is logarithmic.
        error = [[min(value.std or 0.0, value.mean - lowest)], [value.std or 0.0]]
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5}
        axis.errorbar(
            [value.mean], [place], xerr=error, lw=1, capsize=2, ls="none", label=several, **look
        )
        axis.annotate(
            _number(value.mean),
            (value.mean + (value.std or 0.0), place),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if highest < 50 * lowest else (1,)))
    axis.xaxis.set_major_formatter(FuncFormatter(_plain))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlim(lowest, highest * (highest / lowest) ** 0.14)
    axis.grid(axis="y", color="#eeeeee")
    axis.set_axisbelow(True)
    axis.set_yticks(range(len(means)), [model_title(time.model) for time in panel.times])
    axis.set_ylim(len(means) - 0.4, -0.6)  # the first model above


def _plain(value: float, _: object) -> str:
    return f"{value:,g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
