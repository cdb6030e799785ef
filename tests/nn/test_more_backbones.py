"""Layers that transform before they sum, against PyG's layers with the same weights."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import GINConv, GraphConv

from ncgnn.nn._more_backbones import Isomorphism, SumConvolution

NODES, WIDTH, HIDDEN = 13, 9, 4


def an_input():
    torch.manual_seed(0)
    edges = torch.randint(NODES, (2, 40))
    return torch.randn(NODES, WIDTH, dtype=torch.float64), edges


def test_isomorphism_is_that_of_pyg():
    x, edges = an_input()
    layer = Isomorphism(WIDTH, HIDDEN).double()
    function = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))
    other = GINConv(function, train_eps=True).double()
    with torch.no_grad():
        layer.bias.normal_()
        layer.conv.eps.fill_(0.3)
        other.eps.copy_(layer.conv.eps)
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
