"""GPRGNN: generalized PageRank with trained coefficients on a perceptron's logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, checked
from ncgnn.nn.functional import at, dropout, relu_dropout
from ncgnn.nn.layers import FeatureLinear

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs


class GPRGNNOptions(PlainOptions):
    """Options of GPRGNN."""

    dropout: Rate = 0.5
    """Rate of the features and after the hidden layer."""
    propagation_dropout: Rate = 0.5
    """Rate of what is propagated."""
    steps: Annotated[int, Field(ge=0)] = 10
    """Highest power K of the operator."""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Teleport probability of the PageRank that the coefficients start as."""


class GPRGNN(Model):
    r"""Generalized PageRank of a perceptron's logits (https://arxiv.org/abs/2006.07988).

    .. math::

        Z = \sum_{k=0}^{K} \gamma_k \hat{A}^k H, \quad
        H = \mathrm{drop}(\mathrm{drop}(\mathrm{ReLU}(\mathrm{drop}(X) W_1 + b_1)) W_2 + b_2)

    with the self-looped Â = (D+I)^-½ (A+I) (D+I)^-½ over incoming edges. The coefficients γ are
    trained without bounds and without weight decay, as the authors' code does; they start as
    personalized PageRank, γ_k = α(1-α)^k and γ_K = (1-α)^K. The default of α is that of the
    separated-learning paper; the authors' code has 0.1, and they tune it.
    """

    paper = (
        "Chien et al., Adaptive Universal Generalized PageRank Graph Neural Network, ICLR "
        "2021, arXiv:2006.07988"
    )
    family = "spectral"
    Options = GPRGNNOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = checked(self.Options, options)
        self.dropout, self.propagation_dropout = chosen.dropout, chosen.propagation_dropout
        self.first = FeatureLinear(num_features, chosen.hidden)
        self.second = nn.Linear(chosen.hidden, num_classes)
        self.gamma = nn.Parameter(page_rank(chosen.alpha, chosen.steps))

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Weight decay for everything but the coefficients."""
        decayed = [*self.first.parameters(), *self.second.parameters()]
        return [
            {"params": decayed, "weight_decay": weight_decay},
            {"params": [self.gamma], "weight_decay": 0.0},
        ]

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        operator = inputs.gcn_operator()
        hidden = self.first(inputs, self.dropout, at(key, 0))
        power = self.second(relu_dropout(hidden, self.dropout, at(key, 1)))
        power = dropout(power, self.propagation_dropout, at(key, 2))
        total = self.gamma[0] * power
        for gamma in self.gamma[1:]:
            power = operator @ power
            total = total + gamma * power
        return total


def page_rank(alpha: float, steps: int) -> torch.Tensor:
    """Coefficients of personalized PageRank that is cut off after some steps; they sum to 1."""
    gamma = [alpha * (1 - alpha) ** k for k in range(steps)]
    return torch.tensor([*gamma, (1 - alpha) ** steps])
