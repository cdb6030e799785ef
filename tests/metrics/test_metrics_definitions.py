"""Every metric against its definition, written out in ``brute_force``."""

from __future__ import annotations

import math

import brute_force as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_strategies import Case, cases, drawn_case, larger_cases
from scipy.sparse import csr_array

from ncgnn import metrics
from ncgnn.graph import Graph
from ncgnn.metrics.homophily import class_pairs
from ncgnn.metrics.neighborhoods import label_graph

SMALL = settings(deadline=None, max_examples=60)
LARGER = settings(deadline=None, max_examples=15)
NEIGHBORHOODS = ["closed", "open"]

equal = np.testing.assert_allclose


def check_every_node_metric(case: Case, hops: int, neighborhood: str, empty: float) -> None:
    graph, closed = case.graph(), neighborhood == "closed"
    plain = (case.num_nodes, case.edges, case.labels)
    options = {"hops": hops, "neighborhood": neighborhood, "empty": empty}
    expected = {"hops": hops, "closed": closed, "empty": empty}
    equal(
        metrics.neighborhood_confusion(graph, **options),
        brute.confusion(*plain, case.num_classes, **expected),
        atol=1e-12,
    )
    equal(
        metrics.relative_confusion(graph, **options),
        brute.relative_confusion(*plain, case.num_classes, **expected),
        atol=1e-12,
    )
    equal(metrics.node_homophily(graph, **options), brute.node_homophily(*plain, **expected))
    equal(
        metrics.neighborhood_entropy(graph, **options),
        brute.entropy(*plain, **expected),
        atol=1e-12,
    )
    equal(
        metrics.neighborhood_class_distribution(graph, **options),
        brute.distribution(*plain, case.num_classes, **expected),
    )


def check_every_edge_metric(case: Case) -> None:
    graph = case.graph()
    edges, labels = case.edges, case.labels
    pairs = metrics.class_pair_counts(graph)
    assert pairs.tolist() == brute.class_pairs(edges, labels, case.num_classes)
    equal(metrics.edge_homophily(graph), brute.edge_homophily(edges, labels))
    equal(
        metrics.class_insensitive_homophily(graph),
        brute.class_insensitive_homophily(edges, labels),
        atol=1e-12,
    )
    equal(metrics.adjusted_homophily(graph), brute.adjusted_homophily(edges, labels), atol=1e-12)
    equal(
        metrics.label_informativeness(graph),
        brute.informativeness_of_edges(edges, labels),
        atol=1e-9,
    )
    equal(
        metrics.label_informativeness(graph, kind="node"),
        brute.informativeness_of_nodes(case.num_nodes, edges, labels),
        atol=1e-9,
    )


@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS)
@pytest.mark.parametrize("hops", [1, 2, 3])
@given(case=cases(), empty=st.sampled_from([math.nan, 0.0, -1.0]))
@SMALL
def test_node_metrics_of_small_graphs(hops, neighborhood, case, empty):
    check_every_node_metric(case, hops, neighborhood, empty)


@given(case=larger_cases(), hops=st.integers(1, 3), neighborhood=st.sampled_from(NEIGHBORHOODS))
@LARGER
def test_node_metrics_of_larger_graphs(case, hops, neighborhood):
    check_every_node_metric(case, hops, neighborhood, math.nan)


@given(case=cases())
@settings(deadline=None, max_examples=80)
def test_edge_metrics_of_small_graphs(case):
    check_every_edge_metric(case)


@given(case=larger_cases())
@LARGER
def test_edge_metrics_of_larger_graphs(case):
    check_every_edge_metric(case)


@given(case=cases())
@SMALL
def test_class_pair_shares_are_the_mean_distribution_of_each_class(case):
    known = [v for v in range(case.num_nodes) if case.labels[v] >= 0]
    rows = brute.distribution(
        case.num_nodes, case.edges, case.labels, case.num_classes, closed=False, empty=0.0
    )
    drawn = [v for v in known if sum(rows[v]) > 0]
    expected = np.zeros((case.num_classes, case.num_classes))
    for v in drawn:
        expected[case.labels[v]] += np.array(rows[v]) / len(drawn)
    equal(class_pairs(label_graph(case.graph()))[1], expected, atol=1e-12)


FEATURE_ROWS = st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5]), min_size=3, max_size=3)


@given(case=cases(classes=(1, 2)), data=st.data())
@SMALL
def test_duplication_rates(case, data):
    rows = data.draw(
        st.lists(FEATURE_ROWS, min_size=case.num_nodes, max_size=case.num_nodes), label="features"
    )
    kind = data.draw(st.sampled_from([np.float32, np.float64]))
    dense = np.array(rows, dtype=kind).reshape(-1, 3)
    stored = csr_array(
        (dense.ravel(), np.tile([0, 1, 2], len(rows)), np.arange(len(rows) + 1) * 3),
        shape=dense.shape,
    )
    for features in (dense, csr_array(dense), stored):
        graph = case.graph(features=features)
        for binary in (False, True):
            for direction in ("out", "in"):
                rates = metrics.duplication_rates(
                    graph, direction=direction, binary_features=binary
                )
                assert rates.neighbors == pytest.approx(
                    brute.duplicated_neighbors(case.num_nodes, case.edges, case.labels, direction)
                )
                assert rates.features == pytest.approx(
                    brute.duplicated_features(rows, case.labels, binary)
                )


@given(case=larger_cases())
@LARGER
def test_duplication_rates_of_larger_graphs(case):
    for direction in ("out", "in"):
        rates = metrics.duplication_rates(case.graph(), direction=direction)
        assert rates.neighbors == pytest.approx(
            brute.duplicated_neighbors(case.num_nodes, case.edges, case.labels, direction)
        )
        assert math.isnan(rates.features)


def test_duplication_counts_repeats_and_not_members_of_groups():
    # Three copies of one node repeat it twice; the fourth differs in its label alone.
    graph = Graph.from_edge_index(
        np.array([[0, 1, 2, 3], [4, 4, 4, 4]]), labels=[0, 0, 0, 1, 1], features=np.eye(5)
    )
    assert metrics.duplication_rates(graph).neighbors == pytest.approx(2 / 5)
    assert metrics.duplication_rates(graph).features == 0


@given(case=cases(directed=[False], classes=(2, 3, 4)))
@SMALL
def test_adjusted_homophily_of_undirected_graphs_uses_degrees(case):
    kept = brute.labeled_edges(case.edges, case.labels)
    degree = [0] * case.num_nodes
    for _, target in kept:
        degree[target] += 1
    share = [0.0] * case.num_classes
    for node, label in enumerate(case.labels):
        if label >= 0 and kept:
            share[label] += degree[node] / len(kept)
    chance = sum(p * p for p in share)
    value = metrics.adjusted_homophily(case.graph())
    if not kept or max(share) > 1 - 1e-9:
        assert math.isnan(value)
    else:
        same = brute.edge_homophily(case.edges, case.labels)
        assert value == pytest.approx((same - chance) / (1 - chance), abs=1e-12)


@given(case=cases())
@SMALL
def test_values_stay_in_their_ranges(case):
    graph = case.graph()
    for hops in (1, 2):
        confusion = metrics.neighborhood_confusion(graph, hops=hops)
        assert np.all((confusion >= 0) & (confusion <= 1) | np.isnan(confusion))
        entropy = metrics.neighborhood_entropy(graph, hops=hops)
        bound = math.log2(case.num_classes) + 1e-12
        assert np.all((entropy >= 0) & (entropy <= bound) | np.isnan(entropy))
    informativeness = metrics.label_informativeness(graph)
    assert math.isnan(informativeness) or -1e-12 <= informativeness <= 1 + 1e-12


def test_informativeness_of_the_published_example():
    ends = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5)]
    case = Case(6, ends, [0, 0, 0, 0, 1, 1], 2).undirected()
    assert metrics.label_informativeness(case.graph()) == pytest.approx(0.25178, abs=5e-6)
    assert metrics.label_informativeness(case.graph(), kind="node") == pytest.approx(
        0.33819, abs=5e-6
    )


def test_the_star_of_figure_1():
    star = np.array([[1, 2, 3, 0, 0, 0], [0, 0, 0, 1, 2, 3]])
    labels = [0, 1, 1, 1]
    confusion = metrics.neighborhood_confusion(star, labels)
    assert confusion[0] == pytest.approx(math.log2(4 / 3))
    assert round(float(confusion[0]), 3) == 0.415
    assert metrics.node_homophily(star, labels).tolist() == [0, 0, 0, 0]


def test_neighbors_are_the_sources_of_incoming_edges():
    # 0 -> 1 -> 2: node 2 hears of 1, and of 0 in two steps; node 0 hears of nobody.
    case = Case(3, [(0, 1), (1, 2)], [0, 1, 2], 3)
    graph = case.graph()
    rows = metrics.neighborhood_class_distribution(graph, neighborhood="open", empty=-1)
    assert rows.tolist() == [[-1, -1, -1], [1, 0, 0], [0, 1, 0]]
    rows = metrics.neighborhood_class_distribution(graph, hops=2)
    equal(rows, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    assert metrics.class_pair_counts(graph).tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_way_back_to_a_node_does_not_count_it_twice(hops):
    ring = Case(3, [(0, 1), (1, 2), (2, 0), (0, 0)], [0, 1, 1], 2)
    members = min(hops, 2)
    rows = metrics.neighborhood_class_distribution(ring.graph(), hops=hops)
    assert rows[0].tolist() == [1 / (members + 1), members / (members + 1)]


@pytest.mark.parametrize("num_classes", [2, 16, 17, 255, 256, 300])
@pytest.mark.parametrize("hops", [1, 2])
def test_all_classes_equally_common_is_full_confusion(num_classes, hops):
    edges = [(v, 0) for v in range(1, num_classes)]
    case = Case(num_classes, edges, list(range(num_classes)), num_classes)
    confusion = metrics.neighborhood_confusion(case.graph(), hops=hops)
    assert confusion[0] == pytest.approx(1, abs=1e-12)
    assert confusion[0] <= 1
    assert np.all(confusion[1:] == 0)


def test_one_class_has_no_confusion():
    case = drawn_case(1, 50, 4, 1, unlabeled=0.5)
    for neighborhood in NEIGHBORHOODS:
        values = metrics.neighborhood_confusion(case.graph(), neighborhood=neighborhood, empty=-1.0)
        assert set(values.tolist()) <= {0.0, -1.0}
    assert math.isnan(metrics.class_insensitive_homophily(case.graph()))
    assert math.isnan(metrics.adjusted_homophily(case.graph()))
    assert math.isnan(metrics.label_informativeness(case.graph()))
    assert metrics.edge_homophily(case.graph()) == 1


def test_a_graph_without_edges():
    graph = Case(3, [], [0, 1, -1], 2).graph()
    equal(metrics.neighborhood_confusion(graph), [0, 0, np.nan])
    equal(metrics.neighborhood_confusion(graph, neighborhood="open"), [np.nan] * 3)
    equal(metrics.node_homophily(graph, empty=0), [0, 0, np.nan])
    equal(metrics.node_homophily(graph, neighborhood="closed"), [1, 1, np.nan])
    assert math.isnan(metrics.edge_homophily(graph))
    assert math.isnan(metrics.adjusted_homophily(graph))
    assert metrics.class_insensitive_homophily(graph) == 0
    for kind in ("edge", "node"):
        assert math.isnan(metrics.label_informativeness(graph, kind=kind))
    assert metrics.duplication_rates(graph).neighbors == 0


def test_mean_skips_undefined_nodes():
    assert metrics.mean(np.array([1.0, np.nan, 2.0])) == 1.5
    assert math.isnan(metrics.mean(np.array([np.nan])))
    assert math.isnan(metrics.mean(np.array([])))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_every_exported_name_loads():
    assert set(metrics.__all__) <= set(dir(metrics))
    for name in metrics.__all__:
        found = getattr(metrics, name)
        assert name.isupper() or found.__name__.rpartition(".")[2] == name
    with pytest.raises(AttributeError, match="no attribute 'homophilly'"):
        _ = metrics.homophilly
