"""Opinions weighed together with label noise, against plain loops and planted noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ncgnn
from ncgnn.graph import Graph
from ncgnn.training.label_noise import (
    LEAST_SCORE,
    as_opinion,
    count_suspects,
    find_noise,
    label_counts,
    neighbor_opinion,
    weigh,
)


def made_up(count=3000, classes=5, share=0.08, neighboring=False, seed=0):
    """Two opinions on true classes, and labels of which a share is wrong: any, or the next one."""
    random = np.random.default_rng(seed)
    true = random.integers(0, classes, count)
    opinions = []
    for strength in (3.0, 1.0):
        scores = random.normal(size=(count, classes))
        scores[np.arange(count), true] += strength
        opinions.append(as_opinion(np.exp(scores) / np.exp(scores).sum(1, keepdims=True)))
    wrong = random.random(count) < share
    shift = 1 if neighboring else random.integers(1, classes, count)
    return opinions, np.where(wrong, (true + shift) % classes, true), wrong


def softmax(opinions, weights):
    total = sum(w * one for w, one in zip(weights, opinions, strict=True))
    return np.exp(total) / np.exp(total).sum(1, keepdims=True)


def test_scores_follow_from_probabilities_as_defined():
    opinions, labels, _ = made_up(200)
    found = weigh(opinions, labels)
    np.testing.assert_allclose(found.noise.sum(axis=1), 1)
    for node, label in enumerate(labels):
        sums = [
            math.exp(sum(w * o[node, c] for w, o in zip(found.weights, opinions, strict=True)))
            for c in range(5)
        ]
        shares = [one / sum(sums) for one in sums]
        np.testing.assert_allclose(found.probabilities[node], shares, rtol=1e-9)
        likely = sum(shares[c] * found.noise[c, label] for c in range(5))
        wrong = 1 - shares[label] * found.noise[label, label] / likely
        assert found.score[node] == pytest.approx(wrong, abs=1e-9)


def test_no_other_weights_are_likelier():
    opinions, labels, _ = made_up()
    found = weigh(opinions, labels)

    def loss(*weights):
        likely = (softmax(opinions, weights) * found.noise.T[labels]).sum(1)
        return -np.log(likely).mean() + 0.5 * sum(w * w for w in weights) / len(labels)

    first, second = found.weights
    best = loss(first, second)
    for step in (-0.05, 0.05):
        assert loss(first + step, second) > best
        assert loss(first, second + step) > best


def test_noise_is_what_the_surest_nodes_of_a_class_are_labeled():
    opinions, labels, _ = made_up(400)
    shares = softmax(opinions, (2, 1))
    counts = np.zeros((5, 5))
    for label in range(5):
        mine = [node for node in range(400) if max(shares[node]) == shares[node, label]]
        mine.sort(key=lambda node: -shares[node, label])
        for node in mine[: math.ceil(len(mine) / 4)]:
            counts[label, labels[node]] += 1
    wrong = counts - np.diag(np.diag(counts))
    usual = (wrong.sum() + 1) / (counts.sum() + 100)
    for label in range(5):
        share = (wrong[label].sum() + 50 * usual) / (counts[label].sum() + 50)
        spread = [wrong[label, c] + 5 / 4 if c != label else 0 for c in range(5)]
        wanted = [share * one / sum(spread) for one in spread]
        wanted[label] = 1 - share
        np.testing.assert_allclose(find_noise(shares, labels)[label], wanted)


@pytest.mark.parametrize("share", [0.02, 0.08, 0.2])
@pytest.mark.parametrize("neighboring", [False, True])
def test_wrong_labels_are_counted_and_scores_are_probabilities(share, neighboring):
    opinions, labels, wrong = made_up(6000, share=share, neighboring=neighboring)
    found = weigh(opinions, labels)
    assert found.score.sum() == pytest.approx(wrong.sum(), rel=0.15)
    for low, high in ((0.05, 0.5), (0.5, 0.95), (0.95, 1.0)):
        inside = (found.score >= low) & (found.score <= high)
        if inside.sum() >= 50:
            error = abs(wrong[inside].mean() - found.score[inside].mean())
            assert error < 0.1, (low, high)


def test_where_all_labels_are_right_hardly_any_is_called():
    opinions, labels, _ = made_up(share=0)
    assert count_suspects(weigh(opinions, labels).score) <= 0.005 * len(labels)


def test_an_opinion_that_knows_nothing_gets_no_weight():
    opinions, labels, _ = made_up()
    noise = as_opinion(np.random.default_rng(5).dirichlet(np.ones(5), len(labels)))
    found = weigh([*opinions, noise], labels)
    assert found.weights[2] < 0.05 < found.weights[1] < found.weights[0]


def test_certain_opinions_leave_weights_finite():
    labels = np.arange(40) % 2
    certain = as_opinion(np.eye(2)[labels])
    found = weigh([certain], labels)
    assert np.isfinite(found.weights).all()
    assert count_suspects(found.score) == 0


def test_as_many_are_called_as_make_the_expected_f1_highest():
    scores = np.array([0.1, 0.95, 0.3, 0.9, 0.02, 0.6, 0.0])
    total, ranked = scores.sum(), sorted(scores.tolist(), reverse=True)
    f1 = [2 * sum(ranked[: k + 1]) / (k + 1 + total) for k in range(len(ranked))]
    assert count_suspects(scores) == f1.index(max(f1)) + 1 == 3
    assert count_suspects(np.full(50, LEAST_SCORE / 2)) == 0
    assert count_suspects(np.zeros(0)) == 0


def slow_opinion(graph, fold, node):
    """The neighbors' opinion on one node, by loops over edges."""
    colors = 1 if graph.edge_directions is None else 3
    width = graph.num_classes * colors
    pairs = np.zeros((graph.num_classes, width))
    around = np.zeros(width)
    for target in range(graph.num_nodes):
        for place in range(graph.indptr[target], graph.indptr[target + 1]):
            source = graph.indices[place]
            if source == target or graph.labels[source] < 0:
                continue
            color = graph.labels[source]
            if graph.edge_directions is not None:
                color += graph.num_classes * (int(graph.edge_directions[place]) - 1)
            if target == node:
                around[color] += 1
            if fold[node] not in (fold[target], fold[source]) and graph.labels[target] >= 0:
                pairs[graph.labels[target], color] += 1
    usual = (pairs.sum(0) + 1) / (pairs.sum() + width)
    likely = (pairs + graph.num_classes * usual) / (pairs.sum(1, keepdims=True) + graph.num_classes)
    size = max(around.sum(), 1)
    return np.log(likely) @ around * math.sqrt(min(size, 10)) / size


@pytest.mark.parametrize("directed", [False, True])
def test_what_neighbors_say_equals_plain_loops(directed):
    random = np.random.default_rng(3)
    edges = random.integers(0, 40, (2, 200))
    labels = random.integers(-1, 3, 40)
    both = np.concatenate([edges, edges[::-1]], axis=1)
    bits = np.repeat([1, 2], 200) if directed else None
    graph = Graph.from_edge_index(both, labels=labels, edge_directions=bits)
    fold = np.where(labels >= 0, np.arange(40) % 4, -1)
    found = neighbor_opinion(graph, fold)
    for node in np.flatnonzero(fold >= 0):
        np.testing.assert_allclose(found[node], slow_opinion(graph, fold, node), atol=1e-9)
    assert not found[fold < 0].any()


def test_a_label_has_no_part_in_its_own_row():
    graph = ncgnn.load("digits")
    fold = np.arange(graph.num_nodes) % 5
    before = neighbor_opinion(graph, fold)
    labels = graph.labels.copy()
    labels[7] = (labels[7] + 1) % 10
    after = neighbor_opinion(graph.with_labels(labels), fold)
    np.testing.assert_array_equal(before[7], after[7])
    assert not np.array_equal(before, after)


def test_neighbors_are_counted_by_their_labels():
    edges = np.array([[1, 2, 3, 0, 4], [0, 0, 0, 0, 1]])
    graph = Graph.from_edge_index(edges, labels=[0, 1, 1, 2, -1], num_nodes=5)
    assert label_counts(graph).toarray()[:2].tolist() == [[0, 2, 1], [0, 0, 0]]
