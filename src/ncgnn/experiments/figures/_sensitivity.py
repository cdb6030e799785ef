"""Accuracy of a separated model against the hop count k and the threshold T."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ncgnn.experiments._request import DATASETS
from ncgnn.experiments.figures._parts import (
    FigureData,
    filled,
    missing_cells,
    present,
    separated_model,
    short_name,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig, RunResult, Spread

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
        panels = [_panel(request, dataset, runs) for dataset in request.datasets]
        shown = tuple(panel for panel in panels if _has_runs(panel))
        return SensitivityData(missing, request.models[0], shown)


def _cells(request: Request, dataset: str, hops: int, threshold: float) -> list[RunConfig]:
    options = {"hops": hops, "threshold": threshold}
    return [request.config(dataset, request.models[0], s, **options) for s in request.seeds]


def _panel(request: Request, dataset: str, runs: Mapping[str, RunResult]) -> SensitivityPanel:
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
