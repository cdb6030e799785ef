"""Homophily of nodes and graphs, entropy of neighborhoods, and what neighbors' labels tell.

Self-loops are no neighbors and no edges here, whatever the graph stores, and edges with an
unlabeled end are left out. On a directed graph a node's neighbors are the sources of its incoming
edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ncgnn._numba import balanced_blocks, over_blocks
from ncgnn.errors import InputError
from ncgnn.metrics._kernels import count_pairs
from ncgnn.metrics.neighborhoods import Neighborhoods, is_closed, label_graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike
    from ncgnn.metrics.neighborhoods import LabelCounts, LabeledGraph, Neighborhood

_MOST_CLASSES = 10_000


def class_pair_counts(
    graph: GraphLike, labels: ArrayLike | None = None, *, num_classes: int | None = None
) -> NDArray[np.int64]:
    """Number of stored edges from each class to each class, [C, C]: row = target, column = source.

    Self-loops and edges with an unlabeled end are left out. Symmetric for undirected graphs, which
    store every edge twice.
    """
    return class_pairs(label_graph(graph, labels, num_classes))[0]


def class_sizes(labels: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    """Number of labeled nodes of each class."""
    return np.bincount(labels[labels >= 0], minlength=num_classes)


def class_pairs(given: LabeledGraph) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edges between each pair of classes, counted twice over.

    Returns:
        The number of stored edges, row = target; and the probability that a node, drawn uniformly
        among the labeled ones with a labeled neighbor, and one of its neighbors, drawn
        uniformly, have these classes.
    """
    indptr, indices = given.graph.indptr, given.graph.indices
    if given.num_classes > _MOST_CLASSES:
        raise InputError(
            f"num_classes must be at most {_MOST_CLASSES} for a table of all class pairs; "
            f"got {given.num_classes}."
        )
    # Every block has a table of its own; together they stay within a quarter of a gigabyte.
    most_blocks = max(1, min(64, (1 << 24) // given.num_classes**2))
    blocks = balanced_blocks(indptr, most_blocks=most_blocks)
    shape = (len(blocks) - 1, given.num_classes, given.num_classes)
    counts, shares = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    over_blocks(blocks, count_pairs, blocks, indptr, indices, given.classes, counts, shares)
    total = float(shares.sum())
    return counts.sum(axis=0), shares.sum(axis=0) / (total if total > 0 else 1.0)


def node_homophily(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "open",
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    r"""Node Homophily of every node: the share of neighbors that have its label.

    .. math:: NH_i = |\{j \in N_i : y_j = y_i\}| \,/\, |N_i|

    Eq. (1) of "Clarify Confused Nodes via Separated Learning", after "Geom-GCN: Geometric Graph
    Convolutional Networks" (https://arxiv.org/abs/2002.05287). The ``"closed"`` variant counts the
    node itself too; the means that the paper prints are of that variant. Arguments are those of
    :func:`ncgnn.neighborhood_confusion`, but unlabeled nodes are NaN whatever ``empty`` is.
    """
    given = label_graph(graph, labels, num_classes)
    counts = Neighborhoods(given.graph, hops).count(
        given.classes, given.num_classes, is_closed(neighborhood)
    )
    return node_homophily_of(counts, given, empty)


def node_homophily_of(
    counts: LabelCounts, given: LabeledGraph, empty: float = float("nan")
) -> NDArray[np.float64]:
    """Node Homophily from the counts of each node's own label."""
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
    labeled nodes, C the classes that occur; a class without edges contributes nothing. NaN for a
    single class.
    """
    given = label_graph(graph, labels, num_classes)
    pairs, _ = class_pairs(given)
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


def neighborhood_entropy(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "closed",
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    r"""Joint label entropy of every node's neighborhood, in bits.

    .. math:: H(y_i, Y_{N_i^k}) = -\sum_c p(c) \log_2 p(c), \qquad
        p(c) = \frac{|\{j \in N_i^k \cup \{i\} : y_j = c\}|}{|N_i^k \cup \{i\}|}

    Eq. (4) of "Clarify Confused Nodes via Separated Learning". It lies between 0 and
    :math:`\log_2 C`, and divided by :math:`\log_2 C` it is never below NC (the first proposition).
    Arguments are those of :func:`ncgnn.neighborhood_confusion`.
    """
    given = label_graph(graph, labels, num_classes)
    counts = Neighborhoods(given.graph, hops).count(
        given.classes, given.num_classes, is_closed(neighborhood), surprise=True, same=False
    )
    return entropy_of_counts(counts, empty)


def entropy_of_counts(counts: LabelCounts, empty: float = float("nan")) -> NDArray[np.float64]:
    """Entropy in bits: log2(size) - (sum of count · log2 count) / size."""
    size = np.maximum(counts.size, 1).astype(np.float64)
    # One class alone has entropy zero, which the difference of two logarithms may miss by rounding.
    entropy = np.where(counts.top == counts.size, 0.0, np.log2(size) - counts.surprise / size)
    return np.where(counts.size > 0, np.maximum(entropy, 0.0), empty)


def neighborhood_class_distribution(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "closed",
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    """Share of each class in every node's neighborhood, [n, C].

    Rows sum to one; rows of nodes without any labeled node in their neighborhood hold ``empty``.
    Arguments are those of :func:`ncgnn.neighborhood_confusion`.
    """
    given = label_graph(graph, labels, num_classes)
    counts = Neighborhoods(given.graph, hops).count(
        given.classes, given.num_classes, is_closed(neighborhood), matrix=True, same=False
    )
    shares = np.full(counts.matrix.shape, empty, dtype=np.float64)
    size = counts.size[:, None]
    return np.divide(counts.matrix, size, out=shares, where=size > 0)


def label_informativeness(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    kind: Literal["edge", "node"] = "edge",
    num_classes: int | None = None,
) -> float:
    r"""Label informativeness: how much a neighbor's label tells of a node's.

    .. math:: LI = I(y_\xi, y_\eta) \,/\, H(y_\xi)

    "Characterizing Graph Datasets for Node Classification" (https://arxiv.org/abs/2209.06177). With
    ``kind="edge"`` an edge :math:`(\xi, \eta)` is drawn uniformly. With ``kind="node"`` a node is
    drawn uniformly among the labeled ones and then one of its neighbors; as published, the label
    of :math:`\eta` is then compared with the class shares among the ends of edges, and
    :math:`H(y_\xi)` is that of all labeled nodes. On a directed graph :math:`\xi` is the target.

    Returns:
        0 when a neighbor tells nothing, 1 when its label decides; with ``kind="node"`` the
        published formula can go beyond 1 where few of the nodes have neighbors. NaN when there is
        nothing to tell (one class, or no edges).
    """
    if kind not in ("edge", "node"):
        raise InputError(f"kind must be 'edge' or 'node'; got '{kind}'.")
    given = label_graph(graph, labels, num_classes)
    pairs, shares = class_pairs(given)
    if kind == "edge":
        return edge_informativeness_of(pairs)
    return node_informativeness_of(pairs, shares, class_sizes(given.labels, given.num_classes))


def edge_informativeness_of(pairs: NDArray[np.int64]) -> float:
    """Edge label informativeness from the number of edges between each pair of classes."""
    total = float(pairs.sum()) or float("nan")
    return _informativeness(pairs / total, pairs.sum(axis=1) / total, pairs.sum(axis=0) / total)


def node_informativeness_of(
    pairs: NDArray[np.int64], shares: NDArray[np.float64], nodes: NDArray[np.int64]
) -> float:
    """Node label informativeness from what :func:`class_pairs` returns and the class sizes."""
    total = float(pairs.sum()) or float("nan")
    return _informativeness(shares, nodes / nodes.sum(), pairs.sum(axis=0) / total)


def _informativeness(
    joint: NDArray[np.float64], targets: NDArray[np.float64], sources: NDArray[np.float64]
) -> float:
    uncertainty = -_sum_p_log_q(targets, targets)
    if np.isnan(sources).any() or not uncertainty > 0:
        return float("nan")
    told = _sum_p_log_q(joint, joint) - _sum_p_log_q(joint, np.outer(targets, sources))
    return told / uncertainty


def _sum_p_log_q(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    present = p > 0
    return float(np.sum(p[present] * np.log2(q[present])))
