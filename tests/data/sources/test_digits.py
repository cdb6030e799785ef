"""The digits graph against brute force."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ncgnn.data.sources.digits import both_directions, find_nearest, parse


@pytest.fixture(scope="module")
def digits():
    return parse({})


def brute_force_nearest(points: np.ndarray, node: int, neighbors: int) -> list[int]:
    distances = [sum((int(a) - int(b)) ** 2 for a, b in zip(points[node], other, strict=True))
                 for other in points]  # fmt: skip
    others = [other for other in range(len(points)) if other != node]
    return sorted(others, key=lambda other: (distances[other], other))[:neighbors]


def test_the_content(digits):
    assert digits.features.shape == (1797, 64)
    assert digits.features.dtype == np.float32
    assert digits.class_names == tuple("0123456789")
    assert np.unique(digits.labels).tolist() == list(range(10))
    assert "Alpaydin" in digits.origin
    assert "8 nearest" in digits.origin
    assert not digits.shipped_splits


def test_the_edges_are_symmetric_without_loops_and_duplicates(digits):
    targets, sources = digits.edge_index()
    assert (sources != targets).all()
    forward, backward = sources * 1797 + targets, targets * 1797 + sources
    assert (np.diff(forward) > 0).all()
    assert np.array_equal(forward, np.sort(backward))
    assert np.bincount(sources, minlength=1797).min() >= 8


def test_the_edges_never_change(digits):
    assert digits.edge_index().shape == (2, 19858)
    form = digits.edge_index()[::-1].astype("<i8").tobytes()
    assert hashlib.sha256(form).hexdigest() == (
        "6ee48920e7ec45ace976950197fe95b4f3258c03896f33e91e5ff58c61c31849"
    )


def test_neighbors_agree_with_brute_force(digits):
    nearest = find_nearest(digits.features.astype(np.int64), 8)
    edges = set(zip(*digits.edge_index().tolist(), strict=True))
    for node in range(0, 1797, 120):
        expected = brute_force_nearest(digits.features, node, 8)
        assert sorted(nearest[node].tolist()) == sorted(expected)
        for other in expected:
            assert (node, other) in edges
            assert (other, node) in edges


@given(
    points=hnp.arrays(np.int64, st.tuples(st.integers(2, 12), st.integers(1, 3)),
                      elements=st.integers(0, 3)),
    data=st.data(),
)  # fmt: skip
@settings(deadline=None)
def test_ties_go_to_the_lower_index(points, data):
    neighbors = data.draw(st.integers(1, len(points) - 1))
    nearest = find_nearest(points, neighbors)
    expected = [brute_force_nearest(points, node, neighbors) for node in range(len(points))]
    assert [sorted(row) for row in nearest.tolist()] == [sorted(row) for row in expected]
    pairs = {(node, other) for node, row in enumerate(expected) for other in row}
    pairs |= {(other, node) for node, other in pairs}
    assert list(zip(*both_directions(nearest).tolist(), strict=True)) == sorted(pairs)


def test_most_edges_stay_within_a_digit(digits):
    targets, sources = digits.edge_index()
    assert 0.9 < (digits.labels[sources] == digits.labels[targets]).mean() < 1
