"""What drawing splits and graphs shares: shares in whole nodes, and named random streams.

Numpy promises that the raw 64-bit stream of a bit generator never changes, and nothing of the kind
for the distributions and shuffles built on it (NEP 19). Splits therefore use raw words alone.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Products such as 0.29 · 100 fall a hair below the integer they stand for.
_ROUNDING_DIGITS = 9


def check_shares(shares: Sequence[float], name: str) -> NDArray[np.float64]:
    """Shares as an array that sums to 1; they must do so, up to rounding, and not be negative."""
    try:
        values = np.asarray(shares, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers; got {shares!r:.200}.") from None
    if values.ndim != 1 or not values.size:
        raise InputError(f"{name} must be one row of numbers, but its shape is {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError(f"{name} must be finite and not negative: {values.tolist()}.")
    if not math.isclose(float(values.sum()), 1.0, abs_tol=1e-9):
        raise InputError(f"{name} must sum to 1, but {values.tolist()} sum to {values.sum():.6g}.")
    # The sum may be off by a hair, which in a large graph is a node or more.
    return values / values.sum()


def apportion(total: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Divide ``total`` by the largest-remainder method; ties go to the first.

    Every share gets ⌊total · share⌋, and what is left goes one by one to the largest remainders,
    so the result sums to ``total`` and each entry is off by less than one.
    """
    ideal = np.round(total * (shares / shares.sum()), _ROUNDING_DIGITS)
    whole = np.floor(ideal).astype(np.int64)
    order = np.argsort(-(ideal - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def allocate(
    counts: NDArray[np.int64], shares: NDArray[np.float64], least: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Divide every row's count by the same shares, rounding so that rows and columns add up.

    Row r gets ⌊count · share⌋ in each column, raised to ``least``. The nodes that are then left
    over in the rows go to the cells with the largest remainders, among the columns that have not
    reached their part of the grand total (:func:`apportion`). So every row sums to its count and
    every column to its part of the total, unless ``least`` lifts a column above that.

    Args:
        counts: Nodes per row [rows]. Ties between rows go to the first.
        shares: Share per column [columns], summing to 1.
        least: At least this many per cell [rows, columns]; no more per row than its count.
    """
    ideal = np.round(counts[:, None] * shares[None, :], _ROUNDING_DIGITS)
    cells = np.maximum(np.floor(ideal).astype(np.int64), least)
    # Where ``least`` made a row too long, its most plentiful cells are shortened.
    excess = cells.sum(axis=1) - counts
    for row in np.flatnonzero(excess > 0):
        for _ in range(int(excess[row])):
            cells[row, np.argmax(cells[row] - least[row])] -= 1
    left = counts - cells.sum(axis=1)
    wanted = apportion(int(counts.sum()), shares) - cells.sum(axis=0)
    remainders = ideal - cells

    def give(row: int, column: int) -> None:
        cells[row, column] += 1
        left[row] -= 1
        wanted[column] -= 1

    for flat in np.argsort(-remainders, axis=None, kind="stable"):
        row, column = divmod(int(flat), shares.size)
        if left[row] > 0 and wanted[column] > 0:
            give(row, column)
    for row in np.flatnonzero(left > 0):
        while left[row] > 0:
            give(int(row), int(np.argmax(wanted)))
    return cells


def stream_key(stream: str, seed: int) -> int:
    """The 128-bit key of a named random stream: the head of SHA-256 over name and seed."""
    digest = hashlib.sha256(f"ncgnn/{stream}/{seed}".encode()).digest()
    return int.from_bytes(digest[:16], "little")


def random_words(stream: str, seed: int, count: int) -> NDArray[np.uint64]:
    """The first ``count`` words of a named stream (Philox 4x64 with counter 0)."""
    return np.asarray(np.random.Philox(key=stream_key(stream, seed)).random_raw(count))
