"""Compiled reductions over the entries of each row: sum, softmax and its gradient.

All arrays of entries are [nnz, heads]. As in the products, a row is summed in one fixed order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@compiled
def sum_rows(first: int, last: int, crow: Array, entries: Array, out: Array) -> None:
    """Write the sum of each row's entries into out [rows, heads]."""
    for i in range(first, last):
        out[i] = 0
        for e in range(crow[i], crow[i + 1]):
            for h in range(entries.shape[1]):
                out[i, h] += entries[e, h]


@compiled
def softmax_rows(first: int, last: int, crow: Array, scores: Array, out: Array) -> None:
    """Write the softmax of each row's scores."""
    for i in range(first, last):
        start, stop = crow[i], crow[i + 1]
        for h in range(scores.shape[1] if start < stop else 0):
            highest = scores[start, h]
            for e in range(start + 1, stop):
                if scores[e, h] > highest:
                    highest = scores[e, h]
            total = scores.dtype.type(0)
            for e in range(start, stop):
                out[e, h] = math.exp(scores[e, h] - highest)
                total += out[e, h]
            for e in range(start, stop):
                out[e, h] /= total


@compiled
def softmax_gradient_rows(
    first: int, last: int, crow: Array, softmax: Array, gradient: Array, out: Array
) -> None:
    """Write p·(g - Σ p g) for each row, with the softmax p and the gradient g of its result."""
    for i in range(first, last):
        start, stop = crow[i], crow[i + 1]
        for h in range(softmax.shape[1]):
            total = softmax.dtype.type(0)
            for e in range(start, stop):
                total += softmax[e, h] * gradient[e, h]
            for e in range(start, stop):
                out[e, h] = softmax[e, h] * (gradient[e, h] - total)
