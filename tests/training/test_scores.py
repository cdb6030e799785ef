from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from ncgnn.errors import InputError
from ncgnn.training import scores
from ncgnn.training.evaluation import accuracy_by, auroc, calibration_error, deciles


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 60))
def test_scores_agree_with_scikit_learn(seed, classes, count):
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(size=(count, classes)).round(1))
    labels = torch.from_numpy(rng.integers(0, classes, count))
    nodes = torch.from_numpy(rng.permutation(count)[: max(1, count // 2)])
    got = scores(logits, labels, nodes)
    true = labels[nodes].numpy()
    probabilities = torch.softmax(logits[nodes], 1).numpy()
    answers = probabilities.argmax(1)
    assert got["accuracy"] == pytest.approx(sk.accuracy_score(true, answers))
    assert got["macro_f1"] == pytest.approx(sk.f1_score(true, answers, average="macro"))
    seen = np.unique(true)
    recall = sk.recall_score(true, answers, labels=seen, average="macro", zero_division=0)
    assert got["balanced_accuracy"] == pytest.approx(recall)
    everyone = np.arange(classes)
    assert got["loss"] == pytest.approx(sk.log_loss(true, probabilities, labels=everyone))
    if classes == 2 and len(seen) == 2:
        assert got["auroc"] == pytest.approx(sk.roc_auc_score(true, probabilities[:, 1]))
    else:
        assert got["auroc"] is None


def test_auroc_of_one_class_alone_is_undefined():
    assert auroc(np.ones(3), np.array([0.1, 0.2, 0.3])) is None


def test_calibration_error_by_hand():
    # Two nodes at 0.9 (one right), one at 0.6 (right): (2·|0.5 - 0.9| + |1 - 0.6|) / 3.
    probabilities = np.array([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4]])
    assert calibration_error(np.array([0, 0, 0]), probabilities) == pytest.approx(1.2 / 3)


def test_certain_and_right_is_perfectly_calibrated():
    assert calibration_error(np.array([0, 1]), np.eye(2)) == 0


def test_no_nodes_cannot_be_scored():
    with pytest.raises(InputError, match="empty"):
        scores(torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64), torch.zeros(0).long())


def test_accuracy_within_parts():
    logits = torch.eye(3)
    labels = torch.tensor([0, 1, 0])
    nodes = torch.tensor([0, 1, 2])
    rows = accuracy_by(logits, labels, nodes, np.array([1, -1, 1]))
    assert rows == [{"part": 1, "nodes": 2, "accuracy": 0.5}]


def test_deciles_hold_their_lower_end():
    values = np.array([0.0, 0.05, 0.1, 0.3, 0.7, 0.99, 1.0, np.nan])
    assert deciles(values).tolist() == [0, 0, 1, 3, 7, 9, 9, -1]
