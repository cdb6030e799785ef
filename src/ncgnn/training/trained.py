"""A trained model: what it predicts, how good that is, and how it is saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.data import save
from ncgnn.errors import InputError
from ncgnn.nn import Grouper, GroupingRule, counting_phases
from ncgnn.training.evaluation import SCORE_NAMES, evaluation
from ncgnn.training.folder import (
    ENVIRONMENT,
    GRAPH,
    RESULT,
    SPLIT,
    TIMING,
    WEIGHTS,
    RunFolder,
    environment,
    write_tensors,
)
from ncgnn.training.trainer import ShareCorrection, predict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.nn import GraphInputs, Grouping, Model
    from ncgnn.training.config import RunConfig


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """The best epoch's weights together with the groups that were in force.

    Attributes:
        model: The model.
        inputs: The graph as the model sees it.
        split: Training, validation and test nodes.
        grouping: NC and groups in force in the best epoch.
        config: The run's configuration.
        history: One record per epoch.
        seconds: How long training took.
    """

    model: Model
    inputs: GraphInputs
    split: Split
    grouping: Grouping
    config: RunConfig
    history: Sequence[dict[str, Any]]
    seconds: float

    def __repr__(self) -> str:
        metric = self.config.training.metric
        best = self.history[self.best_epoch]
        return (
            f"TrainedModel({self.config.model.name} on {self.graph.name}: {self.graph.num_nodes:,} "
            f"nodes, {self.inputs.num_classes} classes; best of {len(self.history)} epochs: "
            f"{best['epoch']}, validation {SCORE_NAMES[metric]} "
            f"{100 * best[f'val_{metric}']:.2f})"
        )

    @property
    def best_epoch(self) -> int:
        """The first epoch with the best validation score of those stages that count."""
        training = self.config.training
        names = counting_phases(self.model.phases(training.epochs, training.patience))
        found = [r for r in self.history if "phase" not in r or r["phase"] in names]
        return max(found, key=lambda record: record[f"val_{training.metric}"])["epoch"]

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.inputs.graph

    def evaluate(self) -> dict[str, Any]:
        """Scores and accuracy per group, as ``result.json`` holds them."""
        return evaluation(self.model, self.inputs, self.split, self.grouping, self.logits())

    def logits(self) -> torch.Tensor:
        """Logits of all nodes, without dropout, for the class shares of the configuration."""
        shares = self.config.training.class_shares
        correction = ShareCorrection.of(shares, self.inputs, self.split)
        return predict(self.model, self.inputs, self.grouping, correction)

    def probabilities(self) -> NDArray[np.float64]:
        """Probability of every class for every node [n, classes]."""
        return torch.softmax(self.logits().double(), dim=1).cpu().numpy()

    def predictions(self) -> dict[str, NDArray[Any]]:
        """One column per fact about a node.

        ``node``, ``part`` (train, val, test or empty), ``label`` and ``predicted`` as class
        numbers, ``confidence``, ``nc`` and ``group`` as the model used them, and one
        ``probability_…`` per class. A model without groups has NC counted among its predictions.
        """
        graph, probabilities = self.graph, self.probabilities()
        predicted = probabilities.argmax(1)
        grouping, rule = self.grouping, self.model.rule
        if rule is None:
            rule = GroupingRule()
            grouping = Grouper(graph, rule, graph.num_classes)(torch.from_numpy(predicted))
        group = grouping.group.numpy()
        part = np.full(graph.num_nodes, "", dtype="<U5")
        for name in ("train", "val", "test"):
            part[getattr(self.split, name)] = name
        columns: dict[str, NDArray[Any]] = {
            "node": np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids,
            "part": part,
            "label": graph.labels,
            "predicted": predicted,
            "confidence": probabilities.max(1),
            "nc": grouping.confusion.numpy(),
            "group": np.where(group > 0, "high", "low") if len(rule.thresholds) == 1 else group,
        }
        if graph.class_names is not None:
            columns["predicted_class"] = np.array(graph.class_names)[predicted]
        class_names = graph.class_names or tuple(str(c) for c in range(graph.num_classes))
        for number, name in enumerate(class_names):
            columns[f"probability_{name}"] = probabilities[:, number]
        return columns

    def save(self, path: Path | str) -> Path:
        """Write a run folder with the graph in it, for :func:`load_run` and ``ncgnn predict``.

        Args:
            path: A folder that does not exist yet or is empty.
        """
        folder, config = RunFolder(Path(path).expanduser()), self.config.storable()
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise InputError(f"{folder.path} exists already; name a new folder.")
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write_json(ENVIRONMENT, environment() | {"graph_sha256": self.graph.fingerprint})
        folder.write_config(config)
        self.split.save(folder / SPLIT)
        save(self.graph, folder / GRAPH)
        folder.write_history(self.history)
        self.write_outcome(folder)
        folder.mark_done()
        return folder.path

    def write_outcome(self, folder: RunFolder, epoch_seconds: float | None = None) -> None:
        """Write weights, scores and times into a run's folder.

        Args:
            folder: Folder of the run.
            epoch_seconds: Of a usual epoch; by default the mean, the first one's compiling
                included.
        """
        config, epochs, best_epoch = self.config, len(self.history), self.best_epoch
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {"confusion": self.grouping.confusion, "group": self.grouping.group}
        about = {"model": config.model.name, "epoch": best_epoch}
        write_tensors(folder / WEIGHTS, tensors, about, durable=False)
        head = {
            "dataset": config.data.dataset,
            "graph": self.graph.name,
            "model": config.model.name,
            "split": config.data.split,
            "split_sha256": self.split.sha256,
            "seed": config.training.seed,
            "metric": config.training.metric,
            "best_epoch": best_epoch,
            "epochs": epochs,
        }
        folder.write_json(RESULT, head | self.evaluate())
        usual = self.seconds / epochs if epoch_seconds is None else epoch_seconds
        folder.write_json(TIMING, {"seconds": self.seconds, "seconds_per_epoch": usual})
