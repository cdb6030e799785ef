"""Differentiable operations with trainable values at the entries of a pattern.

:func:`weighted_matmul` and :func:`sampled_dot` never spread node features over the entries. The
others hold one number per entry and head, which is what a score needs.
"""

from __future__ import annotations

from typing import Any, cast

import torch

from ncgnn.errors import InputError
from ncgnn.sparse import _backend
from ncgnn.sparse.matrix import ConstantSparse, SparsePattern, check_float, check_match


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
    needed. The same input and number of threads give the same bits; on CUDA this holds for the
    CSR product, and for the sums over entries under ``torch.use_deterministic_algorithms(True)``.
    """
    _check_values(values, "values", pattern.nnz, pattern.device)
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
        return _backend.product(pattern, values, dense.unsqueeze(1)).squeeze(1)
    return _backend.product(pattern, values, dense)


def sampled_dot(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """⟨left_i, right_j⟩ for every entry (i, j) of an m × n pattern, without any nnz × d array.

    The result is [nnz] for [m, d] and [n, d], or [nnz, heads] for [m, heads, d] and [n, heads, d].
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
    return _backend.sampled_dots(pattern, left, right)


def edge_softmax(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores over the entries of each row, i.e. over each target's edges.

    α_e = exp(s_e - max s) / Σ exp(s - max s), both over the row of e.

    Scores are [nnz] or [nnz, heads], in the order of the pattern's entries, and so is the result. A
    score of -inf gets weight 0; a row of nothing but -inf gets NaN, as in ``torch.softmax``.
    """
    _check_values(scores, "scores", pattern.nnz, pattern.device)
    return cast("torch.Tensor", _EdgeSoftmax.apply(pattern, scores))


def row_sum(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum over each row of entries [nnz] or [nnz, heads]; 0 for an empty row."""
    _check_values(entries, "entries", pattern.nnz, pattern.device)
    return _row_sum(pattern, entries)


def gather_rows(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    """``nodes[i]`` for each entry (i, j), from [m] or [m, heads]: the value at the target."""
    _check_values(nodes, "nodes", pattern.shape[0], pattern.device)
    return _spread(pattern, nodes)


def gather_columns(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    """``nodes[j]`` for each entry (i, j), from [n] or [n, heads]: the value at the source."""
    _check_values(nodes, "nodes", pattern.shape[1], pattern.device)
    return cast("torch.Tensor", _GatherColumns.apply(pattern, nodes))


def sparse_product(left: ConstantSparse, right: ConstantSparse) -> ConstantSparse:
    """The sparse product of two constant matrices, made on the CPU where a device has none."""
    shape = (left.shape[0], right.shape[1])
    if left.nnz == 0 or right.nnz == 0:
        empty = torch.zeros(shape[0] + 1, dtype=left.pattern.crow.dtype, device=left.device)
        return ConstantSparse(SparsePattern(empty, right.pattern.col[:0], shape), left.values[:0])
    if left.device.type != "cuda":
        # Not by torch, which never frees the memory of a sparse product on the CPU.
        found = left.to_scipy(copy=False) @ right.to_scipy(copy=False)
        found.sort_indices()
        crow, col, values = map(torch.from_numpy, (found.indptr, found.indices, found.data))
        return ConstantSparse(SparsePattern(crow, col, shape), values).to(left.device)
    product = left.to_torch() @ right.to_torch()
    pattern = SparsePattern(product.crow_indices(), product.col_indices(), shape)
    return ConstantSparse(pattern, product.values())


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
        softmax = _backend.softmax(pattern, scores)
        ctx.pattern = pattern
        ctx.save_for_backward(softmax)
        return softmax

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        (softmax,), pattern = ctx.saved_tensors, ctx.pattern
        if not torch.is_grad_enabled():
            return None, _backend.softmax_gradient(pattern, softmax, gradients[0])
        weighted = softmax * gradients[0]
        return None, weighted - softmax * _spread(pattern, _row_sum(pattern, weighted))


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return _backend.row_sums(pattern, entries)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, _spread(ctx.pattern, gradients[0])


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return torch.repeat_interleave(nodes, pattern.row_counts, dim=0, output_size=pattern.nnz)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, _row_sum(ctx.pattern, gradients[0])


class _GatherColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return nodes.index_select(0, pattern.col)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        transposed, permutation = ctx.pattern.transposed
        return None, _row_sum(transposed, gradients[0].index_select(0, permutation))


def _row_sum(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _RowSum.apply(pattern, entries))


def _spread(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _Spread.apply(pattern, nodes))


def _check_values(values: torch.Tensor, name: str, size: int, device: torch.device) -> None:
    """Refuse what does not give one float, or one per head, to each entry or node."""
    check_match(values, name, getattr(values, "dtype", torch.float32), device)
    check_float(values, name)
    if values.dim() not in (1, 2) or values.shape[0] != size:
        raise InputError(
            f"{name} must have shape [{size}] or [{size}, heads], not {list(values.shape)}."
        )
