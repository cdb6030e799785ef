"""Products of constants with trainable weights, computed once for two passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from ncgnn.graph.sparse import ConstantSparse
    from ncgnn.nn._inputs import Constant


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
        product = self.constant @ weight
        return product if self.operator is None else self.operator @ product

    def back(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of the weight: ``(operator · constant)ᵀ · gradient``."""
        if self.operator is not None:
            gradient = self.operator.t() @ gradient
        return self.constant.t() @ gradient


def product(term: Term, weight: torch.Tensor) -> torch.Tensor:
    """``term · weight``, differentiable in the weight."""
    with torch.no_grad():
        value = term.times(weight)
    return _differentiable(value, term, weight)


def _differentiable(value: torch.Tensor, term: Term, weight: torch.Tensor) -> torch.Tensor:
    if not (weight.requires_grad and torch.is_grad_enabled()):
        return value
    return cast("torch.Tensor", _Known.apply(value, term, weight))


class SharedProducts:
    """Products of terms with weights, kept while the weights stay the same.

    The evaluation after a step and the training pass of the next step multiply the same constants
    by the same weights. The training pass takes the product of the evaluation; its gradient is the
    ordinary one.

    Nothing is kept unless ``active`` is set, because torch's fused optimisers change weights
    without counting it as a change: who sets it must call
    :func:`torch.autograd.graph.increment_version` on the weights after each step.
    """

    def __init__(self) -> None:
        self.active = False
        self._kept: dict[str, tuple[Term, torch.Tensor, int, torch.Tensor]] = {}

    def product(self, name: str, term: Term, weight: torch.Tensor) -> torch.Tensor:
        """``term · weight``, where ``name`` says which product of the model it is."""
        if not self.active:
            self._kept.clear()
        value = self._known(name, term, weight)
        training = weight.requires_grad and torch.is_grad_enabled()
        if training or value is None:
            # After a training pass weights change; and free memory before asking for more.
            self._kept.pop(name, None)
        if value is None:
            with torch.inference_mode(False), torch.no_grad():
                value = term.times(weight)
            if self.active and not training:
                self._kept[name] = (term, weight, weight._version, value)
        return _differentiable(value, term, weight)

    def _known(self, name: str, term: Term, weight: torch.Tensor) -> torch.Tensor | None:
        if name not in self._kept:
            return None
        kept_term, kept_weight, version, value = self._kept[name]
        same = kept_term is term and kept_weight is weight and version == weight._version
        return value if same else None

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedProducts:
        return SharedProducts()

    def __reduce__(self) -> tuple[type[SharedProducts], tuple[()]]:
        return SharedProducts, ()


class _Known(torch.autograd.Function):
    """A product that is already there: no forward work, the gradient of the weights backward."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        value, ctx.term, _ = arguments
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, None, ctx.term.back(gradients[0])
