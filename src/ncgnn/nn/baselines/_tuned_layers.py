"""One layer of the tuned classic models: a convolution, a residual and a normalisation.

Every graph is made undirected. A layer is called as ``layer(inputs, h)``, where ``h`` is the output
of the layer before, and None stands for the features. Weights come before neighbours, so that
sparse features stay sparse and nothing is wider than a hidden layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from ncgnn.graph.sparse import with_self_loops
from ncgnn.nn._products import Term, product
from ncgnn.nn.baselines._attention import attended
from ncgnn.nn.baselines._baseline import FeatureLinear, gcn_operator, mean_operator

if TYPE_CHECKING:
    from ncgnn.graph.sparse import ConstantSparse, SparsePattern
    from ncgnn.nn._inputs import GraphInputs

Norm = Literal["layer", "batch", "none"]


class GraphConvolution(nn.Module):
    """Â·h·W + b with Â = D^-½ A D^-½.

    Args:
        width: Number of columns of h.
        hidden: Number of columns of the result.
        self_loops: Whether A has ones on its diagonal.
    """

    def __init__(self, width: int, hidden: int, self_loops: bool) -> None:
        super().__init__()
        self.self_loops = self_loops
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, hidden)))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden]."""
        operator = gcn_operator(inputs, self_loops=self.self_loops, undirected=True)
        return _times(inputs, h, self.weight, operator) + self.bias


class MeanConvolution(nn.Module):
    """h·W + mean(h of neighbours)·V + b. Args as in :class:`GraphConvolution`."""

    def __init__(self, width: int, hidden: int, self_loops: bool) -> None:
        super().__init__()
        self.self_loops = self_loops
        self.own = nn.Parameter(torch.empty(width, hidden))
        self.neighbours = nn.Parameter(torch.empty(width, hidden))
        self.bias = nn.Parameter(torch.empty(hidden))
        bound = max(1, width) ** -0.5  # as torch's Linear
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden]."""
        operator = mean_operator(inputs, self_loops=self.self_loops, undirected=True)
        around = _times(inputs, h, self.neighbours, operator)
        return _times(inputs, h, self.own) + around + self.bias


class AttentionConvolution(nn.Module):
    """Σ_j α_ij z_j with z = h·W and α_ij = softmax_j LeakyReLU(⟨a, z_i⟩ + ⟨b, z_j⟩).

    One head and no bias. Args as in :class:`GraphConvolution`.
    """

    def __init__(self, width: int, hidden: int, self_loops: bool) -> None:
        super().__init__()
        self.self_loops = self_loops
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, hidden)))
        self.target = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden)))
        self.source = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden)))

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden]."""
        pattern = _undirected_pattern(inputs, self.self_loops)
        z = _times(inputs, h, self.weight)
        return attended(pattern, z.unsqueeze(1), self.target, self.source).squeeze(1)


class TunedLayer(nn.Module):
    """norm(convolution(h) + [h·W + b]).

    Args:
        convolution: Called as ``convolution(inputs, h)``.
        width: Number of columns of h.
        hidden: Number of columns of the result.
        norm: Which normalisation.
        residual: Whether h·W + b is added.
        first: Whether h is the features.
    """

    def __init__(
        self,
        convolution: nn.Module,
        width: int,
        hidden: int,
        *,
        norm: Norm,
        residual: bool,
        first: bool,
    ) -> None:
        super().__init__()
        self.convolution = convolution
        linear = FeatureLinear if first else nn.Linear
        self.residual = linear(width, hidden) if residual else None
        self.norm = norm_of(norm, hidden)

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden], before the activation."""
        total = self.convolution(inputs, h)
        if self.residual is not None:
            total = total + self.residual(inputs if h is None else h)
        return self.norm(total)


def norm_of(norm: Norm, width: int) -> nn.Module:
    """The normalisation of a layer's rows."""
    if norm == "none":
        return nn.Identity()
    return nn.LayerNorm(width) if norm == "layer" else nn.BatchNorm1d(width)


def _times(
    inputs: GraphInputs,
    h: torch.Tensor | None,
    weight: torch.Tensor,
    operator: ConstantSparse | None = None,
) -> torch.Tensor:
    """The operator times h · weight, where None stands for the features."""
    if h is None:
        return product(Term(inputs.features, operator), weight)
    total = h @ weight
    return total if operator is None else operator @ total


def _undirected_pattern(inputs: GraphInputs, self_loops: bool) -> SparsePattern:
    adjacency = inputs.undirected_adjacency
    if not self_loops:
        return adjacency.pattern
    if adjacency is inputs.adjacency:
        return inputs.looped_adjacency.pattern
    name = "undirected adjacency with self-loops"
    return inputs.kept(name, lambda: with_self_loops(adjacency)).pattern
