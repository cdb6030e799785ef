"""GCNII: deep graph convolutions with initial residual and identity mapping."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, Width, parse_options
from ncgnn.nn.functional import at, dropout, relu_dropout
from ncgnn.nn.layers import FeatureLinear

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs


class GCNIIOptions(PlainOptions):
    """Options of GCNII."""

    hidden: Width = 512
    """Width of all layers."""
    dropout: Rate = 0.5
    """Rate for the features, before every layer and before the last linear one."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 8
    """Number of layers between the two linear ones."""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Weight of what a node was before the first layer."""
    theta: Annotated[float, Field(gt=0)] = 0.5
    """Layer l takes log(theta / l + 1) of its weights and the rest of its input."""
    shared_weights: bool = True
    """Whether a layer has the same weights for both; False makes it GCNII*."""


class GCNII(Model):
    """GCN with initial residual and identity mapping (https://arxiv.org/abs/2007.02133).

    With Â the normalized adjacency of GCN over incoming edges and βₗ = log(θ/l + 1):

        H⁰ = ReLU(drop(X)·W + b)
        Hˡ = ReLU(((1 − α)·Â·drop(Hˡ⁻¹) + α·H⁰)·((1 − βₗ)·I + βₗ·Wₗ))
        logits = drop(Hᴸ)·V + b'

    GCNII* (``shared_weights=False``) has one Wₗ for Â·drop(Hˡ⁻¹) and another for H⁰. Here α scales
    both of their parts, as in the authors' paper and in PyG's ``GCN2Conv``; in the released code it
    scales the identity part alone, and Wₗ multiplies Â·drop(Hˡ⁻¹) and H⁰ as they are. The H⁰ that
    is added is not dropped.

    For 60 % training nodes, the authors' script has 8 layers with θ = 1.5 and α = 0.2 on Chameleon,
    16 on Cornell and Wisconsin, 32 on Texas, and 64 on citation graphs, with α = 0.1 on Pubmed. The
    default of 8 layers is a choice of this package for cost: every layer keeps two arrays of
    nodes × hidden for its gradient.
    """

    paper = "Chen et al., Simple and Deep Graph Convolutional Networks, ICML 2020, arXiv:2007.02133"
    family = "spatial"
    memory = "nodes × hidden × layers"
    uses_weights = True
    Options = GCNIIOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__()
        self.encode = FeatureLinear(num_features, chosen.hidden)
        self.weights = _make_weights(chosen.hidden, chosen.layers)
        self.initial_weights = _make_weights(
            chosen.hidden, 0 if chosen.shared_weights else chosen.layers
        )
        self.decode = nn.Linear(chosen.hidden, num_classes)
        self.dropout, self.alpha = chosen.dropout, chosen.alpha
        self.reach = chosen.layers + 1
        self.betas = [math.log(chosen.theta / (1 + layer) + 1) for layer in range(chosen.layers)]

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        operator = inputs.gcn_operator()
        first = torch.relu(self.encode(inputs, self.dropout, at(key, 0)))
        hidden = dropout(first, self.dropout, at(key, 1))
        for layer in range(len(self.betas)):
            mapped = self._map(layer, operator @ hidden, first)
            hidden = relu_dropout(mapped, self.dropout, at(key, 2 + layer))
        return self.decode(hidden)

    def _map(self, layer: int, passed: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        beta, weight = self.betas[layer], self.weights[layer]
        if not len(self.initial_weights):
            return _interpolate(torch.lerp(passed, first, self.alpha), weight, beta)
        initial = _interpolate(first, self.initial_weights[layer], beta, self.alpha)
        return _interpolate(passed, weight, beta, 1 - self.alpha) + initial


def _interpolate(
    x: torch.Tensor, weight: torch.Tensor, beta: float, share: float = 1.0
) -> torch.Tensor:
    """share·x·((1 − β)·I + β·W), which keeps nothing but x for its gradient."""
    return torch.addmm(x, x, weight, beta=share * (1 - beta), alpha=share * beta)


def _make_weights(width: int, number: int) -> nn.ParameterList:
    """Weights uniform within ±1/√(width)."""
    weights = [torch.empty(width, width) for _ in range(number)]
    for weight in weights:
        nn.init.uniform_(weight, -(width**-0.5), width**-0.5)
    return nn.ParameterList(nn.Parameter(weight) for weight in weights)
