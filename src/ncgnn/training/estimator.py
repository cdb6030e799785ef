"""A classifier with scikit-learn's habits, for the nodes of a graph or the rows of any table."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ncgnn._io import as_path, make_durable, sha256_of_file, temporary_path, write_text
from ncgnn.errors import InputError
from ncgnn.graph import Graph, as_graph, whole_number
from ncgnn.nn import GraphInputs, model_class, model_name
from ncgnn.training.candidates import AUTO
from ncgnn.training.folder import DONE, DamagedFileError
from ncgnn.training.folds import draw_validation, with_only
from ncgnn.training.inference import Inference
from ncgnn.training.run import fit, load_run

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike
    from ncgnn.nn import Model
    from ncgnn.training.trained import TrainedModel

#: Number of the format of a saved classifier, and the names of what is in its folder.
FORMAT, ABOUT, RUN = 1, "classifier.json", "run"
#: Parameters that are settings of training or of the model, under the same names.
_SETTINGS = (
    *("learning_rate", "weight_decay", "epochs", "patience", "metric"),
    *("hidden", "dropout"),
)


class NodeClassifier(ClassifierMixin, BaseEstimator):
    """Classifies the nodes of a graph, or the rows of a table, as scikit-learn's classifiers do.

    With a graph, X are ids of its nodes (their numbers where it has no ids) and y their labels. All
    nodes and edges of the graph are seen; of labels, only those that ``fit`` is given: what labels
    the graph itself holds plays no part.

    Without a graph, X is a matrix, dense or sparse. Every row is a node that hears from its nearest
    rows among those of ``fit``; rows that ``predict`` is given hear from their nearest rows of
    ``fit`` and nobody hears from them, so that no answer depends on what else is asked.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes; None = the graph of nearest rows.
        model: A model's name or class. ``"auto"`` tries several, with options of its own such as
            ``options={"time": "2m"}``; of the arguments below only ``metric`` counts for it.
        neighbors: How many nearest rows a row hears from; without a graph only.
        distance: Which rows are near: a metric of scikit-learn's ``NearestNeighbors``, such as
            ``"euclidean"`` or, for texts, ``"cosine"``; without a graph only.
        validation_fraction: Share of every class in ``fit`` that selects the epoch to keep and is
            not trained on.
        hidden: Width of the model's layers, where it has such an option; None = its default.
        dropout: The model's option; None = its default.
        learning_rate: Step size of Adam.
        weight_decay: L2 penalty.
        epochs: Upper limit of the number of epochs.
        patience: Epochs without a new best score after which training ends.
        metric: The validation score that selects the epoch; see :func:`ncgnn.training.score`.
        options: Further options by the names that :func:`ncgnn.fit` takes, as a dictionary, for
            example ``{"threshold": 0.4, "scaling": "row"}``; they win over the arguments above.
        seed: Seed of validation nodes, first weights and dropout.
        device: Where tensors live.

    Attributes:
        classes_: The classes, sorted.
        trained_: The :class:`ncgnn.training.TrainedModel`, which predicts for nodes that come
            later and explains its answers.
        n_features_in_: Number of columns; without a graph only.

    Example:
        >>> import ncgnn
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> ncgnn.NodeClassifier(epochs=50).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
        True
    """

    classes_: NDArray[Any]
    trained_: TrainedModel
    n_features_in_: int

    def __init__(
        self,
        graph: GraphLike | None = None,
        model: str | type[Model] = "sage",
        *,
        neighbors: int = 10,
        distance: str = "euclidean",
        validation_fraction: float = 0.1,
        hidden: int | None = 64,
        dropout: float | None = None,
        learning_rate: float = 0.01,
        weight_decay: float = 0.002,
        epochs: int = 500,
        patience: int = 100,
        metric: str = "likelihood",
        options: dict[str, Any] | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.graph = graph
        self.model = model
        self.neighbors = neighbors
        self.distance = distance
        self.validation_fraction = validation_fraction
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.metric = metric
        self.options = options
        self.seed = seed
        self.device = device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.graph is None
        tags.input_tags.two_d_array = self.graph is None
        tags.input_tags.string = self.graph is not None
        return tags

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train on labels.

        Args:
            X: Ids of nodes, or rows.
            y: The label of each, a name or a number.
        """
        if self.graph is None:
            rows, labels = self._check(X, y=y)
            check_classification_targets(labels)
            graph = _nearest_rows(rows, self.neighbors, self.distance)
            nodes = np.arange(graph.num_nodes)
        else:
            graph = as_graph(self.graph, require_labels=False)
            nodes, labels = _labeled_nodes(graph, X, y)
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InputError(
                f"y must hold at least two classes; got one class, {classes.tolist()[0]!r}."
            )
        graph = _with_classes(graph, nodes, numbers, classes)
        split = draw_validation(nodes, numbers, self.validation_fraction, self.seed, "y")
        trained = fit(graph, self.model, split=split, **self._settings())
        self.classes_ = classes  # a fit that fails leaves an earlier one as it is
        self._keep(trained)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of nodes or rows."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of every class [n, classes], in the order of ``classes_``."""
        check_is_fitted(self, "trained_")
        if self.graph is not None:
            nodes = torch.from_numpy(self.trained_.graph.find(_as_ids(X)))
            logits = self.trained_.outcome.logits
            chosen = logits.index_select(0, nodes.to(logits.device))
            kinds = self.trained_.outcome.kinds[nodes.numpy()]
            return self.trained_.calibration.probabilities(chosen, kinds)
        return self._answer_rows(self._check(X, reset=False))

    def save(self, path: Path | str) -> Path:
        """Write a folder for :meth:`load`: JSON, arrays and checksums, and nothing that is run.

        Args:
            path: A folder that does not exist yet or is empty; it appears whole or not at all.
        """
        check_is_fitted(self, "trained_")
        path = as_path(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} exists already; name a new folder.")
        about: dict[str, Any] = {
            "parameters": _plain_parameters(self),
            "classes": _plain_classes(self.classes_),
            "table": self.graph is None,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        part = temporary_path(path)
        try:
            self.trained_.save(part / RUN)
            about = {"format": FORMAT, **about, "run": sha256_of_file(part / RUN / DONE)}
            write_text(part / ABOUT, json.dumps(about, indent=2) + "\n")
            make_durable([part / ABOUT])
            if path.exists():
                path.rmdir()
            part.rename(path)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return path

    @classmethod
    def load(
        cls, path: Path | str, *, model: type[Model] | None = None, device: str | None = None
    ) -> Self:
        """Read what :meth:`save` wrote.

        Args:
            path: The folder.
            model: The class of the model, if it is one of your own that is not registered.
            device: Where to run it; by default where it was trained.

        Raises:
            InputError: It is no such folder, or a file in it has changed.
        """
        path = as_path(path)
        about = _read_about(path)
        trained = load_run(path / RUN, device=device, model=model)
        parameters: dict[str, Any] = about["parameters"]
        if device is not None:
            parameters["device"] = device
        loaded = cls(graph=None if about["table"] else trained.graph, **parameters)
        values, kind = about["classes"]["values"], about["classes"]["type"]
        loaded.classes_ = np.array(values, dtype=kind)
        if about["table"]:
            loaded.n_features_in_ = trained.graph.num_features
        loaded._keep(trained)
        return loaded

    def _check(self, X: Any, **more: Any) -> Any:
        """Rows, and labels where they are given, as scikit-learn checks them."""
        floats: Any = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=floats, **more)

    def _settings(self) -> dict[str, Any]:
        """The arguments of :func:`ncgnn.fit` that the parameters stand for."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        if self.model == AUTO:  # it chooses the others itself, unless options say them
            settings = {"metric": self.metric}
        elif "hidden" not in model_class(self.model).Options.model_fields:
            del settings["hidden"]
        said = {name: value for name, value in settings.items() if value is not None}
        more = dict(self.options or {})
        for name in {"graph", "model", "labels", "split", "on_epoch"} & more.keys():
            raise InputError(f"options must hold settings of model and training; got {name}.")
        return {"seed": self.seed, "device": self.device, **said, **more}

    def _keep(self, trained: TrainedModel) -> None:
        """Keep a trained model; without a graph, also what answers for new rows."""
        self.trained_ = trained
        if self.graph is not None:
            return
        trained.model.check_inductive()
        self._nearest = _search(trained.graph.features, self.neighbors, self.distance)
        # Rounding in float32 would make an answer depend on how many are asked for at a time.
        inputs = trained.inputs
        precise = GraphInputs(
            trained.graph, device=inputs.device, dtype=torch.float64, scaling=inputs.scaling
        )
        self._answering = replace(trained, model=deepcopy(trained.model).double(), inputs=precise)

    def _answer_rows(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of new rows, each as if it was the only one."""
        known, model = self._answering.graph, self._answering.model
        nearest: Any = self._nearest.kneighbors(X, return_distance=False)
        # Nobody hears from a new row, unless the model turns edges around or looks at all nodes.
        backward = model.edges == "both" or model.direction not in (None, "incoming")
        apart = backward or model.reach is None
        batches = np.arange(len(nearest))[:, None] if apart else [np.arange(len(nearest))]
        answers = [
            Inference(self._answering, _add_rows(known, X[batch], nearest[batch])).facts("new")
            for batch in batches
        ]
        return np.concatenate([facts.probabilities for facts in answers])


def _labeled_nodes(graph: Graph, X: Any, y: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Numbers of the nodes that ``fit`` is given, each once, and their labels."""
    nodes = graph.find(_as_ids(X))
    labels = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    if len(nodes) != len(labels):
        raise InputError(f"y must hold one label per id; got {len(labels)} for {len(nodes)} ids.")
    kept, first = np.unique(nodes, return_index=True)
    if len(kept) < len(nodes):
        repeated = np.setdiff1d(np.arange(len(nodes)), first)[0]
        raise InputError(f"X must name every node once; got {graph.ids[nodes[repeated]]} twice.")
    return nodes, labels


def _as_ids(X: Any) -> NDArray[Any]:
    """Ids in one row; a single column is one."""
    ids = np.asarray(X)
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.ndim != 1:
        raise InputError(
            f"X must be ids of nodes in one row, as there is a graph; got shape {list(ids.shape)}."
        )
    return ids


def _with_classes(
    graph: Graph, nodes: NDArray[np.int64], numbers: NDArray[np.int64], classes: NDArray[Any]
) -> Graph:
    """The graph with the given labels and no others."""
    labels = np.full(graph.num_nodes, -1, dtype=np.int64)
    labels[nodes] = numbers
    names = tuple(str(name) for name in classes.tolist())
    return replace(
        with_only(graph, labels),
        num_classes=len(classes),
        class_names=names if len(set(names)) == len(names) else None,
    )


def _search(rows: Any, neighbors: int, distance: str) -> NearestNeighbors:
    """What finds the nearest of some rows."""
    if whole_number(neighbors, "neighbors") < 1:
        raise InputError(f"neighbors must be a whole number above 0; got {neighbors}.")
    count = min(neighbors, rows.shape[0] - 1)
    return NearestNeighbors(n_neighbors=count, metric=distance).fit(rows)


def _nearest_rows(X: Any, neighbors: int, distance: str) -> Graph:
    """The graph in which every row hears from its nearest others."""
    if X.shape[0] < 2:
        raise InputError("X must hold at least two rows; got 1 sample.")
    nearest: Any = _search(X, neighbors, distance).kneighbors(return_distance=False)
    starts = np.arange(len(nearest) + 1) * nearest.shape[1]
    return Graph.from_csr(starts, nearest.reshape(-1), features=X, require_labels=False)


def _add_rows(graph: Graph, X: Any, nearest: NDArray[np.int64]) -> Graph:
    """The graph with new rows at its end, which hear from the given rows."""
    added, count = nearest.shape
    sources = np.sort(nearest, axis=1).reshape(-1).astype(graph.indices.dtype)
    features: Any = graph.features
    if isinstance(features, np.ndarray):
        features = np.concatenate([features, X.astype(features.dtype)])
    else:
        from scipy.sparse import vstack

        features = vstack([features, X]).tocsr()
    ends = graph.indptr[-1] + count * np.arange(1, added + 1)
    return replace(
        graph,
        indptr=np.concatenate([graph.indptr, ends]),
        indices=np.concatenate([graph.indices, sources]),
        labels=np.concatenate([graph.labels, np.full(added, -1)]),
        features=features,
        num_added=added,
    )


def _plain_parameters(classifier: NodeClassifier) -> dict[str, Any]:
    """The parameters but the graph as JSON holds them."""
    parameters: dict[str, Any] = classifier.get_params(deep=False)
    del parameters["graph"]
    parameters["model"] = model_name(parameters["model"])
    for name, value in parameters.items():
        if isinstance(value, np.generic):
            parameters[name] = value.item()
        try:
            json.dumps(parameters[name], allow_nan=False)
        except (TypeError, ValueError):
            raise InputError(
                f"{name} must be made of plain values to be saved; got {value!r:.60}."
            ) from None
    return parameters


def _plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """The classes as JSON holds them, with their type."""
    values = classes.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise InputError("classes must be names or numbers to be saved; got other objects.")
    return {"values": values, "type": classes.dtype.str if classes.dtype != object else "object"}


def _read_about(path: Path) -> dict[str, Any]:
    """What the file about a classifier says, checked."""
    try:
        about = json.loads((path / ABOUT).read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"{path} is no saved classifier; NodeClassifier.save(path) writes one."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path / ABOUT}: cannot be read ({error}).") from None
    found = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    if found.get("format") != FORMAT:
        raise DamagedFileError(
            f"{path / ABOUT}: format must be {FORMAT}; got {found.get('format')!r}."
        )
    if not {"parameters", "classes", "table", "run"} <= found.keys():
        raise DamagedFileError(f"{path / ABOUT}: fields are missing; save the classifier again.")
    done = path / RUN / DONE
    if not done.is_file() or sha256_of_file(done) != found["run"]:
        raise DamagedFileError(f"{done} has changed since it was written; save it again.")
    return found
