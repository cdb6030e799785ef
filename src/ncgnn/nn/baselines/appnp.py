"""APPNP: a perceptron's logits, spread by personalized PageRank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, PlainOptions, Rate, checked
from ncgnn.nn.functional import at, dropout, relu_dropout
from ncgnn.nn.layers import FeatureLinear
from ncgnn.sparse import weighted_matmul

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs

# Places of dropout: features, hidden layer, then one for every step.
_FIRST_STEP = 2


class APPNPOptions(PlainOptions):
    """Options of APPNP."""

    dropout: Rate = 0.5
    """Rate of the features and after the hidden layer."""
    edge_dropout: Rate = 0.5
    """Rate of the operator's entries, drawn anew for every step."""
    steps: Annotated[int, Field(ge=0)] = 10
    """Number K of propagation steps."""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Teleport probability."""
    bias: bool = False
    """Whether the two linear layers have biases."""


class APPNP(Model):
    r"""A perceptron's logits, spread by personalized PageRank (https://arxiv.org/abs/1810.05997).

    .. math::

        Z_0 = \mathrm{drop}(\mathrm{ReLU}(\mathrm{drop}(X) W_1)) W_2, \quad
        Z_{k+1} = (1-\alpha)\, \mathrm{drop}(\hat{A})\, Z_k + \alpha Z_0, \quad
        \mathrm{logits} = Z_K

    with the self-looped Â = (D+I)^-½ (A+I) (D+I)^-½ over incoming edges. As in the authors' code,
    there are no biases, entries of Â are dropped in training, and weight decay is for the first
    layer alone. Only arrays of nodes × classes are propagated.
    """

    paper = "Gasteiger et al., Predict then Propagate, ICLR 2019, arXiv:1810.05997"
    family = "spectral"
    Options = APPNPOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = checked(self.Options, options)
        self.dropout, self.edge_dropout = chosen.dropout, chosen.edge_dropout
        self.steps, self.alpha = chosen.steps, chosen.alpha
        self.first = FeatureLinear(num_features, chosen.hidden, bias=chosen.bias)
        self.second = nn.Linear(chosen.hidden, num_classes, bias=chosen.bias)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Weight decay for the first layer alone."""
        return [
            {"params": list(self.first.parameters()), "weight_decay": weight_decay},
            {"params": list(self.second.parameters()), "weight_decay": 0.0},
        ]

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        operator = inputs.gcn_operator()
        hidden = self.first(inputs, self.dropout, at(key, 0))
        start = self.second(relu_dropout(hidden, self.dropout, at(key, 1)))
        current = start
        for step in range(self.steps):
            if key is None or self.edge_dropout == 0:
                spread = operator @ current
            else:
                place = at(key, _FIRST_STEP + step)
                values = dropout(operator.values[:, None], self.edge_dropout, place)[:, 0]
                spread = weighted_matmul(operator.pattern, values, current)
            current = (1 - self.alpha) * spread + self.alpha * start
        return current
