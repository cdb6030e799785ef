"""What every metric does first: find the graph, the labels and the number of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ncgnn.graph import Graph, as_graph
from ncgnn.graph._build import compact_classes
from ncgnn.graph._validate import check_class_count, check_labels, check_some_labelled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike


class Labelled(NamedTuple):
    """A graph with the labels that a metric is to be computed for."""

    graph: Graph
    labels: NDArray[np.int64]
    classes: NDArray[Any]
    num_classes: int


def labelled(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    num_classes: int | None = None,
    *,
    features: bool = False,
) -> Labelled:
    """Resolve the arguments that all metrics share.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions [n], -1 = unlabelled; by default the graph's own.
        num_classes: Number of classes; by default the graph's.
        features: Whether the metric looks at features; otherwise they are not even read.
    """
    if not isinstance(graph, Graph):
        graph = as_graph(graph, labels, num_classes=num_classes, features=features)
        labels = None
    given = graph.labels if labels is None else check_labels(labels, graph.num_nodes)
    if labels is None and num_classes is None and graph.num_unlabelled < graph.num_nodes:
        # A graph's own labels were checked when it was built.
        return Labelled(graph, given, graph.compact_labels, graph.num_classes)
    check_some_labelled(given)
    known = (graph.num_classes or None) if num_classes is None else num_classes
    count = check_class_count(given, known, None)
    return Labelled(graph, given, compact_classes(given, count), count)


def mean(values: NDArray[np.floating[Any]]) -> float:
    """Mean over the nodes where a metric is defined; NaN when it is defined nowhere."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
