"""The propositions of the paper on Neighborhood Confusion."""

from __future__ import annotations

import math

import brute_force as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_strategies import Case, cases, larger_cases

from ncgnn import metrics
from ncgnn.errors import InputError

CLASS_COUNTS = [2, 3, 5, 10, 17, 1000]
GRID = np.linspace(0, 1, 401)


@pytest.mark.parametrize("num_classes", CLASS_COUNTS)
def test_conditional_entropy_goes_from_zero_to_the_largest_entropy(num_classes):
    values = metrics.conditional_entropy(GRID, num_classes)
    assert values[0] == 0
    assert values[-1] == pytest.approx(math.log2(num_classes), abs=1e-12)
    assert np.all(np.diff(values) > -1e-12)
    assert np.all(np.diff(values[:-5]) > 0)


@given(st.integers(2, 500), st.floats(0, 1))
@settings(deadline=None)
def test_conditional_entropy_is_that_of_one_common_label_and_equal_others(num_classes, place):
    largest = 1 / num_classes + place * (1 - 1 / num_classes)
    others = [(1 - largest) / (num_classes - 1)] * (num_classes - 1)
    confusion = min(-math.log(largest) / math.log(num_classes), 1.0)
    assert float(metrics.top_share(confusion, num_classes)) == pytest.approx(largest)
    assert float(metrics.conditional_entropy(confusion, num_classes)) == pytest.approx(
        brute.entropy_of([largest, *others]), abs=1e-9
    )


@pytest.mark.parametrize("num_classes", CLASS_COUNTS)
def test_top_share_falls_from_one_to_the_share_of_one_class(num_classes):
    shares = metrics.top_share(GRID, num_classes)
    assert shares[0] == 1
    assert shares[-1] == pytest.approx(1 / num_classes)
    assert np.all(np.diff(shares) < 0)


@pytest.mark.parametrize("num_classes", CLASS_COUNTS)
def test_fano_bound(num_classes):
    bound = metrics.error_lower_bound(GRID, num_classes)
    assert bound[0] == pytest.approx(-1 / math.log2(num_classes))
    assert bound[-1] == pytest.approx(1 - 1 / math.log2(num_classes))
    entropy = np.array(
        [float(metrics.conditional_entropy(value, num_classes)) for value in GRID.tolist()]
    )
    np.testing.assert_allclose(bound, (entropy - 1) / math.log2(num_classes))
    # Guessing the commonest label errs with probability 1 - p_max, never less than the bound.
    assert np.all(bound <= 1 - metrics.top_share(GRID, num_classes) + 1e-12)


@given(case=cases(classes=(2, 3, 4)) | larger_cases(), hops=st.integers(1, 2))
@settings(deadline=None, max_examples=60)
def test_first_proposition(case, hops):
    graph = case.graph()
    if case.num_classes < 2:
        return
    for neighborhood in ("closed", "open"):
        options = {"hops": hops, "neighborhood": neighborhood, "empty": 0}
        confusion = metrics.neighborhood_confusion(graph, **options)
        entropy = metrics.neighborhood_entropy(graph, **options)
        bound = metrics.entropy_lower_bound(confusion, case.num_classes)
        np.testing.assert_allclose(bound, confusion * math.log2(case.num_classes))
        assert np.all(bound <= entropy + 1e-9)


@pytest.mark.parametrize("num_classes", [2, 3, 7, 20])
def test_first_proposition_with_equality_when_labels_are_equally_common(num_classes):
    for present in range(1, num_classes + 1):
        for repeats in (1, 3):
            labels = [c for c in range(present) for _ in range(repeats)]
            edges = [(v, 0) for v in range(1, len(labels))]
            graph = Case(len(labels), edges, labels, num_classes).graph()
            confusion = metrics.neighborhood_confusion(graph)[0]
            entropy = metrics.neighborhood_entropy(graph)[0]
            assert float(metrics.entropy_lower_bound(confusion, num_classes)) == pytest.approx(
                entropy, abs=1e-12
            )
            assert entropy == pytest.approx(math.log2(present), abs=1e-12)


def test_first_proposition_is_strict_otherwise():
    graph = Case(3, [(1, 0), (2, 0)], [0, 0, 1], 2).graph()
    confusion = metrics.neighborhood_confusion(graph)[0]
    assert float(metrics.entropy_lower_bound(confusion, 2)) < metrics.neighborhood_entropy(graph)[0]


BOUNDS = [
    metrics.top_share,
    metrics.conditional_entropy,
    metrics.error_lower_bound,
    metrics.entropy_lower_bound,
]


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_take_vectors_and_keep_undefined_values(bound):
    values = bound([0.0, np.nan, 1.0], 4)
    assert values.shape == (3,)
    assert np.isnan(values).tolist() == [False, True, False]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("confusion", "num_classes", "says"),
    [
        (0.5, 1, "num_classes"),
        (0.5, 0, "num_classes"),
        (1.01, 3, "confusion"),
        (-0.1, 3, "confusion"),
    ],
)
def test_bounds_refuse_what_is_no_confusion(bound, confusion, num_classes, says):
    with pytest.raises(InputError, match=says):
        bound([0.2, confusion], num_classes)
