"""Compiled operations on patterns: grouping, symmetry and selection.

A selection carries a payload along, one number for each entry: its value or its position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
def row_pointer(crow: Array, rows: Array, new_crow: Array) -> None:
    """Write the row pointer of the selected rows."""
    new_crow[0] = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        new_crow[r + 1] = new_crow[r] + crow[i + 1] - crow[i]


@compiled
def copy_rows(
    crow: Array,
    col: Array,
    payload: Array,
    rows: Array,
    new_crow: Array,
    new_col: Array,
    new_payload: Array,
) -> None:
    """Copy the selected rows to their places in the new matrix."""
    for r in range(rows.shape[0]):
        # Unsigned positions cannot count from the end, which spares a test at every entry.
        old, new = np.uint64(crow[rows[r]]), np.uint64(new_crow[r])
        for k in range(np.uint64(new_crow[r + 1]) - new):
            new_col[new + k] = col[old + k]
            new_payload[new + k] = payload[old + k]


@compiled
def filter_rows(
    crow: Array,
    col: Array,
    payload: Array,
    rows: Array,
    place: Array,
    new_crow: Array,
    new_col: Array,
    new_payload: Array,
) -> None:
    """Copy the entries of the selected rows whose column has a new place (not -1).

    Every entry is written, and the next one overwrites it where it was not wanted: a branch would
    be mispredicted at every other entry. The new arrays need room for one entry too many.
    """
    new = np.uint64(0)
    new_crow[0] = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        for e in range(np.uint64(crow[i]), np.uint64(crow[i + 1])):
            column = place[np.uint64(col[e])]
            new_col[new] = column
            new_payload[new] = payload[e]
            new += np.uint64(column >= 0)
        new_crow[r + 1] = new
