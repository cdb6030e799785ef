"""Self-loops, masks and the usual normalizations of an adjacency matrix.

Rows are targets, so degrees are the sums of rows: weighted in-degrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ncgnn.errors import InputError
from ncgnn.sparse._backend import PATHS, empty
from ncgnn.sparse._kernels import count_looped, insert_loops, mark_between
from ncgnn.sparse.matrix import ConstantSparse, SparsePattern, index_dtype, merge_entries

if TYPE_CHECKING:
    from torch import Tensor


def add_self_loops(adjacency: ConstantSparse) -> ConstantSparse:
    """Give weight 1 to the diagonal of every node that has no stored self-loop.

    A self-loop that is there keeps its weight, which is 1 in an unweighted graph. Columns are
    ascending in the result, and repeated entries are merged into their sum.
    """
    _check_square(adjacency)
    pattern = adjacency.pattern
    if PATHS.get(adjacency.device.type) == "compiled":
        dtype = index_dtype(adjacency.shape[0] + adjacency.nnz)
        crow = torch.empty(len(pattern.crow), dtype=dtype)
        if count_looped(pattern.crow.numpy(), pattern.col.numpy(), crow.numpy()):
            return _insert_loops(adjacency, crow)
    looped = torch.zeros(adjacency.shape[0], dtype=torch.bool, device=adjacency.device)
    looped[pattern.col[pattern.row == pattern.col].to(torch.int64)] = True
    missing = torch.nonzero(~looped).view(-1)
    merged, place = merge_entries(
        torch.cat([pattern.row.to(torch.int64), missing]),
        torch.cat([pattern.col.to(torch.int64), missing]),
        adjacency.shape,
    )
    weights = torch.cat([adjacency.values, adjacency.values.new_ones(missing.shape[0])])
    return ConstantSparse(merged, weights.new_zeros(merged.nnz).index_add_(0, place, weights))


def _insert_loops(adjacency: ConstantSparse, crow: Tensor) -> ConstantSparse:
    """The adjacency with rising columns and its whole diagonal, in a single pass."""
    old, total = adjacency.pattern, int(crow[-1])
    col, values = empty((total,), crow), empty((total,), adjacency.values)
    arrays = (old.crow, old.col, adjacency.values, crow, col, values)
    insert_loops(*(array.numpy() for array in arrays))
    return ConstantSparse(SparsePattern(crow, col, adjacency.shape), values)


def gcn_normalize(adjacency: ConstantSparse, self_loops: bool = True) -> ConstantSparse:
    """The symmetric normalization of graph convolutional networks (arXiv:1609.02907).

    Â = (D + I)^-½ (A + I) (D + I)^-½ with self-loops (see :func:`add_self_loops`), or
    Ã = D^-½ A D^-½ without, where D holds the sums of rows. A node of degree 0 gets 0.
    """
    _check_square(adjacency)
    weighted = add_self_loops(adjacency) if self_loops else adjacency
    scale = power_or_zero(weighted.row_sums(), -0.5)
    return weighted.scale(rows=scale, cols=scale)


def row_normalize(adjacency: ConstantSparse, self_loops: bool = False) -> ConstantSparse:
    """D^-1 A, or (D + I)^-1 (A + I) with self-loops: each row sums to 1, an empty one to 0."""
    weighted = add_self_loops(adjacency) if self_loops else adjacency
    return weighted.scale(rows=power_or_zero(weighted.row_sums(), -1.0))


def directed_normalize(adjacency: ConstantSparse) -> ConstantSparse:
    """D_in^-½ A D_out^-½ of Dir-GNN (arXiv:2305.10498), with the sums of rows and of columns.

    That of the transpose is the transpose of it.
    """
    _check_square(adjacency)
    incoming, outgoing = adjacency.row_sums(), adjacency.column_sums()
    return adjacency.scale(power_or_zero(incoming, -0.5), power_or_zero(outgoing, -0.5))


def power_or_zero(degrees: Tensor, exponent: float) -> Tensor:
    """Degrees to a power, 0 where a degree is 0."""
    return degrees.pow(exponent).masked_fill_(degrees == 0, 0)


def _check_square(adjacency: ConstantSparse) -> None:
    if adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"adjacency must be square, but its shape is {list(adjacency.shape)}.")


def masked_adjacency(
    adjacency: ConstantSparse,
    *,
    targets: torch.Tensor | None = None,
    sources: torch.Tensor | None = None,
) -> ConstantSparse:
    """The entries whose target and source are in the masks, and the whole stored diagonal.

    A stored self-loop is not a message, so that no mask removes it.
    """
    pattern = adjacency.pattern
    if PATHS.get(adjacency.device.type) == "compiled":
        everyone = torch.ones(max(adjacency.shape), dtype=torch.bool)
        masks = (everyone if mask is None else mask.contiguous() for mask in (targets, sources))
        kept = torch.empty(adjacency.nnz, dtype=torch.bool)
        arrays = (pattern.crow, pattern.col, *masks, kept)
        mark_between(*(array.numpy() for array in arrays))
        return adjacency.keep(kept)
    row, col = pattern.row.to(torch.int64), pattern.col.to(torch.int64)
    kept = torch.ones_like(row, dtype=torch.bool)
    if targets is not None:
        kept &= targets.index_select(0, row)
    if sources is not None:
        kept &= sources.index_select(0, col)
    kept |= row == col
    return adjacency.keep(kept)
