"""CAGNN: what a node is and what it receives, kept apart and mixed by a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, Width, parse_options
from ncgnn.nn.functional import at, dropout, unit_rows
from ncgnn.nn.layers import FeatureLinear

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs


class CAGNNOptions(PlainOptions):
    """Options of CAGNN."""

    hidden: Width = 512
    """Width of all layers."""
    dropout: Rate = 0.5
    """Rate for the features, before every layer and before the last linear one."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 2
    """Number of rounds of messages."""
    self_loops: bool = False
    """Whether every node is its own neighbor too."""


class CAGNN(Model):
    """Conv-agnostic framework with GCN layers and a convex gate (https://arxiv.org/abs/2203.11200).

    With P the mean over incoming edges and unit(·) the division of each row by its length, a node
    keeps what it is, S, apart from what it gets, C:

        S = C = unit(ReLU(drop(X)·W + b))
        in each layer:  C ← P·drop(C)·Wₗ + bₗ
                        g = σ(S·u + C·v + t), one number per node; u, v, t belong to all layers
                        S ← unit(g⊙S + (1 − g)⊙C)  and  C ← unit(C)
        logits = drop(S)·V + b'

    The released code has self-loops in P for Cora, Citeseer and Pubmed and for no other graph,
    which is what ``self_loops`` is for. A row of zeros stays one.
    """

    paper = (
        "Chen et al., Exploiting Neighbor Effect: Conv-Agnostic GNN Framework for Graphs with "
        "Heterophily, TNNLS 2023"
    )
    family = "spatial"
    uses_weights = True
    Options = CAGNNOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__()
        hidden = chosen.hidden
        self.encode = FeatureLinear(num_features, hidden)
        self.convolutions = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(chosen.layers))
        self.gate = nn.Linear(2 * hidden, 1)
        self.decode = nn.Linear(hidden, num_classes)
        self.dropout, self.self_loops = chosen.dropout, chosen.self_loops
        self.reach = chosen.layers

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        operator = inputs.mean_operator(self_loops=self.self_loops)
        own = unit_rows(torch.relu(self.encode(inputs, self.dropout, at(key, 0))))
        context = own
        for layer, convolution in enumerate(self.convolutions, start=1):
            context = convolution(operator @ dropout(context, self.dropout, at(key, layer)))
            own = unit_rows(torch.lerp(context, own, self._gate(own, context)))
            context = unit_rows(context)
        last = at(key, len(self.convolutions) + 1)
        return self.decode(dropout(own, self.dropout, last))

    def _gate(self, own: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """How much a node keeps of itself, [n, 1]; the same as of both side by side."""
        of_own, of_context = self.gate.weight.t().chunk(2)
        return torch.sigmoid(own @ of_own + context @ of_context + self.gate.bias)
