"""Selecting rows and columns of a pattern, with a payload: one number for each entry.

Every function returns the new pattern and its payload. Rows follow the order of the index. Within
a row the entries keep their order, so columns stay ascending when the index is ascending (as a
mask is). A position may be selected several times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.graph._sparse_backend import empty, path_for
from ncgnn.graph._sparse_build import grouped
from ncgnn.graph._sparse_checks import as_index, index_dtype
from ncgnn.graph._sparse_pattern import SparsePattern
from ncgnn.graph._sparse_pattern_kernels import (
    copy_rows,
    filter_rows,
    row_pointer,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph._sparse_checks import ArrayLike

    Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    Selected = tuple[SparsePattern, torch.Tensor]


def rows_of(pattern: SparsePattern, payload: torch.Tensor, index: ArrayLike) -> Selected:
    """The rows at some positions, or where a mask is true."""
    rows = as_index(index, "index", pattern.shape[0], pattern.device)
    select = _compiled_rows if path_for(pattern.device) == "compiled" else _torch_rows
    return _selected(select(pattern, payload, rows), (rows.shape[0], pattern.shape[1]))


def columns_of(pattern: SparsePattern, payload: torch.Tensor, index: ArrayLike) -> Selected:
    """The columns at some positions, or where a mask is true."""
    cols = as_index(index, "index", pattern.shape[1], pattern.device)
    return _block(pattern, payload, torch.arange(pattern.shape[0], device=cols.device), cols)


def block_of(
    pattern: SparsePattern, payload: torch.Tensor, rows: ArrayLike, cols: ArrayLike
) -> Selected:
    """The entries in some rows and some columns."""
    m, n = pattern.shape
    kept_rows = as_index(rows, "rows", m, pattern.device)
    return _block(pattern, payload, kept_rows, as_index(cols, "cols", n, pattern.device))


def _block(
    pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor
) -> Selected:
    shape = (rows.shape[0], cols.shape[0])
    if path_for(pattern.device) == "compiled":
        index, place = cols.numpy(), np.full(pattern.shape[1], -1, pattern.col.numpy().dtype)
        positions = np.arange(index.shape[0], dtype=place.dtype)
        place[index] = positions
        if np.array_equal(place[index], positions):
            return _selected(_compiled_block(pattern, payload, rows, place), shape)
    return _selected(_torch_block(pattern, payload, rows, cols), shape)


def _compiled_rows(pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor) -> Parts:
    crow = _compiled_pointer(pattern, rows)
    total = int(crow[-1])
    col, new_payload = empty((total,), pattern.col), empty((total,), payload)
    arrays = (pattern.crow, pattern.col, payload, rows, crow, col, new_payload)
    copy_rows(*(array.numpy() for array in arrays))
    return crow, col, new_payload


def _compiled_block(
    pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor, place: NDArray[Any]
) -> Parts:
    crow = _compiled_pointer(pattern, rows)
    room = int(crow[-1]) + 1
    col, new_payload = empty((room,), pattern.col), empty((room,), payload)
    filter_rows(
        pattern.crow.numpy(),
        pattern.col.numpy(),
        payload.numpy(),
        rows.numpy(),
        place,
        crow.numpy(),
        col.numpy(),
        new_payload.numpy(),
    )
    total = int(crow[-1])
    return crow, _trimmed(col, total), _trimmed(new_payload, total)


def _trimmed(array: torch.Tensor, total: int) -> torch.Tensor:
    return torch.from_numpy(array.numpy()[:total].copy())


def _compiled_pointer(pattern: SparsePattern, rows: torch.Tensor) -> torch.Tensor:
    crow = torch.empty(rows.shape[0] + 1, dtype=torch.int64)
    row_pointer(pattern.crow.numpy(), rows.numpy(), crow.numpy())
    return crow


def _torch_rows(pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor) -> Parts:
    crow = _pointer(pattern.row_counts.index_select(0, rows))
    total = int(crow[-1])
    shift = pattern.crow.index_select(0, rows) - crow[:-1]
    entries = torch.repeat_interleave(shift, crow.diff(), output_size=total)
    entries += torch.arange(total, device=pattern.device)
    return crow, pattern.col.index_select(0, entries), payload.index_select(0, entries)


def _torch_block(
    pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor
) -> Parts:
    starts, order = grouped(cols, pattern.shape[1])
    crow, col, row_payload = _torch_rows(pattern, payload, rows)
    copies = starts.diff().index_select(0, col)
    ends = _pointer(copies)
    # Position of each copy among the copies of its column.
    first = starts.index_select(0, col).to(torch.int64) - ends[:-1]
    places = torch.repeat_interleave(first, copies)
    places += torch.arange(places.shape[0], device=places.device)
    new_payload = torch.repeat_interleave(row_payload, copies)
    return ends.index_select(0, crow), order.index_select(0, places), new_payload


def _pointer(counts: torch.Tensor) -> torch.Tensor:
    pointer = torch.zeros(counts.shape[0] + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=pointer[1:])
    return pointer


def _selected(parts: Parts, shape: tuple[int, int]) -> Selected:
    crow, col, payload = parts
    dtype = index_dtype(*shape, col.shape[0])
    return SparsePattern(crow.to(dtype), col.to(dtype), shape), payload
