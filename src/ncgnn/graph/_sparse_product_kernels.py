"""Compiled row loops of the sparse products.

A kernel works on the rows ``first .. last - 1``, so that threads can share the rows out. A row is
always summed in the same order: the result is the same bit for bit on any number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@compiled
def product_rows(
    first: int, last: int, crow: Array, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    """Write rows ``first .. last - 1`` of A·X, for weights [nnz] and X [n, d]."""
    for i in range(first, last):
        target = out[i]
        target[:] = 0
        # Unsigned positions cannot count from the end, which spares a test at every access.
        start, stop = np.uint64(crow[i]), np.uint64(crow[i + 1])
        e = start + (stop - start) % np.uint64(4)
        for single in range(start, e):
            weight, x = weights[single], dense[np.uint64(col[single])]
            for k in range(target.shape[0]):
                target[k] += weight * x[k]
        # Four entries per pass over the row of the result: a quarter of its loads and stores.
        while e < stop:
            f, g, h = e + np.uint64(1), e + np.uint64(2), e + np.uint64(3)
            a, b, c, d = weights[e], weights[f], weights[g], weights[h]
            x, y = dense[np.uint64(col[e])], dense[np.uint64(col[f])]
            z, t = dense[np.uint64(col[g])], dense[np.uint64(col[h])]
            for k in range(target.shape[0]):
                target[k] += (a * x[k] + b * y[k]) + (c * z[k] + d * t[k])
            e += np.uint64(4)


@compiled
def transposed_product_columns(
    first: int, last: int, crow: Array, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    """Write columns ``first .. last - 1`` of Aᵀ·X, for weights [nnz] and X [m, d].

    A row of X is read once, and added to the rows of a result that is narrow enough to stay in
    cache; the product of the transposed matrix would fetch a row of X for every entry.
    """
    width = last - first
    # Apart from ``out``, whose rows may lie a power of two apart and compete for cache sets.
    total = np.zeros((out.shape[0], width), dtype=dense.dtype)
    x = np.empty(width, dtype=dense.dtype)
    for i in range(crow.shape[0] - 1):
        x[:] = dense[i, first:last]
        for e in range(np.uint64(crow[i]), np.uint64(crow[i + 1])):
            weight, target = weights[e], total[np.uint64(col[e])]
            for k in range(width):
                target[k] += weight * x[k]
    out[:, first:last] = total


@compiled
def head_product_rows(
    first: int, last: int, crow: Array, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    """Write rows ``first .. last - 1`` of A_h·X_h, for weights [nnz, heads] and X [n, heads, d]."""
    heads, width = dense.shape[1], dense.shape[2]
    for i in range(first, last):
        out[i] = 0
        for e in range(crow[i], crow[i + 1]):
            j = col[e]
            for h in range(heads):
                weight = weights[e, h]
                for f in range(width):
                    out[i, h, f] += weight * dense[j, h, f]
