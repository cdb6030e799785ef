"""FAGCN: messages weighted by gates between -1 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, Width, parse_options
from ncgnn.nn.functional import at, dropout, relu_dropout
from ncgnn.nn.layers import FeatureLinear
from ncgnn.sparse import gather_columns, gather_rows, weighted_matmul

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import ConstantSparse

_GAIN = 1.414


class FAGCNOptions(PlainOptions):
    """Options of FAGCN."""

    hidden: Width = 512
    """Width of all layers."""
    dropout: Rate = 0.5
    """Rate for the features, after the first linear layer, and for the weights of edges."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 2
    """Number of rounds of messages."""
    eps: Annotated[float, Field(ge=0)] = 0.3
    """Weight of what a node was before the first round."""


class FAGCN(Model):
    """Frequency adaptation graph convolutional network (https://arxiv.org/abs/2101.00797).

    With N(i) the neighbors of i without itself, d their number, and drop(·) dropout:

        H⁰  = drop(ReLU(drop(X)·W + b))
        hᵢˡ = ε·hᵢ⁰ + Σ_{j∈N(i)} drop(gᵢⱼˡ / √(dᵢ·dⱼ))·hⱼˡ⁻¹
        gᵢⱼˡ = tanh(aₗᵀ·hᵢˡ⁻¹ + cₗᵀ·hⱼˡ⁻¹ + bₗ)
        logits = Hᴸ·V + b'

    A gate g is negative where neighbors should differ. As in the released code, all edges count in
    both directions. A gate is a sum of one number per node, so nothing larger than one number per
    edge is ever made of the edges.
    """

    paper = (
        "Bo et al., Beyond Low-frequency Information in Graph Convolutional Networks, AAAI "
        "2021, arXiv:2101.00797"
    )
    family = "attention"
    memory = "nodes × hidden × layers, edges"
    edges = "both"
    uses_weights = True
    Options = FAGCNOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__()
        self.encode = FeatureLinear(num_features, chosen.hidden)
        # For each layer a column for the target of an edge and one for its source.
        self.gates = nn.Parameter(torch.empty(chosen.layers, chosen.hidden, 2))
        self.gate_biases = nn.Parameter(torch.empty(chosen.layers))
        self.decode = nn.Linear(chosen.hidden, num_classes)
        self.dropout, self.eps = chosen.dropout, chosen.eps
        self.reach = chosen.layers + 1
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's normal distribution for weights, and torch's uniform one for biases."""
        self.encode.reset_parameters()
        self.decode.reset_parameters()
        nn.init.xavier_normal_(self.encode.weight, gain=_GAIN)
        nn.init.xavier_normal_(self.decode.weight, gain=_GAIN)
        inputs = 2 * self.gates.shape[1]  # of a gate, with one output
        nn.init.normal_(self.gates, std=_GAIN * (2 / (inputs + 1)) ** 0.5)
        nn.init.uniform_(self.gate_biases, -(inputs**-0.5), inputs**-0.5)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        operator = inputs.gcn_operator(self_loops=False, undirected=True)
        encoded = self.encode(inputs, self.dropout, at(key, 0))
        first = hidden = relu_dropout(encoded, self.dropout, at(key, 1))
        for layer in range(len(self.gates)):
            weights = self._edge_weights(layer, operator, hidden)
            kept = dropout(weights[:, None], self.dropout, at(key, 2 + layer)).flatten()
            received = weighted_matmul(operator.pattern, kept, hidden)
            hidden = torch.add(received, first, alpha=self.eps)
        return self.decode(hidden)

    def _edge_weights(
        self, layer: int, operator: ConstantSparse, hidden: torch.Tensor
    ) -> torch.Tensor:
        scores = hidden @ self.gates[layer]
        target = gather_rows(operator.pattern, scores[:, 0] + self.gate_biases[layer])
        source = gather_columns(operator.pattern, scores[:, 1])
        return torch.tanh(target + source) * operator.values
