"""Linear maps of a graph's constants: trained weights times features or operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import torch
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn.base import NotCopied
from ncgnn.nn.functional import dropout, number_rows
from ncgnn.nn.inputs import select_rows
from ncgnn.sparse import ConstantSparse, MaskedSparse, empty, sparse_product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.nn.inputs import Constant, GraphInputs

Norm = Literal["layer", "batch", "none"]


class _Linear(nn.Module):
    """Weights that begin as those of torch's ``Linear``: uniform within ±1/√(number of rows).

    Args:
        rows: Number of rows of W.
        width: Number of columns of W.
        bias: Whether there is a bias.
    """

    def __init__(self, rows: int, width: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights again."""
        bound = max(1, len(self.weight)) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)


class FeatureLinear(_Linear):
    """X·W + b for the features of a graph, sparse or dense, with dropout of the features."""

    def forward(
        self, inputs: GraphInputs, rate: float = 0.0, key: int | None = None
    ) -> torch.Tensor:
        """[n, width]; ``rate`` and ``key`` as :func:`ncgnn.nn.functional.dropout` takes them."""
        total = product(Term(drop_features(inputs, rate, key)), self.weight)
        return total if self.bias is None else total + self.bias


class NodeLinear(_Linear):
    """A·W + b for an operator A of a graph, where W has a row for every node."""

    def forward(self, operator: ConstantSparse) -> torch.Tensor:
        """[n, width]."""
        if operator.shape[1] != len(self.weight):
            raise InputError(
                f"the model has weights for the {len(self.weight)} nodes of its graph; "
                f"this graph has {operator.shape[1]}."
            )
        total = operator @ self.weight
        return total if self.bias is None else total + self.bias


def make_norm(norm: Norm, width: int) -> nn.Module:
    """The normalization of a layer's rows."""
    if norm == "none":
        return nn.Identity()
    return nn.LayerNorm(width) if norm == "layer" else nn.BatchNorm1d(width)


def times(x: Constant, weight: torch.Tensor) -> torch.Tensor:
    """X·W for constant features or for the trained rows of a layer."""
    if isinstance(x, ConstantSparse) or not x.requires_grad:
        return product(Term(x), weight)
    return x @ weight


def drop_features(inputs: GraphInputs, rate: float, key: int | None) -> Constant:
    """The features with some entries dropped; sparse ones stay sparse, as zeros stay zeros."""
    features = inputs.features
    if key is None or rate == 0:
        return features
    if isinstance(features, torch.Tensor):
        return dropout(features, rate, key)
    pattern, width = features.pattern, features.shape[1]
    places = inputs.kept(
        "places of the features' entries",
        lambda: number_rows(key, pattern.row.to(torch.int64)) * width + pattern.col.to(torch.int64),
    )
    values = dropout(features.values[:, None], rate, int(key), places).flatten()
    return ConstantSparse(pattern, values)


@dataclass(frozen=True, eq=False)
class Term:
    """What a weight matrix W of a first layer is multiplied by: ``operator · constant · W``.

    The constant is the product of operator and features already, or the features alone, where it is
    cheaper to apply the operator after the weights.
    """

    constant: Constant
    operator: ConstantSparse | None = None

    def times(self, weight: torch.Tensor) -> torch.Tensor:
        """``operator · constant · weight``."""
        if self.constant.shape[1] != len(weight):
            raise InputError(
                f"the model takes {len(weight)} features; the graph has {self.constant.shape[1]}."
            )
        if isinstance(self.constant, torch.Tensor) and not torch.is_grad_enabled():
            out = empty((len(self.constant), weight.shape[1]), weight)
            product = torch.mm(self.constant, weight, out=out)
        else:
            product = self.constant @ weight
        return product if self.operator is None else self.operator @ product

    @property
    def varies(self) -> bool:
        """Whether there are gradients to more than the weight: to features, or to a mask."""
        if isinstance(self.operator, MaskedSparse) or isinstance(self.constant, MaskedSparse):
            return True
        return isinstance(self.constant, torch.Tensor) and self.constant.requires_grad

    def rows(self, rows: torch.Tensor) -> Term:
        """Some rows of it; the operator acts before the weights, which is least for few rows."""
        if self.operator is None:
            return Term(select_rows(self.constant, rows))
        few = self.operator.rows(rows)
        if isinstance(self.constant, torch.Tensor):
            return Term(few @ self.constant)
        if self.varies:  # a product of sparse matrices has no mask
            return Term(self.constant, few)
        return Term(sparse_product(few, self.constant))

    def back(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of the weight: ``(operator · constant)ᵀ · gradient``."""
        if self.operator is not None:
            gradient = self.operator.t() @ gradient
        if isinstance(self.constant, torch.Tensor):
            return self.constant.t() @ gradient
        return self.constant.t_matmul(gradient)


def product(term: Term, weight: torch.Tensor) -> torch.Tensor:
    """``term · weight``, differentiable in the weight, and in the term where it varies."""
    if term.varies:
        return term.times(weight)
    with torch.no_grad():
        value = term.times(weight)
    return cast("torch.Tensor", _Known.apply(value, (term,), None, weight))


class SharedProducts(NotCopied):
    """Sums of terms times weights, kept while the weights stay the same.

    The evaluation after a step and the training pass of the next step multiply the same constants
    by the same weights. The training pass takes the sum of the evaluation; its gradient is the
    ordinary one.

    A pass that is the ``last`` one with its terms, because nodes are grouped anew after it, takes
    sums and keeps none. Nothing is kept unless ``active`` is set, because torch's fused optimizers
    change weights without counting it as a change: who sets it must call
    :func:`torch.autograd.graph.increment_version` on the weights after each step.
    """

    def __init__(self) -> None:
        self.active = False
        self.last = False
        self._kept: dict[str, _Kept] = {}

    def clear(self) -> None:
        """Forget all sums."""
        self._kept.clear()

    def total(
        self,
        name: str,
        terms: Sequence[Term],
        weights: Sequence[torch.Tensor],
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``Σ_t terms_t · weights_t + bias``, where ``name`` says which sum of the model it is."""
        if any(term.varies for term in terms):
            total = terms[0].times(weights[0])
            for term, weight in zip(terms[1:], weights[1:], strict=True):
                total = total + term.times(weight)
            return total if bias is None else total + bias
        trained = (*weights, bias) if bias is not None else tuple(weights)
        training = torch.is_grad_enabled() and any(weight.requires_grad for weight in trained)
        parts, versions, value = (*terms, *trained), list[int](), None
        if self.active:
            versions = [weight._version for weight in trained]
            # After a training pass weights change.
            final = training or self.last
            kept = self._kept.pop(name, None) if final else self._kept.get(name)
            same = kept is not None and [*map(id, kept.parts)] == [*map(id, parts)]
            value = kept.value if kept is not None and same and kept.versions == versions else None
            del kept  # free memory before asking for more
        else:
            self._kept.clear()
        if value is None:
            self._kept.pop(name, None)
            with torch.inference_mode(False), torch.no_grad():
                value = terms[0].times(weights[0])
                for term, weight in zip(terms[1:], weights[1:], strict=True):
                    value += term.times(weight)
                value = value if bias is None else value.add_(bias)
            if self.active and not (training or self.last):
                self._kept[name] = _Kept(parts, versions, value)
        return cast("torch.Tensor", _Known.apply(value, tuple(terms), bias, *weights))


class _Kept(NamedTuple):
    """A sum, what it was made of, and the versions of the weights then."""

    parts: tuple[Term | torch.Tensor, ...]
    versions: list[int]
    value: torch.Tensor


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
