"""Scores against scikit-learn and by hand; accuracy per group and decile against counting."""

from __future__ import annotations

import warnings

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
from ncgnn.training import compare_trained, score, scores
from ncgnn.training.evaluation import (
    FEWEST_NODES,
    about_small_groups,
    calibration_error,
    deciles,
    degree_classes,
    evaluation,
    ranked_tenths,
    small_groups,
    true_groups,
)
from ncgnn.training.inference import Outcome


class Grouped(ncgnn.nn.Model):
    """A model of which only the rule counts."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule


@pytest.fixture(scope="module")
def graph():
    return ncgnn.generate(200, 500, classes=3, features=4, homophily=0.5, seed=3)


def found_for(graph, rule, test=True):
    draw = np.random.default_rng(0).permutation(200)
    last = draw[140:] if test else []
    split = custom_split(draw[:100], draw[100:140], last, labels=graph)
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(200, 3)))
    grouping = Grouping.start(200)
    predicted = logits.argmax(1).numpy()
    estimated = np.where(np.isin(np.arange(200), split.train), graph.labels, predicted)
    confusion = ncgnn.neighborhood_confusion(graph, estimated)
    outcome = Outcome(logits, estimated, confusion, ncgnn.node_kinds(graph, estimated))
    result = evaluation(Grouped(rule), GraphInputs(graph), split, grouping, outcome)
    right = predicted == graph.labels
    return result, right, split.test if test else split.val


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


@pytest.mark.parametrize("test", [True, False])
def test_kinds_are_of_true_labels_and_nodes_are_called_what_they_are(graph, test):
    result, right, nodes = found_for(graph, None, test)
    assert result["evaluated"] == ("test" if test else "val")
    kinds = ncgnn.node_kinds(graph)
    found = {row["kind"]: (row["nodes"], row["accuracy"]) for row in result["accuracy_by_kind"]}
    expected = {}
    for kind in sorted(set(kinds[nodes])):
        some = nodes[kinds[nodes] == kind]
        expected[kind] = (len(some), right[some].mean())
    assert len(expected) > 2
    assert found == expected


@pytest.mark.parametrize("kind", ["attainable", "attainable-quantile"])
def test_true_groups_follow_the_rule_of_the_model(graph, kind):
    rule = GroupingRule(thresholds=(0.4,), kind=kind)
    result, right, test = found_for(graph, rule)
    ratio = ncgnn.relative_confusion(graph)
    part = (ratio > (0.4 if kind == "attainable" else np.quantile(ratio, 0.4)) + 1e-9).astype(int)
    assert shown(result["accuracy_by_true_group"]) == shares(right, test, part)
    assert (result["threshold_kind"], result["thresholds"]) == (kind, [0.4])


@pytest.mark.parametrize("kind", ["value", "attainable"])
def test_true_groups_of_a_control_are_those_of_the_model_that_it_controls(graph, kind):
    rule = GroupingRule(thresholds=(0.3,), kind=kind)
    control = GroupingRule(thresholds=(0.3,), kind=kind, grouped=False)
    expected, found = true_groups(graph, rule), true_groups(graph, control)
    assert expected.group.any()
    np.testing.assert_array_equal(found.group, expected.group)
    assert found.thresholds == expected.thresholds


def test_true_groups_are_of_the_attainable_where_most_nodes_cannot_reach_the_threshold():
    """A cycle of 30 classes: an NC above one half needs six nodes around, and there are three."""
    ring = np.arange(60)
    edges = np.stack([np.concatenate([ring, (ring + 1) % 60]), np.concatenate([ring + 1, ring])])
    labels = np.where(ring < 30, ring, 0)
    graph = ncgnn.Graph.from_edge_index(edges % 60, labels=labels, num_classes=30)
    found = true_groups(graph, None)
    assert (found.kind, found.thresholds) == ("attainable", (0.5,))
    assert found.group.tolist() == (ncgnn.relative_confusion(graph) > 0.5).astype(int).tolist()
    assert 0 < found.group.sum() < 60
    # A model's own threshold on NC is kept, whatever it makes of the nodes.
    assert true_groups(graph, GroupingRule()).kind == "value"
    assert not true_groups(graph, GroupingRule()).group.any()
    # With three classes three nodes reach one half.
    few = graph.with_labels(labels % 3, 3)
    assert true_groups(few, None).kind == "value"


def test_small_groups_are_those_under_one_percent():
    assert small_groups([99, 1]) == []
    assert small_groups([995, 5]) == [1]
    assert small_groups([0, 500, 3]) == [0, 2]
    assert about_small_groups([99, 1]) == ""
    text = about_small_groups([6000, 6])
    assert text.startswith("of the groups, high NC holds 6 of 6,006 nodes, under one percent")
    assert text.endswith('set threshold_kind = "attainable" or another threshold.')
    assert "set another" in about_small_groups([6000, 6], "attainable")
    assert '"quantile"' in about_small_groups([6000, 6], "value", "degree")
    assert "NC group 0 holds 0 and NC group 2 holds 3 of 503" in about_small_groups([0, 500, 3])


@pytest.mark.parametrize("kind", ["value", "attainable"])
def test_training_warns_once_of_a_group_of_hardly_anybody(kind, tmp_path):
    """Labels of a path with 12 classes: nobody's NC reaches one half, many reach the attainable."""
    path = np.arange(239)
    edges = np.stack([np.concatenate([path, path + 1]), np.concatenate([path + 1, path])])
    labels = np.random.default_rng(0).integers(0, 12, 240)
    features = np.eye(12)[labels] + np.random.default_rng(1).normal(0, 0.1, (240, 12))
    graph = ncgnn.Graph.from_edge_index(edges, labels=labels, features=features)
    options = {"hidden": 16, "epochs": 60, "learning_rate": 0.05, "threshold_kind": kind}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained = ncgnn.fit(graph, "ncsage", **options)
        trained.save(tmp_path / "run")
    told = [str(one.message) for one in caught if "under one percent" in str(one.message)]
    assert len(told) == (1 if kind == "value" else 0)
    result = trained.evaluate()
    assert result["small_groups"] == ([1] if kind == "value" else [])


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


def test_deciles_hold_their_lower_end():
    values = np.array([0.0, 0.05, 0.1, 0.3, 0.7, 0.99, 1.0, np.nan])
    assert deciles(values).tolist() == [0, 0, 1, 3, 7, 9, 9, -1]


def test_tenths_by_rank_keep_equal_values_together():
    values = np.array([0.0] * 35 + [0.2] * 10 + list(np.linspace(0.3, 0.9, 60)) + [np.nan])
    part, names = ranked_tenths(values)
    assert part[-1] == -1
    assert set(part[:35]) == {0}
    assert (names[0], names[1]) == ({"from": 0.0, "to": 0.0}, {"from": 0.2, "to": 0.2})
    assert names[max(names)]["to"] == 0.9
    assert np.bincount(part[:-1]).min() >= FEWEST_NODES
    assert (np.diff([names[number]["from"] for number in sorted(names)]) > 0).all()
    nobody, none = ranked_tenths(np.array([np.nan]))
    assert (nobody.tolist(), none) == ([-1], {})


def test_tenths_of_few_nodes_are_joined_with_the_next():
    values = np.array([0.0] * 40 + [0.1] * 4 + [0.2] * 3 + [0.3] * 40 + [0.9] * 2)
    part, names = ranked_tenths(values)
    assert np.bincount(part).tolist() == [40, 49]
    assert names == {0: {"from": 0.0, "to": 0.0}, 1: {"from": 0.1, "to": 0.9}}
    assert ranked_tenths(values[-2:])[0].tolist() == [0, 0]


def test_degree_classes_double_and_do_not_count_loops():
    """Node 0 hears from n others, and from itself."""
    found = {}
    for count in (0, 1, 2, 3, 4, 5, 8, 9):
        edges = np.array([[*range(1, count + 1), 0], [0] * (count + 1)])
        graph = ncgnn.Graph.from_edge_index(edges, num_nodes=10, labels=[0] * 10)
        found[count] = int(degree_classes(graph)[0])
    assert found == {0: 0, 1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 8: 4, 9: 5}


@pytest.mark.parametrize("test", [True, False])
def test_scores_by_what_is_known_when_answering_and_by_the_true_labels(graph, test):
    result, right, nodes = found_for(graph, None, test)
    estimated = result["accuracy_by_estimated_nc_decile"]
    actual = result["accuracy_by_true_nc_decile"]
    assert estimated != actual
    nc = ncgnn.neighborhood_confusion(graph)[nodes]
    for row in actual:
        chosen = (nc > row["from"] - 1e-6) & (nc < row["to"] + 1e-6)
        assert (row["nodes"], row["accuracy"]) == (chosen.sum(), right[nodes][chosen].mean())
    degree = graph.degrees[nodes]
    for row in result["accuracy_by_degree"]:
        chosen = (degree >= row["from"]) & (degree <= row["to"])
        assert (row["nodes"], row["accuracy"]) == (chosen.sum(), right[nodes][chosen].mean())
        low, high = row["accuracy_interval"]
        assert 0 <= low <= row["accuracy"] <= high <= 1
    for key in ("kind", "estimated_kind", "estimated_nc_decile", "true_nc_decile", "degree"):
        assert sum(row["nodes"] for row in result[f"accuracy_by_{key}"]) == len(nodes), key
    assert len(result["classes"]) == 3
    assert sum(row["support"] for row in result["classes"]) == len(nodes)
    intervals = result["intervals"]
    for name in ("accuracy", "macro_f1", "balanced_accuracy"):
        low, high = intervals[name]
        assert low < result["scores"][result["evaluated"]][name] < high


@pytest.fixture(scope="module")
def two_models(graph):
    options = {"hidden": 8, "epochs": 15, "split": "stratified"}
    return ncgnn.fit(graph, "gcn", **options), ncgnn.fit(graph, "mlp", **options)


def test_two_models_are_compared_on_the_same_nodes(graph, two_models):
    first, second = two_models
    found = first.evaluate(against=second)["against"]
    one, other = (model.evaluate()["scores"]["test"] for model in two_models)
    for name in ("accuracy", "macro_f1"):
        assert found[name] == pytest.approx(one[name] - other[name])
    back = compare_trained(second, first)
    assert back["accuracy"] == -found["accuracy"]
    assert (back["only_first"], back["only_second"]) == (found["only_second"], found["only_first"])
    kinds = ncgnn.node_kinds(graph)[first.split.test]
    wanted = {kind: int((kinds == kind).sum()) for kind in set(kinds)}
    assert {row["kind"]: row["nodes"] for row in found["parts"]} == wanted
    total = sum(row["accuracy"] * row["nodes"] for row in found["parts"])
    assert total / found["nodes"] == pytest.approx(found["accuracy"])
    assert "against" not in first.evaluate()


def test_models_with_other_test_nodes_are_not_compared(graph, two_models):
    other = ncgnn.fit(graph, "mlp", hidden=8, epochs=2, seed=1)
    with pytest.raises(InputError, match=r"same test nodes; got one with .* the same seed\.$"):
        two_models[0].evaluate(against=other)
    labels = np.roll(graph.labels, 1)
    split = two_models[0].split
    moved = custom_split(split.train, split.val, split.test, labels=labels)
    relabeled = ncgnn.fit(graph.with_labels(labels, 3), "mlp", split=moved, hidden=8, epochs=2)
    with pytest.raises(InputError, match="classes and labels of test nodes"):
        two_models[0].evaluate(against=relabeled)
