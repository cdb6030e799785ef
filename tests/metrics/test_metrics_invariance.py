"""What must not change a metric: the numbers of nodes and classes, the order and type of edges."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_strategies import Case, cases, larger_cases

from ncgnn import metrics
from ncgnn.errors import InputError

MODERATE = settings(deadline=None, max_examples=40)

equal = np.testing.assert_allclose


def per_node(graph, labels=None, **options):
    """Every per-node value, one row per node."""
    columns = []
    for hops in (1, 2):
        for neighborhood in ("closed", "open"):
            same = {"hops": hops, "neighborhood": neighborhood, **options}
            columns += [
                metrics.neighborhood_confusion(graph, labels, **same),
                metrics.node_homophily(graph, labels, **same),
                metrics.neighborhood_entropy(graph, labels, **same),
            ]
    return np.stack(columns, axis=1)


def of_graph(graph, labels=None, **options):
    """Every number that describes the whole graph."""
    return [
        metrics.edge_homophily(graph, labels, **options),
        metrics.class_insensitive_homophily(graph, labels, **options),
        metrics.adjusted_homophily(graph, labels, **options),
        metrics.label_informativeness(graph, labels, **options),
        metrics.label_informativeness(graph, labels, kind="node", **options),
        metrics.duplication_rates(graph, labels).neighbors,
        metrics.duplication_rates(graph, labels, direction="in").neighbors,
    ]


def shuffled(values, seed):
    values = list(values)
    random.Random(seed).shuffle(values)
    return values


@given(case=cases() | larger_cases(), seed=st.integers(0, 2**32))
@MODERATE
def test_renumbering_the_nodes(case, seed):
    number = shuffled(range(case.num_nodes), seed)
    labels = [0] * case.num_nodes
    for old, new in enumerate(number):
        labels[new] = case.labels[old]
    edges = [(number[u], number[v]) for u, v in case.edges]
    renumbered = Case(case.num_nodes, edges, labels, case.num_classes)
    equal(per_node(renumbered.graph())[number], per_node(case.graph()), atol=1e-12)
    equal(of_graph(renumbered.graph()), of_graph(case.graph()), atol=1e-9)
    assert np.array_equal(
        metrics.class_pair_counts(renumbered.graph()), metrics.class_pair_counts(case.graph())
    )


@given(case=cases() | larger_cases(), seed=st.integers(0, 2**32))
@MODERATE
def test_renaming_the_classes(case, seed):
    name = [*shuffled(range(case.num_classes), seed), -1]
    renamed = [name[label] for label in case.labels]
    graph = case.graph()
    equal(per_node(graph, renamed), per_node(graph), atol=1e-12)
    equal(of_graph(graph, renamed), of_graph(graph), atol=1e-9)
    names = name[:-1]
    assert np.array_equal(
        metrics.class_pair_counts(graph, renamed)[np.ix_(names, names)],
        metrics.class_pair_counts(graph),
    )
    equal(
        metrics.neighborhood_class_distribution(graph, renamed)[:, names],
        metrics.neighborhood_class_distribution(graph),
    )


@given(case=cases(), seed=st.integers(0, 2**32), repeats=st.integers(0, 2))
@MODERATE
def test_order_and_repetition_of_edges(case, seed, repeats):
    edges = shuffled(case.edges * (repeats + 1), seed)
    other = Case(case.num_nodes, edges, case.labels, case.num_classes)
    assert np.array_equal(per_node(other.graph()), per_node(case.graph()), equal_nan=True)
    assert np.array_equal(of_graph(other.graph()), of_graph(case.graph()), equal_nan=True)


@given(case=cases())
@MODERATE
def test_self_loops_are_no_neighbors(case):
    kept, dropped = case.graph(), case.graph(self_loops="drop")
    looped = Case(
        case.num_nodes,
        [*case.edges, *((v, v) for v in range(case.num_nodes))],
        case.labels,
        case.num_classes,
    ).graph()
    for other in (dropped, looped):
        assert np.array_equal(per_node(other), per_node(kept), equal_nan=True)
        assert np.array_equal(of_graph(other)[:5], of_graph(kept)[:5], equal_nan=True)


@given(case=cases())
@settings(deadline=None, max_examples=20)
def test_form_and_type_of_the_input(case):
    graph = case.graph()
    expected = per_node(graph)
    options = {"num_classes": case.num_classes}
    forms = [case.edge_index(kind) for kind in (np.int32, np.int64, np.uint8)]
    forms += [torch.from_numpy(case.edge_index()), np.asfortranarray(case.edge_index())]
    for edges in forms:
        assert np.array_equal(per_node(edges, case.labels, **options), expected, equal_nan=True)
    small = np.array(case.labels, dtype=np.int8)
    assert np.array_equal(per_node(graph, small), expected, equal_nan=True)
    tensors = torch.tensor(case.labels, dtype=torch.int32)
    assert np.array_equal(per_node(graph, tensors), expected, equal_nan=True)
    matrix = graph.to_scipy()
    assert np.array_equal(per_node(matrix, case.labels, **options), expected, equal_nan=True)


@given(case=cases(), spare=st.integers(1, 300))
@MODERATE
def test_classes_without_nodes_change_the_scale_of_confusion_alone(case, spare):
    graph = case.graph()
    count = case.num_classes + spare
    wider = metrics.neighborhood_confusion(graph, num_classes=count)
    assert graph.num_classes == case.num_classes
    if case.num_classes > 1:
        scale = np.log(case.num_classes) / np.log(count)
        equal(wider, metrics.neighborhood_confusion(graph) * scale, atol=1e-12)
    equal(metrics.node_homophily(graph, num_classes=count), metrics.node_homophily(graph))
    equal(
        metrics.neighborhood_entropy(graph, num_classes=count),
        metrics.neighborhood_entropy(graph),
        atol=1e-12,
    )
    equal(
        of_graph(graph, num_classes=None)[:5],
        [
            metrics.edge_homophily(graph, num_classes=count),
            metrics.class_insensitive_homophily(graph, num_classes=count),
            metrics.adjusted_homophily(graph, num_classes=count),
            metrics.label_informativeness(graph, num_classes=count),
            metrics.label_informativeness(graph, kind="node", num_classes=count),
        ],
        atol=1e-9,
    )


def test_labels_given_win_over_those_of_the_graph():
    case = Case(3, [(0, 1), (1, 0), (1, 2), (2, 1)], [0, 0, 0], 2)
    other = Case(3, case.edges, [0, 1, 0], 2)
    assert np.array_equal(per_node(case.graph(), other.labels), per_node(other.graph()))
    assert metrics.edge_homophily(case.graph(), other.labels) == 0
    assert metrics.edge_homophily(case.graph()) == 1


def test_an_unlabeled_graph_with_labels():
    bare = Case(2, [(0, 1), (1, 0)], [-1, -1], 0).graph(require_labels=False, num_classes=None)
    equal(metrics.neighborhood_confusion(bare, [0, 2]), [np.log(2) / np.log(3)] * 2)
    assert metrics.class_pair_counts(bare, [0, 2]).shape == (3, 3)


ALL = [
    metrics.neighborhood_confusion,
    metrics.node_homophily,
    metrics.neighborhood_entropy,
    metrics.neighborhood_class_distribution,
    metrics.class_pair_counts,
    metrics.edge_homophily,
    metrics.class_insensitive_homophily,
    metrics.adjusted_homophily,
    metrics.label_informativeness,
    metrics.duplication_rates,
    metrics.analyze,
]


@pytest.mark.parametrize("metric", ALL)
def test_every_metric_refuses_bad_labels(metric):
    graph = Case(2, [(0, 1)], [0, 1], 2).graph()
    bad = [([0], "shape"), ([0, 7], "class 7"), ([0, -2], "-2"), ([-1, -1], "no labels")]
    for labels, says in bad:
        with pytest.raises(InputError, match=says) as caught:
            metric(graph, labels)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no labels"):
        metric(np.array([[0], [1]]))


@pytest.mark.parametrize("metric", ALL[:4])
def test_node_metrics_refuse_wrong_options(metric):
    graph = Case(2, [(0, 1)], [0, 1], 2).graph()
    for hops in (0, -1):
        with pytest.raises(InputError, match="hops"):
            metric(graph, hops=hops)
    with pytest.raises(InputError, match="neighborhood"):
        metric(graph, neighborhood="half-open")
    with pytest.raises(InputError, match="num_classes"):
        metric(graph, num_classes=1)


@pytest.mark.parametrize("edges", [[(0, 1)], []])
def test_graph_metrics_refuse_wrong_options(edges):
    graph = Case(2, edges, [0, 1], 2).graph()
    with pytest.raises(InputError, match="kind"):
        metrics.label_informativeness(graph, kind="vertex")
    with pytest.raises(InputError, match="direction"):
        metrics.duplication_rates(graph, direction="sideways")


def test_tables_of_too_many_classes_are_refused():
    graph = Case(2, [(0, 1)], [0, 1], 2).graph()
    with pytest.raises(InputError, match="got 20000"):
        metrics.class_pair_counts(graph, num_classes=20_000)
