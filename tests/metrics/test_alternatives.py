"""The metrics of other papers against their definitions, and cases that are known by hand."""

from __future__ import annotations

import math

import brute_force as brute
import numpy as np
import pytest
from hypothesis import given, settings
from metric_strategies import Case, cases, drawn_case

from ncgnn import metrics
from ncgnn.errors import InputError

SMALL = settings(deadline=None, max_examples=60)
equal = np.testing.assert_allclose


@given(case=cases())
@SMALL
def test_two_hop_similarity_is_the_share_of_walks(case: Case) -> None:
    for empty in (math.nan, 0.5):
        expected = brute.two_hop_similarity(case.num_nodes, case.edges, case.labels, empty)
        equal(metrics.two_hop_similarity(case.graph(), empty=empty), expected)


@given(case=cases())
@SMALL
def test_aggregation_similarity_without_pairs_of_nodes(case: Case) -> None:
    plain = (case.num_nodes, case.edges, case.labels, case.num_classes)
    equal(metrics.aggregation_similarity(case.graph()), brute.aggregation_similarity(*plain))


@given(case=cases())
@SMALL
def test_density_aware_homophily_from_densities(case: Case) -> None:
    expected = brute.density_aware_homophily(case.edges, case.labels, case.num_classes)
    equal(metrics.density_aware_homophily(case.graph()), expected, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
@given(case=cases())
@settings(deadline=None, max_examples=30)
def test_local_assortativity_of_one_scale(alpha: float, case: Case) -> None:
    expected = brute.local_assortativity(case.num_nodes, case.edges, case.labels, alpha, -2.0)
    found = metrics.local_assortativity(case.graph(), alpha=alpha, empty=-2.0)
    equal(found, expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_local_assortativity_of_all_scales(seed: int) -> None:
    """A hundred steps and the mean of the last two stand for a walk without end."""
    case = drawn_case(seed, 60, 3, 4)
    expected = brute.local_assortativity(case.num_nodes, case.edges, case.labels, None)
    equal(metrics.local_assortativity(case.graph()), expected, atol=3e-3)


def test_a_long_walk_sees_the_whole_graph() -> None:
    case = drawn_case(1, 80, 3, 6).undirected()
    graph = Case(
        case.num_nodes, case.edges, [abs(y) for y in case.labels], case.num_classes
    ).graph()
    far = metrics.local_assortativity(graph, alpha=0.9999)
    connected = graph.degrees > 0
    assert connected.sum() > 70
    equal(far[connected], metrics.adjusted_homophily(graph), atol=2e-3)


def square(labels: list[int], **fields: object):
    """Nodes 0 to 3 in a ring."""
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    return Case(4, ring, labels, 2).undirected().graph(**fields)


def test_a_bipartite_graph_is_alike_two_steps_away() -> None:
    graph = square([0, 1, 0, 1])
    assert metrics.node_homophily(graph).tolist() == [0, 0, 0, 0]
    assert metrics.two_hop_similarity(graph).tolist() == [1, 1, 1, 1]
    assert metrics.local_assortativity(graph).tolist() == [-1, -1, -1, -1]
    # Within a class nobody is joined, between the classes all are: d = 0 and 1.
    assert metrics.density_aware_homophily(graph) == 0
    # Every row is (1/3, 2/3) or (2/3, 1/3): 5/9 within a class, 4/9 between.
    assert metrics.aggregation_similarity(graph) == 1


def test_two_pairs_that_know_each_other() -> None:
    graph = square([0, 0, 1, 1])
    assert metrics.two_hop_similarity(graph).tolist() == [0, 0, 0, 0]
    assert metrics.local_assortativity(graph) == pytest.approx([0] * 4)
    # One edge in both directions among four pairs within a class, and the same between classes.
    assert metrics.density_aware_homophily(graph) == 0.5
    # A node sees two of its class of three: (2/3, 1/3), (2/3, 1/3) beside (1/3, 2/3) twice.
    assert metrics.aggregation_similarity(graph) == 1


def test_classes_apart_are_the_best_there_is() -> None:
    full = [(u, v) for part in ((0, 1, 2), (3, 4)) for u in part for v in part]
    graph = Case(5, full, [0, 0, 0, 1, 1], 2).graph()  # self-loops do not count
    assert metrics.density_aware_homophily(graph) == pytest.approx(0.5 + 0.5 * 2 / 4)
    assert metrics.local_assortativity(graph) == pytest.approx([1] * 5)
    similar = metrics.two_hop_similarity(graph)
    assert similar[:3].tolist() == [1, 1, 1]
    assert np.isnan(similar[3:]).all()  # all walks of two steps return


def test_a_hub_whose_own_class_is_rare_around_it() -> None:
    """The middle of a star is of class 0, all others of class 1 but one."""
    star = Case(5, [(0, n) for n in range(1, 5)], [0, 1, 1, 1, 0], 2).undirected().graph()
    # h_0 = (2, 3)/5; leaves of class 1: (1, 1)/2; the leaf of class 0: (1, 0). Class sums
    # m_0 = (1.4, 0.6), m_1 = (1.5, 1.5): node 0 has 0.46 beside 0.5, a leaf of class 1 has
    # 0.5 beside 0.5, which is equal, and the leaf of class 0 has 0.7 beside 0.5.
    assert metrics.aggregation_similarity(star) == pytest.approx(4 / 5)


def test_alpha_must_leave_a_walk_an_end() -> None:
    for alpha in (1.0, -0.1, float("nan")):
        with pytest.raises(InputError, match="alpha must be from 0 to below 1"):
            metrics.local_assortativity(square([0, 1, 0, 1]), alpha=alpha)


def test_one_class_leaves_nothing_to_compare() -> None:
    graph = Case(3, [(0, 1), (1, 0)], [0, 0, 0], 1).graph()
    assert math.isnan(metrics.aggregation_similarity(graph))
    assert math.isnan(metrics.density_aware_homophily(graph))
    assert np.isnan(metrics.local_assortativity(graph)).all()
