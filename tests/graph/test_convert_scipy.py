"""Graphs from scipy sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ncgnn.graph import Graph

#: Entry (i, j) is an edge from i to j; (1, 0) is an explicit zero.
ENTRIES = [(0, 1, 1.0), (1, 0, 0.0), (1, 2, -2.5), (2, 2, 1.0)]
EDGES = {(0, 1), (1, 2), (2, 2)}
LABELS = [0, 1, 1]


def coo(kind=sparse.coo_array, entries=ENTRIES):
    rows, columns, values = zip(*entries, strict=True)
    return kind((np.array(values), (np.array(rows), np.array(columns))), shape=(3, 3))


def edges_of(graph):
    return {tuple(edge) for edge in graph.edge_index().T.tolist()}


FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.coo_matrix])
def test_every_format(kind, form):
    graph = Graph.from_scipy(coo(kind).asformat(form), labels=LABELS)
    assert edges_of(graph) == EDGES
    assert graph.num_self_loops == 1
    assert graph.labels.tolist() == LABELS


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int8])
def test_any_type_of_weights(kind):
    assert edges_of(Graph.from_scipy(coo().astype(kind).tocsr(), labels=LABELS)) == EDGES


def test_truth_values_as_weights():
    matrix = coo(entries=[(0, 1, True), (1, 2, True), (2, 0, False)]).astype(bool)
    assert edges_of(Graph.from_scipy(matrix, labels=LABELS)) == {(0, 1), (1, 2)}


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_the_callers_matrix_stays_as_it_is(form):
    matrix = coo().asformat(form)
    before, stored = matrix.toarray(), matrix.nnz
    Graph.from_scipy(matrix, labels=LABELS, self_loops="drop")
    assert matrix.nnz == stored == 4
    assert np.array_equal(matrix.toarray(), before)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_matrices_that_cannot_be_written_to(form):
    matrix = coo().asformat(form)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    assert edges_of(Graph.from_scipy(matrix, labels=LABELS)) == EDGES


def test_the_matrix_of_a_graph_back_and_forth():
    graph = Graph.from_scipy(coo(), labels=LABELS)
    again = Graph.from_scipy(graph.to_scipy(), labels=LABELS)
    assert edges_of(again) == EDGES
    turned = Graph.from_scipy(graph.to_scipy(rows="targets"), labels=LABELS)
    assert edges_of(turned) == {(v, u) for u, v in EDGES}


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_repeated_entries_are_merged_and_counted(form):
    entries = [(0, 1, 1.0), (0, 1, 1.0), (1, 2, 1.0), (0, 1, 3.0)]
    if form == "coo":
        matrix = coo(entries=entries)
    else:
        parts = (np.ones(4), np.array([1, 1, 1, 2]), np.array([0, 3, 4, 4]))
        matrix = sparse.csr_array(parts, shape=(3, 3))
    graph = Graph.from_scipy(matrix, labels=LABELS)
    assert edges_of(graph) == {(0, 1), (1, 2)}
    assert graph.num_entries == 2
    assert graph.merged_duplicates == 2


def test_unsorted_columns():
    parts = (np.ones(3), np.array([2, 0, 1]), np.array([0, 3, 3, 3]))
    graph = Graph.from_scipy(sparse.csr_array(parts, shape=(3, 3)), labels=LABELS)
    assert edges_of(graph) == {(0, 2), (0, 0), (0, 1)}


@given(st.integers(1, 8), st.floats(0, 1), st.integers(0, 2**31))
@settings(deadline=None, max_examples=40)
def test_dense_matrices_agree(nodes, density, seed):
    dense = np.random.default_rng(seed).random((nodes, nodes)) < density
    graph = Graph.from_scipy(sparse.csr_array(dense.astype(float)), labels=[0] * nodes)
    assert np.array_equal(graph.to_scipy().toarray(), dense)
    assert graph.is_directed == (not np.array_equal(dense, dense.T))
