"""Paired tests, their intervals, and several of them at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t, ttest_rel

from ncgnn.experiments import Record, adjust_for_many, compare_runs, paired_test

FIRST, SECOND = [0.50, 0.55, 0.62, 0.58], [0.48, 0.56, 0.55, 0.54]


def test_the_interval_is_that_of_students_test():
    found = paired_test(FIRST, SECOND)
    expected = ttest_rel(FIRST, SECOND).confidence_interval()
    assert found.mean - found.margin == pytest.approx(expected.low)
    assert found.mean + found.margin == pytest.approx(expected.high)


@pytest.mark.parametrize("ratio", [0.0, 1 / 3])
def test_an_interval_ends_at_zero_where_p_is_one_in_twenty(ratio):
    """The interval and the test are two views of one thing, with and without the correction."""
    differences = np.subtract(FIRST, SECOND)
    error = float(np.sqrt((1 / 4 + ratio) * differences.var(ddof=1)))
    wanted = error * float(t.ppf(0.975, 3))
    moved = [a - float(differences.mean()) + wanted for a in FIRST]
    found = paired_test(moved, SECOND, ratio)
    assert found.p_value == pytest.approx(0.05)
    assert found.mean - found.margin == pytest.approx(0, abs=1e-12)


def test_without_a_test_there_is_no_interval():
    assert paired_test([0.5], [0.4]).margin is None
    assert paired_test([0.5, 0.6], [0.4, 0.5]).margin is None


def test_several_tests_are_adjusted_as_holm_does():
    assert adjust_for_many([0.01, None, 0.04, 0.03, 0.5]) == pytest.approx(
        [0.04, None, 0.09, 0.09, 0.5]
    )
    assert adjust_for_many([0.6, 0.7]) == [1.0, 1.0]
    assert adjust_for_many([]) == []


def runs(values, split="s"):
    """Runs by seed; None: a run whose score is not known."""
    return {
        seed: Record(
            f"run {seed}",
            {},
            {
                "scores": {"test": {"accuracy": 0.9 if value is None else value}},
                "split_sha256": f"{split}{seed}",
                "nodes": {"train": 60, "test": 20},
                "part": value,
            },
            1.0,
        )
        for seed, value in enumerate(values)
    }


def test_runs_are_compared_over_the_splits_that_both_have():
    found = compare_runs(runs([*FIRST, 0.9]), runs(SECOND))
    assert found == compare_runs(runs(FIRST), runs(SECOND))
    assert (found.seeds, found.over) == (4, "splits")
    assert found.p_value == paired_test(FIRST, SECOND, 20 / 60).p_value
    assert compare_runs(runs(FIRST), runs(SECOND, split="other")) is None
    assert compare_runs(runs(FIRST), {}) is None


def test_the_correction_is_the_mean_of_splits_of_several_sizes():
    first, second = runs(FIRST), runs(SECOND)
    for one in (first, second):
        one[0].result["nodes"] = {"train": 20, "test": 60}
    wanted = paired_test(FIRST, SECOND, (3 + 3 * 20 / 60) / 4).p_value
    assert compare_runs(first, second).p_value == pytest.approx(wanted)
    first[3].result["nodes"] = {}
    assert compare_runs(first, second).p_value is None


def test_another_score_may_be_compared_and_may_be_missing():
    def score(record):
        return record.result["part"]

    found = compare_runs(runs([None, *FIRST[1:]]), runs(SECOND), score)
    assert found.seeds == 3
    assert found.mean == pytest.approx(paired_test(FIRST[1:], SECOND[1:]).mean)
    assert compare_runs(runs([None]), runs([0.5]), score) is None
