"""Majority, logistic regression and label propagation against what they are defined as."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_graphs import CLASSES, drawn_graph
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs
from ncgnn.nn.baselines.fitted import Logistic, Majority, Propagation


def fitted(model, inputs, train, labels):
    model.to(inputs.dtype).eval()
    model.begin_phase(0, inputs, torch.as_tensor(train), torch.as_tensor(labels[train]))
    return model


def test_majority_answers_with_the_shares_of_training_nodes():
    drawn = drawn_graph(1)
    train = np.array([0, 2, 4, 5, 9])
    model = fitted(Majority(16, CLASSES), drawn.inputs(), train, drawn.labels)
    counts = np.bincount(drawn.labels[train], minlength=CLASSES) + 1
    expected = np.tile(counts / counts.sum(), (13, 1))
    np.testing.assert_allclose(torch.softmax(model(drawn.inputs()), 1), expected)


def regression_task(sparse, classes=4, nodes=200, width=30):
    draw = np.random.default_rng(3)
    X = draw.normal(size=(nodes, width)) * (draw.random((nodes, width)) < (0.1 if sparse else 1))
    X[:, 0] *= 20  # columns of very different scales
    labels = (X @ draw.normal(size=(width, classes)) + draw.gumbel(size=(nodes, classes))).argmax(1)
    X[:120, -1] = 0  # no training node has it
    ring = [list(range(nodes)), [*range(1, nodes), 0]]
    features = csr_array(X) if sparse else X
    graph = Graph.from_edge_index(ring, features=features, labels=labels)
    return GraphInputs(graph, dtype=torch.float64), X, labels


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("penalty", [0.1, 5.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_logistic_regression_is_that_of_scikit_learn(sparse, penalty, classes):
    inputs, X, labels = regression_task(sparse, classes)
    assert isinstance(inputs.features, torch.Tensor) != sparse
    train = np.arange(120)
    options = {"penalty": penalty, "iterations": 2000, "tolerance": 1e-15}
    model = fitted(Logistic(30, classes, **options), inputs, train, labels)
    # The minimum for two classes with a column of weights each is that of one with half the square.
    strength = (2 if classes == 2 else 1) / penalty
    theirs = LogisticRegression(C=strength, tol=1e-9, max_iter=10_000)
    theirs.fit(X[train], labels[train])
    expected = theirs.predict_proba(X)
    np.testing.assert_allclose(torch.softmax(model(inputs), 1).detach(), expected, atol=1e-4)
    assert not model.weight[-1].any()


def test_the_default_tolerance_comes_close_to_the_minimum():
    inputs, _, labels = regression_task(sparse=True)
    one, other = (
        fitted(Logistic(30, 4, **options), inputs, np.arange(120), labels)
        for options in ({}, {"iterations": 2000, "tolerance": 1e-15})
    )
    gap = torch.softmax(one(inputs), 1) - torch.softmax(other(inputs), 1)
    assert 0 < gap.abs().max() < 0.05


@pytest.mark.parametrize("weighted", [True, False])
def test_propagation_is_its_formula(weighted):
    drawn = drawn_graph(5, weighted=weighted, density=0.15)
    known = np.where(np.arange(13) % 3 == 0, drawn.labels, -1)
    inputs = drawn.inputs().knowing(torch.from_numpy(known))
    train = np.flatnonzero(known >= 0)
    model = fitted(Propagation(16, CLASSES, alpha=0.6, steps=4), inputs, train, drawn.labels)
    A = torch.maximum(drawn.A, drawn.A.t())
    root = A.sum(1).clamp_min(1e-300).rsqrt()
    S = root[:, None] * A * root
    Y = torch.zeros(13, CLASSES, dtype=torch.float64)
    Y[train, drawn.labels[train]] = 1
    F = Y
    for _ in range(4):
        F = 0.6 * S @ F + 0.4 * Y
    total = F.sum(1, keepdim=True)
    counts = np.bincount(drawn.labels[train], minlength=CLASSES) + 1
    shares = torch.from_numpy(counts / counts.sum())
    expected = 0.99 * torch.where(total > 0, F / total, shares) + 0.01 * shares
    found = model(inputs).exp()
    torch.testing.assert_close(found, expected)
    alone = 11  # without edges and label
    assert known[alone] < 0
    torch.testing.assert_close(found[alone], shares)


def test_labels_that_are_not_known_are_not_propagated():
    drawn = drawn_graph(5, density=0.3)
    inputs = drawn.inputs().knowing(torch.full((13,), -1))
    model = Propagation(16, CLASSES).double().eval()
    torch.testing.assert_close(model(inputs).exp(), torch.full((13, 3), 1 / 3).double())
