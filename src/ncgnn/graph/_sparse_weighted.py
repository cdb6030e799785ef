"""Products with a sparse matrix whose values are trained.

With A the matrix of the values and G the gradient of A·X, the gradients are

    ∂X = Aᵀ·G    and    ∂v_e = ⟨G_i, X_j⟩ for the entry e = (i, j),

so that nothing larger than X, G and the values is ever made. The product and the sampled dot
product are the gradients of each other, which makes both differentiable any number of times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from ncgnn.errors import InputError
from ncgnn.graph import _sparse_ops as ops
from ncgnn.graph._sparse_checks import check_float, check_match

if TYPE_CHECKING:
    from ncgnn.graph._sparse_pattern import SparsePattern


class _WeightedMatmul(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
    ) -> torch.Tensor:
        ctx.pattern = pattern
        _, values_train, dense_train = ctx.needs_input_grad
        ctx.save_for_backward(values if dense_train else None, dense if values_train else None)
        return ops.product(pattern, values, dense)

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[None, torch.Tensor | None, torch.Tensor | None]:
        (gradient,), pattern = gradients, ctx.pattern
        values, dense = ctx.saved_tensors
        return (
            None,
            None if dense is None else _dots(pattern, gradient, dense),
            None if values is None else _transposed_product(pattern, values, gradient),
        )


class _SampledDot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor
    ) -> torch.Tensor:
        ctx.pattern = pattern
        _, left_train, right_train = ctx.needs_input_grad
        ctx.save_for_backward(left if right_train else None, right if left_train else None)
        return ops.sampled_dots(pattern, left, right)

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[None, torch.Tensor | None, torch.Tensor | None]:
        (gradient,), pattern = gradients, ctx.pattern
        left, right = ctx.saved_tensors
        return (
            None,
            None if right is None else _product(pattern, gradient, right),
            None if left is None else _transposed_product(pattern, gradient, left),
        )


def _product(pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _WeightedMatmul.apply(pattern, values, dense))


def _dots(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _SampledDot.apply(pattern, left, right))


def _transposed_product(
    pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    transposed, permutation = pattern.transposed
    return _product(transposed, values.index_select(0, permutation), dense)


def weighted_matmul(
    pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """A·X where A has trainable values at the entries of a pattern.

    Args:
        pattern: Places of the entries, m × n.
        values: [nnz] in the order of the pattern's entries, or [nnz, heads].
        dense: [n] or [n, d]; with heads [n, heads, d].

    Returns:
        [m] or [m, d]; with heads [m, heads, d], where head h uses ``values[:, h]``.

    The transposed pattern is made, and kept in the pattern, when a gradient of ``dense`` is first
    asked for. The same input and number of threads give the same bits; on CUDA this holds for the
    CSR product, and for the sums over entries under ``torch.use_deterministic_algorithms(True)``.
    """
    check_entries(pattern, values, "values")
    check_match(dense, "dense", values.dtype, values.device)
    n = pattern.shape[1]
    shape = list(dense.shape)
    if values.dim() == 2 and (len(shape) != 3 or shape[:2] != [n, values.shape[1]]):
        raise InputError(
            f"dense must have shape [{n}, {values.shape[1]}, d] for values with "
            f"{values.shape[1]} heads, not {shape}."
        )
    if values.dim() == 1 and (len(shape) not in (1, 2) or shape[0] != n):
        raise InputError(f"dense must have shape [{n}] or [{n}, d], not {shape}.")
    if dense.dim() == 1:
        return _product(pattern, values, dense.unsqueeze(1)).squeeze(1)
    return _product(pattern, values, dense)


def sampled_dot(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """⟨left_i, right_j⟩ for every entry (i, j) of a pattern, without any nnz × d array.

    Args:
        pattern: Places of the entries, m × n.
        left: [m, d] or [m, heads, d].
        right: [n, d] or [n, heads, d].

    Returns:
        [nnz] or [nnz, heads].
    """
    check_float(left, "left")
    check_match(left, "left", left.dtype, pattern.device)
    check_match(right, "right", left.dtype, left.device)
    m, n = pattern.shape
    if left.dim() not in (2, 3) or left.shape[0] != m:
        raise InputError(f"left must have shape [{m}, d] or [{m}, heads, d], not {[*left.shape]}.")
    if right.shape != (n, *left.shape[1:]):
        raise InputError(
            f"right must have shape {[n, *left.shape[1:]]} as left has, not {[*right.shape]}."
        )
    return _dots(pattern, left, right)


def check_entries(pattern: SparsePattern, entries: torch.Tensor, name: str) -> None:
    """Refuse what does not give one float, or one per head, to each entry."""
    check_match(entries, name, getattr(entries, "dtype", torch.float32), pattern.device)
    check_float(entries, name)
    if entries.dim() not in (1, 2) or entries.shape[0] != pattern.nnz:
        raise InputError(
            f"{name} must have shape [{pattern.nnz}] or [{pattern.nnz}, heads], not "
            f"{list(entries.shape)}."
        )
