"""Building a graph from edges and from CSR arrays, and what it then says of itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.graph import Graph

SMALL = settings(deadline=None, max_examples=80)


@st.composite
def edge_lists(draw, max_nodes=10):
    nodes = draw(st.integers(1, max_nodes))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    return nodes, draw(st.lists(ends, max_size=30))


def as_array(edges, dtype=np.int64):
    return np.array(edges, dtype=dtype).reshape(-1, 2).T


def edges_of(graph):
    """The stored edges as a set of (source, target), checked for repeats."""
    listed = [tuple(edge) for edge in graph.edge_index().T.tolist()]
    assert len(listed) == len(set(listed))
    return set(listed)


@given(edge_lists())
@SMALL
def test_edges_are_stored_once_by_target_in_rising_order(given_edges):
    nodes, edges = given_edges
    graph = Graph.from_edge_index(as_array(edges), labels=[0] * nodes)
    assert edges_of(graph) == set(edges)
    assert graph.num_nodes == nodes
    assert graph.num_entries == len(set(edges))
    assert graph.merged_duplicates == len(edges) - len(set(edges))
    for node in range(nodes):
        assert graph.neighbors(node).tolist() == sorted({u for u, v in edges if v == node})
        assert graph.degrees[node] == len(graph.neighbors(node))
    assert graph.indptr.dtype == np.int64
    assert graph.indices.dtype == np.int32
    assert graph.labels.dtype == np.int64
    assert graph.targets.tolist() == [v for _, v in sorted(set(edges), key=lambda e: (e[1], e[0]))]


@given(edge_lists())
@SMALL
def test_self_loops_are_recorded_and_can_be_dropped(given_edges):
    nodes, edges = given_edges
    loops = {u for u, v in edges if u == v}
    kept = Graph.from_edge_index(as_array(edges), labels=[0] * nodes)
    assert kept.self_loops.tolist() == [v in loops for v in range(nodes)]
    assert kept.num_self_loops == len(loops)
    dropped = Graph.from_edge_index(as_array(edges), labels=[0] * nodes, self_loops="drop")
    assert edges_of(dropped) == {(u, v) for u, v in edges if u != v}
    assert dropped.num_self_loops == 0
    assert not dropped.self_loops.any()
    assert dropped.merged_duplicates == kept.merged_duplicates


@given(edge_lists())
@SMALL
def test_direction_and_number_of_edges(given_edges):
    nodes, edges = given_edges
    graph = Graph.from_edge_index(as_array(edges), labels=[0] * nodes)
    stored = set(edges)
    assert graph.is_directed == (stored != {(v, u) for u, v in stored})
    if graph.is_directed:
        assert graph.num_edges == len(stored)
    both = Graph.from_edge_index(
        as_array([*edges, *((v, u) for u, v in edges)]), labels=[0] * nodes
    )
    assert not both.is_directed
    assert both.num_edges == len({frozenset(edge) for edge in stored})


@given(edge_lists())
@SMALL
def test_reverse_turns_every_edge_round(given_edges):
    nodes, edges = given_edges
    graph = Graph.from_edge_index(as_array(edges), labels=[0] * nodes, name="way")
    turned = graph.reverse()
    assert edges_of(turned) == {(v, u) for u, v in edges}
    assert edges_of(turned.reverse()) == edges_of(graph)
    assert (turned.name, turned.num_classes) == ("way", 1)
    assert turned.indptr.dtype == np.int64
    assert turned.indices.dtype == np.int32
    for node in range(nodes):
        assert turned.neighbors(node).tolist() == sorted({v for u, v in edges if u == node})


@given(edge_lists(), st.randoms(use_true_random=False))
@SMALL
def test_csr_arrays_in_any_order(given_edges, draw):
    nodes, edges = given_edges
    rows = [[u for u, v in edges if v == node] for node in range(nodes)]
    for row in rows:
        draw.shuffle(row)
    starts = np.cumsum([0] + [len(row) for row in rows])
    sources = np.array([u for row in rows for u in row], dtype=np.int64)
    graph = Graph.from_csr(starts, sources, labels=[0] * nodes)
    assert edges_of(graph) == set(edges)
    assert graph.merged_duplicates == len(edges) - len(set(edges))
    dropped = Graph.from_csr(starts, sources, labels=[0] * nodes, self_loops="drop")
    assert edges_of(dropped) == {(u, v) for u, v in edges if u != v}
    again = Graph.from_csr(graph.indptr, graph.indices, labels=graph.labels)
    assert edges_of(again) == edges_of(graph)
    assert again.merged_duplicates == 0


KINDS = [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64]


@pytest.mark.parametrize("kind", KINDS)
def test_integer_types_of_edges(kind):
    graph = Graph.from_edge_index(np.array([[0, 2], [1, 1]], dtype=kind), labels=[0, 1, 0])
    assert edges_of(graph) == {(0, 1), (2, 1)}
    graph = Graph.from_csr(
        np.array([0, 0, 2, 2], dtype=kind), np.array([2, 0], dtype=kind), labels=[0, 1, 0]
    )
    assert edges_of(graph) == {(0, 1), (2, 1)}
    assert graph.indices.dtype == np.int32
    assert graph.indptr.dtype == np.int64


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_edges_as_tensors(dtype):
    edges = torch.tensor([[0, 2], [1, 1]], dtype=dtype)
    graph = Graph.from_edge_index(edges, labels=torch.tensor([0, 1, 0]))
    assert edges_of(graph) == {(0, 1), (2, 1)}
    assert graph.labels.tolist() == [0, 1, 0]


def test_edges_in_other_memory_layouts():
    pairs = np.array([[0, 1], [2, 1], [1, 2]])
    every_other = np.array([[0, 9, 2, 9, 1, 9], [1, 9, 1, 9, 2, 9]])[:, ::2]
    for edges in (pairs.T, np.asfortranarray(pairs.T), every_other, pairs.T.tolist()):
        graph = Graph.from_edge_index(edges, labels=[0, 1, 0])
        assert edges_of(graph) == {(0, 1), (2, 1), (1, 2)}
    starts = np.array([0, 9, 0, 9, 2, 9, 3])[::2]
    sources = np.array([0, 9, 2, 9, 1])[::2]
    labels = np.array([0, 9, 1, 9, 0])[::2]
    graph = Graph.from_csr(starts, sources, labels=labels)
    assert edges_of(graph) == {(0, 1), (2, 1), (1, 2)}
    assert graph.labels.tolist() == [0, 1, 0]
    for array in (graph.indptr, graph.indices, graph.labels):
        assert array.flags.c_contiguous


@pytest.mark.parametrize("empty", [np.zeros((2, 0)), np.zeros((2, 0), dtype=np.int32), [[], []]])
def test_no_edges(empty):
    graph = Graph.from_edge_index(empty, labels=[0, 1])
    assert (graph.num_nodes, graph.num_edges, graph.num_entries) == (2, 0, 0)
    assert not graph.is_directed
    assert graph.neighbors(0).tolist() == []
    assert graph.reverse().num_entries == 0
    assert graph.edge_index().shape == (2, 0)


def test_the_number_of_nodes():
    edges = np.array([[0], [2]])
    options = {"require_labels": False}
    assert Graph.from_edge_index(edges, **options).num_nodes == 3
    assert Graph.from_edge_index(edges, num_nodes=7, **options).num_nodes == 7
    assert Graph.from_edge_index(edges, labels=[0] * 5).num_nodes == 5
    assert Graph.from_edge_index(edges, features=np.eye(4), **options).num_nodes == 4
    assert Graph.from_edge_index(edges, features=csr_array((6, 2)), **options).num_nodes == 6
    assert Graph.from_edge_index(edges, features=torch.eye(4), **options).num_nodes == 4
    assert Graph.from_edge_index(edges, features=[[1.0]] * 5, **options).num_nodes == 5


def test_the_number_of_classes():
    edges = np.array([[0], [1]])
    with pytest.warns(NcgnnWarning, match="no node has class 1"):
        assert Graph.from_edge_index(edges, labels=[0, 2]).num_classes == 3
    assert Graph.from_edge_index(edges, labels=[0, 2], num_classes=9).num_classes == 9
    named = Graph.from_edge_index(edges, labels=[0, 1], class_names=["a", "b", "c"])
    assert (named.num_classes, named.class_names) == (3, ("a", "b", "c"))
    bare = Graph.from_edge_index(edges, require_labels=False)
    assert (bare.num_classes, bare.num_unlabeled) == (0, 2)
    assert bare.labels.tolist() == [-1, -1]


LABELS = [
    [0, 1, -1],
    np.array([0, 1, -1], dtype=np.int8),
    np.array([[0], [1], [-1]]),
    np.array([0.0, 1.0, -1.0]),
    torch.tensor([0, 1, -1]),
    torch.tensor([[0.0], [1.0], [-1.0]]),
]


@pytest.mark.parametrize("labels", LABELS, ids=range(len(LABELS)))
def test_forms_of_labels(labels):
    graph = Graph.from_edge_index([[0], [1]], labels=labels)
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.labels.dtype == np.int64
    assert graph.num_unlabeled == 1


def test_truth_values_are_no_classes():
    with pytest.raises(InputError, match=r"labels must be whole .* got bool"):
        Graph.from_edge_index([[0], [1]], labels=np.array([True, False]))


DENSE = np.array([[0.0, 1.5], [0.0, 0.0], [2.0, 0.0]])


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float32),
        (np.int64, np.float32),
        (np.uint8, np.float32),
        (np.bool_, np.float32),
    ],
)
def test_types_of_features(kind, stored):
    expected = DENSE.astype(kind).astype(stored)
    sparse_kinds = [] if kind == np.float16 else [csr_array(DENSE.astype(kind))]
    for features in (DENSE.astype(kind), np.asfortranarray(DENSE.astype(kind)), *sparse_kinds):
        graph = Graph.from_edge_index([[0], [1]], labels=[0, 1, 1], features=features)
        assert graph.features.dtype == stored
        found = (
            graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        )
        assert np.array_equal(found, expected)
        assert graph.num_features == 2


def test_forms_of_features():
    forms = [
        DENSE,
        DENSE.tolist(),
        np.asfortranarray(DENSE),
        np.repeat(DENSE, 2, axis=1)[:, ::2],
        torch.from_numpy(DENSE.copy()),
        torch.from_numpy(DENSE.copy()).to_sparse_coo(),
    ]
    for features in forms:
        graph = Graph.from_edge_index([[0], [1]], labels=[0, 1, 1], features=features)
        dense = graph.features
        if not isinstance(dense, np.ndarray):
            dense = dense.toarray()
        else:
            assert dense.flags.c_contiguous
        assert np.array_equal(dense, DENSE)
    assert Graph.from_edge_index([[0], [1]], labels=[0, 1]).num_features == 0


def test_trainable_features_are_taken_as_numbers():
    features = torch.ones(2, 3, requires_grad=True)
    graph = Graph.from_edge_index([[0], [1]], labels=[0, 1], features=features)
    assert np.array_equal(graph.features, np.ones((2, 3)))


def test_sparse_features_become_sorted_rows_without_zeros_or_repeats():
    messy = csr_array(
        (np.array([3.0, 1.0, 0.0, 2.0, 2.0]), np.array([2, 0, 1, 1, 1]), np.array([0, 3, 5])),
        shape=(2, 3),
    )
    for features in (messy, messy.tocsc(), messy.tocoo(), csc_array(messy)):
        graph = Graph.from_edge_index([[0], [1]], labels=[0, 1], features=features)
        assert graph.features.format == "csr"
        assert graph.features.toarray().tolist() == [[1, 0, 3], [0, 4, 0]]
        assert graph.features.indices.tolist() == [0, 2, 1]
    assert messy.nnz == 5


def test_identifiers_of_nodes():
    edges = [[0], [1]]
    assert Graph.from_edge_index(edges, labels=[0, 1]).node_ids is None
    numbered = Graph.from_edge_index(edges, labels=[0, 1], node_ids=[7, 3])
    assert numbered.node_ids.tolist() == [7, 3]
    mixed = Graph.from_edge_index(edges, labels=[0, 1], node_ids=np.array(["a", 3], dtype=object))
    assert mixed.node_ids.tolist() == ["a", "3"]


def test_other_labels_for_the_same_graph():
    graph = Graph.from_edge_index(
        [[0, 0], [1, 1]], labels=[0, 1], class_names=["a", "b"], name="pair", features=np.eye(2)
    )
    other = graph.with_labels(np.array([1, -1], dtype=np.int32))
    assert other.labels.tolist() == [1, -1]
    assert graph.labels.tolist() == [0, 1]
    assert (other.num_classes, other.class_names, other.name) == (2, ("a", "b"), "pair")
    assert other.merged_duplicates == 1
    assert np.array_equal(other.features, graph.features)
    wider = graph.with_labels(torch.tensor([0, 2]), 3)
    assert (wider.num_classes, wider.class_names) == (3, None)


def test_labels_for_a_graph_without_any():
    bare = Graph.from_edge_index([[0], [1]], require_labels=False)
    assert bare.with_labels([0, 2], 4).num_classes == 4
    assert bare.with_labels([0, 2]).num_classes == 3


def test_adjacency_as_scipy_matrix():
    graph = Graph.from_edge_index([[0, 2, 2], [1, 1, 2]], labels=[0, 0, 0])
    matrix = graph.to_scipy(rows="targets")
    assert np.array_equal(graph.to_scipy().toarray(), matrix.toarray().T)
    assert matrix.toarray().tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 1]]
    assert matrix.dtype == np.float32


def test_a_short_description():
    graph = Graph.from_edge_index(
        [[0, 1], [1, 0]], labels=[0, 1], features=np.eye(2), name="pair", origin="made up"
    )
    assert repr(graph) == "Graph('pair', nodes=2, entries=2, features=2, classes=2)"
    assert graph.origin == "made up"
