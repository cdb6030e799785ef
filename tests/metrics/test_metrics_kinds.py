"""The four kinds of nodes and what stands around them, against plain counting."""

from __future__ import annotations

import math

import brute_force
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_strategies import Case, cases, drawn_case, larger_cases

import ncgnn
from ncgnn.errors import InputError
from ncgnn.graph import Graph


@given(case=st.one_of(cases(), larger_cases()), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=150)
def test_kinds_are_those_counted_by_hand(case, seed):
    graph, plain = case.graph(), (case.num_nodes, case.edges, case.labels)
    assert ncgnn.node_kinds(graph).tolist() == brute_force.kinds(*plain)
    guesses = np.random.default_rng(seed).integers(-1, case.num_classes, case.num_nodes)
    found = ncgnn.node_kinds(graph, predicted=guesses)
    assert found.tolist() == brute_force.kinds(*plain, predicted=guesses)


def test_each_kind_by_name():
    """Node 0 has two a and one b around it, node 4 one of each, node 7 nobody."""
    edges = [(1, 0), (2, 0), (3, 0), (1, 4), (3, 4), (1, 5), (2, 5), (3, 6), (3, 3)]
    labels = [0, 0, 0, 1, 1, 1, -1, 1]
    graph = Case(8, edges, labels, 2).graph()
    kinds = ncgnn.node_kinds(graph).tolist()
    assert kinds == ["clear", "alone", "alone", "alone", "mixed", "contrary", "", "alone"]
    guessed = ncgnn.node_kinds(graph, predicted=[1, 1, 1, 1, 1, 1, 1, 1])
    assert guessed.tolist() == [*kinds[:6], "clear", "alone"]
    assert ncgnn.node_kinds(graph, predicted=[0] * 8)[6] == "contrary"


def test_other_labels_and_other_forms_of_a_graph():
    path = nx.path_graph(3)
    assert ncgnn.node_kinds(path, labels=[0, 1, 1]).tolist() == ["contrary", "mixed", "clear"]
    case = drawn_case(3, 40, 3, 4)
    labels = [0] * 40
    found = ncgnn.node_kinds(case.graph(), labels)
    assert set(found.tolist()) <= {"clear", "alone"}


@given(case=st.one_of(cases(), larger_cases()))
@settings(deadline=None, max_examples=80)
def test_classes_of_neighbors_are_those_counted_by_hand(case):
    expected = brute_force.counts(case.num_nodes, case.edges, case.labels, 1, closed=False)
    every = ncgnn.neighbor_classes(case.graph(), np.arange(case.num_nodes))
    first = ncgnn.neighbor_classes(case.graph(), np.arange(case.num_nodes), most=1)
    for around, found, commonest in zip(expected, every, first, strict=True):
        ranked = sorted(around.items(), key=lambda pair: (-pair[1], pair[0]))
        assert list(found.items()) == [(str(label), count) for label, count in ranked]
        assert list(commonest.items()) == list(found.items())[:1]


def test_classes_of_neighbors_have_names():
    edges = np.array([[1, 2, 3, 4], [0, 0, 0, 0]])
    graph = Graph.from_edge_index(edges, labels=[0, 1, 0, 1, -1], class_names=["net", "libs"])
    assert ncgnn.neighbor_classes(graph, 0) == [{"libs": 2, "net": 1}]
    assert ncgnn.neighbor_classes(graph, [1, 0], most=1) == [{}, {"libs": 2}]
    assert ncgnn.neighbor_classes(graph, []) == []


@pytest.mark.parametrize("nodes", [[5], [-1], [0.5], [[0]], ["a"]])
def test_unknown_nodes_are_refused(nodes):
    graph = Case(5, [(1, 0)], [0, 1, 0, 1, 0], 2).graph()
    with pytest.raises(InputError, match="nodes must be"):
        ncgnn.neighbor_classes(graph, nodes)


def lowest(part, whole):
    z, p = 1.959964, part / whole
    root = math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    return (p + z * z / (2 * whole) - z * root) / (1 + z * z / whole)


@pytest.mark.parametrize("kind", ["mixed", "contrary"])
@pytest.mark.parametrize("unlabeled", [0.0, 0.3])
def test_striking_nodes_are_ranked_as_the_formula_says(kind, unlabeled):
    case = drawn_case(5, 200, 6, 5, unlabeled=unlabeled, directed=False)
    graph = case.graph()
    pairs = ncgnn.metrics.class_pair_counts(graph)
    around = brute_force.counts(case.num_nodes, case.edges, case.labels, 1, closed=False)
    expected = {}
    for node, found in enumerate(brute_force.kinds(case.num_nodes, case.edges, case.labels)):
        if found != kind:
            continue
        top, label = max(around[node].values()), case.labels[node]
        leader = min(c for c, count in around[node].items() if count == top)
        total = around[node].total()
        expected[node] = lowest(total - top, total)
        if kind == "contrary":
            usual = pairs[label, leader] / pairs[label].sum()
            expected[node] = lowest(top, total) - usual
    found = ncgnn.striking_nodes(graph, kind, 1000)
    assert {one.node: one.evidence for one in found} == pytest.approx(expected)
    evidence = [one.evidence for one in found]
    assert evidence == sorted(evidence, reverse=True)
    assert [one.node for one in ncgnn.striking_nodes(graph, kind, 3)] == [
        one.node for one in found[:3]
    ]
    for one in found:
        assert one.neighbors == {str(c): count for c, count in around[one.node].items()}
        assert one.share == max(one.neighbors.values()) / sum(one.neighbors.values())


def test_many_neighbors_are_more_evidence_than_few():
    """Two of two neighbors are of the other class, or nineteen of twenty."""
    few = [(2, 0), (3, 0)]
    many = [(node, 1) for node in range(4, 24)]
    labels = [0, 0, 1, 1, *[1] * 19, 0]
    found = ncgnn.striking_nodes(Case(24, few + many, labels, 2).graph(), "contrary")
    assert [one.node for one in found] == [1, 0]
    assert found[0].neighbors == {"1": 19, "0": 1}


def test_a_class_that_lives_among_another_is_no_surprise():
    """Class 1 has neighbors of class 0 always, class 2 once; both nodes have four of them."""
    edges = [(source, target) for target in (4, 5, 6) for source in range(4)]
    edges += [(source, 7) for source in range(4)]
    edges += [(source, target) for target in (8, 9) for source in (7, 10)]
    graph = Case(11, edges, [0] * 4 + [1] * 3 + [2] * 4, 3).graph()
    found = ncgnn.striking_nodes(graph, "contrary")
    assert [one.node for one in found] == [7, 4, 5, 6]
    assert [one.usual for one in found] == [0.5, 1, 1, 1]


def test_other_kinds_are_not_ranked():
    with pytest.raises(InputError, match="'mixed' or 'contrary'; got 'clear'"):
        ncgnn.striking_nodes(Case(2, [(0, 1)], [0, 1], 2).graph(), "clear")
