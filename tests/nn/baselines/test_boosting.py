"""Boosted trees against scikit-learn's, and the columns that they look at."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_graphs import CLASSES, drawn_graph
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier

import ncgnn
from ncgnn.nn import GraphInputs
from ncgnn.nn.baselines.boosting import Boosting, _hold_out

ROUNDS = 12


def task(dtype=torch.float32, classes=3, seed=0):
    graph = ncgnn.generate(400, 900, classes=classes, features=5, seed=seed)
    train = torch.arange(0, 400, 2)
    known = torch.full((400,), -1)
    known[train] = torch.from_numpy(graph.labels.copy())[train]
    return GraphInputs(graph, dtype=dtype).knowing(known), train


def fitted(inputs, train, **options):
    options = {"rounds": ROUNDS, "held_out": 0.0, "tried": 1.0, "penalty": 1.0} | options
    model = Boosting(inputs.num_features, inputs.num_classes, **options).to(inputs.dtype).eval()
    model.begin_phase(0, inputs, train, inputs.known[train])
    return model


def theirs(model, inputs, train):
    columns = model.describe(inputs).numpy()
    found = HistGradientBoostingClassifier(
        max_iter=ROUNDS,
        max_leaf_nodes=model.options.leaves,
        l2_regularization=1.0,
        random_state=0,
        early_stopping=False,
    ).fit(columns[train], inputs.known[train])
    return columns, found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_scikit_learn(dtype, classes):
    inputs, train = task(dtype, classes)
    model = fitted(inputs, train)
    columns, found = theirs(model, inputs, train)
    assert np.isnan(columns).any()  # some have no neighbor with a known label
    assert int(model.trees.used) == ROUNDS
    probabilities = torch.softmax(model(inputs).double(), 1)
    np.testing.assert_allclose(probabilities, found.predict_proba(columns), atol=1e-6)
    assert probabilities.std(0).min() > 0.1


def test_rows_without_any_value_go_where_scikit_learn_sends_them():
    inputs, train = task()
    model = fitted(inputs, train)
    columns, found = theirs(model, inputs, train)
    columns[np.random.default_rng(0).random(columns.shape) < 0.3] = np.nan
    sums = model.trees(torch.from_numpy(columns))
    np.testing.assert_allclose(
        torch.softmax(sums, 1), found.predict_proba(columns), atol=1e-6
    )  # float32 of leaves


@pytest.mark.parametrize("present", [1, 2])
def test_classes_without_training_nodes_are_unlikely_and_not_impossible(present):
    inputs, train = task()
    train = train[inputs.known[train] < present]
    model = fitted(inputs, train)
    probabilities = torch.softmax(model(inputs), 1)
    assert probabilities.isfinite().all()
    absent = probabilities[:, present:]
    assert 0 < absent.min() <= absent.max() < 0.05
    right = probabilities[train].argmax(1) == inputs.known[train]
    assert right.float().mean() > 0.85


@pytest.mark.parametrize("direction", ["incoming", "both", "separate"])
@pytest.mark.parametrize("components", [4, 32])
def test_columns(direction, components):
    drawn = drawn_graph(4, weighted=True, density=0.25)
    known = np.where(np.arange(13) % 2 == 0, drawn.labels, -1)
    inputs = drawn.inputs().knowing(torch.from_numpy(known))
    train = torch.arange(0, 13, 2)
    model = fitted(inputs, train, direction=direction, components=components)
    X, Y = drawn.X.numpy(), np.zeros((13, CLASSES))
    Y[known >= 0, known[known >= 0]] = 1
    Z = X @ TruncatedSVD(4, n_iter=4, random_state=0).fit(X).components_.T
    expected = [X if components > 16 else Z]
    A = drawn.A.numpy()
    ways = {"incoming": [A], "both": [np.maximum(A, A.T)], "separate": [A, A.T]}
    for way in ways[direction]:
        degree, total = way.sum(1, keepdims=True), (way @ Y).sum(1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            P = np.where(degree > 0, way / degree, 0)
            expected += [np.where(degree > 0, part, np.nan) for part in (P @ expected[0],)]
            expected += [np.where(degree > 0, P @ (P @ expected[0]), np.nan)]
            expected += [np.where(total > 0, way @ Y / total, np.nan)]
        expected += [np.log1p(degree), np.log1p(total)]
    found = model.describe(inputs)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, np.concatenate(expected, 1), rtol=1e-5, atol=1e-6)


def test_fewer_nodes_than_components():
    graph = ncgnn.generate(20, 40, classes=2, features=50, seed=0)
    inputs = GraphInputs(graph).knowing(torch.from_numpy(graph.labels.copy()))
    model = fitted(inputs, torch.arange(20), smallest_leaf=2)
    assert model.components.shape == (50, 32)
    told = model.components.abs().sum(0) > 0
    assert told[:20].all()
    assert not told[20:].any()
    assert model(inputs).isfinite().all()


@pytest.mark.parametrize("edges", [np.zeros((2, 0), dtype=int), np.array([[0, 1], [59, 58]])])
def test_no_training_node_has_a_labeled_neighbor(edges):
    random = np.random.default_rng(0)
    labels = np.arange(60) % 2
    features = random.normal(size=(60, 3)) + labels[:, None]
    graph = ncgnn.Graph.from_edge_index(edges, features=features, labels=labels)
    train = torch.arange(40)
    known = torch.full((60,), -1)
    known[train] = torch.from_numpy(labels)[train]
    inputs = GraphInputs(graph).knowing(known)
    model = fitted(inputs, train, smallest_leaf=5, held_out=0.1)
    right = model(inputs).argmax(1)[40:] == torch.from_numpy(labels)[40:]
    assert right.float().mean() > 0.6


def test_a_node_never_sees_its_own_label():
    inputs, train = task()
    model = fitted(inputs, train)
    before = model.describe(inputs)
    for node in train[:20].tolist():
        known = inputs.known.clone()
        known[node] = (known[node] + 1) % 3
        after = model.describe(inputs.knowing(known))
        changed = (~torch.isclose(before, after, equal_nan=True)).any(1)
        assert not changed[node]
        assert changed.any() == bool(inputs.graph.degrees[node])


def test_held_out_nodes_end_boosting():
    inputs, train = task()
    ends = fitted(inputs, train, held_out=0.2, rounds=300, shrinkage=0.5)
    assert 10 < int(ends.trees.used) < 300
    assert int(fitted(inputs, train, rounds=30).trees.used) == 30


def test_the_same_share_of_every_class_is_held_out():
    labels = np.random.default_rng(0).choice(4, 500, p=[0.7, 0.2, 0.098, 0.002])
    held = _hold_out(labels, 0.1)
    sizes = np.bincount(labels, minlength=4)
    np.testing.assert_array_equal(np.bincount(labels[held], minlength=4), sizes // 10)
    assert not _hold_out(labels, 0.0).any()


def test_trees_survive_as_arrays():
    inputs, train = task()
    model = fitted(inputs, train)
    other = Boosting(5, 3, rounds=ROUNDS, held_out=0.0).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(inputs), model(inputs))
    assert not list(model.parameters())


def test_fitting_again_forgets_the_first_time():
    inputs, train = task()
    model = fitted(inputs, train, rounds=30)
    model.options = model.options.model_copy(update={"rounds": 5})
    model.begin_phase(0, inputs, train, inputs.known[train])
    assert torch.equal(model(inputs), fitted(inputs, train, rounds=5)(inputs))
