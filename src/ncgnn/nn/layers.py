"""Linear maps of a graph's constants: trained weights times features or operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn.functional import dropout
from ncgnn.sparse import ConstantSparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.nn.inputs import Constant, GraphInputs


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


@dataclass(frozen=True, eq=False)
class Term:
    """What a weight matrix W of the first layer is multiplied by: ``operator · constant · W``.

    Attributes:
        constant: The product of operator and features; or the features alone, where
        operator: is still to be applied after the weights, because that is cheaper.
    """

    constant: Constant
    operator: ConstantSparse | None = None

    def times(self, weight: torch.Tensor) -> torch.Tensor:
        """``operator · constant · weight``."""
        if self.constant.shape[1] != len(weight):
            raise InputError(
                f"the model takes {len(weight)} features; the graph has {self.constant.shape[1]}."
            )
        product = self.constant @ weight
        return product if self.operator is None else self.operator @ product

    def back(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of the weight: ``(operator · constant)ᵀ · gradient``."""
        if self.operator is not None:
            gradient = self.operator.t() @ gradient
        if isinstance(self.constant, torch.Tensor):
            return self.constant.t() @ gradient
        return self.constant.t_matmul(gradient)


Weights: TypeAlias = "Sequence[torch.Tensor]"


def product(term: Term, weight: torch.Tensor) -> torch.Tensor:
    """``term · weight``, differentiable in the weight."""
    with torch.no_grad():
        value = term.times(weight)
    return _differentiable(value, (term,), (weight,), None)


class SharedProducts:
    """Sums of terms times weights, kept while the weights stay the same.

    The evaluation after a step and the training pass of the next step multiply the same constants
    by the same weights. The training pass takes the sum of the evaluation; its gradient is the
    ordinary one.

    Nothing is kept unless ``active`` is set, because torch's fused optimisers change weights
    without counting it as a change: who sets it must call
    :func:`torch.autograd.graph.increment_version` on the weights after each step.
    """

    def __init__(self) -> None:
        self.active = False
        self._kept: dict[str, _Kept] = {}

    def total(
        self,
        name: str,
        terms: Sequence[Term],
        weights: Weights,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``Σ_t terms_t · weights_t + bias``, where ``name`` says which sum of the model it is."""
        if not self.active:
            self._kept.clear()
        trained = (*weights, bias) if bias is not None else tuple(weights)
        kept = self._kept.get(name)
        value = None if kept is None else kept.value_for(terms, trained)
        training = torch.is_grad_enabled() and any(weight.requires_grad for weight in trained)
        if training or value is None:
            # After a training pass weights change; and free memory before asking for more.
            self._kept.pop(name, None)
            del kept
        if value is None:
            with torch.inference_mode(False), torch.no_grad():
                value = _total(terms, weights, bias)
            if self.active and not training:
                self._kept[name] = _Kept(tuple(terms), trained, value)
        return _differentiable(value, terms, weights, bias)

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedProducts:
        return SharedProducts()

    def __reduce__(self) -> tuple[type[SharedProducts], tuple[()]]:
        return SharedProducts, ()


class _Kept:
    """A sum, and the weights in the version that it was made of."""

    def __init__(
        self, terms: tuple[Term, ...], weights: tuple[torch.Tensor, ...], value: torch.Tensor
    ) -> None:
        self.terms, self.weights, self.value = terms, weights, value
        self.versions = [weight._version for weight in weights]

    def value_for(self, terms: Sequence[Term], weights: Weights) -> torch.Tensor | None:
        """The sum, if it is still that of these terms and weights."""
        same = len(weights) == len(self.weights) and all(
            kept is given for kept, given in zip(self.terms, terms, strict=True)
        )
        for kept, given, version in zip(self.weights, weights, self.versions, strict=False):
            same = same and kept is given and version == given._version
        return self.value if same else None


def _total(terms: Sequence[Term], weights: Weights, bias: torch.Tensor | None) -> torch.Tensor:
    total = terms[0].times(weights[0])
    for term, weight in zip(terms[1:], weights[1:], strict=True):
        total += term.times(weight)
    return total if bias is None else total.add_(bias)


def _differentiable(
    value: torch.Tensor, terms: Sequence[Term], weights: Weights, bias: torch.Tensor | None
) -> torch.Tensor:
    given = [bias, *weights]
    if torch.is_grad_enabled() and any(w is not None and w.requires_grad for w in given):
        return cast("torch.Tensor", _Known.apply(value, tuple(terms), *given))
    return value


class _Known(torch.autograd.Function):
    """A sum that is already there: no forward work, the gradients of the weights backward."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        value, ctx.terms, *_ = arguments
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradient = gradients[0]
        of_bias, *of_weights = ctx.needs_input_grad[2:]
        back = [
            term.back(gradient) if needed else None
            for term, needed in zip(ctx.terms, of_weights, strict=True)
        ]
        return None, None, gradient.sum(0) if of_bias else None, *back
