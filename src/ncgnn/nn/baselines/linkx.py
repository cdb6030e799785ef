"""LINKX: perceptrons of the adjacency and of the features, and one of both."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Self

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, parse_options
from ncgnn.nn.functional import at, dropout
from ncgnn.nn.layers import FeatureLinear, NodeLinear

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs

Layers = Annotated[int, Field(ge=1, le=1000)]


class LINKXOptions(PlainOptions):
    """Options of LINKX."""

    dropout: Rate = 0.5
    """Rate between the layers after the branches have met; one layer has none."""
    layers: Layers = 2
    """Number of layers after the branches have met."""
    adjacency_layers: Layers = 1
    """Number of layers of the branch of the adjacency."""
    feature_layers: Layers = 1
    """Number of layers of the branch of the features."""


class LINKX(Model):
    """Perceptrons of the adjacency and of the features, and one of both (arXiv:2110.14446).

    H_A = MLP_A(A), H_X = MLP_X(X), H = H_A + H_X + [H_A ‖ H_X]·W + b, logits = MLP_f(ReLU(H)).

    As PyG's ``LINKX``: between the layers of a perceptron come ReLU, then normalization over the
    nodes, and in MLP_f dropout. Row i of A holds the edges into node i, and the first layer of
    MLP_A has a row of weights for every node, so that the model belongs to one graph. The numbers
    of layers are those of the released code. It makes graphs undirected first unless it is told
    not to; here a directed graph stays directed.

    Args:
        num_nodes: Number of nodes of the graph.
    """

    paper = (
        "Lim et al., Large Scale Learning on Non-Homophilous Graphs, NeurIPS 2021, arXiv:2110.14446"
    )
    family = "features"
    memory = "nodes × hidden weights"
    Options = LINKXOptions
    tied_to = "every node"

    def __init__(
        self, num_features: int, num_classes: int, *, num_nodes: int, **options: Any
    ) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        hidden = self.options.hidden
        self.adjacency = NodeLinear(num_nodes, hidden)
        self.more_adjacency = _Rest([hidden] * self.options.adjacency_layers)
        self.features = FeatureLinear(num_features, hidden)
        self.more_features = _Rest([hidden] * self.options.feature_layers)
        self.mix_adjacency = nn.Linear(hidden, hidden)
        self.mix_features = nn.Linear(hidden, hidden)
        self.final = nn.Linear(hidden, hidden if self.options.layers > 1 else num_classes)
        self.more_final = _Rest([hidden] * (self.options.layers - 1) + [num_classes])

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A model for a graph, with a weight for each of its nodes."""
        num_nodes = inputs.num_nodes
        return cls(inputs.num_features, inputs.num_classes, num_nodes=num_nodes, **options)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        a = self.more_adjacency(self.adjacency(inputs.kept("adjacency", lambda: inputs.adjacency)))
        x = self.more_features(self.features(inputs))
        both = a + x + self.mix_adjacency(a) + self.mix_features(x)
        return self.more_final(self.final(torch.relu(both)), self.options.dropout, key)


class _Rest(nn.Module):
    """The layers of a perceptron after the first: ReLU, normalization, dropout and a product each.

    ``widths`` begins with that of the first layer.
    """

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width, _ in pairs)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairs)

    def forward(
        self, x: torch.Tensor, rate: float = 0.0, key: DropoutKey | None = None
    ) -> torch.Tensor:
        """[n, last width]; the dropout of layer i is at place i."""
        for place, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            x = layer(dropout(norm(torch.relu(x)), rate, at(key, place)))
        return x
