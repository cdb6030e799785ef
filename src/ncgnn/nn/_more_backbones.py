"""Separated models on other layers of PyTorch Geometric."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import GATConv, GINConv, SimpleConv

from ncgnn.nn._models import SeparatedModel


def attention(width: int, hidden: int) -> nn.Module:
    """Eight attention heads where they divide the width, otherwise one."""
    heads = 8 if hidden % 8 == 0 else 1
    return GATConv(width, hidden // heads, heads=heads)


class Isomorphism(nn.Module):
    r"""A GIN layer whose function of the sum is one hidden layer.

    .. math::

        h_i' = W_2 \, ReLU\Big((1 + ε) W_1 h_i + \sum_{j → i} W_1 h_j + b_1\Big) + b_2

    (https://arxiv.org/abs/1810.00826). The first matrix is applied before the sum, which gives the
    same and sends ``hidden`` numbers along an edge in place of all features.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden, bias=False)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.conv = GINConv(nn.Identity(), train_eps=True)
        self.second = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        return self.second(torch.relu(self.conv(self.first(x), edge_index) + self.bias))


class SumConvolution(nn.Module):
    r"""GraphConv, :math:`h_i' = W_1 h_i + \sum_{j → i} W_2 h_j + b`.

    (https://arxiv.org/abs/1810.02244) The matrix is applied before the sum, as above.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, hidden)
        self.others = nn.Linear(width, hidden, bias=False)
        self.conv = SimpleConv(aggr="sum")

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        return self.own(x) + self.conv(self.others(x), edge_index)


class NCGAT(SeparatedModel):
    """Separated learning with graph attention (https://arxiv.org/abs/1710.10903)."""

    constructor = staticmethod(attention)


class NCGIN(SeparatedModel):
    """Separated learning with GIN layers (https://arxiv.org/abs/1810.00826)."""

    constructor = Isomorphism


class NCGraphConv(SeparatedModel):
    """Separated learning with GraphConv layers (https://arxiv.org/abs/1810.02244)."""

    constructor = SumConvolution
