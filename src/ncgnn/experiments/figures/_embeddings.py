"""Nodes as the first layer of GCN and of NCGCN sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ncgnn.experiments.figures._first_layer import check_first_layer, first_layer, plane
from ncgnn.experiments.figures._observation import standard_options
from ncgnn.experiments.figures._parts import (
    FigureData,
    evaluated_nodes,
    evaluated_part,
    filled,
    missing_cells,
    present,
    share,
    short_name,
)
from ncgnn.experiments.figures._rule import observed_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncgnn.experiments._request import Request
    from ncgnn.experiments.figures._rule import ConfusionRule
    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig, RunResult

#: Nodes that are drawn; t-SNE of more takes minutes and shows blots.
MOST_NODES = 3000


@dataclass(frozen=True)
class EmbeddingPanel:
    """One model on one data set.

    Attributes:
        dataset: The data set.
        model: The model.
        hops: The k of NC.
        threshold: The T between low and high.
        part: Whose accuracy is stated, ``test`` or ``val``.
        accuracy: Of all evaluated nodes.
        low_accuracy: Of those with low NC; None if there are none.
        high_accuracy: Of those with high NC.
        x: Place of every drawn node; the same nodes for all models of a data set.
        y: Place of every drawn node.
        label: Class of every drawn node.
        high: Whether its true NC is high.
    """

    dataset: str
    model: str
    hops: int
    threshold: float
    part: str
    accuracy: float
    low_accuracy: float | None
    high_accuracy: float | None
    x: tuple[float, ...]
    y: tuple[float, ...]
    label: tuple[int, ...]
    high: tuple[bool, ...]


@dataclass(frozen=True)
class EmbeddingsData(FigureData):
    """Panels, data set by data set."""

    panels: tuple[EmbeddingPanel, ...]


class Embeddings:
    """Fig. "Visualization of embeddings learned by GCN before and after guidance by NC".

    GCN is the paper's standard one (64 hidden units, dropout 0.5), and a separated model has the
    same width and dropout, and separates with the k and T by which nodes are drawn. Learning rate
    and weight decay of models other than GCN are those of their presets. One seed is drawn.
    """

    name = "embeddings"
    title = "t-SNE of first-layer outputs, by class and NC"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = ("coauthor-cs",)
    models: tuple[str, ...] = ("gcn", "ncgcn")
    sets_options: bool = True
    one_seed: bool = True

    def cells(self, request: Request) -> list[RunConfig]:
        """One run per data set and model, of the first seed."""
        request = filled(self, request)
        for model in request.models:
            check_first_layer(model)
        return [
            _cell(request, dataset, model)
            for dataset in request.datasets
            for model in request.models
        ]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> EmbeddingsData:
        """Points on the plane, and the accuracies of the stored models."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        panels: list[EmbeddingPanel] = []
        for dataset in request.datasets:
            rule = observed_rule(request, dataset)
            cells = [_cell(request, dataset, model) for model in request.models]
            panels += [_panel(request, dataset, run, rule) for run in present(cells, runs)]
        return EmbeddingsData(missing, tuple(panels))


def _cell(request: Request, dataset: str, model: str) -> RunConfig:
    rule = observed_rule(request, dataset)
    chosen = standard_options(request, model, hops=rule.hops, threshold=rule.threshold)
    return request.config(dataset, model, request.seeds[0], **chosen)


def _panel(request: Request, dataset: str, run: RunResult, rule: ConfusionRule) -> EmbeddingPanel:
    from ncgnn.training import load_run

    trained = load_run(run.folder, request.data_dir)
    graph, high = trained.graph, rule.high(trained.graph)
    nodes, drawn = evaluated_nodes(run), _drawn(graph)
    right = trained.probabilities().argmax(1)[nodes] == graph.labels[nodes]
    # Four digits are far below a pixel, and files stay small.
    points = plane(first_layer(trained)[drawn], seed=0).round(4).astype(np.float64)
    return EmbeddingPanel(
        short_name(request, dataset),
        run.config.model.name,
        rule.hops,
        rule.threshold,
        evaluated_part([run]),
        float(right.mean()),
        share(right[~high[nodes]]),
        share(right[high[nodes]]),
        tuple(points[:, 0].tolist()),
        tuple(points[:, 1].tolist()),
        tuple(graph.labels[drawn].tolist()),
        tuple(high[drawn].tolist()),
    )


def _drawn(graph: Graph) -> NDArray[np.int64]:
    """Labelled nodes, drawn at random where there are too many, in ascending order."""
    labelled = np.flatnonzero(graph.labels >= 0)
    if len(labelled) <= MOST_NODES:
        return labelled
    return np.sort(np.random.default_rng(0).choice(labelled, MOST_NODES, replace=False))
