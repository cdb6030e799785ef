"""Nodes as figures see them: which are confused, which are evaluated, and which are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncgnn.data import Split, load
from ncgnn.errors import InputError
from ncgnn.experiments import file_for
from ncgnn.metrics import confusion_masks, neighborhood_confusion
from ncgnn.training import ENVIRONMENT, SPLIT, RunFolder, load_run, make_config

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.paper.targets import Request
    from ncgnn.training import RunResult


@dataclass(frozen=True)
class ConfusionRule:
    """Nodes whose NC within ``hops`` hops (k) is above ``threshold`` (T) are high."""

    hops: int
    threshold: float

    def confusion(self, graph: Graph) -> NDArray[np.float64]:
        """NC of the true labels."""
        return neighborhood_confusion(graph, hops=self.hops)

    def high(self, graph: Graph) -> NDArray[np.bool_]:
        """Whether each node's true NC is high."""
        return confusion_masks(self.confusion(graph), self.threshold)[1]


#: The paper's observations on Coauthor CS are made with k and T of their own.
OBSERVED = {"coauthor-cs": ConfusionRule(2, 0.4)}


def preset_rule(request: Request, dataset: str) -> ConfusionRule:
    """NCGCN's k and T for a dataset, or those that the request sets."""
    chosen = request.chosen
    config = make_config(
        dataset=dataset,
        model="ncgcn",
        config=file_for(request.files, dataset, "ncgcn"),
        settings={key: chosen[key] for key in ("hops", "threshold", "dropout") if key in chosen},
    )
    options = config.model.options
    if len(options["threshold"]) != 1:
        raise InputError(
            "threshold must be one number, because the figure divides nodes into low and high; got "
            f"{options['threshold']}."
        )
    return ConfusionRule(int(options["hops"]), float(options["threshold"][0]))


def observed_rule(request: Request, dataset: str) -> ConfusionRule:
    """The k and T of the paper's observations where it states them, else NCGCN's."""
    if dataset in OBSERVED and not {"hops", "threshold"} & request.chosen.keys():
        return OBSERVED[dataset]
    return preset_rule(request, dataset)


def graph_of(runs: Sequence[RunResult], dataset: str, data_dir: Path | None) -> Graph:
    """The graph that runs were trained on.

    Raises:
        InputError: It is another one now.
    """
    graph = load(dataset, data_dir)
    for run in runs:
        if RunFolder(run.folder).read_json(ENVIRONMENT).get("graph_sha256") != graph.fingerprint:
            raise InputError(
                f"{dataset} has changed since {run.folder} was trained on it; remove that folder, "
                "or name another with --runs."
            )
    return graph


def evaluated_part(runs: Sequence[RunResult]) -> str:
    """Which nodes the accuracies of runs speak of: ``val`` where a split has no test nodes."""
    return "test" if all("test" in run.result["scores"] for run in runs) else "val"


def evaluated_nodes(run: RunResult) -> NDArray[np.int64]:
    """The nodes that the accuracies of a run speak of."""
    split = Split.load(run.folder / SPLIT)
    return split.test if len(split.test) else split.val


def answers(run: RunResult, data_dir: Path | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The nodes that the accuracies of a run speak of, and whether its model is right there."""
    trained, nodes = load_run(run.folder, data_dir), evaluated_nodes(run)
    predicted = trained.probabilities().argmax(1)
    return nodes, predicted[nodes] == trained.graph.labels[nodes]


def share(members: NDArray[np.bool_]) -> float | None:
    """The share of True; None if there are no members."""
    return float(members.mean()) if len(members) else None
