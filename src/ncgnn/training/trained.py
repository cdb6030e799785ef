"""A trained model: what it predicts, and how it is kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._io import write_text
from ncgnn.data import save
from ncgnn.errors import InputError
from ncgnn.nn import Grouper, GroupingRule, counting
from ncgnn.training import folder as names
from ncgnn.training.evaluation import evaluation
from ncgnn.training.folder import RunFolder, environment, write_tensors
from ncgnn.training.trainer import ShareCorrection

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
        best = self.history[self.best_epoch]
        return (
            f"TrainedModel({self.config.model.name} on {self.graph.name}: {self.graph.num_nodes:,} "
            f"nodes, {self.inputs.num_classes} classes; best of {len(self.history)} epochs: "
            f"{best['epoch']}, validation accuracy {100 * best['val_accuracy']:.2f})"
        )

    @property
    def best_epoch(self) -> int:
        """The first epoch with the best validation accuracy of those stages that count."""
        training = self.config.training
        names = counting(self.model.phases(training.epochs, training.patience))
        found = [r for r in self.history if "phase" not in r or r["phase"] in names]
        return max(found, key=lambda record: record["val_accuracy"])["epoch"]

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.inputs.graph

    def evaluate(self) -> dict[str, Any]:
        """Scores and accuracy per group, as ``result.json`` holds them."""
        found = (self.model, self.inputs, self.split, self.grouping)
        return evaluation(*found, logits=self.logits())

    @torch.no_grad()
    def logits(self) -> torch.Tensor:
        """Logits of all nodes, without dropout, for the class shares of the configuration."""
        self.model.eval()
        inputs, config = self.inputs, self.config.training
        logits = self.model(inputs, self.grouping.group.to(inputs.device), None)
        train, val = (
            torch.from_numpy(part.copy()).to(inputs.device)
            for part in (self.split.train, self.split.val)
        )
        correction = ShareCorrection.of(config.class_shares, inputs, train, val)
        return logits if correction is None else correction(logits)

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
        grouping = self._grouping_of(predicted)
        columns: dict[str, NDArray[Any]] = {
            "node": np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids,
            "part": self._parts(),
            "label": graph.labels,
            "predicted": predicted,
            "confidence": probabilities.max(1),
            "nc": grouping.confusion.numpy(),
            "group": _group_names(grouping.group.numpy(), self.model.rule),
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
        folder = RunFolder(Path(path).expanduser())
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise InputError(f"{folder.path} exists already; name a new folder.")
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write_json(
            names.ENVIRONMENT, environment() | {"graph_sha256": self.graph.fingerprint}
        )
        folder.write_config(self.config)
        self.split.save(folder / names.SPLIT)
        save(self.graph, folder / names.GRAPH)
        write_text(folder / names.METRICS, "".join(metrics_line(r) for r in self.history))
        write_outcome(folder, self)
        folder.mark_done()
        return folder.path

    def _grouping_of(self, predicted: NDArray[Any]) -> Grouping:
        if self.model.rule is not None:
            return self.grouping
        grouper = Grouper(self.graph, GroupingRule(), self.graph.num_classes)
        return grouper(torch.from_numpy(predicted))

    def _parts(self) -> NDArray[Any]:
        part = np.full(self.graph.num_nodes, "", dtype="<U5")
        for name in ("train", "val", "test"):
            part[getattr(self.split, name)] = name
        return part


def write_outcome(
    folder: RunFolder, trained: TrainedModel, epoch_seconds: float | None = None
) -> None:
    """Write weights, scores and times of a model into its run's folder.

    Args:
        folder: Of the run.
        trained: What came of it.
        epoch_seconds: Of a usual epoch; by default the mean, the first one's compiling included.
    """
    config, epochs = trained.config, len(trained.history)
    best_epoch = trained.best_epoch
    tensors = {f"model.{name}": value for name, value in trained.model.state_dict().items()}
    tensors["confusion"] = trained.grouping.confusion
    tensors["group"] = trained.grouping.group
    about = {"model": config.model.name, "epoch": best_epoch}
    write_tensors(folder / names.WEIGHTS, tensors, about, durable=False)
    head = {
        "dataset": config.data.dataset,
        "graph": trained.graph.name,
        "model": config.model.name,
        "split": config.data.split,
        "split_sha256": trained.split.sha256,
        "seed": config.training.seed,
        "best_epoch": best_epoch,
        "epochs": epochs,
    }
    folder.write_json(names.RESULT, head | trained.evaluate())
    usual = trained.seconds / epochs if epoch_seconds is None else epoch_seconds
    timing = {"seconds": trained.seconds, "seconds_per_epoch": usual}
    folder.write_json(names.TIMING, timing)


def metrics_line(record: dict[str, Any]) -> str:
    """One line of ``metrics.jsonl``."""
    return json.dumps(record, allow_nan=False) + "\n"


def _group_names(group: NDArray[np.int64], rule: GroupingRule | None) -> NDArray[Any]:
    """``low`` and ``high`` for two groups, otherwise their numbers."""
    if rule is None or len(rule.thresholds) == 1:
        return np.where(group > 0, "high", "low")
    return group
