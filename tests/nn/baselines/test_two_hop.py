"""Pairs of nodes within two steps against dense matrices."""

from __future__ import annotations

import pytest
import torch
from drawn_graphs import drawn_graph

from ncgnn.nn.baselines.two_hop import count_pairs, count_walks, find_pairs


@pytest.fixture(params=[0.02, 0.1, 0.4])
def graph(request):
    drawn = drawn_graph(1, nodes=60, directed=False, density=request.param)
    return drawn.A, drawn.inputs().undirected_adjacency


@pytest.mark.parametrize("exactly", [True, False])
def test_pairs_are_those_of_the_dense_square(graph, exactly):
    A, adjacency = graph
    looped = A + torch.eye(len(A))
    expected = (looped @ looped > 0) & (looped == 0 if exactly else looped >= 0)
    counts = count_pairs(adjacency, exactly=exactly)
    assert counts.tolist() == expected.sum(1).tolist()
    found = find_pairs(adjacency, counts, exactly=exactly)
    assert torch.equal(torch.stack([found.row, found.col]).long(), expected.nonzero().t())
    some = find_pairs(adjacency, counts, exactly=exactly, first=7, end=31)
    assert some.shape == (24, 60)
    assert torch.equal(torch.stack([some.row, some.col]).long(), expected[7:31].nonzero().t())


def test_walks_are_counted(graph):
    A, adjacency = graph
    looped = A + torch.eye(len(A))
    pairs = find_pairs(adjacency, count_pairs(adjacency, exactly=False), exactly=False)
    assert torch.equal(count_walks(adjacency, pairs).to_dense(), looped @ looped)
