"""The summary of a graph and the PyTorch Geometric transform."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from metric_strategies import Case, cases, drawn_case

import ncgnn
from ncgnn import metrics
from ncgnn.graph import Graph

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

KEYS = {"name", "nodes", "edges", "features", "classes", "unlabeled", "means"}
MEANS = {
    "nh_open",
    "nh_closed",
    "nc_1",
    "nc_2",
    "edge_homophily",
    "class_insensitive_homophily",
    "adjusted_homophily",
    "label_informativeness",
}


def strict(analysis):
    """The summary through strict JSON."""
    return json.loads(json.dumps(analysis.to_json(), allow_nan=False))


@given(case=cases())
@settings(deadline=None, max_examples=40)
def test_the_summary_holds_what_the_single_functions_say(case):
    graph = case.graph(name="small")
    found = metrics.analyze(graph)
    mean = metrics.mean
    expected = {
        "nh_open": mean(metrics.node_homophily(graph)),
        "nh_closed": mean(metrics.node_homophily(graph, neighborhood="closed")),
        "nc_1": mean(metrics.neighborhood_confusion(graph)),
        "nc_2": mean(metrics.neighborhood_confusion(graph, hops=2)),
        "relative_nc_1": mean(metrics.relative_confusion(graph)),
        "relative_nc_2": mean(metrics.relative_confusion(graph, hops=2)),
        "entropy_1": mean(metrics.neighborhood_entropy(graph)),
        "entropy_2": mean(metrics.neighborhood_entropy(graph, hops=2)),
        "edge_homophily": metrics.edge_homophily(graph),
        "class_insensitive_homophily": metrics.class_insensitive_homophily(graph),
        "adjusted_homophily": metrics.adjusted_homophily(graph),
        "label_informativeness": metrics.label_informativeness(graph),
        "label_informativeness_node": metrics.label_informativeness(graph, kind="node"),
    }
    assert found.means == pytest.approx(expected, nan_ok=True)
    rates, expected_rates = found.duplication, metrics.duplication_rates(graph)
    assert rates.neighbors == expected_rates.neighbors
    assert np.array_equal(found.class_pairs, metrics.class_pair_counts(graph))
    summary = strict(found)
    assert set(summary) >= KEYS
    assert set(summary["means"]) >= MEANS
    for key, value in expected.items():
        plain = summary["means"][key]
        assert (plain is None) if math.isnan(value) else (plain == pytest.approx(value))


def test_the_summary_describes_the_graph():
    case = Case(4, [(0, 1), (1, 0), (2, 2)], [0, 1, 1, -1], 3)
    summary = strict(metrics.analyze(case.graph(name="four", features=np.eye(4), origin="here")))
    described = {k: value for k, value in summary.items() if not isinstance(value, dict | list)}
    assert described == {
        "name": "four",
        "nodes": 4,
        "edges": 2,
        "directed": False,
        "self_loops": 1,
        "features": 4,
        "classes": 3,
        "unlabeled": 1,
        "threshold": 0.5,
        "origin": "here",
    }
    assert summary["duplication"] == {"neighbors": 0.0, "features": 0.0}
    assert summary["means"]["edge_homophily"] == 0


def test_undefined_numbers_become_null():
    summary = strict(metrics.analyze(Case(2, [], [0, 0], 1).graph()))
    assert summary["means"]["edge_homophily"] is None
    assert summary["means"]["nh_open"] is None
    assert summary["duplication"]["features"] is None
    assert summary["means"]["nc_1"] == 0


def test_hops_and_threshold_are_the_callers():
    case = drawn_case(3, 80, 4, 4)
    found = metrics.analyze(case.graph(), hops=[3], threshold=0.3)
    assert found.hops == (3,)
    confusion = metrics.neighborhood_confusion(case.graph(), hops=3)
    assert np.array_equal(found.per_node["nc_3"], confusion)
    assert set(found.per_node) == {"nh_open", "nh_closed", "nc_3", "relative_nc_3", "entropy_3"}
    assert found.high_share == {3: pytest.approx(np.mean(confusion > 0.3))}
    assert strict(found)["high_share"] == {"nc_3": pytest.approx(np.mean(confusion > 0.3))}


def test_commonest_class_of_closed_neighborhoods():
    case = Case(6, [(1, 0), (2, 0), (3, 0), (0, 5)], [0, 1, 1, 2, -1, -1], 3)
    assert metrics.analyze(case.graph()).commonest.tolist() == [1, 1, 1, 2, -1, 0]


def test_an_analysis_names_what_stands_out():
    """Node a is of class x among three of y; d is between two classes; f is alone."""
    edges = [(1, 0), (2, 0), (3, 0), (0, 3), (1, 3), (0, 4), (1, 4)]
    graph = Case(7, edges, [0, 1, 1, 1, -1, 0, 1], 2).graph(
        node_ids=list("abcdefg"), class_names=["x", "y"]
    )
    found = metrics.analyze(graph)
    assert found.kinds.tolist() == metrics.node_kinds(graph).tolist()
    assert [one.node for one in found.contrary] == [0]
    assert [one.node for one in found.mixed] == [3, 4]
    assert found.neighbors() == ["y 3", "", "", "x 1, y 1", "x 1, y 1", "", ""]
    assert found.neighbors(most=1)[3] == "x 1, 1 more"
    summary = strict(found)
    assert summary["kinds"] == {"clear": 0, "mixed": 2, "contrary": 1, "alone": 4}
    assert summary["contrary"][0]["id"] == "a"
    assert summary["contrary"][0]["label"] == "x"
    assert summary["contrary"][0]["neighbors"] == {"y": 3}
    assert [one["label"] for one in summary["mixed"]] == ["y", None]
    assert summary["mixed"][1]["usual"] is None
    unknown = metrics.analyze(graph, [-1, 1, 1, 1, -1, 0, 1])
    assert unknown.kind_counts()["unknown"] == 2


def test_an_analysis_says_how_many_nodes_can_reach_the_threshold():
    """With nine classes an NC above one half needs four nodes; only the center of the star has."""
    star = Case(4, [(1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (0, 3)], [0, 1, 2, 3], 9)
    found = metrics.analyze(star.graph(), hops=1)
    assert found.reach == {1: 0.25}
    assert strict(found)["reach"] == {"nc_1": 0.25}
    assert found.per_node["relative_nc_1"].tolist() == [1, 1, 1, 1]


def test_labels_given_are_analysed():
    case = Case(2, [(0, 1), (1, 0)], [0, 0], 2)
    found = metrics.analyze(case.graph(), [0, 1])
    assert found.graph.labels.tolist() == [0, 1]
    assert found.means["edge_homophily"] == 0


def test_labels_with_more_classes_than_the_graph_has():
    case = Case(2, [(0, 1), (1, 0)], [0, 1], 2)
    found = metrics.analyze(case.graph(), [0, 4], num_classes=5)
    assert found.class_pairs.shape == (5, 5)
    assert strict(found)["classes"] == 5


def test_the_summary_names_the_number_of_classes_that_was_used():
    case = Case(2, [(0, 1), (1, 0)], [0, 1], 2)
    found = metrics.analyze(case.graph(), num_classes=5)
    assert found.class_pairs.shape == (5, 5)
    assert strict(found)["classes"] == 5


def test_numbers_of_numpy_become_plain():
    labels = np.array([0, 1])
    graph = Graph.from_edge_index(
        np.array([[0, 1], [1, 0]]), labels=labels, num_classes=labels.max() + 1
    )
    assert strict(metrics.analyze(graph))["classes"] == 2


def test_other_forms_of_graphs():
    edges = np.array([[0, 1], [1, 0]])
    assert metrics.analyze(edges, [0, 1]).means["nc_1"] == pytest.approx(1)


def pyg(case, **fields):
    import torch
    from torch_geometric.data import Data

    fields = {"y": torch.tensor(case.labels), "num_nodes": case.num_nodes} | fields
    return Data(edge_index=torch.from_numpy(case.edge_index()), **fields)


def test_transform_attaches_confusion():
    import torch

    case = drawn_case(8, 50, 3, 4, unlabeled=0.2)
    data = pyg(case)
    classes = max(case.labels) + 1
    changed = ncgnn.AddNeighborhoodConfusion()(data)
    assert changed.nc.dtype == torch.float32
    expected = metrics.neighborhood_confusion(case.graph(), num_classes=classes)
    np.testing.assert_allclose(changed.nc.numpy(), expected, rtol=1e-6)
    assert "nc" not in data
    assert torch.equal(changed.edge_index, data.edge_index)


def test_transform_with_several_hops_and_other_names():
    import torch

    case = drawn_case(8, 50, 3, 4)
    guesses = torch.randint(0, 4, (50,), generator=torch.Generator().manual_seed(0))
    transform = ncgnn.AddNeighborhoodConfusion(
        hops=(1, 2), attribute="confusion", labels="guess", num_classes=6
    )
    changed = transform(pyg(case, guess=guesses))
    assert changed.confusion.shape == (50, 2)
    for column, hops in enumerate((1, 2)):
        expected = metrics.neighborhood_confusion(
            case.edge_index(), guesses, hops=hops, num_classes=6
        )
        np.testing.assert_allclose(changed.confusion[:, column].numpy(), expected, rtol=1e-6)


def test_transforms_can_be_composed():
    from torch_geometric.transforms import Compose, ToUndirected

    case = Case(3, [(0, 1), (1, 2)], [0, 1, 1], 2)
    changed = Compose([ToUndirected(), ncgnn.AddNeighborhoodConfusion()])(pyg(case))
    expected = metrics.neighborhood_confusion(case.undirected().graph())
    np.testing.assert_allclose(changed.nc.numpy(), expected, rtol=1e-6)


@given(case=cases())
@settings(deadline=None, max_examples=15)
def test_related_metrics_are_added_on_request(case):
    graph = case.graph()
    plain, found = metrics.analyze(graph), metrics.analyze(graph, related=True)
    added = {
        "two_hop_similarity": metrics.mean(metrics.two_hop_similarity(graph)),
        "local_assortativity": metrics.mean(metrics.local_assortativity(graph)),
        "aggregation_similarity": metrics.aggregation_similarity(graph),
        "density_aware_homophily": metrics.density_aware_homophily(graph),
    }
    assert found.means == pytest.approx(plain.means | added, nan_ok=True)
    assert set(found.per_node) - set(plain.per_node) == {
        "two_hop_similarity",
        "local_assortativity",
    }


def rules_of(nodes, edges=(), features=None, classes=2):
    labels = [n % classes for n in range(nodes)]
    graph = Case(nodes, list(edges), labels, classes).graph(features=features)
    return metrics.analyze(graph).broken_rules()


def test_the_papers_rules_for_datasets():
    ring = [(n, (n + 1) % 201) for n in range(201)]
    assert rules_of(201, ring) == []
    assert rules_of(200, ring[:199]) == ["200 nodes, where more than 200 are asked for"]
    # A third of the nodes have no neighbor, 66 of 67 of them are copies of one of their label.
    few, twins = rules_of(120, [(n, (n + 1) % 40) for n in range(40)])
    assert few.startswith("120 nodes")
    assert twins == "65% copies by neighbors, above 30%"
    same = rules_of(201, ring, features=np.ones((201, 2)))
    assert same == ["99% copies by features, above 30%"]
