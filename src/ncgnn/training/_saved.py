"""A finished run, ready to predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.data import Split, load
from ncgnn.errors import InputError
from ncgnn.graph._fingerprint import fingerprint
from ncgnn.nn._grouping import Grouper, Grouping, GroupingRule
from ncgnn.training import _folder as names
from ncgnn.training._evaluation import evaluation, predict_logits
from ncgnn.training._folder import RunFolder
from ncgnn.training._run import graph_inputs, new_model
from ncgnn.training._tensors import DamagedFileError, read_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.nn._inputs import GraphInputs
    from ncgnn.training._config import RunConfig


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The best epoch's weights together with the groups that were in force.

    Attributes:
        model: The model.
        inputs: The graph as the model sees it.
        split: Training, validation and test nodes.
        grouping: NC and groups in force in the best epoch.
        config: The run's configuration.
    """

    model: Any
    inputs: GraphInputs
    split: Split
    grouping: Grouping
    config: RunConfig

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.inputs.graph

    def evaluate(self) -> dict[str, Any]:
        """Scores and accuracy per group, as ``result.json`` holds them."""
        return evaluation(self.model, self.inputs, self.split, self.grouping)

    def probabilities(self) -> NDArray[np.float64]:
        """Probability of every class for every node [n, classes]."""
        logits = predict_logits(self.model, self.inputs, self.grouping)
        return torch.softmax(logits.double(), dim=1).cpu().numpy()

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


def load_run(
    path: Path | str,
    data_dir: Path | str | None = None,
    device: str | None = None,
    dataset: Path | str | None = None,
) -> TrainedModel:
    """Load a finished run.

    Args:
        path: The run's folder.
        data_dir: Folder with npz files, where the run's data set is looked for.
        device: Where to run it; by default where it was trained.
        dataset: Where the run's graph is now, if its file has moved.

    Raises:
        InputError: The run is not finished, damaged, or the graph is no longer the same.
    """
    folder = RunFolder(Path(path).expanduser())
    folder.check()
    config = folder.read_config()
    if device is not None:
        training = config.training.model_copy(update={"device": device})
        config = config.model_copy(update={"training": training})
    place = str(dataset or config.data.dataset)
    graph = load(place, data_dir)
    if fingerprint(graph) != folder.read_json(names.ENVIRONMENT)["graph_sha256"]:
        raise InputError(f"{place} has changed since {folder.path} was trained on it.")
    inputs = graph_inputs(config, graph)
    model = new_model(config, inputs)
    tensors, _ = read_tensors(folder / names.WEIGHTS)
    weights = {
        name.removeprefix("model."): value
        for name, value in tensors.items()
        if name.startswith("model.")
    }
    try:
        model.load_state_dict(weights)
        grouping = Grouping(tensors["confusion"], tensors["group"])
    except (RuntimeError, KeyError) as error:
        raise DamagedFileError(f"{folder / names.WEIGHTS}: does not fit ({error}).") from None
    return TrainedModel(model, inputs, Split.load(folder / names.SPLIT), grouping, config)


def _group_names(group: NDArray[np.int64], rule: GroupingRule | None) -> NDArray[Any]:
    """``low`` and ``high`` for two groups, otherwise their numbers."""
    if rule is None or len(rule.thresholds) == 1:
        return np.where(group > 0, "high", "low")
    return group
