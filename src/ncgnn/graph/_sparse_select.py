"""Selecting rows and columns of a pattern.

Every function returns the new pattern and, for each of its entries, the entry it came from. Rows
follow the order of the index. Within a row the entries keep their order, so columns stay ascending
when the index is ascending (as a mask is). A position may be selected several times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ncgnn.graph._sparse_backend import path_for
from ncgnn.graph._sparse_build import grouped
from ncgnn.graph._sparse_checks import as_index, index_dtype
from ncgnn.graph._sparse_pattern import SparsePattern
from ncgnn.graph._sparse_pattern_kernels import count_block, fill_block, fill_rows

if TYPE_CHECKING:
    from ncgnn.graph._sparse_checks import ArrayLike

    Selected = tuple[SparsePattern, torch.Tensor]


def rows_of(pattern: SparsePattern, index: ArrayLike) -> Selected:
    """The rows at some positions, or where a mask is true."""
    rows = as_index(index, "index", pattern.shape[0], pattern.device)
    crow = _pointer(pattern.row_counts.index_select(0, rows))
    entries = _row_entries(pattern, rows, crow)
    return _new_pattern(
        crow, pattern.col.index_select(0, entries), (rows.shape[0], pattern.shape[1])
    ), entries


def columns_of(pattern: SparsePattern, index: ArrayLike) -> Selected:
    """The columns at some positions, or where a mask is true."""
    cols = as_index(index, "index", pattern.shape[1], pattern.device)
    return _block(pattern, torch.arange(pattern.shape[0], device=pattern.device), cols)


def block_of(pattern: SparsePattern, rows: ArrayLike, cols: ArrayLike) -> Selected:
    """The entries in some rows and some columns."""
    m, n = pattern.shape
    kept_rows = as_index(rows, "rows", m, pattern.device)
    return _block(pattern, kept_rows, as_index(cols, "cols", n, pattern.device))


def _block(pattern: SparsePattern, rows: torch.Tensor, cols: torch.Tensor) -> Selected:
    starts, order = grouped(cols, pattern.shape[1])
    shape = (rows.shape[0], cols.shape[0])
    if path_for(pattern.device) == "compiled":
        crow, col, entries = _compiled_block(pattern, rows, starts, order)
    else:
        crow, col, entries = _torch_block(pattern, rows, starts, order)
    return _new_pattern(crow, col, shape), entries


def _compiled_block(
    pattern: SparsePattern, rows: torch.Tensor, starts: torch.Tensor, order: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    given = pattern.crow.numpy(), pattern.col.numpy(), rows.numpy()
    crow = torch.empty(rows.shape[0] + 1, dtype=torch.int64)
    count_block(*given, starts.numpy(), crow.numpy())
    total = int(crow[-1])
    col = torch.empty(total, dtype=order.dtype)
    entries = torch.empty(total, dtype=index_dtype(pattern.nnz))
    fill_block(*given, starts.numpy(), order.numpy(), col.numpy(), entries.numpy())
    return crow, col, entries


def _torch_block(
    pattern: SparsePattern, rows: torch.Tensor, starts: torch.Tensor, order: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    row_pointer = _pointer(pattern.row_counts.index_select(0, rows))
    candidates = _row_entries(pattern, rows, row_pointer)
    col = pattern.col.index_select(0, candidates)
    copies = starts.diff().index_select(0, col)
    ends = _pointer(copies)
    entries = torch.repeat_interleave(candidates, copies)
    # Position of each copy among the copies of its column.
    first = starts.index_select(0, col).to(torch.int64) - ends[:-1]
    places = torch.repeat_interleave(first, copies)
    places += torch.arange(entries.shape[0], device=entries.device)
    return ends.index_select(0, row_pointer), order.index_select(0, places), entries


def _row_entries(pattern: SparsePattern, rows: torch.Tensor, crow: torch.Tensor) -> torch.Tensor:
    """The positions of the entries of the selected rows, given their new row pointer."""
    total = int(crow[-1])
    if path_for(pattern.device) == "compiled":
        entries = torch.empty(total, dtype=index_dtype(pattern.nnz))
        fill_rows(pattern.crow.numpy(), rows.numpy(), crow.numpy(), entries.numpy())
        return entries
    shift = pattern.crow.index_select(0, rows) - crow[:-1]
    counts = crow.diff()
    entries = torch.repeat_interleave(shift, counts, output_size=total)
    return entries + torch.arange(total, device=pattern.device)


def _pointer(counts: torch.Tensor) -> torch.Tensor:
    pointer = torch.zeros(counts.shape[0] + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=pointer[1:])
    return pointer


def _new_pattern(crow: torch.Tensor, col: torch.Tensor, shape: tuple[int, int]) -> SparsePattern:
    dtype = index_dtype(*shape, col.shape[0])
    return SparsePattern(crow.to(dtype), col.to(dtype), shape)
