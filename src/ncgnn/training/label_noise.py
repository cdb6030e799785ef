r"""Which labels are wrong: opinions on the classes of nodes, weighed together with label noise.

An opinion is a number :math:`o_{mc}(i)` for every node i and class c, a logarithm of a probability
up to a constant, that was formed without the label of i. Together opinions say

.. math:: p_c(i) ∝ \exp \sum_m w_m \, o_{mc}(i), \qquad w_m ≥ 0

and a label y is that class with probability 1 - ε, and otherwise any other of the C classes:

.. math:: P(y \mid i) = (1 - ε) \, p_y(i) + ε \, \frac{1 - p_y(i)}{C - 1}

Weights and ε are those of the highest likelihood of all labels, so that nobody has to say how many
labels are wrong or whom to believe. The score of a label is the share of the second term: the
probability that it is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph import Graph

#: Bounds of the share of wrong labels: a few are wrong everywhere.
SMALLEST_SHARE, LARGEST_SHARE = 0.002, 0.5
#: A label that is suspected has at least this probability to be wrong.
LEAST_SCORE = 0.25
# Probabilities below it are no stronger an opinion.
_TINY = 1e-6
# A penalty that keeps weights finite where opinions leave no doubt; it is shared by all nodes.
_RIDGE = 0.5


class Weighed(NamedTuple):
    """What opinions say together.

    Attributes:
        probabilities: Of every class [n, classes].
        score: The probability that the label of a node is wrong [n].
        weights: How much each opinion counts.
        share: The share ε of labels that are wrong, as estimated.
    """

    probabilities: NDArray[np.float64]
    score: NDArray[np.float64]
    weights: tuple[float, ...]
    share: float


def as_opinion(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of classes as an opinion."""
    return np.log(np.maximum(probabilities, _TINY))


def weigh(opinions: Sequence[NDArray[np.float64]], labels: NDArray[np.int64]) -> Weighed:
    """Weigh opinions [n, classes] on nodes that all have a label."""
    from scipy.optimize import minimize

    classes = opinions[0].shape[1]
    rows, ridge = np.arange(len(labels)), _RIDGE / len(labels)

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The mean of -log P(y | i) with its gradient by the weights and the logit of ε."""
        weights, share = values[:-1], _sigmoid(values[-1])
        found = _combine(opinions, weights)
        own = found[rows, labels]
        likely = (1 - share) * own + share * (1 - own) / (classes - 1)
        by_own = (1 - share - share / (classes - 1)) / likely
        by_share = ((1 - own) / (classes - 1) - own) / likely
        by_logit = -found * (by_own * own)[:, None]
        by_logit[rows, labels] += by_own * own
        slopes = [-np.vdot(by_logit, one) / len(rows) for one in opinions]
        slope = -by_share.mean() * share * (1 - share)
        gradient = np.append(slopes + 2 * ridge * weights, slope)
        return -np.log(likely).mean() + ridge * float(weights @ weights), gradient

    bounds = [(0.0, None)] * len(opinions) + [(_logit(SMALLEST_SHARE), _logit(LARGEST_SHARE))]
    # The likelihood may have two peaks: few wrong labels, or opinions that know little.
    starts = [np.append(np.full(len(opinions), 1 / len(opinions)), _logit(s)) for s in (0.02, 0.1)]
    tries: list[Any] = [
        minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts
    ]
    best = min(tries, key=lambda one: one.fun).x
    weights, share = best[:-1], float(_sigmoid(best[-1]))
    found = _combine(opinions, weights)
    own = found[rows, labels]
    wrong = share * (1 - own) / (classes - 1)
    return Weighed(found, wrong / (wrong + (1 - share) * own), tuple(weights.tolist()), share)


def _combine(
    opinions: Sequence[NDArray[np.float64]], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Softmax of the weighted sum."""
    total = sum(weight * one for weight, one in zip(weights, opinions, strict=True))
    total = np.asarray(total) - np.max(total, axis=1, keepdims=True)
    np.exp(total, out=total)
    return total / total.sum(axis=1, keepdims=True)


def _sigmoid(value: float) -> float:
    return 1 / (1 + np.exp(-value))


def _logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def count_suspects(scores: NDArray[np.float64]) -> int:
    """How many of the highest scores to call suspects.

    As many as make the expected F1 the highest: with k called, Σ of their scores are expected to be
    wrong, of Σ of all. None with a score below :data:`LEAST_SCORE` is called.
    """
    ranked = -np.sort(-scores)
    if not len(ranked) or ranked[0] < LEAST_SCORE:
        return 0
    expected = 2 * np.cumsum(ranked) / (np.arange(1, len(ranked) + 1) + ranked.sum())
    return min(int(expected.argmax()) + 1, int((ranked >= LEAST_SCORE).sum()))


def neighbor_opinion(graph: Graph, fold: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""What the labels around every node say of it [n, classes].

    Of a node with m labeled neighbors,

    .. math:: o_c = \frac{1}{\sqrt m} \sum_j \log P(y_j \mid c)

    where P is how often a neighbor of a node of class c has that label, neighbors that a node
    points to, those that point to it and those that do both being told apart where it is known. So
    a class that lives among another one is no surprise there. Neighbors are not independent, for
    which the root makes up. P is counted for every fold without any edge of a node in it: a node's
    own label has no part in its row.

    Args:
        graph: The graph with all labels.
        fold: Fold per node; nodes in none, -1, are neighbors only.
    """
    classes, (nodes, others, colors) = graph.num_classes, _colored_edges(graph)
    around = _count_colors(graph, nodes, colors)
    size = np.maximum(np.asarray(around.sum(axis=1)).reshape(-1, 1), 1)
    opinion = np.zeros((graph.num_nodes, classes))
    labeled = graph.labels[nodes] >= 0
    for number in range(int(fold.max()) + 1):
        seen = labeled & (fold[nodes] != number) & (fold[others] != number)
        pair = graph.labels[nodes[seen]] * around.shape[1] + colors[seen]
        pairs = np.bincount(pair, minlength=classes * around.shape[1])
        pairs = pairs.reshape(classes, around.shape[1]).astype(np.float64)
        usual = (pairs.sum(axis=0) + 1) / (pairs.sum() + around.shape[1])
        # Classes with few edges are thought to have neighbors like everybody's.
        likely = (pairs + classes * usual) / (pairs.sum(axis=1, keepdims=True) + classes)
        held = fold == number
        opinion[held] = (around[held] @ np.log(likely).T) / np.sqrt(size[held])
    return opinion


def label_counts(graph: Graph) -> csr_array[Any]:
    """How many neighbors of every node are of which class [n, classes], sparse."""
    nodes, others, _ = _colored_edges(graph)
    return _count_colors(graph, nodes, graph.labels[others], graph.num_classes)


def _colored_edges(graph: Graph) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Nodes, their labeled neighbors, and the neighbors' labels told apart by direction."""
    nodes = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    kept = (graph.indices != nodes) & (graph.labels[graph.indices] >= 0)
    others = graph.indices[kept]
    colors = graph.labels[others]
    if graph.edge_directions is not None:
        colors = colors + graph.num_classes * (graph.edge_directions[kept].astype(np.int64) - 1)
    return nodes[kept], others, colors


def _count_colors(
    graph: Graph, nodes: NDArray[np.int64], colors: NDArray[np.int64], width: int | None = None
) -> csr_array[Any]:
    from scipy.sparse import coo_array

    if width is None:
        width = graph.num_classes * (1 if graph.edge_directions is None else 3)
    ones = np.ones(len(nodes))
    return coo_array((ones, (nodes, colors)), shape=(graph.num_nodes, width)).tocsr()
