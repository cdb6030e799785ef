"""Scores per class against scikit-learn; intervals against simulation and by hand."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from ncgnn.errors import InputError
from ncgnn.training import bootstrap_difference
from ncgnn.training.scores import (
    Cells,
    Scored,
    bootstrap_interval,
    compare_answers,
    resampled,
    share_interval,
)

TRIALS = 200


def made(true, predicted, classes=None):
    true, predicted = np.asarray(true), np.asarray(predicted)
    count = classes or int(max(true.max(), predicted.max())) + 1
    return Scored(true, predicted, [f"class {c}" for c in range(count)], np.arange(len(true)) + 100)


def drawn(count, classes, seed, accuracy=0.8):
    """Answers of a model for nodes of classes that are the rarer the higher their number."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, classes + 1)
    true, other = (rng.choice(classes, count, p=share / share.sum()) for _ in range(2))
    return made(true, np.where(rng.random(count) < accuracy, true, other), classes)


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(1, 80))
def test_classes_agree_with_scikit_learn(seed, classes, count):
    known = drawn(count, classes, seed, 0.5)
    wanted = sk.precision_recall_fscore_support(
        known.true, known.predicted, labels=range(classes), zero_division=np.nan
    )
    rows = known.by_class()
    for key, column in zip(("precision", "recall", "f1", "support"), wanted, strict=True):
        found = np.array([row[key] for row in rows], dtype=float)
        np.testing.assert_allclose(found, column, err_msg=key)
    table = sk.confusion_matrix(known.true, known.predicted, labels=range(classes))
    assert [row["answered"] for row in rows] == table.sum(0).tolist()


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(1, 80))
def test_resampled_scores_are_those_of_scikit_learn(seed, classes, count):
    known = drawn(count, classes, seed, 0.5)
    cells = Cells.of(known.true, [known.predicted], classes)
    weights = next(resampled(cells.nodes, count, seed))[:3]
    counts = cells.count(weights)
    for row, macro, balanced in zip(
        weights, counts.macro_f1(), counts.balanced_accuracy(), strict=True
    ):
        true, answer = np.repeat(cells.true, row), np.repeat(cells.answers[0], row)
        assert macro == pytest.approx(sk.f1_score(true, answer, average="macro"))
        seen = np.unique(true)
        recall = sk.recall_score(true, answer, labels=seen, average="macro", zero_division=0)
        assert balanced == pytest.approx(recall)


def test_classes_without_nodes_or_answers_are_named_and_undefined():
    rows = made([0, 0, 1], [0, 3, 0], 4).by_class()
    assert [row["class"] for row in rows] == ["class 0", "class 1", "class 2", "class 3"]
    nothing = rows[2]
    assert (nothing["support"], nothing["answered"]) == (0, 0)
    for key in ("precision", "recall", "f1"):
        assert nothing[key] is None
        assert nothing[f"{key}_interval"] is None
    missed = rows[1]
    assert (missed["precision"], missed["recall"], missed["f1"]) == (None, 0.0, 0.0)
    assert missed["recall_interval"][1] > 0.5
    invented = rows[3]
    assert (invented["precision"], invented["recall"], invented["f1"]) == (0.0, None, 0.0)
    json.dumps(rows, allow_nan=False)


def test_wilson_by_hand():
    """Five of ten: (0.5 + z²/20 ± z·sqrt(0.025 + z²/400)) / (1 + z²/10) with z = 1.96."""
    assert share_interval(5, 10) == [0.23659, 0.76341]
    assert share_interval(0, 10)[0] == 0.0
    assert share_interval(10, 10)[1] == 1.0
    assert share_interval(10, 10)[0] == pytest.approx(0.72247, abs=1e-5)
    assert share_interval(0, 0) is None


def covers(interval, value):
    return interval is not None and interval[0] <= value <= interval[1]


@pytest.mark.parametrize(("nodes", "classes"), [(300, 4), (100, 2), (800, 50)])
def test_intervals_hold_what_they_promise(nodes, classes):
    """Samples of a known distribution; 95 % of 200 trials scatter by 1.5 points."""
    rng = np.random.default_rng(classes)
    size = 1 / np.arange(1, classes + 1)
    wrong = rng.dirichlet(np.full(classes, 0.15), classes)
    table = size[:, None] * (0.2 * wrong + 0.8 * np.eye(classes))
    table /= table.sum()
    right = np.diag(table)
    true_f1 = 2 * right / (table.sum(0) + table.sum(1))
    wanted = {
        "accuracy": right.sum(),
        "macro_f1": true_f1.mean(),
        "balanced_accuracy": (right / table.sum(1)).mean(),
    }
    hits = dict.fromkeys([*wanted, "f1 of the rarest"], 0)
    for _ in range(TRIALS):
        counts = rng.multinomial(nodes, table.ravel())
        place = np.repeat(np.arange(classes**2), counts)
        known = made(place // classes, place % classes, classes)
        found = known.intervals()
        for name, value in wanted.items():
            hits[name] += covers(found[name], value)
        hits["f1 of the rarest"] += covers(known.by_class()[-1]["f1_interval"], true_f1[-1])
    for name, count in hits.items():
        assert count / TRIALS >= 0.9, name
        if name != "f1 of the rarest":  # few nodes have few possible intervals
            assert count / TRIALS <= 0.99, name


@pytest.mark.parametrize(("nodes", "mine", "theirs"), [(20, 0.2, 0.1), (200, 0.06, 0.03)])
def test_intervals_of_differences_hold_what_they_promise(nodes, mine, theirs):
    rng, hits, pairs = np.random.default_rng(1), 0, 0
    for seed in range(TRIALS):
        one = rng.random(nodes)
        first, second = one >= theirs, (one < theirs) | (one >= theirs + mine)
        found = bootstrap_difference(first, second, seed=seed)
        hits += found.low - 1e-9 <= mine - theirs <= found.high + 1e-9
        pairs += found.low > 0
    assert hits / TRIALS >= 0.92
    if nodes == 200:
        assert hits / TRIALS <= 0.99
        assert pairs > 0, "an interval that never leaves zero tells nothing"


def test_pairing_makes_differences_sure():
    """Ten of 1,000 nodes are right in one model only; unpaired they could not be told apart."""
    right = np.random.default_rng(0).random(1000) < 0.8
    worse = right.copy()
    worse[np.flatnonzero(right)[:10]] = False
    found = bootstrap_difference(right, worse)
    assert found.value == pytest.approx(0.01)
    assert 0 < found.low < 0.01 < found.high < 0.02
    back = bootstrap_difference(worse, right)
    assert back.value == -found.value
    same = bootstrap_difference(right, right)
    assert same.low < same.value == 0 < same.high


def test_a_difference_of_a_part_or_of_nobody():
    first, second = np.array([True, True, False, True]), np.array([False, True, False, True])
    part = np.array([True, False, True, False])
    assert bootstrap_difference(first, second, part).value == 0.5
    assert np.isnan(bootstrap_difference(first, second, np.zeros(4, dtype=bool))).all()
    with pytest.raises(InputError, match="same nodes"):
        bootstrap_difference(first, second[:3])
    with pytest.raises(InputError, match="same nodes"):
        bootstrap_difference(first, second, part[:3])


def test_intervals_are_the_same_every_time():
    known, other = drawn(500, 6, 1), drawn(500, 6, 1, 0.7)
    first = known.intervals()
    assert known.intervals() == first
    assert drawn(500, 6, 2).intervals() != first
    parts = {0: {"kind": "clear"}}
    everyone = np.zeros(500, dtype=np.int64)
    assert compare_answers(known, known, everyone, parts) == compare_answers(
        known, known, everyone, parts
    )
    order = np.random.default_rng(0).permutation(500)
    assert known.of(order).intervals() == first, "the order of nodes plays no part"
    assert bootstrap_difference(known.right, other.right, seed=1) != bootstrap_difference(
        known.right, other.right, seed=2
    )


def test_what_does_not_vary_has_no_bootstrap_interval():
    known = made([0, 1, 2] * 20, [0, 1, 2] * 20)
    found = known.intervals()
    assert found["macro_f1"] is None
    assert found["balanced_accuracy"] is None
    assert found["accuracy"][0] < 0.95
    assert bootstrap_interval(0.5, np.array([0.4, 0.5, 0.6] * 100))[0] < 0.5


def test_confused_pairs_are_ordered_and_have_examples():
    known = made([0] * 10 + [1] * 5, [1] * 3 + [2] * 3 + [0] * 4 + [1] * 4 + [0])
    rows = known.confused_pairs()
    assert [(row["true"], row["answered"], row["nodes"]) for row in rows] == [
        ("class 0", "class 1", 3),
        ("class 0", "class 2", 3),
        ("class 1", "class 0", 1),
    ]
    assert rows[0]["share"] == 0.3
    assert rows[1]["examples"] == [103, 104]
    assert rows[2]["examples"] == [114]
    assert len(known.confused_pairs(1)) == 1
    json.dumps(rows)


def test_the_matrix_of_confused_classes_is_cut_out_of_the_whole():
    known = drawn(3000, 30, 4, 0.6)
    found = known.most_confused(8)
    table = sk.confusion_matrix(known.true, known.predicted, labels=range(30))
    chosen = [int(name.split()[1]) for name in found["classes"]]
    assert 2 <= len(chosen) <= 8
    assert chosen == sorted(chosen)
    assert found["counts"] == table[np.ix_(chosen, chosen)].tolist()
    assert found["support"] == table.sum(1)[chosen].tolist()
    first = known.confused_pairs()[0]
    assert {first["true"], first["answered"]} <= set(found["classes"])
    assert made([0, 1], [0, 1]).most_confused()["classes"] == []


def test_parts_are_counted_and_empty_ones_left_out():
    known = made([0, 1, 0, 1], [0, 0, 0, 1])
    names = {place: {"part": place} for place in range(3)}
    rows = known.by_part(np.array([0, 0, 2, -1]), names, macro_f1=True)
    assert [(row["part"], row["nodes"], row["accuracy"]) for row in rows] == [
        (0, 2, 0.5),
        (2, 1, 1),
    ]
    assert rows[0]["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)
    assert "macro_f1" not in known.by_part(np.zeros(4, dtype=int), names)[0]


def test_macro_f1_is_compared_pair_by_pair():
    one, other = drawn(2000, 10, 3, 0.85), drawn(2000, 10, 3, 0.8)
    assert np.array_equal(one.true, other.true)
    found = compare_answers(one, other, np.zeros(2000, dtype=int), {0: {"kind": "all"}})
    scores = [sk.f1_score(x.true, x.predicted, average="macro") for x in (one, other)]
    assert found["macro_f1"] == pytest.approx(scores[0] - scores[1])
    low, high = found["macro_f1_interval"]
    assert low < found["macro_f1"] < high
    widths = [np.ptp(x.intervals()["macro_f1"]) for x in (one, other)]
    assert high - low < sum(widths) / 1.5, "pairs share most of their chance"
    assert found["parts"][0]["accuracy"] == found["accuracy"]


def test_resampling_many_nodes_and_classes_takes_no_second():
    known = drawn(20_000, 58, 0, 0.85)
    started = time.process_time()
    known.intervals()
    assert time.process_time() - started < 2.0
