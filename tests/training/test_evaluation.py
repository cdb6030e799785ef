"""Scores against scikit-learn and by hand; accuracy per group and decile against counting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

import ncgnn
from ncgnn.data import custom_split
from ncgnn.errors import InputError
from ncgnn.nn import Grouping
from ncgnn.nn.grouping import GroupingRule
from ncgnn.nn.inputs import GraphInputs
from ncgnn.training import score, scores
from ncgnn.training.evaluation import accuracy_by, calibration_error, deciles, evaluation


class Grouped(ncgnn.nn.Model):
    """A model of which only the rule counts."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule


@pytest.fixture(scope="module")
def graph():
    return ncgnn.generate(200, 500, classes=3, features=4, homophily=0.5, seed=3)


def found_for(graph, rule):
    draw = np.random.default_rng(0).permutation(200)
    split = custom_split(draw[:100], draw[100:140], draw[140:], labels=graph)
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(200, 3)))
    grouping = Grouping.start(200)
    result = evaluation(Grouped(rule), GraphInputs(graph), split, grouping, logits)
    right = logits.argmax(1).numpy() == graph.labels
    return result, right, split.test


def shares(right, nodes, part):
    """Number of nodes and accuracy by part, as a plain loop counts them."""
    return {
        int(p): (int((part[nodes] == p).sum()), float(right[nodes][part[nodes] == p].mean()))
        for p in np.unique(part[nodes])
    }


def shown(records):
    return {r["part"]: (r["nodes"], r["accuracy"]) for r in records}


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("thresholds", [(0.5,), (0.3, 0.6)])
def test_groups_by_true_nc(graph, hops, thresholds):
    result, right, test = found_for(graph, GroupingRule(hops=hops, thresholds=thresholds))
    nc = ncgnn.neighborhood_confusion(graph, hops=hops)
    part = sum((nc > limit).astype(int) for limit in thresholds)
    assert len(np.unique(part)) == len(thresholds) + 1, "no group may be empty here"
    assert shown(result["accuracy_by_true_group"]) == shares(right, test, part)
    assert result["true_mean_nc"] == pytest.approx(nc.mean())


def test_deciles_are_of_closed_homophily(graph):
    result, right, test = found_for(graph, None)
    closed = ncgnn.node_homophily(graph, neighborhood="closed")
    opened = ncgnn.node_homophily(graph, neighborhood="open")
    decile = np.minimum((closed * 10).astype(int), 9)
    wrong = np.minimum((np.nan_to_num(opened) * 10).astype(int), 9)
    assert shown(result["accuracy_by_nh_decile"]) == shares(right, test, decile)
    assert shares(right, test, decile) != shares(right, test, wrong)


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
    found = {"roc_auc": sk.roc_auc_score, "average_precision": sk.average_precision_score}
    for metric, area in found.items():
        if len(seen) < 2:
            assert got[metric] is None
            continue
        each = [area(true == c, probabilities[:, c]) for c in ([1] if classes == 2 else seen)]
        assert got[metric] == pytest.approx(np.mean(each))


def test_areas_by_hand():
    """Scores 0.1 < 0.4 < 0.6 < 0.9 of labels 0, 1, 0, 1: three of four pairs are in order."""
    p = np.array([0.1, 0.4, 0.6, 0.9])
    logits, labels = torch.from_numpy(np.log(np.stack([1 - p, p], 1))), torch.tensor([0, 1, 0, 1])
    assert score("roc_auc", logits, labels) == pytest.approx(3 / 4)
    assert score("average_precision", logits, labels) == pytest.approx((1 + 2 / 3) / 2)
    ties = torch.zeros(4, 2)
    assert score("roc_auc", ties, labels) == 0.5
    assert score("average_precision", ties, labels) == 0.5


def test_likelihood_by_hand():
    p = np.array([0.5, 0.25, 0.8, 0.1])
    logits, labels = torch.from_numpy(np.log(np.stack([1 - p, p], 1))), torch.tensor([1, 1, 0, 0])
    wanted = (0.5 * 0.25 * 0.2 * 0.9) ** 0.25
    assert score("likelihood", logits, labels) == pytest.approx(wanted)


@pytest.mark.parametrize("classes", [2, 3])
def test_areas_of_one_class_alone_are_undefined(classes):
    logits = torch.randn(3, classes)
    for metric in ("roc_auc", "average_precision"):
        assert score(metric, logits, torch.ones(3, dtype=torch.int64)) is None


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
