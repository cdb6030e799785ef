"""What the models to compare with are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from ncgnn.errors import InputError
from ncgnn.graph.sparse import ConstantSparse, gcn_normalised, row_normalised
from ncgnn.nn._dropout import dropout, training_key
from ncgnn.nn._inputs import as_inputs, checked_nodes
from ncgnn.nn._products import Term, product

if TYPE_CHECKING:
    from ncgnn.graph import GraphLike
    from ncgnn.nn._dropout import DropoutKey
    from ncgnn.nn._inputs import Constant, GraphInputs

#: Rows that are shorter have no direction.
_SHORTEST = 1e-12


class Baseline(nn.Module, ABC):
    """A model without groups of nodes, which computes the logits of all nodes at once."""

    rule = None
    computes_all = True

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A model for a graph; those with weights for every node override it."""
        return cls(inputs.num_features, inputs.num_classes, **options)

    def forward(
        self,
        inputs: GraphInputs | GraphLike,
        group: torch.Tensor | None = None,
        key: DropoutKey | None = None,
        nodes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits of every node, or of the given ones, [n, classes]; ``group`` plays no part."""
        inputs = as_inputs(inputs, next(self.parameters()))
        logits = self.logits(inputs, training_key(self.training, key))
        if nodes is None:
            return logits
        return logits.index_select(0, checked_nodes(nodes, inputs.everyone))

    @abstractmethod
    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""


class FeatureLinear(nn.Module):
    """X·W + b for the features of a graph, sparse or dense, with dropout of the features.

    Args:
        num_features: Number of features.
        width: Number of columns of the result.
        bias: Whether there is a bias.
    """

    def __init__(self, num_features: int, width: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_features, width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch's ``Linear``: uniform within ±1/√(number of features)."""
        bound = max(1, self.weight.shape[0]) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self, inputs: GraphInputs, rate: float = 0.0, key: int | None = None
    ) -> torch.Tensor:
        """[n, width]; ``rate`` and ``key`` as :func:`ncgnn.nn._dropout.dropout` takes them."""
        total = product(Term(dropped_features(inputs, rate, key)), self.weight)
        return total if self.bias is None else total + self.bias


class NodeLinear(nn.Module):
    """A·W + b for an operator A of a graph, where W has a row for every node.

    Args:
        num_nodes: Number of nodes.
        width: Number of columns of the result.
    """

    def __init__(self, num_nodes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_nodes, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch's ``Linear``: uniform within ±1/√(number of nodes)."""
        bound = max(1, len(self.weight)) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, operator: ConstantSparse) -> torch.Tensor:
        """[n, width]."""
        if operator.shape[1] != len(self.weight):
            raise InputError(
                f"the model has weights for the {len(self.weight)} nodes of its graph; "
                f"this graph has {operator.shape[1]}."
            )
        return operator @ self.weight + self.bias


def times(x: Constant, weight: torch.Tensor) -> torch.Tensor:
    """X·W for constant features or for the trained rows of a layer."""
    if isinstance(x, ConstantSparse) or not x.requires_grad:
        return product(Term(x), weight)
    return x @ weight


def dropped_features(inputs: GraphInputs, rate: float, key: int | None) -> Constant:
    """The features with some entries dropped; sparse ones stay sparse, as zeros stay zeros."""
    features = inputs.features
    if key is None or rate == 0:
        return features
    if isinstance(features, torch.Tensor):
        return dropout(features, rate, key)
    places = inputs.kept("places of the features' entries", lambda: _places(features))
    values = dropout(features.values[:, None], rate, key, places).flatten()
    return ConstantSparse(features.pattern, values)


def _places(matrix: ConstantSparse) -> torch.Tensor:
    pattern = matrix.pattern
    return pattern.row.to(torch.int64) * matrix.shape[1] + pattern.col.to(torch.int64)


def gcn_operator(
    inputs: GraphInputs, *, self_loops: bool = True, undirected: bool = False
) -> ConstantSparse:
    """D^-½ A D^-½ of the graph, made once; degrees are sums of rows, that is of incoming edges."""

    def make() -> ConstantSparse:
        adjacency = inputs.undirected_adjacency if undirected else inputs.adjacency
        return gcn_normalised(adjacency, self_loops=self_loops)

    undirected = undirected and inputs.undirected_adjacency is not inputs.adjacency
    return inputs.kept(("gcn", self_loops, undirected), make)


def mean_operator(
    inputs: GraphInputs, *, self_loops: bool = False, undirected: bool = False
) -> ConstantSparse:
    """D^-1 A of the graph, made once: the mean over the sources of incoming edges."""

    def make() -> ConstantSparse:
        adjacency = inputs.undirected_adjacency if undirected else inputs.adjacency
        return row_normalised(adjacency, self_loops=self_loops)

    undirected = undirected and inputs.undirected_adjacency is not inputs.adjacency
    return inputs.kept(("mean", self_loops, undirected), make)


def at(key: DropoutKey | None, place: int) -> int | None:
    """The key of one place in the model, where anything is dropped at all."""
    return None if key is None else key.at(place)


def unit_rows(x: torch.Tensor) -> torch.Tensor:
    """Rows divided by their Euclidean length; those that have next to none stay as they are."""
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / length.masked_fill(length < _SHORTEST, 1)
