"""Weights and directions of edges, names as labels, ids, and nodes that are added later."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import ncgnn
from ncgnn.errors import InputError
from ncgnn.graph import Graph

PATH = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])


def small(**fields):
    given = {"labels": [0, 1, 1], "features": np.eye(3), "node_ids": ["a", "b", "c"]}
    return Graph.from_edge_index(PATH, **(given | fields))


def test_weights_follow_their_edges_and_repeated_ones_add_up():
    edges = np.array([[2, 0, 0, 1], [1, 1, 1, 2]])
    graph = Graph.from_edge_index(edges, labels=[0, 1, 1], edge_weights=[1, 2, 0.5, 4])
    assert graph.edge_index().tolist() == [[0, 2, 1], [1, 1, 2]]
    assert graph.edge_weights.tolist() == [2.5, 1, 4]
    assert graph.edge_weights.dtype == np.float32
    assert graph.merged_duplicates == 1
    assert graph.reverse().edge_index().tolist() == [[1, 2, 1], [0, 1, 2]]
    assert graph.reverse().edge_weights.tolist() == [2.5, 4, 1]


def test_directions_unite_and_turn():
    edges = np.array([[0, 0, 1], [1, 1, 2]])
    graph = Graph.from_edge_index(edges, labels=[0, 1, 1], edge_directions=[1, 2, 2])
    assert graph.edge_directions.tolist() == [3, 2]
    assert graph.reverse().edge_directions.tolist() == [3, 1]
    assert graph.has_direction
    assert not small().has_direction
    assert Graph.from_edge_index(edges, labels=[0, 1, 1]).has_direction


def test_csr_arrays_in_any_order_carry_weights():
    fields = {"labels": [0, 1], "edge_weights": [1.0, 2.0, 3.0]}
    graph = Graph.from_csr([0, 2, 3], [1, 0, 0], **fields)
    assert graph.edge_weights.tolist() == [2, 1, 3]
    dropped = Graph.from_csr([0, 2, 3], [1, 0, 0], self_loops="drop", **fields)
    assert dropped.edge_weights.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edge_weights": [1, 1, 1]}, r"one number per edge, \[4\]"),
        ({"edge_weights": [1, 1, 0, 1]}, "positive finite numbers; got 0.0 for edge 2"),
        ({"edge_weights": [1, 1, np.nan, 1]}, "positive finite"),
        ({"edge_weights": [1, 1, 1e300, 1]}, "positive finite"),
        ({"edge_weights": ["a"] * 4}, "must be numbers"),
        ({"edge_directions": [1, 1, 1, 4]}, "1 .forward., 2 .backward. or 3"),
        ({"feature_names": ["a"]}, "3 texts, one per feature; got 1"),
    ],
)
def test_bad_edges_are_named(fields, message):
    with pytest.raises(InputError, match=message):
        small(**fields)


def test_names_are_labels_and_empty_ones_are_none():
    graph = small(labels=["red", "", "blue"])
    assert graph.class_names == ("blue", "red")
    assert graph.labels.tolist() == [1, -1, 0]
    missing = small(labels=["red", float("nan"), None])
    assert missing.labels.tolist() == [0, -1, -1]
    assert small(labels=np.array(["x", "y", "x"])).labels.tolist() == [0, 1, 0]
    ordered = small(labels=["red", "blue", "red"], class_names=["red", "blue", "green"])
    assert ordered.labels.tolist() == [0, 1, 0]
    assert ordered.num_classes == 3


def test_other_labels_may_be_names_too():
    graph = small(labels=["red", "", "blue"])
    assert graph.with_labels(["blue", "red", "red"]).labels.tolist() == [0, 1, 1]
    other = graph.with_labels(["green", "red", ""])
    assert other.class_names == ("green", "red")
    assert ncgnn.neighborhood_confusion(graph, labels=["blue", "red", "red"]).shape == (3,)


def test_nodes_are_found_by_id():
    assert small().find(["c", "a"]).tolist() == [2, 0]
    assert small().find("b").tolist() == [1]
    assert small(node_ids=None).find([2, 0]).tolist() == [2, 0]
    assert small(node_ids=[10, 20, 30]).find(["20"]).tolist() == [1]
    with pytest.raises(InputError, match=r"no node x, y; its ids are like a, b, c"):
        small().find(["a", "x", "y"])


def test_added_nodes_stand_after_the_others():
    graph = small(edge_directions=[1, 2, 1, 2], edge_weights=[1, 1, 2, 2])
    more = graph.extend(np.ones((1, 3)), [[3, 0], [1, 3]], node_ids=["d"])
    assert more.num_added == 1
    assert more.ids.tolist() == ["a", "b", "c", "d"]
    assert more.find(["d", "a"]).tolist() == [3, 0]
    assert more.labels.tolist() == [0, 1, 1, -1]
    pairs = {
        (s, t): (d, w)
        for s, t, d, w in zip(
            *more.edge_index().tolist(),
            more.edge_directions.tolist(),
            more.edge_weights.tolist(),
            strict=True,
        )
    }
    assert pairs[3, 1] == (1, 1)
    assert pairs[1, 3] == (2, 1)
    assert pairs[0, 3] == (1, 1)
    assert pairs[1, 2] == (1, 2)
    assert len(pairs) == graph.num_entries + 4
    assert not more.is_directed


def test_sparse_features_stay_sparse_when_nodes_are_added():
    graph = small(features=csr_array(np.eye(3)))
    more = graph.extend(np.array([[0, 5, 0]]), [[3], [0]], node_ids=["d"])
    assert more.features.toarray().tolist() == [*np.eye(3).tolist(), [0, 5, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": np.ones((1, 2)), "node_ids": ["d"]}, "3 features; the new nodes have 2"),
        ({"features": np.ones((1, 3))}, "node_ids must name the 1 new nodes"),
        ({"features": np.ones((1, 3)), "node_ids": ["a"]}, "has a node a already"),
        ({"features": np.ones((1, 3)), "node_ids": [4]}, "must be texts as in the graph"),
        (
            {"features": np.ones((1, 3)), "node_ids": ["d"], "edge_index": [[9], [0]]},
            "names node 9, but the graph has 4",
        ),
    ],
)
def test_nodes_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        small().add_nodes(**arguments)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_adding_nodes_gives_the_graph_that_all_edges_give(data):
    old, new = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    pair = st.tuples(st.integers(0, old - 1), st.integers(0, old - 1))
    wide = st.tuples(st.integers(0, old + new - 1), st.integers(0, old + new - 1))
    first = np.array(data.draw(st.lists(pair, max_size=15)), dtype=int).reshape(-1, 2).T
    second = np.array(data.draw(st.lists(wide, max_size=15)), dtype=int).reshape(-1, 2).T
    graph = Graph.from_edge_index(first, num_nodes=old, require_labels=False)
    if not graph.is_directed:
        second_both = np.concatenate([second, second[::-1]], axis=1)
    else:
        second_both = second
    more = graph.extend(new, second)
    everything = np.concatenate([first, second_both], axis=1)
    whole = Graph.from_edge_index(everything, num_nodes=old + new, require_labels=False)
    assert np.array_equal(more.indptr, whole.indptr)
    assert np.array_equal(more.indices, whole.indices)
    assert more.num_added == new
