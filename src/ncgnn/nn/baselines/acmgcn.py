"""ACM-GCN: adaptive mixing of a low-pass, a high-pass and an own channel per node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import Term, drop_features, product

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import ConstantSparse

_CHANNELS = 3


class ACMGCNOptions(PlainOptions):
    """Options of ACM-GCN."""

    dropout: Rate = 0.5
    """Rate for the features and after the hidden layer."""
    variant: Literal[0, 1] = 0
    """0 applies ReLU after messages are passed, 1 before."""
    scaled: bool = True
    """Whether the mixture is multiplied by the number of channels, 3."""


class ACMGCN(Model):
    """Adaptive channel mixing (https://arxiv.org/abs/2210.07606), without its structure channel.

    With P = (D + I)⁻¹(A + I), the mean over incoming edges and the node itself, a layer mixes a
    low-pass, a high-pass and an own channel of U:

        L = ReLU(P·U·W_L)    H = ReLU((I − P)·U·W_H)    M = ReLU(U·W_M)
        α = softmax(σ([L·a_L, H·a_H, M·a_M])·W_mix / 3), three weights per node
        layer(U) = 3·(α_L⊙L + α_H⊙H + α_M⊙M)

    and logits = layer₂(drop(ReLU(layer₁(drop(X))))), with ReLU in the last layer too, and without
    any bias. The factor 3 is that of the released code; ``scaled=False`` leaves it out, as the
    paper does. With ``variant=1`` ReLU comes before P, that is L = P·ReLU(U·W_L); the first of the
    authors' two implementations has variant 0 by default, the other one (ACM-Geometric) variant 1.
    The high-pass channel is computed as U·W_H − P·(U·W_H).
    """

    title = "ACM-GCN"
    paper = (
        "Luan et al., Revisiting Heterophily For Graph Neural Networks, NeurIPS 2022, "
        "arXiv:2210.07606"
    )
    family = "spectral"
    memory = "3 × nodes × hidden"
    reach = 2
    uses_weights = True
    Options = ACMGCNOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__()
        early, factor = chosen.variant == 1, float(_CHANNELS) if chosen.scaled else 1.0
        self.first = MixingLayer(num_features, chosen.hidden, early, factor)
        self.second = MixingLayer(chosen.hidden, num_classes, early, factor)
        self.dropout = chosen.dropout

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        operator = inputs.mean_operator(self_loops=True)
        features = drop_features(inputs, self.dropout, at(key, 0))
        hidden = self.first(product(Term(features), self.first.weight), operator)
        hidden = relu_dropout(hidden, self.dropout, at(key, 1))
        return self.second(hidden @ self.second.weight, operator)


class MixingLayer(nn.Module):
    """A layer of ACM-GCN, after the product of its input with the weights.

    ReLU comes before messages where ``early``, and the mixture is multiplied by ``factor``.
    """

    def __init__(self, inputs: int, width: int, early: bool, factor: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, _CHANNELS * width))
        self.scores = nn.Parameter(torch.empty(width, _CHANNELS))
        self.mix = nn.Parameter(torch.empty(_CHANNELS, _CHANNELS))
        self.width, self.early, self.factor = width, early, factor
        nn.init.uniform_(self.weight, -(width**-0.5), width**-0.5)
        nn.init.uniform_(self.scores, -1, 1)
        nn.init.uniform_(self.mix, -(_CHANNELS**-0.5), _CHANNELS**-0.5)

    def forward(self, columns: torch.Tensor, operator: ConstantSparse) -> torch.Tensor:
        """The mixture [n, width] of [n, 3 × width]: what low, high and own channel start from."""
        channels = self._channels(columns, operator)
        scores = [channel @ self.scores[:, number] for number, channel in enumerate(channels)]
        mixed = torch.sigmoid(torch.stack(scores, dim=1)) @ self.mix / _CHANNELS
        shares = self.factor * torch.softmax(mixed, dim=1)
        low, high, own = shares.unsqueeze(2).unbind(1)
        return low * channels[0] + high * channels[1] + own * channels[2]

    def _channels(
        self, columns: torch.Tensor, operator: ConstantSparse
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if self.early:
            columns = torch.relu(columns)
        passed, own = columns.split([2 * self.width, self.width], dim=1)
        low, smooth = (operator @ passed).split(self.width, dim=1)
        high = passed[:, self.width :] - smooth
        if self.early:
            return low, high, own
        return torch.relu(low), torch.relu(high), torch.relu(own)
