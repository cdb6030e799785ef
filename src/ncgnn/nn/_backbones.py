"""What message passing of a separated model is made of: one backbone for both of its layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from ncgnn.nn._channels import LinearChannels, identity
from ncgnn.nn._dense import sum_of_products
from ncgnn.nn._inputs import SPARSE_COST
from ncgnn.nn._operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.graph.sparse import ConstantSparse
    from ncgnn.nn._channels import Channel, Separation
    from ncgnn.nn._inputs import GraphInputs
    from ncgnn.nn._operators import Operators
    from ncgnn.nn._products import SharedProducts


class Backbone(ABC):
    """Makes the layers of a channel, and applies them to what the channel's mode lets through."""

    @abstractmethod
    def layer(self, width: int, hidden: int) -> nn.Module:
        """One layer with its own weights, from ``width`` columns to ``hidden``."""

    @abstractmethod
    def channels(
        self, inputs: GraphInputs, separation: Separation, num_groups: int
    ) -> Callable[[torch.Tensor, torch.Tensor], Channel]:
        """What makes the channels of a graph, see :func:`ncgnn.nn._channels.arrange`."""

    @abstractmethod
    def first(
        self, layer: Any, channel: Channel, products: SharedProducts, name: str
    ) -> torch.Tensor:
        """The first layer's rows for the channel's sources, before the activation."""

    @abstractmethod
    def second(self, layer: Any, channel: Channel, hidden: torch.Tensor) -> torch.Tensor:
        """The second layer's rows for the channel's targets."""

    @abstractmethod
    def restricted(self, channel: Channel, places: torch.Tensor) -> Any:
        """What the second layer works on where only some of the channel's targets are asked for.

        Args:
            channel: A channel for all its targets.
            places: Which of them are asked for.
        """


class LinearLayer(nn.Module):
    """The weights of Σ_t P_t · H · W_t + b."""

    def __init__(self, width: int, hidden: int, terms: int, bias: bool) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.empty(width, hidden) for _ in range(terms))
        self.bias = nn.Parameter(torch.empty(hidden)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights with the gain of ReLU, bias zero."""
        for weight in self.weights:
            nn.init.xavier_uniform_(weight, gain=nn.init.calculate_gain("relu"))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class LinearBackbone(Backbone):
    """GCN or SAGE: layers that are linear in their input.

    Args:
        name: ``"gcn"`` or ``"sage"``.
        self_loops: Whether every node is its own neighbour too.
    """

    def __init__(self, name: str, self_loops: bool) -> None:
        self.operators = OPERATORS[name]
        self.self_loops = self_loops

    def layer(self, width: int, hidden: int) -> LinearLayer:
        """One weight matrix per operator."""
        return LinearLayer(width, hidden, self.operators.terms, self.operators.bias)

    def channels(
        self, inputs: GraphInputs, separation: Separation, num_groups: int
    ) -> LinearChannels:
        """Channels of operators."""
        operators = inputs.operators(self.operators, self.self_loops)
        return LinearChannels(inputs, operators, separation, num_groups)

    def first(
        self, layer: LinearLayer, channel: Channel, products: SharedProducts, name: str
    ) -> torch.Tensor:
        """Σ_t (P_t · X) · W_t + b, products shared between passes."""
        return products.total(name, channel.first, list(layer.weights), layer.bias)

    def second(self, layer: LinearLayer, channel: Channel, hidden: torch.Tensor) -> torch.Tensor:
        """Σ_t P_t · (H · W_t) + b."""
        rows: list[torch.Tensor] = []
        weights: list[torch.Tensor] = []
        passed: list[torch.Tensor] = []
        for operator, weight in zip(channel.second, layer.weights, strict=True):
            if operator is not None and not _propagates_first(operator, weight):
                passed.append(operator @ sum_of_products([hidden], [weight]))
                continue
            rows.append(hidden if operator is None else operator @ hidden)
            weights.append(weight)
        total = sum_of_products(rows, weights, layer.bias) if rows else layer.bias
        for part in passed:
            total = part if total is None else total + part
        return cast("torch.Tensor", total)

    def restricted(self, channel: Channel, places: torch.Tensor) -> Operators:
        """Rows of the operators."""
        dtype = channel.first[0].constant.dtype
        return tuple(
            (operator or identity(len(channel.sources), places, dtype)).rows(places)
            for operator in channel.second
        )


def _propagates_first(operator: ConstantSparse, weight: torch.Tensor) -> bool:
    """Whether (P · H) · W costs less than P · (H · W)."""
    (rows, columns), (width, out) = operator.shape, weight.shape
    first = SPARSE_COST * operator.nnz * width + rows * width * out
    return first < SPARSE_COST * operator.nnz * out + columns * width * out
