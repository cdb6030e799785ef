r"""Which labels are wrong: opinions on the classes of nodes, weighed together with label noise.

An opinion is a number :math:`o_{mc}(i)` for every node i and class c, a logarithm of a probability
up to a constant, that was formed without the label of i. Together opinions say

.. math:: p_c(i) ∝ \exp \sum_m w_m \, o_{mc}(i), \qquad w_m ≥ 0

and a node of class c is labeled y with probability :math:`T_{cy}`, so that

.. math:: P(y \mid i) = \sum_c p_c(i) \, T_{cy}

Models that were trained on wrong labels expect them, so that T cannot be told from hard nodes by
likelihood alone. It is read off the surest nodes of every class instead, as Patrini et al. do with
the single surest one (https://arxiv.org/abs/1609.03683): whoever is sure to be of class c and is
labeled y shows how often that happens. The weights are then those of the highest likelihood, and
the score of a label is the probability that it is wrong:

.. math:: 1 - p_y(i) \, T_{yy} \, / \, P(y \mid i)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph import Graph

#: The share of the nodes of a class that are its surest.
SUREST = 0.25
#: The share of wrong labels is never thought smaller: a few are wrong everywhere.
SMALLEST_SHARE = 0.002
#: A label that is suspected has at least this probability to be wrong.
LEAST_SCORE = 0.25
#: More neighbors than these are no stronger an opinion.
MOST_EVIDENCE = 10
# Probabilities below it are no stronger an opinion.
_TINY = 1e-6
# A penalty that keeps weights finite where opinions leave no doubt; it is shared by all nodes.
_RIDGE = 0.5
# A class is thought to have as many wrong labels as all until so many surest nodes say otherwise.
_DOUBT = 50
# Before any node is looked at, one label of so many is thought to be wrong.
_BEFORE = 100
# Weights, then the surest nodes, then weights, as often as this.
_ROUNDS = 2


class Weighed(NamedTuple):
    """What opinions say together.

    Attributes:
        probabilities: Of every class [n, classes].
        score: The probability that the label of a node is wrong [n].
        weights: How much each opinion counts.
        noise: How often a node of a class is labeled as which [classes, classes].
    """

    probabilities: NDArray[np.float64]
    score: NDArray[np.float64]
    weights: tuple[float, ...]
    noise: NDArray[np.float64]


def as_opinion(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of classes as an opinion."""
    return np.log(np.maximum(probabilities, _TINY))


def weigh(opinions: Sequence[NDArray[np.float64]], labels: NDArray[np.int64]) -> Weighed:
    """Weigh opinions [n, classes] on nodes that all have a label."""
    classes, rows = opinions[0].shape[1], np.arange(len(labels))
    noise = _make_noise(np.full(classes, 1 / _BEFORE), np.ones((classes, classes)))
    weights = find_weights(opinions, labels, noise)
    for _ in range(_ROUNDS):
        noise = find_noise(_combine(opinions, weights), labels)
        weights = find_weights(opinions, labels, noise)
    found = _combine(opinions, weights)
    right = found[rows, labels] * noise[labels, labels]
    likely = np.einsum("ij,ij->i", found, noise.T[labels])
    score = np.clip(1 - right / likely, 0, 1)
    return Weighed(found, score, tuple(weights.tolist()), noise)


def find_weights(
    opinions: Sequence[NDArray[np.float64]],
    labels: NDArray[np.int64],
    noise: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The weights with which labels are likeliest."""
    from scipy.optimize import minimize

    ridge, labeled_so = _RIDGE / len(labels), noise.T[labels]

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The mean of -log P(y | i), with its gradient."""
        found = _combine(opinions, weights)
        likely = np.einsum("ij,ij->i", found, labeled_so)
        by_logit = found * (labeled_so / likely[:, None] - 1)
        slopes = np.array([-np.vdot(by_logit, one) / len(labels) for one in opinions])
        value = -np.log(likely).mean() + ridge * float(weights @ weights)
        return value, slopes + 2 * ridge * weights

    start = np.full(len(opinions), 1 / len(opinions))
    bounds = [(0.0, None)] * len(opinions)
    found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x


def find_noise(
    probabilities: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """How the surest nodes of every class are labeled [classes, classes].

    Classes with few nodes are thought to have as many wrong labels as all together, and those
    among all other classes alike, until their own nodes say otherwise.
    """
    classes = probabilities.shape[1]
    likeliest = probabilities.argmax(axis=1)
    counts = np.zeros((classes, classes))
    for label in range(classes):
        nodes = np.flatnonzero(likeliest == label)
        order = np.argsort(-probabilities[nodes, label], kind="stable")
        surest = nodes[order[: int(np.ceil(SUREST * len(nodes)))]]
        counts[label] = np.bincount(labels[surest], minlength=classes)
    size = counts.sum(axis=1)
    np.fill_diagonal(counts, 0)
    wrong = counts.sum(axis=1)
    usual = max((wrong.sum() + 1) / (size.sum() + _BEFORE), SMALLEST_SHARE)
    return _make_noise((wrong + _DOUBT * usual) / (size + _DOUBT), counts + classes / (classes - 1))


def _make_noise(share: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix with wrong labels of some share per class, spread like the given numbers."""
    spread = others.copy()
    np.fill_diagonal(spread, 0)
    noise = spread / spread.sum(axis=1, keepdims=True) * share[:, None]
    np.fill_diagonal(noise, 1 - share)
    return noise


def _combine(
    opinions: Sequence[NDArray[np.float64]], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Softmax of the weighted sum."""
    total = sum(weight * one for weight, one in zip(weights, opinions, strict=True))
    total = np.asarray(total) - np.max(total, axis=1, keepdims=True)
    np.exp(total, out=total)
    return total / total.sum(axis=1, keepdims=True)


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

    .. math:: o_c = \frac{\sqrt{\min(m, 10)}}{m} \sum_j \log P(y_j \mid c)

    where P is how often a neighbor of a node of class c has that label, neighbors that a node
    points to, those that point to it and those that do both being told apart where it is known. So
    a class that lives among another one is no surprise there. Neighbors are not independent, for
    which the factor makes up: many of them are hardly more evidence than ten, and what everybody
    uses is not like its users. P is counted for every fold without any edge of a node in it: a
    node's own label has no part in its row.

    Args:
        graph: The graph with all labels.
        fold: Fold per node; nodes in none, -1, are neighbors only.
    """
    classes, (nodes, others, colors) = graph.num_classes, _colored_edges(graph)
    around = _count_colors(graph, nodes, colors)
    size = np.maximum(np.asarray(around.sum(axis=1)).reshape(-1, 1), 1)
    factor = np.sqrt(np.minimum(size, MOST_EVIDENCE)) / size
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
        opinion[held] = factor[held] * (around[held] @ np.log(likely).T)
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
