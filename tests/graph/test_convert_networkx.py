"""Graphs from NetworkX."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from ncgnn.errors import InputError
from ncgnn.graph import Graph


def labeled(graph, labels, attribute="y"):
    """Give the nodes their labels, in order; None leaves a node without the attribute."""
    for node, label in zip(graph.nodes, labels, strict=True):
        if label is not None:
            graph.nodes[node][attribute] = label
    return graph


def edges_of(graph):
    return {tuple(edge) for edge in graph.edge_index().T.tolist()}


def test_undirected_graphs_are_stored_in_both_directions():
    graph = Graph.from_networkx(labeled(nx.path_graph(3), [0, 1, 1]))
    assert edges_of(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert not graph.is_directed
    assert graph.num_edges == 2
    assert graph.merged_duplicates == 0


def test_directed_graphs_keep_their_direction():
    graph = Graph.from_networkx(labeled(nx.DiGraph([(0, 1), (1, 2), (2, 1)]), [0, 1, 1]))
    assert edges_of(graph) == {(0, 1), (1, 2), (2, 1)}
    assert graph.is_directed


@pytest.mark.parametrize(("kind", "merged"), [(nx.MultiGraph, 4), (nx.MultiDiGraph, 2)])
def test_parallel_edges_are_merged(kind, merged):
    graph = Graph.from_networkx(labeled(kind([(0, 1), (0, 1), (0, 1)]), [0, 1]))
    assert edges_of(graph) == ({(0, 1), (1, 0)} if kind is nx.MultiGraph else {(0, 1)})
    assert graph.merged_duplicates == merged


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_a_self_loop_is_one_edge(kind):
    graph = Graph.from_networkx(labeled(kind([(0, 1), (1, 1)]), [0, 1]))
    assert graph.num_self_loops == 1
    assert graph.num_edges == 2
    assert graph.merged_duplicates == 0


def test_nodes_keep_their_order_and_names():
    plain = nx.Graph()
    plain.add_nodes_from(["c", "a", ("b", 2)])
    plain.add_edge("a", "c")
    graph = Graph.from_networkx(labeled(plain, [0, 1, 2]))
    assert graph.node_ids.tolist() == ["c", "a", "('b', 2)"]
    assert edges_of(graph) == {(0, 1), (1, 0)}
    assert graph.labels.tolist() == [0, 1, 2]
    assert graph.num_nodes == 3


def test_names_that_look_alike_are_refused():
    with pytest.raises(InputError, match="node_ids"):
        Graph.from_networkx(labeled(nx.Graph([(1, "1")]), [0, 1]))


@pytest.mark.parametrize(
    "labels",
    [[1, 0, None], [np.int64(1), np.int32(0), None], [1, 0, -1], [1, 0, float("nan")], [1, 0, ""]],
)
def test_whole_numbers_are_classes(labels):
    graph = Graph.from_networkx(labeled(nx.path_graph(3), labels))
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.class_names is None
    assert graph.num_classes == 2


def test_truth_values_are_named():
    graph = Graph.from_networkx(labeled(nx.path_graph(3), [True, None, False]))
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.class_names == ("False", "True")


def test_words_are_numbered_in_sorted_order():
    graph = Graph.from_networkx(labeled(nx.path_graph(4), ["tree", "bird", None, "tree"]))
    assert graph.labels.tolist() == [1, 0, -1, 1]
    assert graph.class_names == ("bird", "tree")
    assert graph.num_classes == 2


def test_truth_values_are_classes():
    graph = Graph.from_networkx(labeled(nx.path_graph(3), [True, False, None]))
    assert graph.labels.tolist() == [1, 0, -1]


def test_labels_under_another_name():
    plain = labeled(labeled(nx.path_graph(3), [0, 0, 0]), ["x", "y", "x"], "club")
    graph = Graph.from_networkx(plain, label="club")
    assert graph.labels.tolist() == [0, 1, 0]
    assert Graph.from_networkx(plain).labels.tolist() == [0, 0, 0]


def test_without_labels():
    with pytest.raises(InputError, match="no labels"):
        Graph.from_networkx(nx.path_graph(3))
    graph = Graph.from_networkx(nx.path_graph(3), require_labels=False)
    assert graph.labels.tolist() == [-1, -1, -1]
    graph = Graph.from_networkx(nx.path_graph(3), labels=[0, 1, 0])
    assert graph.labels.tolist() == [0, 1, 0]


def test_features():
    plain = labeled(nx.path_graph(2), [0, 1])
    nx.set_node_attributes(plain, {0: [1.0, 2.0], 1: np.array([3.0, 4.0])}, "x")
    assert Graph.from_networkx(plain).features.tolist() == [[1, 2], [3, 4]]
    assert Graph.from_networkx(plain, feature="other").features is None


def test_features_on_some_nodes_only_are_refused():
    plain = labeled(nx.path_graph(2), [0, 1])
    plain.nodes[0]["x"] = [1.0]
    with pytest.raises(InputError, match=r"node 1 has no attribute 'x'"):
        Graph.from_networkx(plain)


def test_features_of_different_lengths_are_refused():
    plain = labeled(nx.path_graph(2), [0, 1])
    nx.set_node_attributes(plain, {0: [1.0], 1: [1.0, 2.0]}, "x")
    with pytest.raises(InputError, match="x"):
        Graph.from_networkx(plain)


def test_a_known_graph():
    graph = Graph.from_networkx(nx.karate_club_graph(), label="club", name="karate")
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (34, 78, 2)
    assert graph.class_names == ("Mr. Hi", "Officer")
    assert graph.degrees.tolist() == [d for _, d in nx.karate_club_graph().degree()]
