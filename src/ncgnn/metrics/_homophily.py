"""Homophily of nodes and of whole graphs.

Self-loops are no neighbours and no edges here, whatever the graph stores, and edges with an
unlabelled end are left out. On a directed graph a node's neighbours are the sources of its incoming
edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncgnn.metrics._class_pairs import class_pair_counts, class_sizes
from ncgnn.metrics._inputs import labelled
from ncgnn.metrics._neighborhoods import Neighborhoods

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike
    from ncgnn.metrics._neighborhoods import Neighborhood


def node_homophily(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "open",
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    r"""Node Homophily of every node: the share of neighbours that have its label.

    .. math:: NH_i = |\{j \in N_i : y_j = y_i\}| \,/\, |N_i|

    Eq. (1) of "Clarify Confused Nodes via Separated Learning", after "Geom-GCN: Geometric Graph
    Convolutional Networks" (https://arxiv.org/abs/2002.05287). The ``"closed"`` variant counts the
    node itself too; the means that the paper prints are of that variant.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions, -1 = unlabelled; by default the graph's own.
        hops: Size of the neighbourhood in hops.
        neighborhood: ``"open"`` or ``"closed"``.
        num_classes: Number of classes; by default the graph's.
        empty: Value of labelled nodes without any labelled neighbour. Unlabelled nodes are NaN.

    Returns:
        One value per node, float64.
    """
    given = labelled(graph, labels, num_classes)
    counts = Neighborhoods(given.graph, hops).count(given.classes, given.num_classes, neighborhood)
    shares = np.full(len(counts.size), empty, dtype=np.float64)
    np.divide(counts.same, counts.size, out=shares, where=counts.size > 0)
    shares[given.labels < 0] = np.nan
    return shares


def edge_homophily(
    graph: GraphLike, labels: ArrayLike | None = None, *, num_classes: int | None = None
) -> float:
    r"""Edge homophily: the share of edges whose ends have the same label.

    .. math:: h_{edge} = |\{(u, v) \in E : y_u = y_v\}| \,/\, |E|

    "Beyond Homophily in Graph Neural Networks" (https://arxiv.org/abs/2006.11468). NaN without
    edges.
    """
    return edge_homophily_of(class_pair_counts(graph, labels, num_classes=num_classes))


def edge_homophily_of(pairs: NDArray[np.int64]) -> float:
    """Edge homophily from the number of edges between each pair of classes."""
    return _ratio(float(np.trace(pairs)), float(pairs.sum()))


def class_insensitive_homophily(
    graph: GraphLike, labels: ArrayLike | None = None, *, num_classes: int | None = None
) -> float:
    r"""Class-insensitive edge homophily.

    .. math:: \hat h = \frac{1}{C - 1} \sum_k \max\left(0,\; h_k - \frac{|C_k|}{n}\right),
        \qquad h_k = \frac{\sum_{v \in C_k} |\{u \in N_v : y_u = y_v\}|}{\sum_{v \in C_k} |N_v|}

    "Large Scale Learning on Non-Homophilous Graphs" (https://arxiv.org/abs/2110.14446). n counts
    labelled nodes, C the classes that occur; a class without edges contributes nothing. NaN for a
    single class.
    """
    given = labelled(graph, labels, num_classes)
    pairs = class_pair_counts(given.graph, given.labels, num_classes=given.num_classes)
    return class_insensitive_homophily_of(pairs, class_sizes(given.labels, given.num_classes))


def class_insensitive_homophily_of(pairs: NDArray[np.int64], nodes: NDArray[np.int64]) -> float:
    """Class-insensitive homophily from the edges between classes and the nodes of each class."""
    degrees = pairs.sum(axis=1)
    shares = np.divide(np.diag(pairs), degrees, out=np.zeros(len(pairs)), where=degrees > 0)
    excess = np.maximum(0, shares - nodes / nodes.sum())
    return _ratio(float(excess[degrees > 0].sum()), float(np.count_nonzero(nodes) - 1))


def adjusted_homophily(
    graph: GraphLike, labels: ArrayLike | None = None, *, num_classes: int | None = None
) -> float:
    r"""Adjusted homophily: edge homophily corrected for what chance would give.

    .. math:: h_{adj} = \frac{h_{edge} - \sum_k \bar p(k)^2}{1 - \sum_k \bar p(k)^2},
        \qquad \bar p(k) = \sum_{v : y_v = k} d(v) \,/\, 2|E|

    "Characterizing Graph Datasets for Node Classification" (https://arxiv.org/abs/2209.06177). On a
    directed graph :math:`\bar p(k)^2` is the product of the class shares among targets and among
    sources, which makes it the assortativity coefficient. NaN when all edges are in one class.
    """
    return adjusted_homophily_of(class_pair_counts(graph, labels, num_classes=num_classes))


def adjusted_homophily_of(pairs: NDArray[np.int64]) -> float:
    """Adjusted homophily from the number of edges between each pair of classes."""
    total = float(pairs.sum())
    if total == 0:
        return float("nan")
    by_chance = float((pairs.sum(axis=1) / total) @ (pairs.sum(axis=0) / total))
    return _ratio(float(np.trace(pairs)) / total - by_chance, 1 - by_chance)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
