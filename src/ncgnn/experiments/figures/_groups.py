"""Accuracy of several models where nodes are confused and where not, by the same NC for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ncgnn.errors import InputError
from ncgnn.experiments._request import DATASETS
from ncgnn.experiments.figures._parts import (
    FigureData,
    answers,
    evaluated_nodes,
    evaluated_part,
    filled,
    graph_of,
    missing_cells,
    present,
    share,
    short_name,
    spread,
)
from ncgnn.experiments.figures._rule import preset_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ncgnn.experiments._request import Request
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
    from ncgnn.training._scores import deciles

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
