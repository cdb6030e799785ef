"""How long models train, per epoch and per run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ncgnn.experiments.figures._parts import (
    FigureData,
    filled,
    missing_cells,
    present,
    short_name,
)
from ncgnn.experiments.tables.accuracy import METHODS
from ncgnn.experiments.tables.efficiency import epoch_seconds, sized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig, RunResult, Spread


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
            for cell in _cells(request, dataset, model)
        ]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> TimeData:
        """Times as the runs keep them."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        panels: list[TimePanel] = []
        for dataset in request.datasets:
            found = {m: present(_cells(request, dataset, m), runs) for m in request.models}
            times = tuple(_time(model, some) for model, some in found.items() if some)
            if times:
                panels.append(TimePanel(short_name(request, dataset), times))
        return TimeData(missing, tuple(panels))


def _cells(request: Request, dataset: str, model: str) -> list[RunConfig]:
    return [request.config(dataset, model, seed, **sized(request, model)) for seed in request.seeds]


def _time(model: str, runs: list[RunResult]) -> ModelTime:
    from ncgnn.training import Spread

    each = Spread.of([1000 * epoch_seconds(run) for run in runs])
    epochs = Spread.of([float(run.result["epochs"]) for run in runs])
    return ModelTime(model, len(runs), each, Spread.of([run.seconds for run in runs]), epochs)
