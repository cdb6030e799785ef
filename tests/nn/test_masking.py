"""Matrices without some of their edges, against dense ones."""

from __future__ import annotations

import pytest
import torch
from drawn_graphs import drawn_graph

from ncgnn.sparse.normalize import gcn_normalize, masked_adjacency

graphs = pytest.mark.parametrize(
    ("seed", "directed"), [(seed, directed) for seed in range(3) for directed in (True, False)]
)


def masks(num_nodes):
    torch.manual_seed(0)
    nobody = torch.zeros(num_nodes, dtype=torch.bool)
    return [nobody, ~nobody, *(torch.rand(num_nodes) < 0.5 for _ in range(3))]


def outer(targets, sources):
    return targets[:, None] & sources[None, :]


@graphs
@pytest.mark.parametrize("looped", [True, False])
def test_masked_adjacency_keeps_its_diagonal(seed, directed, looped):
    inputs = drawn_graph(seed, directed=directed).inputs()
    adjacency = inputs.looped_adjacency if looped else inputs.adjacency
    dense = adjacency.to_dense()
    diagonal = torch.eye(len(dense), dtype=torch.bool)
    everyone = torch.ones(len(dense), dtype=torch.bool)
    for mask in masks(len(dense)):
        for targets, sources in ((mask, None), (None, mask), (mask, ~mask), (None, None)):
            kept = outer(
                everyone if targets is None else targets, everyone if sources is None else sources
            )
            found = masked_adjacency(adjacency, targets=targets, sources=sources)
            assert torch.equal(found.to_dense(), dense * (kept | diagonal))


@graphs
def test_products_and_transposes_with_masked_matrices(seed, directed):
    operator = gcn_normalize(drawn_graph(seed, directed=directed).inputs().adjacency)
    x = torch.randn(operator.shape[0], 3, dtype=torch.float64)
    for mask in masks(operator.shape[0]):
        for matrix in (
            masked_adjacency(operator, targets=mask),
            masked_adjacency(operator, sources=mask),
        ):
            assert torch.allclose(matrix @ x, matrix.to_dense() @ x)
            assert torch.allclose(matrix.t() @ x, matrix.to_dense().t() @ x)
