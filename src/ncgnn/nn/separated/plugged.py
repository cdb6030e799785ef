"""Separated models on other layers: attention, isomorphism and sums.

They compute what the layers of PyTorch Geometric of the same names compute. But matrices are
applied before anything is sent along edges, and what is sent goes through the sparse kernels, so
that nothing of size edges × hidden, let alone edges × features, is ever made.
"""

from __future__ import annotations

import torch
from torch import nn

from ncgnn.nn.base import NotCopied
from ncgnn.nn.functional import attended
from ncgnn.nn.registry import SeparatedModel
from ncgnn.sparse import ConstantSparse, SparsePattern, add_self_loops


class _Kept(NotCopied):
    """The adjacency of the edges that a layer was last called with."""

    edges: torch.Tensor | None = None
    adjacency: ConstantSparse | None = None


class EdgeLayer(nn.Module):
    """A layer that is called as ``layer(x, edge_index)`` and multiplies by sparse matrices.

    Args:
        self_loops: Whether every node sees itself, too.
    """

    def __init__(self, self_loops: bool = False) -> None:
        super().__init__()
        self._self_loops, self._kept = self_loops, _Kept()

    def adjacency(self, x: torch.Tensor, edge_index: torch.Tensor) -> ConstantSparse:
        """Row i has ones for the nodes that i sees; made anew when edges have changed."""
        kept = self._kept
        known = kept.adjacency if kept.edges is edge_index else None
        if known is None or known.dtype != x.dtype:
            pattern = SparsePattern.from_edge_index(edge_index, len(x))
            known = ConstantSparse(pattern, x.new_ones(pattern.nnz))
            known = add_self_loops(known) if self._self_loops else known
            kept.edges, kept.adjacency = edge_index, known
        return known


class Attention(EdgeLayer):
    r"""Graph attention, :math:`h_i' = \sum_j α_{ij} W h_j + b` in every head.

    (https://arxiv.org/abs/1710.10903) A node sees itself. There are eight heads where they divide
    the width, otherwise one.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(self_loops=True)
        heads = 8 if hidden % 8 == 0 else 1
        self.linear = nn.Linear(width, hidden, bias=False)
        self.target = nn.Parameter(torch.empty(heads, hidden // heads))
        self.source = nn.Parameter(torch.empty(heads, hidden // heads))
        self.bias = nn.Parameter(torch.zeros(hidden))
        for parameter in (self.linear.weight, self.target, self.source):
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        nodes = self.linear(x).view(-1, *self.target.shape)
        pattern = self.adjacency(x, edge_index).pattern
        return attended(pattern, nodes, self.target, self.source).flatten(1) + self.bias


class Isomorphism(EdgeLayer):
    r"""A GIN layer whose function of the sum is one hidden layer.

    .. math::

        h_i' = W_2 \, ReLU\Big((1 + ε) W_1 h_i + \sum_{j → i} W_1 h_j + b_1\Big) + b_2

    (https://arxiv.org/abs/1810.00826)
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden, bias=False)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.second = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        own = self.first(x)
        summed = (1 + self.epsilon) * own + self.adjacency(x, edge_index) @ own
        return self.second(torch.relu(summed + self.bias))


class SumConvolution(EdgeLayer):
    r"""GraphConv, :math:`h_i' = W_1 h_i + \sum_{j → i} W_2 h_j + b`.

    (https://arxiv.org/abs/1810.02244)
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, hidden)
        self.others = nn.Linear(width, hidden, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        return self.own(x) + self.adjacency(x, edge_index) @ self.others(x)


class NCGAT(SeparatedModel):
    """Separated learning with graph attention (https://arxiv.org/abs/1710.10903)."""

    constructor = Attention


class NCGIN(SeparatedModel):
    """Separated learning with GIN layers (https://arxiv.org/abs/1810.00826)."""

    constructor = Isomorphism


class NCGraphConv(SeparatedModel):
    """Separated learning with GraphConv layers (https://arxiv.org/abs/1810.02244)."""

    constructor = SumConvolution
