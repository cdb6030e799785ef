"""Separated models on other layers of PyTorch Geometric."""

from __future__ import annotations

from torch import nn
from torch_geometric.nn import GATConv, GINConv, GraphConv

from ncgnn.nn._models import SeparatedModel


def attention(width: int, hidden: int) -> nn.Module:
    """Eight attention heads where they divide the width, otherwise one."""
    heads = 8 if hidden % 8 == 0 else 1
    return GATConv(width, hidden // heads, heads=heads)


def isomorphism(width: int, hidden: int) -> nn.Module:
    """A GIN layer whose function of the sum is one hidden layer."""
    function = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
    return GINConv(function, train_eps=True)


class NCGAT(SeparatedModel):
    """Separated learning with graph attention (https://arxiv.org/abs/1710.10903)."""

    constructor = staticmethod(attention)


class NCGIN(SeparatedModel):
    """Separated learning with GIN layers (https://arxiv.org/abs/1810.00826)."""

    constructor = staticmethod(isomorphism)


class NCGraphConv(SeparatedModel):
    """Separated learning with GraphConv layers (https://arxiv.org/abs/1810.02244)."""

    constructor = staticmethod(GraphConv)
