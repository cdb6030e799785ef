"""Compiled operations on patterns: grouping, symmetry and selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@compiled
def group(keys: Array, starts: Array, order: Array) -> None:
    """Stable counting sort: positions ``order[starts[k] : starts[k + 1]]`` hold the key k."""
    starts[:] = 0
    for e in range(keys.shape[0]):
        starts[keys[e] + 1] += 1
    for k in range(1, starts.shape[0]):
        starts[k] += starts[k - 1]
    cursor = starts[:-1].copy()
    for e in range(keys.shape[0]):
        k = keys[e]
        order[cursor[k]] = e
        cursor[k] += 1


@compiled
def is_symmetric(crow: Array, col: Array, values: Array) -> bool:
    """Whether a square matrix with ascending columns in each row equals its transpose.

    Rows are visited in ascending order, so the entries that mirror row j are met in the order in
    which row j stores them: one cursor per row is enough, and no transpose is built.
    """
    cursor = crow[:-1].copy()
    for i in range(crow.shape[0] - 1):
        for e in range(crow[i], crow[i + 1]):
            j = col[e]
            mirror = cursor[j]
            if mirror >= crow[j + 1] or col[mirror] != i or values[mirror] != values[e]:
                return False
            cursor[j] = mirror + 1
    return True


@compiled
def count_block(crow: Array, col: Array, rows: Array, starts: Array, new_crow: Array) -> None:
    """Write the row pointer of the block of ``rows`` and of the columns grouped by ``starts``."""
    total = 0
    new_crow[0] = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        for e in range(crow[i], crow[i + 1]):
            j = col[e]
            total += starts[j + 1] - starts[j]
        new_crow[r + 1] = total


@compiled
def fill_block(
    crow: Array,
    col: Array,
    rows: Array,
    starts: Array,
    order: Array,
    new_col: Array,
    entries: Array,
) -> None:
    """Write the new columns, and the old position of each kept entry."""
    new = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        for e in range(crow[i], crow[i + 1]):
            j = col[e]
            for k in range(starts[j], starts[j + 1]):
                new_col[new] = order[k]
                entries[new] = e
                new += 1


@compiled
def fill_rows(crow: Array, rows: Array, new_crow: Array, entries: Array) -> None:
    """Write the old position of each entry of the selected rows."""
    for r in range(rows.shape[0]):
        shift = crow[rows[r]] - new_crow[r]
        for new in range(new_crow[r], new_crow[r + 1]):
            entries[new] = new + shift
