"""Compiled reductions over the entries of each row: sum, softmax and its gradient.

All arrays of entries are [nnz, heads]. As in the products, a row is summed in one fixed order.
Positions are unsigned: they cannot count from the end, which spares a test at every access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@compiled
def sum_rows(first: int, last: int, crow: Array, entries: Array, out: Array) -> None:
    """Write the sum of each row's entries into out [rows, heads]."""
    for i in range(first, last):
        start, stop = np.uint64(crow[i]), np.uint64(crow[i + 1])
        for h in range(entries.shape[1]):
            total = entries.dtype.type(0)
            for e in range(start, stop):
                total += entries[e, h]
            out[i, h] = total


@compiled
def shift_rows(first: int, last: int, crow: Array, scores: Array, out: Array) -> None:
    """Write the scores minus the highest score of their row."""
    for i in range(first, last):
        start, stop = np.uint64(crow[i]), np.uint64(crow[i + 1])
        for h in range(scores.shape[1] if start < stop else 0):
            highest = scores[start, h]
            for e in range(start, stop):
                highest = max(highest, scores[e, h])
            for e in range(start, stop):
                out[e, h] = scores[e, h] - highest


@compiled
def divide_rows(first: int, last: int, crow: Array, entries: Array) -> None:
    """Divide the entries of each row, of which one is at least 1, by their sum."""
    for i in range(first, last):
        start, stop = np.uint64(crow[i]), np.uint64(crow[i + 1])
        for h in range(entries.shape[1] if start < stop else 0):
            total = entries.dtype.type(0)
            for e in range(start, stop):
                total += entries[e, h]
            scale = entries.dtype.type(1) / total
            for e in range(start, stop):
                entries[e, h] *= scale


@compiled
def softmax_gradient_rows(
    first: int, last: int, crow: Array, softmax: Array, gradient: Array, out: Array
) -> None:
    """Write p·(g - Σ p g) for each row, with the softmax p and the gradient g of its result."""
    for i in range(first, last):
        start, stop = np.uint64(crow[i]), np.uint64(crow[i + 1])
        for h in range(softmax.shape[1]):
            total = softmax.dtype.type(0)
            for e in range(start, stop):
                total += softmax[e, h] * gradient[e, h]
            for e in range(start, stop):
                out[e, h] = softmax[e, h] * (gradient[e, h] - total)
