"""Estimated NC and accuracy over the epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.experiments.figures._parts import FigureData, OneModelFigure, short_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunResult


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
