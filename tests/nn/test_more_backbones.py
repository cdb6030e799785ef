"""Layers that never send features along edges, against PyG's layers with the same weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GINConv, GraphConv
from torch_geometric.utils import coalesce

from ncgnn.nn.separated.backbones import Attention, Isomorphism, SumConvolution

NODES, WIDTH, HIDDEN = 13, 9, 4


def an_input():
    torch.manual_seed(0)
    edges = coalesce(torch.randint(NODES, (2, 40)))
    return torch.randn(NODES, WIDTH, dtype=torch.float64), edges


@pytest.mark.parametrize("hidden", [16, 5])
def test_attention_is_that_of_pyg(hidden):
    x, edges = an_input()
    layer = Attention(WIDTH, hidden).double()
    heads = len(layer.target)
    other = GATConv(WIDTH, hidden // heads, heads=heads).double()
    with torch.no_grad():
        layer.bias.normal_()
        other.bias.copy_(layer.bias)
        other.lin.weight.copy_(layer.linear.weight)
        other.att_dst.copy_(layer.target[None])
        other.att_src.copy_(layer.source[None])
    torch.testing.assert_close(layer(x, edges), other(x, edges), rtol=0, atol=1e-12)
    assert heads == (8 if hidden == 16 else 1)


def test_other_edges_are_noticed():
    x, edges = an_input()
    layer = SumConvolution(WIDTH, HIDDEN).double()
    both = layer(x, edges), layer(x, edges[:, :1].contiguous())
    assert not torch.equal(*both)
    torch.testing.assert_close(layer(x, edges), both[0])
    copied = copy.deepcopy(layer)
    assert copied._kept.last is None
    torch.testing.assert_close(copied(x, edges), both[0])
    assert layer.float()(x.float(), edges).dtype == torch.float32


def test_isomorphism_is_that_of_pyg():
    x, edges = an_input()
    layer = Isomorphism(WIDTH, HIDDEN).double()
    function = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))
    other = GINConv(function, train_eps=True).double()
    with torch.no_grad():
        layer.bias.normal_()
        layer.epsilon.fill_(0.3)
        other.eps.fill_(0.3)
        function[0].weight.copy_(layer.first.weight)
        function[0].bias.copy_(layer.bias)
        function[2].load_state_dict(layer.second.state_dict())
    torch.testing.assert_close(layer(x, edges), other(x, edges), rtol=0, atol=1e-12)


def test_the_sum_is_that_of_pyg():
    x, edges = an_input()
    layer = SumConvolution(WIDTH, HIDDEN).double()
    other = GraphConv(WIDTH, HIDDEN).double()
    with torch.no_grad():
        other.lin_rel.weight.copy_(layer.others.weight)
        other.lin_rel.bias.copy_(layer.own.bias)
        other.lin_root.weight.copy_(layer.own.weight)
    torch.testing.assert_close(layer(x, edges), other(x, edges), rtol=0, atol=1e-12)
