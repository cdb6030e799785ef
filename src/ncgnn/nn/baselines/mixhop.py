"""MixHop: powers of the adjacency side by side in every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field, field_validator
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, Width, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import FeatureLinear

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import ConstantSparse


class MixHopOptions(PlainOptions):
    """Options of MixHop."""

    hidden: Width = 512
    """Width of each power in each layer."""
    dropout: Rate = 0.5
    """Rate for the features and after every layer."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 2
    """Number of layers before the linear one."""
    powers: tuple[Annotated[int, Field(ge=0)], ...] = (0, 1, 2)
    """Powers of the operator, ascending."""
    self_loops: bool = True
    """Whether every node is its own neighbor too."""

    @field_validator("powers")
    @classmethod
    def _ascending(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or list(value) != sorted(set(value)):
            raise ValueError("must be one power, or several ascending ones")
        return value


class MixHop(Model):
    """Mixing of powers of the adjacency (https://arxiv.org/abs/1905.00067).

    With Â the normalized adjacency of GCN over incoming edges, [·‖·] side by side, and p over the
    powers:

        H⁰ = drop(X),  Hˡ = drop(ReLU([Âᵖ·Hˡ⁻¹·W_p ‖ …] + b)),  logits = Hᴸ·V + b'

    Weights come before powers of Â, which is the same and never multiplies Â by wide features.
    Every power has the full width ``hidden``. The authors' code also has batch normalization, unit
    rows of features and widths that a search over architectures found; these are left out, and of
    its two last layers the fully connected one is taken. Weights start as in torch's ``Linear``,
    uniform within ±1/√(inputs of the layer); the biases b start at zero.
    """

    paper = (
        "Abu-El-Haija et al., MixHop: Higher-Order Graph Convolutional Architectures via "
        "Sparsified Neighborhood Mixing, ICML 2019, arXiv:1905.00067"
    )
    family = "spatial"
    memory = "powers × nodes × hidden"
    uses_weights = True
    Options = MixHopOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__()
        width = len(chosen.powers) * chosen.hidden
        self.first = FeatureLinear(num_features, width, bias=False)
        self.later = nn.ModuleList(
            nn.Linear(width, width, bias=False) for _ in range(chosen.layers - 1)
        )
        self.biases = nn.Parameter(torch.zeros(chosen.layers, width))
        self.last = nn.Linear(width, num_classes)
        self.powers, self.self_loops = chosen.powers, chosen.self_loops
        self.dropout = chosen.dropout
        self.reach = chosen.layers * chosen.powers[-1] + 1

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        operator = inputs.gcn_operator(self_loops=self.self_loops)
        hidden = self.first(inputs, self.dropout, at(key, 0))
        for layer in range(len(self.biases)):
            columns = hidden if layer == 0 else self.later[layer - 1](hidden)
            mixed = apply_powers(operator, columns, self.powers) + self.biases[layer]
            hidden = relu_dropout(mixed, self.dropout, at(key, 1 + layer))
        return self.last(hidden)


def apply_powers(
    operator: ConstantSparse, columns: torch.Tensor, powers: tuple[int, ...]
) -> torch.Tensor:
    """[Âᵖ·Uₚ ‖ …] of columns [Uₚ ‖ …], one part of equal width for each ascending power."""
    width = columns.shape[1] // len(powers)
    parts: list[torch.Tensor] = []
    reached = 0
    for power in powers:
        for _ in range(power - reached):
            columns = operator @ columns
        reached = power
        part, columns = columns.split([width, columns.shape[1] - width], dim=1)
        parts.append(part)
    return torch.cat(parts, dim=1)
