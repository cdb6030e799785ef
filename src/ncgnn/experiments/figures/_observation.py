"""Accuracy of GCN against NH, with the share of high-NC nodes that explains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ncgnn.experiments._request import DATASETS, defaults
from ncgnn.experiments.figures._parts import (
    FigureData,
    answers,
    evaluated_part,
    filled,
    graph_of,
    missing_cells,
    one_model,
    present,
    share,
    short_name,
    spread,
)
from ncgnn.experiments.figures._rule import observed_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncgnn.experiments._request import Request
    from ncgnn.experiments.figures._rule import ConfusionRule
    from ncgnn.training import RunConfig, RunResult, Spread

#: The paper's "standard GCN" in its observations.
STANDARD = {"hidden": 64, "dropout": 0.5}
#: Of which the paper prints neither; other models learn as their presets say.
RATES = {"learning_rate": 0.01, "weight_decay": 5e-4}


def standard_options(request: Request, model: str, **options: Any) -> dict[str, Any]:
    """What a model of the paper's observations is trained with, where the request is silent."""
    rates = RATES if model == "gcn" else {}
    return defaults(request, model, **STANDARD, **rates, **options)


@dataclass(frozen=True)
class Tenth:
    """The evaluated nodes whose NH lies in one tenth of [0, 1].

    Attributes:
        nodes: Their number, a mean over runs.
        accuracy: Over the runs that have such nodes; None if none has.
        high_share: Share of them whose true NC is high, a mean over the same runs.
    """

    nodes: float
    accuracy: Spread | None
    high_share: float | None


@dataclass(frozen=True)
class ObservationPanel:
    """One data set.

    Attributes:
        dataset: Its name.
        hops: The k of NC.
        threshold: The T between low and high.
        part: Whose accuracy is shown, ``test`` or ``val``.
        runs: Number of runs.
        accuracy: Of all evaluated nodes.
        tenths: By NH of the open neighbourhood, from [0, 0.1) to [0.9, 1]; a node without
            neighbours is in none.
    """

    dataset: str
    hops: int
    threshold: float
    part: str
    runs: int
    accuracy: Spread
    tenths: tuple[Tenth, ...]


@dataclass(frozen=True)
class ObservationData(FigureData):
    """One model on all data sets."""

    model: str
    panels: tuple[ObservationPanel, ...]


class Observation:
    """Fig. "Observational experiment on Coauthor CS" and the one with its further data sets.

    The paper's text divides nodes by deciles of NH and then speaks of groups "with NH of 0.0, 0.1,
    …"; groups here are tenths of [0, 1]. NH is Eq. (1), without the node itself: a node that counts
    itself has no NH of 0, and the low tenths, of which the observation speaks, are all but empty.
    """

    name = "observation"
    title = "accuracy by NH with the share of high-NC nodes"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = ("gcn",)
    sets_options: bool = True

    def cells(self, request: Request) -> list[RunConfig]:
        """One run per data set and seed."""
        request = filled(self, request)
        return [cell for dataset in request.datasets for cell in self._cells(request, dataset)]

    def _cells(self, request: Request, dataset: str) -> list[RunConfig]:
        model = one_model(self, request)
        options = standard_options(request, model)
        return [request.config(dataset, model, seed, **options) for seed in request.seeds]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> ObservationData:
        """Accuracies from the predictions of the stored models."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        panels: list[ObservationPanel] = []
        for dataset in request.datasets:
            found = present(self._cells(request, dataset), runs)
            if found:
                rule = observed_rule(request, dataset)
                panels.append(_panel(request, dataset, found, rule))
        return ObservationData(missing, one_model(self, request), tuple(panels))


def _panel(
    request: Request, dataset: str, runs: Sequence[RunResult], rule: ConfusionRule
) -> ObservationPanel:
    from ncgnn.metrics import node_homophily
    from ncgnn.training import Spread
    from ncgnn.training._scores import deciles

    graph = graph_of(runs, dataset, request.data_dir)
    tenth, high = deciles(node_homophily(graph)), rule.high(graph)
    found = [answers(run, request.data_dir) for run in runs]
    tenths: list[Tenth] = []
    for number in range(10):
        within = [tenth[nodes] == number for nodes, _ in found]
        accuracy = spread(
            share(right[some]) for (_, right), some in zip(found, within, strict=True)
        )
        confused = spread(
            share(high[nodes[some]]) for (nodes, _), some in zip(found, within, strict=True)
        )
        count = float(np.mean([np.count_nonzero(some) for some in within]))
        tenths.append(Tenth(count, accuracy, None if confused is None else confused.mean))
    part = evaluated_part(runs)
    overall = Spread.of([run.result["scores"][part]["accuracy"] for run in runs])
    name = short_name(request, dataset)
    return ObservationPanel(
        name, rule.hops, rule.threshold, part, len(runs), overall, tuple(tenths)
    )
