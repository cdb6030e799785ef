"""Normalised adjacencies, against PyTorch Geometric and against the formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncgnn.errors import InputError
from ncgnn.sparse import ConstantSparse, add_self_loops, gcn_normalize, row_normalize


@st.composite
def graphs(draw) -> tuple[int, torch.Tensor]:
    """Directed graphs without repeated edges, often with self-loops and isolated nodes."""
    count = draw(st.integers(1, 10))
    nodes = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(nodes, nodes), unique=True, max_size=30))
    return count, torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T


def dense_gcn(adjacency: torch.Tensor, self_loops: bool) -> torch.Tensor:
    if self_loops:
        adjacency = adjacency.clone()
        diagonal = adjacency.diagonal()
        diagonal[diagonal == 0] = 1
    scale = adjacency.sum(1).pow(-0.5)
    scale[torch.isinf(scale)] = 0
    return scale[:, None] * adjacency * scale


@given(graph=graphs(), self_loops=st.booleans())
@settings(deadline=None, max_examples=80)
def test_gcn_equals_the_formula(graph, self_loops):
    count, edges = graph
    adjacency = ConstantSparse.from_edge_index(edges, count).to(torch.float64)
    expected = dense_gcn(adjacency.to_dense(), self_loops)
    torch.testing.assert_close(gcn_normalize(adjacency, self_loops).to_dense(), expected)


@given(graph=graphs(), self_loops=st.booleans(), weighted=st.booleans())
@settings(deadline=None, max_examples=80)
def test_gcn_equals_pytorch_geometric(graph, self_loops, weighted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

    count, edges = graph
    weights = torch.rand(edges.shape[1], dtype=torch.float64) + 0.1 if weighted else None
    adjacency = ConstantSparse.from_edge_index(edges, count, weights).to(torch.float64)
    index, values = gcn_norm(edges, weights, count, add_self_loops=self_loops, dtype=torch.float64)
    expected = torch.zeros(count, count, dtype=torch.float64)
    expected[index[1], index[0]] = values
    torch.testing.assert_close(gcn_normalize(adjacency, self_loops).to_dense(), expected)


@given(graph=graphs(), self_loops=st.booleans())
@settings(deadline=None, max_examples=80)
def test_rows_sum_to_one_or_zero(graph, self_loops):
    count, edges = graph
    adjacency = ConstantSparse.from_edge_index(edges, count).to(torch.float64)
    normalized = row_normalize(adjacency, self_loops)
    dense = adjacency.to_dense()
    if self_loops:
        dense.fill_diagonal_(1)
    expected = dense / dense.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(normalized.to_dense(), expected)


def test_a_self_loop_ends_with_weight_one_however_often_it_is_listed():
    edges = np.array([[0, 0, 0, 1], [0, 0, 1, 2]])
    looped = add_self_loops(ConstantSparse.from_edge_index(edges, 3))
    expected = torch.eye(3)
    expected[1, 0] = expected[2, 1] = 1
    assert torch.equal(looped.to_dense(), expected)
    assert torch.equal(add_self_loops(looped).to_dense(), expected)


def test_a_weighted_self_loop_keeps_its_weight():
    looped = add_self_loops(ConstantSparse.from_edge_index([[0], [0]], 2, [3.0]))
    assert torch.equal(looped.to_dense(), torch.diag(torch.tensor([3.0, 1.0]).double()))


def test_an_undirected_graph_gives_a_symmetric_operator():
    random = np.random.default_rng(0)
    half = random.integers(0, 50, (2, 120))
    adjacency = ConstantSparse.from_edge_index(np.hstack([half, half[::-1]]), 50)
    for self_loops in (False, True):
        operator = gcn_normalize(adjacency, self_loops)
        assert operator.t() is operator


def test_row_normalization_of_a_rectangular_matrix():
    matrix = ConstantSparse.from_csr([0, 2, 2], [0, 2], [1, 3], shape=(2, 3))
    expected = torch.tensor([[0.25, 0.0, 0.75], [0.0, 0.0, 0.0]])
    assert torch.equal(row_normalize(matrix).to_dense(), expected)
    with pytest.raises(InputError, match="adjacency"):
        row_normalize(matrix, self_loops=True)
    with pytest.raises(InputError, match="adjacency"):
        gcn_normalize(matrix)
