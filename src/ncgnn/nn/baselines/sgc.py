"""SGC: one linear layer on features that were propagated K times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field

from ncgnn.nn.base import Model, ModelOptions, checked
from ncgnn.nn.inputs import SPARSE_COST, cost, multiply_constants
from ncgnn.nn.layers import FeatureLinear, Term, product

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, GraphInputs


class SGCOptions(ModelOptions):
    """Options of SGC, which has no hidden layer and drops nothing."""

    steps: Annotated[int, Field(ge=0)] = 2
    """Power K of the operator."""


class SGC(Model):
    r"""Simple graph convolution (https://arxiv.org/abs/1902.07153): one linear layer.

    .. math:: \mathrm{logits} = S^K X W + b, \quad S = (D+I)^{-1/2} (A+I) (D+I)^{-1/2}

    over incoming edges. S is applied to the features once for all epochs, as often as this makes
    them cheaper to multiply by; what remains of its K applications follows after the weights,
    where it costs nodes × classes only. Both give the same logits. What S was applied to is kept
    with the graph, for the latest K alone.
    """

    paper = "Wu et al., Simplifying Graph Convolutional Networks, ICML 2019, arXiv:1902.07153"
    family = "spectral"
    memory = "nodes × features"
    Options = SGCOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.steps = checked(self.Options, options).steps
        self.linear = FeatureLinear(num_features, num_classes)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; ``key`` plays no part."""
        operator = inputs.gcn_operator()
        constant, rest = _latest(inputs, self.steps)
        total = product(Term(constant), self.linear.weight)
        for _ in range(rest):
            total = operator @ total
        bias = self.linear.bias
        return total if bias is None else total + bias


def _latest(inputs: GraphInputs, steps: int) -> tuple[Constant, int]:
    """What :func:`spread` gives, kept with the graph until other steps are asked for."""
    kept: dict[int, tuple[Constant, int]] = inputs.kept("sgc", dict)
    if steps not in kept:
        kept.clear()
        with torch.inference_mode(False), torch.no_grad():
            kept[steps] = spread(inputs, steps)
    return kept[steps]


def spread(inputs: GraphInputs, steps: int) -> tuple[Constant, int]:
    """Features after the number of steps that makes an epoch cheapest, and the steps left."""
    operator = inputs.gcn_operator()
    step_cost = SPARSE_COST * operator.nnz
    current: Constant | None = inputs.features
    best, least = (inputs.features, steps), cost(inputs.features) + steps * step_cost
    for left in reversed(range(steps)):
        current = multiply_constants(operator, current)
        # Further steps only fill the features up more.
        if current is None or cost(current) > least:
            break
        if cost(current) + left * step_cost <= least:
            best, least = (current, left), cost(current) + left * step_cost
    return best
