"""Dense products of trained rows, whose results go to memory that is cheap to get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from ncgnn.graph._sparse_backend import empty

if TYPE_CHECKING:
    from collections.abc import Sequence


def sum_of_products(
    rows: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Σ_t H_t · W_t + b, without a pass over memory for each sum.

    Args:
        rows: One H_t [n, d_t] or more.
        weights: W_t [d_t, width].
        bias: b [width].
    """
    if rows[0].device.type == "cpu":
        return cast("torch.Tensor", _SumOfProducts.apply(bias, *rows, *weights))
    total = rows[0] @ weights[0] if bias is None else torch.addmm(bias, rows[0], weights[0])
    for hidden, weight in zip(rows[1:], weights[1:], strict=True):
        total = torch.addmm(total, hidden, weight)
    return total


class _SumOfProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        bias, *factors = arguments
        ctx.save_for_backward(*factors)
        rows, weights = _halves(factors)
        out = empty((len(rows[0]), weights[0].shape[1]), rows[0])
        if bias is None:
            torch.mm(rows[0], weights[0], out=out)
        else:
            torch.addmm(bias, rows[0], weights[0], out=out)
        for hidden, weight in zip(rows[1:], weights[1:], strict=True):
            out.addmm_(hidden, weight)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradient = gradients[0]
        rows, weights = _halves(ctx.saved_tensors)
        of_bias, *of_factors = ctx.needs_input_grad
        of_rows, of_weights = _halves(of_factors)
        to_rows = [
            _transposed(gradient, weight) if needed else None
            for weight, needed in zip(weights, of_rows, strict=True)
        ]
        to_weights = [
            hidden.t() @ gradient if needed else None
            for hidden, needed in zip(rows, of_weights, strict=True)
        ]
        return gradient.sum(0) if of_bias else None, *to_rows, *to_weights


def _halves(both: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return both[: len(both) // 2], both[len(both) // 2 :]


def _transposed(gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """G · Wᵀ."""
    if torch.is_grad_enabled():  # for second derivatives
        return gradient @ weight.t()
    return torch.mm(gradient, weight.t(), out=empty((len(gradient), len(weight)), gradient))
