"""The sparse operations on tensors without gradients: each one picks its path."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ncgnn._compile import over_blocks, thread_count
from ncgnn.graph import _sparse_torch as plain
from ncgnn.graph._sparse_backend import empty, path_for, run_rows
from ncgnn.graph._sparse_dot_kernels import dot_rows
from ncgnn.graph._sparse_narrow_kernels import narrow_product_rows
from ncgnn.graph._sparse_product_kernels import (
    head_product_rows,
    product_rows,
    transposed_product_columns,
)
from ncgnn.graph._sparse_row_kernels import (
    divide_rows,
    shift_rows,
    softmax_gradient_rows,
    sum_rows,
)

if TYPE_CHECKING:
    import torch

    from ncgnn.graph._sparse_pattern import SparsePattern

#: Below this many columns the loop over columns costs more than its work.
NARROW = 16
#: Entries per row and column, and columns, from which on a transposed product is added up faster
#: than multiplied out; and the columns that one thread adds up at a time.
FULL_ROWS = 8
WIDE = 128
TILE = 256


def product(pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """A·X for weights [nnz] and X [n, d], or for each head with [nnz, heads] and [n, heads, d]."""
    shape = (pattern.shape[0], *dense.shape[1:])
    if pattern.nnz == 0 or math.prod(shape) == 0:
        return dense.new_zeros(shape)
    weights, dense = weights.contiguous(), dense.contiguous()
    path = path_for(dense.device)
    if path == "csr":
        return plain.csr_product(pattern, weights, dense)
    if path == "chunks":
        return plain.chunked_product(pattern, weights, dense)
    if weights.dim() == 2:
        kernel = head_product_rows
    else:
        kernel = narrow_product_rows if dense.shape[1] < NARROW else product_rows
    out = empty(shape, dense)
    run_rows(
        kernel,
        pattern.blocks,
        pattern.nnz * max(NARROW, math.prod(shape[1:])),
        pattern.crow.numpy(),
        pattern.col.numpy(),
        weights.numpy(),
        dense.numpy(),
        out.numpy(),
    )
    return out


def adds_up_transposed(pattern: SparsePattern, dense: torch.Tensor) -> bool:
    """Whether :func:`transposed_product` is the faster way to Aᵀ·X, for X [m, d]."""
    full = pattern.nnz >= FULL_ROWS * sum(pattern.shape)
    return path_for(dense.device) == "compiled" and full and dense.shape[1] >= WIDE


def transposed_product(
    pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """Aᵀ·X for weights [nnz] and X [m, d], without the transposed matrix; on the CPU."""
    width = dense.shape[1]
    out = empty((pattern.shape[1], width), dense)
    arrays = (pattern.crow, pattern.col, weights.contiguous(), dense.contiguous(), out)
    numbers = tuple(array.numpy() for array in arrays)
    # Every column is added up alone, so its tile changes no bit of it.
    tile = min(TILE, max(NARROW, width // thread_count() // NARROW * NARROW))
    tiles = np.append(np.arange(0, width, tile), width)
    over_blocks(tiles, lambda first, last: transposed_product_columns(first, last, *numbers))
    return out


def sampled_dots(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """⟨left_i, right_j⟩ for every entry (i, j): [nnz] from [m, d], [nnz, heads] from 3-D arrays."""
    if pattern.nnz == 0 or left.numel() == 0:
        return left.new_zeros((pattern.nnz, *left.shape[1:-1]))
    left, right = left.contiguous(), right.contiguous()
    if path_for(left.device) != "compiled":
        return plain.sampled_dots(pattern, left, right)
    out = empty((pattern.nnz, *left.shape[1:-1]), left)
    heads = (-1, left.shape[1] if left.dim() == 3 else 1)
    run_rows(
        dot_rows,
        pattern.blocks,
        pattern.nnz * math.prod(left.shape[1:]),
        pattern.crow.numpy(),
        pattern.col.numpy(),
        left.view(*heads, left.shape[-1]).numpy(),
        right.view(*heads, left.shape[-1]).numpy(),
        out.view(heads).numpy(),
    )
    return out


def row_sums(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum of the entries [nnz, ...] of each row."""
    shape = (pattern.shape[0], *entries.shape[1:])
    if entries.numel() == 0:
        return entries.new_zeros(shape)
    flat = entries.reshape(pattern.nnz, -1).contiguous()
    if path_for(entries.device) != "compiled":
        return plain.row_sums(pattern, flat).view(shape)
    out = empty((shape[0], flat.shape[1]), entries)
    arrays = (pattern.crow.numpy(), flat.numpy(), out.numpy())
    run_rows(sum_rows, pattern.blocks, flat.numel(), *arrays)
    return out.view(shape)


def softmax(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores [nnz, ...] over each row."""
    flat = _two_dimensional(pattern, scores)
    if path_for(scores.device) != "compiled" or scores.numel() == 0:
        return plain.softmax(pattern, flat).view(scores.shape)
    out = empty(tuple(flat.shape), scores)
    crow, work = pattern.crow.numpy(), 4 * flat.numel()
    run_rows(shift_rows, pattern.blocks, work, crow, flat.numpy(), out.numpy())
    out.exp_()
    run_rows(divide_rows, pattern.blocks, work, crow, out.numpy())
    return out.view(scores.shape)


def softmax_gradient(
    pattern: SparsePattern, values: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    """The gradient of the scores from the softmax and the gradient of the softmax."""
    flat, slope = _two_dimensional(pattern, values), _two_dimensional(pattern, gradient)
    if path_for(values.device) != "compiled" or values.numel() == 0:
        return plain.softmax_gradient(pattern, flat, slope).view(values.shape)
    out = empty(tuple(flat.shape), values)
    arrays = (pattern.crow.numpy(), flat.numpy(), slope.numpy(), out.numpy())
    run_rows(softmax_gradient_rows, pattern.blocks, 4 * flat.numel(), *arrays)
    return out.view(values.shape)


def _two_dimensional(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    return entries.reshape(pattern.nnz, math.prod(entries.shape[1:])).contiguous()
