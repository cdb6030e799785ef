"""What other papers measure in place of homophily: two steps away, after aggregation, by walks.

These are the metrics that "Clarify Confused Nodes via Separated Learning" names beside its own. All
of them are computed in time that grows with the edges, and none needs a matrix of all pairs of
nodes. Self-loops are no neighbors here, unlabeled nodes are left out of all counts, and on a
directed graph a node's neighbors are the sources of its incoming edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._numba import balanced_blocks, compiled, over_blocks
from ncgnn.errors import InputError
from ncgnn.metrics.homophily import class_pairs, class_sizes
from ncgnn.metrics.neighborhoods import Neighborhoods, label_graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.metrics.neighborhoods import LabeledGraph

#: Steps of a walk that are told apart; see :func:`local_assortativity`.
_STEPS = 100
_MOST_STEPS = 10_000
_LITTLE = 1e-12
#: Two similarities that differ by less, in relation to their size, are equal: sums are rounded.
_EQUAL = 1e-9


def two_hop_similarity(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    r"""2-hop neighbor class similarity of every node: how many two steps away have its label.

    .. math:: 2NCS_i = \frac{\sum_{j \in N_i} |\{l \in N_j \setminus \{i\} : y_l = y_i\}|}
        {\sum_{j \in N_i} |N_j \setminus \{i\}|}

    After "2-hop Neighbor Class Similarity (2NCS): A graph structural metric indicative of graph
    neural network performance" (https://arxiv.org/abs/2212.13202), which derives it from two steps
    of label propagation: so a node that is reached in several ways counts as often, and a walk that
    returns does not count. The share of *distinct* nodes within two steps is
    ``node_homophily(graph, hops=2)``. On a bipartite graph with two classes it is 1 where node
    homophily is 0.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: Class per node; by default the graph's own.
        num_classes: Number of classes; by default the graph's.
        empty: Value of a node with nobody labeled two steps away; an unlabeled node is NaN.
    """
    given = label_graph(graph, labels, num_classes)
    return two_hop_similarity_of(given, empty)


def two_hop_similarity_of(given: LabeledGraph, empty: float = float("nan")) -> NDArray[np.float64]:
    """2NCS from a graph with checked labels."""
    counts = Neighborhoods(given.graph).count(
        given.classes, given.num_classes, closed=False, matrix=True, same=False
    )
    shares = np.full(given.graph.num_nodes, empty)
    rows = given.graph.indptr, given.graph.indices
    returning = _mutual(given.graph)
    over_blocks(
        balanced_blocks(given.graph.indptr),
        _share_two_steps_away,
        *(*rows, given.labels, counts.size, counts.matrix, returning, shares),
    )
    shares[given.labels < 0] = np.nan
    return shares


@compiled
def _share_two_steps_away(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    labels: NDArray[np.int64],
    size: NDArray[np.int32],
    counts: NDArray[np.int32],
    returning: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> None:
    """Fill in the share of every labeled node that has one."""
    for i in range(first_row, end_row):
        own = labels[i]
        if own < 0:
            continue
        same, total = -returning[i], -returning[i]
        for j in indices[indptr[i] : indptr[i + 1]]:
            if j != i:
                same += counts[j, own]
                total += size[j]
        if total > 0:
            shares[i] = same / total


def _mutual(graph: Graph) -> NDArray[np.int64]:
    """How many of each node's neighbors have it as a neighbor in turn."""
    if not graph.is_directed:
        return graph.degrees - graph.self_loops
    adjacency = graph.to_scipy("targets")
    both = adjacency.multiply(adjacency.T)
    mutual = np.asarray(both.astype(bool).sum(axis=1), dtype=np.int64).ravel()
    return mutual - graph.self_loops


def aggregation_similarity(
    graph: GraphLike, labels: ArrayLike | None = None, *, num_classes: int | None = None
) -> float:
    r"""Aggregation similarity: the share of nodes that aggregation leaves nearest to their class.

    .. math:: S_{agg} = \frac{1}{n} \left|\left\{i :
        \operatorname{mean}_{y_j = y_i} S_{ij} \ge \operatorname{mean}_{y_j \ne y_i} S_{ij}
        \right\}\right|, \qquad S = (\hat A Z)(\hat A Z)^\top

    with Z the labels as rows of zeros and a one, and :math:`\hat A` the mean over a node and its
    neighbors. "Revisiting Heterophily for Graph Neural Networks"
    (https://arxiv.org/abs/2210.07606), whose aggregation homophily is
    :math:`\max(0, 2 S_{agg} - 1)`. S is never formed: with :math:`h_i` the rows of
    :math:`\hat A Z` and :math:`m_c = \sum_{y_j = c} h_j` the two means are

    .. math:: \frac{h_i^\top m_{y_i}}{n_{y_i}}, \qquad
        \frac{h_i^\top \sum_{c \ne y_i} m_c}{n - n_{y_i}}

    which takes the sums of the classes alone. Equal means count as nearer, also where rounding
    tells them apart. Arguments are those of :func:`two_hop_similarity`; NaN for a single class.
    """
    return aggregation_similarity_of(label_graph(graph, labels, num_classes))


def aggregation_similarity_of(given: LabeledGraph) -> float:
    """Aggregation similarity from a graph with checked labels."""
    nodes = class_sizes(given.labels, given.num_classes)
    if np.count_nonzero(nodes) < 2:
        return float("nan")
    counts = Neighborhoods(given.graph).count(
        given.classes, given.num_classes, matrix=True, same=False
    )
    labeled = given.labels >= 0
    labels = given.labels[labeled]
    # An unlabeled node is in no class, and a labeled one counts itself: no size is zero.
    hidden = counts.matrix[labeled] / counts.size[labeled][:, None]
    sums = np.zeros((given.num_classes, given.num_classes))
    np.add.at(sums, labels, hidden)
    by_class = hidden @ sums.T
    own = by_class[np.arange(len(labels)), labels]
    nearer = own / nodes[labels]
    farther = (by_class.sum(axis=1) - own) / (len(labels) - nodes[labels])
    return float(np.mean(nearer >= farther * (1 - _EQUAL)))


def density_aware_homophily(
    graph: GraphLike, labels: ArrayLike | None = None, *, num_classes: int | None = None
) -> float:
    r"""Density-aware homophily: how much denser classes are than what lies between them.

    .. math:: h_{den} = \frac{1}{2} + \frac{1}{2} \min_k \left(d_{kk} - \max_{l \ne k}
        d_{kl}\right), \qquad d_{kl} = \frac{|\{(i, j) \in E : y_i = k,\; y_j = l\}|}{n_k n_l}

    "Restructuring Graph for Higher Homophily via Adaptive Spectral Clustering"
    (https://arxiv.org/abs/2206.02386), with densities as its authors' code counts them: E holds
    both directions of an undirected edge, and :math:`n_k^2` pairs are in class k. The worst class
    decides. Of sparse graphs it is all but 1/2: the densities of real graphs are below a hundredth.
    On a directed graph :math:`d_{kl}` between two classes is the larger of both directions.

    Arguments are those of :func:`two_hop_similarity`. Classes without nodes play no part; NaN for a
    single class.
    """
    given = label_graph(graph, labels, num_classes)
    pairs, _ = class_pairs(given)
    return density_aware_homophily_of(pairs, class_sizes(given.labels, given.num_classes))


def density_aware_homophily_of(pairs: NDArray[np.int64], nodes: NDArray[np.int64]) -> float:
    """Density-aware homophily from the edges between classes and the nodes of each class."""
    there = nodes > 0
    if np.count_nonzero(there) < 2:
        return float("nan")
    sizes = nodes[there].astype(np.float64)
    density = pairs[np.ix_(there, there)] / np.outer(sizes, sizes)
    within, between = np.diag(density).copy(), np.maximum(density, density.T)
    np.fill_diagonal(between, -np.inf)
    return 0.5 + 0.5 * float(np.min(within - between.max(axis=1)))


def local_assortativity(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    r"""Local assortativity of every node: how alike the ends of edges around it are.

    .. math:: r_i = \frac{\sum_j w_{ij}\, NH_j - \sum_k a_k b_k}{1 - \sum_k a_k b_k}

    with :math:`w_i` where a random walk from node i that starts again with probability 1 - α is
    found, :math:`NH_j` node homophily, and :math:`a_k b_k` what chance would give, as in
    :func:`ncgnn.adjusted_homophily`, which it becomes for α near 1. "Multiscale mixing patterns in
    networks" (https://doi.org/10.1073/pnas.1713019115). Without ``alpha`` it is the multiscale
    variant, the mean over all α.

    No walk of a single node is followed: :math:`\sum_j w_{ij} NH_j` is
    :math:`(1 - α) \sum_t α^t (W^t NH)_i` with W the mean over neighbors, and the mean over α has
    the weights 1 / ((t + 1)(t + 2)). After a hundred steps the mean of the last two stands for all
    that follow.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: Class per node; by default the graph's own. Edges with an unlabeled end are walked
            on, but compare nothing.
        alpha: Probability of a further step, from 0 to below 1; None for the mean over all.
        num_classes: Number of classes; by default the graph's.
        empty: Value of a node from which no labeled edge is reached.

    Returns:
        1 where all edges around join equal labels, 0 where they do so by chance; NaN everywhere if
        chance joins equal labels alone.
    """
    if alpha is not None and not 0 <= alpha < 1:
        raise InputError(
            f"alpha must be from 0 to below 1; got {alpha}; leave it out for the mean over all."
        )
    return local_assortativity_of(label_graph(graph, labels, num_classes), alpha, empty)


def local_assortativity_of(
    given: LabeledGraph,
    alpha: float | None = None,
    empty: float = float("nan"),
    pairs: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Local assortativity from a graph with checked labels, and its class pairs if known."""
    counts = Neighborhoods(given.graph).count(given.classes, given.num_classes, closed=False)
    degrees = np.maximum(given.graph.degrees - given.graph.self_loops, 1)
    labeled = given.labels >= 0
    # Of each labeled node the shares of neighbors with its label, and with any.
    ends = np.where(labeled, np.stack([counts.same, counts.size]), 0).T / degrees[:, None]
    same, known = _average_over_walks(given.graph, ends, alpha).T
    pairs = class_pairs(given)[0] if pairs is None else pairs
    total = max(float(pairs.sum()), 1.0)
    chance = float((pairs.sum(axis=1) / total) @ (pairs.sum(axis=0) / total))
    found = np.full(given.graph.num_nodes, np.nan if chance == 1 else empty)
    if chance < 1:
        share = np.divide(same, known, out=np.zeros_like(same), where=known > 0)
        np.divide(share - chance, 1 - chance, out=found, where=known > 0)
    return found


def _average_over_walks(
    graph: Graph, values: NDArray[np.float64], alpha: float | None
) -> NDArray[np.float64]:
    """What walks from each node see of values [n, m] on average."""
    from scipy.sparse import csr_array

    ones, loops = np.ones(graph.num_entries), graph.self_loops[:, None]
    size = (graph.num_nodes, graph.num_nodes)
    adjacency: Any = csr_array((ones, graph.indices, graph.indptr), shape=size)
    degrees = np.maximum(graph.degrees - graph.self_loops, 1)[:, None]
    if alpha is None:
        weights = [1 / ((t + 1) * (t + 2)) for t in range(_STEPS)]
    else:
        # As many steps as it takes until the rest is below rounding.
        steps = 1 if alpha == 0 else int(np.ceil(np.log(_LITTLE) / np.log(alpha)))
        weights = [(1 - alpha) * alpha**t for t in range(min(steps, _MOST_STEPS))]
    reached, total, before, left = values, np.zeros_like(values), values, 1.0
    for weight in weights:
        total, left = total + weight * reached, left - weight
        before, reached = reached, (adjacency @ reached - loops * reached) / degrees
        if np.abs(reached - before).max(initial=0.0) < _LITTLE:
            break
    # The mean of two steps: between two sides of a graph walks go to and fro for ever.
    return total + left * (before + reached) / 2
