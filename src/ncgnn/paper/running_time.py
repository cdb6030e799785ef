"""How long models train, per epoch and per run: the appendix' table of efficiency, and a figure.

All models have the paper's width and depth. Times mean something only among runs of one machine
that had it to themselves.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from ncgnn.nn import model_class
from ncgnn.paper.accuracy import METHODS, rows_by_name
from ncgnn.paper.figures import parts
from ncgnn.paper.printed import model_title, printed
from ncgnn.paper.targets import Row, Target
from ncgnn.report import BLUE, ORANGE, Table
from ncgnn.training import TIMING, RunFolder, Spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ncgnn.paper.targets import Request, Runs
    from ncgnn.training import RunResult

HIDDEN, LAYERS = 64, 2
SIZE = {"model.hidden": HIDDEN, "model.layers": LAYERS}
REFERENCE = "gcn"
#: The dataset of the paper's numbers.
PRINTED = "pubmed"


@dataclass(frozen=True)
class Cost:
    """Seconds per epoch, with its evaluations, and per run of a method on a dataset.

    An epoch is the median of a run, so that a slow start does not count.
    """

    epoch: Spread
    run: Spread


@dataclass(frozen=True)
class EfficiencyTable:
    """Costs by method and dataset; ``size`` is their width and depth, in words."""

    datasets: tuple[str, ...]
    rows: tuple[Row, ...]
    costs: dict[tuple[str, str], Cost]
    size: str

    def multiple(self, method: str, dataset: str) -> float | None:
        """Time per epoch as a multiple of GCN's."""
        own, reference = (self.costs.get((name, dataset)) for name in (method, REFERENCE))
        return None if own is None or reference is None else own.epoch.mean / reference.epoch.mean

    def paper_multiple(self, method: str, dataset: str) -> float | None:
        """The same in the paper, which measured on Pubmed alone, on a GPU."""
        if dataset != PRINTED:
            return None
        own, reference = (printed("efficiency", name, "epoch") for name in (method, REFERENCE))
        if isinstance(own, tuple) and isinstance(reference, tuple):
            return own[0] / reference[0]
        return None


class Efficiency(Target[EfficiencyTable]):
    """The appendix' table of efficiency."""

    name = "efficiency"
    title = "Time per epoch and per run, 64 hidden units, 2 layers"
    kind = "table"
    datasets = (PRINTED,)
    models = METHODS
    is_timed = True
    ignores_presets = True

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """Every method at the same width and depth."""
        return [
            replace(row, options={**row.options, **request.leaves_open(row.model, SIZE)})
            for row in rows_by_name(request.models)
        ]

    def collect(self, request: Request, runs: Runs) -> EfficiencyTable:
        """Times from finished runs."""
        costs = {
            (row.name, dataset): Cost(
                Spread.of([_epoch_seconds(run) for run in found]),
                Spread.of([run.seconds for run in found]),
            )
            for dataset in request.datasets
            for row, found in self.finished(request, dataset, runs)
        }
        given = {"hidden": HIDDEN, "layers": LAYERS} | request.chosen
        size = f"{given['hidden']} hidden units, {given['layers']} layers"
        return EfficiencyTable(request.datasets, tuple(self.rows(request, "")), costs, size)

    def plain(self, data: EfficiencyTable) -> dict[str, Any]:
        """Every cost with its multiples of GCN."""
        return {
            "rows": [
                {
                    "row": row,
                    "dataset": dataset,
                    "multiple": data.multiple(row, dataset),
                    "paper_multiple": data.paper_multiple(row, dataset),
                    **asdict(cost),
                }
                for (row, dataset), cost in data.costs.items()
            ]
        }

    def tables(self, data: EfficiencyTable) -> list[Table]:
        """Time per epoch and per run, and multiples of GCN beside the paper's."""
        titles = {row.name: row.title for row in data.rows}
        lines: list[tuple[str, ...]] = []
        for (method, dataset), cost in data.costs.items():
            each, whole = f"{1000 * cost.epoch.mean:.1f}", f"{cost.run.mean:.1f}"
            multiples = (data.multiple(method, dataset), data.paper_multiple(method, dataset))
            texts = ("" if one is None else f"{one:.2f}" for one in multiples)
            lines.append((dataset, titles[method], each, whole, *texts))
        head = ("dataset", "method", "ms per epoch", "s per run", "× GCN", "× GCN, paper")
        note = (
            "Per epoch: the median of each run. Per run: all of its training; runs that 'ncgnn "
            "reproduce' trains for this come after two epochs that do not count. Times hold for "
            "this machine and load; multiples of GCN compare better."
        )
        return [Table(f"efficiency, {data.size}", head, tuple(lines), (note,), left=2)]


@dataclass(frozen=True)
class ModelTime:
    """One model: milliseconds per epoch (medians of runs), seconds and epochs per run."""

    model: str
    runs: int
    per_epoch: Spread
    per_run: Spread
    epochs: Spread


@dataclass(frozen=True)
class TimePanel:
    """One dataset, within which models are compared."""

    dataset: str
    times: tuple[ModelTime, ...]


class Time(Target[parts.Panels[TimePanel]]):
    """Fig. "Average running time per epoch (ms) and per run (s)": Pubmed, 64 hidden units."""

    name = "time"
    title = "running time per epoch and per run"
    kind = "figure"
    datasets = (PRINTED,)
    models = METHODS[:-1]  # the paper's figure is without NCSAGE
    is_timed = True
    ignores_presets = True

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """Every model at the same width and depth."""
        return [
            Row(model, model, options=request.leaves_open(model, SIZE)) for model in request.models
        ]

    def collect(self, request: Request, runs: Runs) -> parts.Panels[TimePanel]:
        """Times as the runs keep them."""
        panels: list[TimePanel] = []
        for dataset in request.datasets:
            found = self.finished(request, dataset, runs)
            if times := tuple(_model_time(row.model, some) for row, some in found):
                panels.append(TimePanel(parts.short_name(request, dataset), times))
        return parts.Panels(tuple(panels))

    def draw(self, data: parts.Panels[TimePanel]) -> Figure:
        """Milliseconds per epoch (left) and seconds per run (right), on logarithmic axes."""
        most = [len(panel.times) for panel in data.panels]
        height = sum(0.26 * count + 0.75 for count in most) + 0.3
        figure = Figure(figsize=(8, height), layout="constrained")
        grid = figure.add_gridspec(len(most), 2, height_ratios=[count + 2 for count in most])
        axes: list[Axes] = []
        for row, panel in enumerate(data.panels):
            left, right = (figure.add_subplot(grid[row, column]) for column in (0, 1))
            _draw_dots(left, panel, [time.per_epoch for time in panel.times])
            _draw_dots(right, panel, [time.per_run for time in panel.times])
            right.tick_params(labelleft=False)
            parts.set_panel_title(left, f"{panel.dataset}: time per epoch, ms, logarithmic")
            parts.set_panel_title(right, f"{panel.dataset}: time per run, s, logarithmic")
            axes.append(left)
        parts.add_legend(figure, axes, columns=3)
        return figure


def _epoch_seconds(run: RunResult) -> float:
    """Seconds of a usual epoch of a run."""
    return float(RunFolder(run.folder).read_json(TIMING)["seconds_per_epoch"])


def _model_time(model: str, runs: Sequence[RunResult]) -> ModelTime:
    each = Spread.of([1000 * _epoch_seconds(run) for run in runs])
    epochs = Spread.of([float(run.result["epochs"]) for run in runs])
    return ModelTime(model, len(runs), each, Spread.of([run.seconds for run in runs]), epochs)


def _draw_dots(axis: Axes, panel: TimePanel, spreads: list[Spread]) -> None:
    means = [value.mean for value in spreads]
    lowest, highest = 0.6 * min(means), 1.15 * max(s.mean + (s.std or 0.0) for s in spreads)
    for place, (time, value) in enumerate(zip(panel.times, spreads, strict=True)):
        separated = model_class(time.model).family == "separated"
        color, marker = (ORANGE, "D") if separated else (BLUE, "o")
        name = "separated models" if separated else "other models"
        several = f"{name}, mean ± deviation over runs" if value.std is not None else name
        # The whisker ends within the axis, which is logarithmic.
        error = [[min(value.std or 0.0, value.mean - lowest)], [value.std or 0.0]]
        look: dict[str, Any] = {"color": color, "marker": marker, "markersize": 5}
        axis.errorbar(
            [value.mean], [place], xerr=error, lw=1, capsize=2, ls="none", label=several, **look
        )
        text = f"{value.mean:,.0f}" if value.mean >= 1000 else f"{value.mean:.3g}"
        end, beside = (value.mean + (value.std or 0.0), place), "offset points"
        axis.annotate(text, end, (6, 0), textcoords=beside, va="center", fontsize=7.5)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if highest < 50 * lowest else (1,)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlim(lowest, highest * (highest / lowest) ** 0.14)
    axis.grid(axis="y", color="#eeeeee")
    axis.set_axisbelow(True)
    axis.set_yticks(range(len(means)), [model_title(time.model) for time in panel.times])
    axis.set_ylim(len(means) - 0.4, -0.6)  # the first model above
