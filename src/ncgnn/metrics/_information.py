"""Entropy of neighbourhoods and the information that a neighbour's label carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ncgnn.errors import InputError
from ncgnn.metrics._class_pairs import class_pairs, class_sizes
from ncgnn.metrics._inputs import labelled
from ncgnn.metrics._neighborhoods import Neighborhoods

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike
    from ncgnn.metrics._neighborhoods import LabelCounts, Neighborhood


def neighborhood_entropy(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "closed",
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    r"""Joint label entropy of every node's neighbourhood, in bits.

    .. math:: H(y_i, Y_{N_i^k}) = -\sum_c p(c) \log_2 p(c), \qquad
        p(c) = \frac{|\{j \in N_i^k \cup \{i\} : y_j = c\}|}{|N_i^k \cup \{i\}|}

    Eq. (4) of "Clarify Confused Nodes via Separated Learning". It lies between 0 and
    :math:`\log_2 C`, and divided by :math:`\log_2 C` it is never below NC (the first proposition).

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions, -1 = unlabelled; by default the graph's own.
        hops: The hop count k.
        neighborhood: ``"closed"`` as above, or ``"open"``: without the node itself.
        num_classes: Number of classes; by default the graph's.
        empty: Value of nodes without any labelled node in their neighbourhood.
    """
    given = labelled(graph, labels, num_classes)
    counts = Neighborhoods(given.graph, hops).count(
        given.classes, given.num_classes, neighborhood, surprise=True, same=False
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
    """Share of each class in every node's neighbourhood, [n, C].

    Rows sum to one; rows of nodes without any labelled node in their neighbourhood hold ``empty``.
    Arguments are those of :func:`neighborhood_entropy`.
    """
    given = labelled(graph, labels, num_classes)
    counts = Neighborhoods(given.graph, hops).count(
        given.classes, given.num_classes, neighborhood, matrix=True, same=False
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
    r"""Label informativeness: how much a neighbour's label tells of a node's.

    .. math:: LI = I(y_\xi, y_\eta) \,/\, H(y_\xi)

    "Characterizing Graph Datasets for Node Classification" (https://arxiv.org/abs/2209.06177). With
    ``kind="edge"`` an edge :math:`(\xi, \eta)` is drawn uniformly. With ``kind="node"`` a node is
    drawn uniformly among the labelled ones and then one of its neighbours; as published, the label
    of :math:`\eta` is then compared with the class shares among the ends of edges, and
    :math:`H(y_\xi)` is that of all labelled nodes. On a directed graph :math:`\xi` is the target.

    Returns:
        0 when a neighbour tells nothing, 1 when its label decides; with ``kind="node"`` the
        published formula can go beyond 1 where few of the nodes have neighbours. NaN when there is
        nothing to tell (one class, or no edges).
    """
    if kind not in ("edge", "node"):
        raise InputError(f"kind is '{kind}'; choose 'edge' or 'node'.")
    given = labelled(graph, labels, num_classes)
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
