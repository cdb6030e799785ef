"""Suspect labels: those that models which never saw them contradict, ranked, with the reason."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.graph import as_graph, whole_number
from ncgnn.metrics import neighborhood_confusion, node_kinds
from ncgnn.nn import model_class, model_name
from ncgnn.training.config import find_option, make_config, tables_preset
from ncgnn.training.folds import answer_fold, draw_folds
from ncgnn.training.label_noise import as_opinion, count_suspects, neighbor_opinion, weigh
from ncgnn.training.node_table import ClassColumns, NodeTable, text_column
from ncgnn.training.reasons import Reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.nn import Model
    from ncgnn.training.label_noise import Weighed

#: Which labels are listed: those that are called suspects, or all.
Listed: TypeAlias = Literal["suspects", "all"]
#: The model whose opinion is that of features alone.
FEATURES = "mlp"
# Epochs without a better likelihood after which training ends: wrong labels are learned last.
_PATIENCE = 10


class Suspects(NodeTable):
    """Labels, the most suspect first, in the columns that follow.

    ``id``; ``label``, and ``suggested``, the most probable other class; ``score``, the probability
    that the label is wrong; ``suspect``, whether it is called so; ``label_probability`` and
    ``suggested_probability``, of what all opinions together say; ``neighbors``, how many labeled
    ones there are, ``neighbors_with_label``, ``neighbors_with_suggested`` and ``neighbors_say``,
    the commonest class among them; ``features_say`` with ``features_probability``, by a model of
    the features alone; ``nc`` and ``kind`` of the neighborhood, by the labels as they are; and
    ``reason``, where another class is more probable than the label. What is unknown is null.
    """

    def summary(self) -> dict[str, Any]:
        """What was found in all labels, listed or not.

        ``judged`` labels and those that could not be (``not_judged``), how many are called
        ``suspects``, how many are ``estimated`` to be wrong, and the ``weights`` of the opinions.
        """
        said = json.loads(self.table.schema.metadata[b"ncgnn"])
        return {name: said[name] for name in ("model", "folds", *_FOUND)}


_FOUND = ("judged", "not_judged", "suspects", "estimated", "weights")


def find_suspects(
    graph: GraphLike,
    model: str | type[Model] = "tuned-sage",
    *,
    labels: ArrayLike | None = None,
    folds: int = 5,
    seed: int = 0,
    device: str = "cpu",
    only: Listed = "suspects",
    top: int | None = None,
    on_fold: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Suspects:
    """Find labels that are probably wrong.

    The labeled nodes are divided into folds, and each fold is predicted by a model of graph and
    features and by one of the features alone, both trained without its labels. These opinions and
    that of the labels around a node are weighed against each other; see
    :mod:`ncgnn.training.label_noise`. The only node of a class cannot be judged, as nobody else
    says what its class is like.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes, for example a PyG ``Data``.
        model: The model of graph and features, as for :func:`ncgnn.fit`.
        labels: Class per node, -1 = unknown, where the graph holds none or others.
        folds: Number of folds; a model of each kind is trained for every one.
        seed: Seed of folds, validation nodes, first weights and dropout.
        device: Where tensors live.
        only: List the ``"suspects"``, or ``"all"`` labels with their scores.
        top: List at most so many.
        on_fold: Called after every fold with the number of those done and of all.
        **settings: Options as for :func:`ncgnn.fit`; those of the model do not count for the model
            of features. By default training begins as on people's own tables, whatever the graph,
            and the likelihood of validation nodes selects the epoch.

    Example:
        >>> import ncgnn
        >>> graph = ncgnn.load("digits")
        >>> labels = graph.labels.copy()
        >>> labels[100] = (labels[100] + 1) % 10
        >>> 100 in ncgnn.find_suspects(graph, labels=labels, folds=2, epochs=20)["id"]
        True
    """
    if only not in ("suspects", "all"):
        raise InputError(f"only must be 'suspects' or 'all'; got '{only}'.")
    if top is not None:
        whole_number(top, "top", 1)
    for key in settings:
        if find_option(key) in _ARGUMENTS:
            raise InputError(f"find_suspects: {key} is said by an argument or by the folds.")
    whole_number(seed, "seed")
    graph = as_graph(graph, labels)
    fold = draw_folds(graph.labels, folds, seed)
    opinions = gather_opinions(
        graph, fold, model, seed=seed, device=device, settings=settings, on_fold=on_fold
    )
    judged = np.flatnonzero(fold >= 0)
    held = [one[judged] for one in opinions.as_list()]
    found = weigh(held, graph.labels[judged])
    _warn_of_single_nodes(graph, fold)
    return _list_suspects(graph, judged, opinions, found, only, top, model_name(model), folds)


_ARGUMENTS = (
    *(("data", "dataset"), ("data", "split"), ("data", "split_seed"), ("data", "fractions")),
    *(("model", "name"), ("training", "seed"), ("training", "device")),
)


@dataclass(frozen=True, eq=False)
class Opinions:
    """What is thought of the class of every node, without its own label [n, classes].

    Attributes:
        model: Probabilities by a model of graph and features; None where the graph has no edges or
            the model does not look at them.
        features: Probabilities by a model of the features alone; None without features.
        neighbors: Logarithms, see :func:`ncgnn.training.label_noise.neighbor_opinion`; None without
            edges.
    """

    model: NDArray[np.float64] | None
    features: NDArray[np.float64] | None
    neighbors: NDArray[np.float64] | None

    def as_list(self) -> list[NDArray[np.float64]]:
        """Those that there are, as :func:`ncgnn.training.label_noise.weigh` takes them."""
        found = [as_opinion(one) for one in (self.model, self.features) if one is not None]
        return found if self.neighbors is None else [*found, self.neighbors]

    def names(self) -> list[str]:
        """What they are called."""
        places = {"model": self.model, "features": self.features, "neighbors": self.neighbors}
        return [name for name, one in places.items() if one is not None]


def gather_opinions(
    graph: Graph,
    fold: NDArray[np.int64],
    model: str | type[Model],
    *,
    seed: int = 0,
    device: str = "cpu",
    settings: Mapping[str, Any],
    on_fold: Callable[[int, int], None] | None = None,
) -> Opinions:
    """Opinions on all nodes that are in a fold; rows of others are 0.

    Labels of a fold play no part in what the two models say of it, and the label of a node none in
    what is said of that node.
    """
    own = choose_settings(model, graph, settings, own=True)
    sees_edges, has_features = model_class(model).edges != "none", graph.features is not None
    if not has_features and not (sees_edges and graph.num_entries):
        rest = "no edges either" if sees_edges else f"{model_name(model)} does not look at edges"
        raise InputError(f"the graph has no features, and {rest}; there is nothing to judge by.")
    asked: dict[str, tuple[str | type[Model], dict[str, Any]]] = {}
    if sees_edges and graph.num_entries:
        asked["model"] = model, own
    elif sees_edges:  # it is not trained; its options are checked
        make_config(dataset="nodes", model=model, settings=own | {"data.fingerprint": None})
    if has_features and not sees_edges:
        asked["features"] = model, own
    elif has_features:
        asked["features"] = FEATURES, choose_settings(FEATURES, graph, settings, own=False)
    found = {name: np.zeros((graph.num_nodes, graph.num_classes)) for name in asked}
    count = int(fold.max()) + 1
    for number in range(count):
        for name, (one, options) in asked.items():
            found[name][fold == number] = answer_fold(
                graph, fold, number, one, seed=seed, device=device, settings=options
            )
        if on_fold is not None:
            on_fold(number + 1, count)
    neighbors = neighbor_opinion(graph, fold) if graph.num_entries else None
    return Opinions(found.get("model"), found.get("features"), neighbors)


def choose_settings(
    model: str | type[Model], graph: Graph, given: Mapping[str, Any], *, own: bool
) -> dict[str, Any]:
    """Settings of training, what is given last; options of another model are left out."""
    preset = tables_preset(model_name(model), directed=graph.has_direction)
    preset["training"] = preset["training"] | {"metric": "likelihood", "patience": _PATIENCE}
    chosen = {
        (section, option): value
        for section, options in preset.items()
        for option, value in options.items()
    }
    for key, value in given.items():
        place = find_option(key)
        if own or place[0] != "model":
            chosen[place] = value
    return {f"{section}.{option}": value for (section, option), value in chosen.items()}


def _warn_of_single_nodes(graph: Graph, fold: NDArray[np.int64]) -> None:
    """Say which labels could not be judged."""
    single = np.flatnonzero((graph.labels >= 0) & (fold < 0))
    if not len(single):
        return
    names = ClassColumns(graph.class_names)
    named = ", ".join(names.text(label) for label in graph.labels[single][:5].tolist())
    more = ", …" if len(single) > 5 else ""
    count = f"{len(single)} labels" if len(single) > 1 else "one label"
    warnings.warn(
        f"{count} cannot be judged, being the only one of its class: {named}{more}.",
        NcgnnWarning,
        stacklevel=3,
    )


def _list_suspects(
    graph: Graph,
    judged: NDArray[np.int64],
    opinions: Opinions,
    found: Weighed,
    only: Listed,
    top: int | None,
    model: str,
    folds: int,
) -> Suspects:
    """The table of what was found."""
    import pyarrow as pa

    order = np.lexsort((judged, -found.score))
    called = count_suspects(found.score)
    suspect = np.zeros(graph.num_nodes, dtype=bool)
    suspect[judged[order[:called]]] = True
    about = {
        "model": model,
        "folds": folds,
        "judged": len(judged),
        "not_judged": int((graph.labels >= 0).sum()) - len(judged),
        "suspects": called,
        "estimated": float(found.score.sum()),
        "weights": dict(zip(opinions.names(), found.weights, strict=True)),
    }
    order = order[: called if only == "suspects" else None][:top]
    nodes, rows = judged[order], np.arange(len(order))
    shares, label = found.probabilities[order], graph.labels[judged[order]]
    rest = shares.copy()
    rest[rows, label] = -1
    suggested = rest.argmax(1)
    reasons = Reasons.of(graph, nodes, suggested, suspect, opinions.features, opinions.model)
    contradicted = shares[rows, suggested] > shares[rows, label]
    names = ClassColumns(graph.class_names)
    columns: dict[str, Any] = {
        "id": pa.array(graph.ids[nodes]),
        "label": names.of(label),
        "suggested": names.of(suggested),
        "score": pa.array(found.score[order]),
        "suspect": pa.array(suspect[nodes]),
        "label_probability": pa.array(shares[rows, label]),
        "suggested_probability": pa.array(shares[rows, suggested]),
        "neighbors": pa.array(reasons.neighbors),
        "neighbors_with_label": pa.array(reasons.with_label),
        "neighbors_with_suggested": pa.array(reasons.with_suggested),
        "neighbors_say": names.of(reasons.neighbors_say),
        "features_say": names.of(reasons.features_say),
        "features_probability": pa.array(reasons.features_probability, from_pandas=True),
        "nc": pa.array(neighborhood_confusion(graph)[nodes], from_pandas=True),
        "kind": text_column(node_kinds(graph)[nodes]),
        "reason": pa.array(reasons.sentences(contradicted), pa.string()),
    }
    return Suspects.from_columns(columns, about)
