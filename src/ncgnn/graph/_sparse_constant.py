"""The product of a constant sparse matrix and a dense tensor, with its gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch

from ncgnn.errors import InputError
from ncgnn.graph._sparse_checks import check_match
from ncgnn.graph._sparse_ops import adds_up_transposed, product, transposed_product

if TYPE_CHECKING:
    from ncgnn.graph._sparse_matrix import ConstantSparse


class _ConstantMatmul(torch.autograd.Function):
    """A·X with the gradient Aᵀ·G, which is again such a product: higher orders come for free."""

    @staticmethod
    def forward(ctx: Any, matrix: ConstantSparse, dense: torch.Tensor) -> torch.Tensor:
        ctx.matrix = matrix
        return product(matrix.pattern, matrix.values, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor | None]:
        if not ctx.needs_input_grad[1]:
            return None, None
        return None, cast("torch.Tensor", _ConstantMatmul.apply(ctx.matrix.t(), gradients[0]))


def transposed_matmul(matrix: ConstantSparse, dense: torch.Tensor) -> torch.Tensor:
    """Aᵀ·X for X [m, d], in the faster of two ways."""
    check_match(dense, "dense", matrix.dtype, matrix.device)
    differentiable = dense.requires_grad and torch.is_grad_enabled()
    if dense.dim() != 2 or differentiable or not adds_up_transposed(matrix.pattern, dense):
        return matrix.t() @ dense
    if dense.shape[0] != matrix.shape[0]:
        raise InputError(
            f"dense must have {matrix.shape[0]} rows for the transpose of a matrix of shape "
            f"{list(matrix.shape)}, but its shape is {list(dense.shape)}."
        )
    return transposed_product(matrix.pattern, matrix.values, dense.detach())


def constant_matmul(matrix: ConstantSparse, dense: torch.Tensor) -> torch.Tensor:
    """A·X for X [n], [n, d] or [n, ..., d]."""
    check_match(dense, "dense", matrix.dtype, matrix.device)
    m, n = matrix.shape
    if dense.dim() == 0 or dense.shape[0] != n:
        raise InputError(
            f"dense must have {n} rows for a matrix of shape {[m, n]}, but its shape is "
            f"{list(dense.shape)}."
        )
    flat = dense.reshape(n, math.prod(dense.shape[1:]))
    out = cast("torch.Tensor", _ConstantMatmul.apply(matrix, flat))
    return out.reshape(m, *dense.shape[1:])
