"""Folds of labeled nodes, and that nothing of a fold reaches the models that answer for it."""

from __future__ import annotations

import numpy as np
import pytest

import ncgnn
from ncgnn.errors import InputError
from ncgnn.training.folds import answer_fold, draw_folds, draw_validation

pytestmark = pytest.mark.usefixtures("one_thread")


def test_every_class_is_dealt_out_evenly():
    labels = np.random.default_rng(0).integers(-1, 4, 503)
    fold = draw_folds(labels, 5, seed=1)
    assert (fold[labels < 0] == -1).all()
    assert (fold[labels >= 0] >= 0).all()
    for label in range(4):
        sizes = np.bincount(fold[labels == label], minlength=5)
        assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(fold, draw_folds(labels, 5, seed=1))
    assert not np.array_equal(fold, draw_folds(labels, 5, seed=2))


def test_the_only_node_of_a_class_is_in_no_fold():
    fold = draw_folds(np.array([0, 0, 0, 1, -1, 2, 2]), 2, seed=0)
    assert fold[[3, 4]].tolist() == [-1, -1]
    assert sorted(fold[[5, 6]].tolist()) == [0, 1]


@pytest.mark.parametrize(("folds", "message"), [(1, "folds must be"), (4, "at most the 3 labeled")])
def test_impossible_numbers_of_folds(folds, message):
    with pytest.raises(InputError, match=message):
        draw_folds(np.array([0, 0, 0, 1]), folds, seed=0)


def test_validation_nodes_of_classes_that_are_not_there():
    split = draw_validation(np.arange(20), np.repeat([0, 3], 10), 0.2, seed=0)
    assert len(split.val) == 4
    assert sorted(np.concatenate([split.train, split.val]).tolist()) == list(range(20))


@pytest.mark.parametrize("model", ["ncgcn", "tuned-sage", "mlp"])
def test_labels_of_a_fold_change_no_bit_of_what_is_said_of_it(model):
    graph = ncgnn.load("digits")
    fold = draw_folds(graph.labels, 4, seed=0)
    held = fold == 1
    random = np.random.default_rng(0)
    labels = graph.labels.copy()
    labels[held] = random.permutation(labels[held])
    missing = np.where(held, -1, graph.labels)
    options = {"seed": 0, "device": "cpu", "settings": {"epochs": 4, "hidden": 8}}
    first = answer_fold(graph, fold, 1, model, **options)
    assert first.shape == (held.sum(), 10)
    for other in (labels, missing):
        again = answer_fold(graph.with_labels(other), fold, 1, model, **options)
        np.testing.assert_array_equal(first, again)
    others = graph.labels.copy()
    others[~held] = random.permutation(others[~held])
    changed = answer_fold(graph.with_labels(others), fold, 1, model, **options)
    assert np.abs(first - changed).max() > 0.01  # labels of others do change it
