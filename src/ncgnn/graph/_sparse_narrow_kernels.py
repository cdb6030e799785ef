"""Compiled row loops of the sparse product with few columns.

A few columns of the result fit into registers, so each entry is one load and one multiply-add per
column: no loop over columns, which costs more than the work when it is short. Positions are
unsigned: they cannot count from the end, which spares a test at every access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@compiled
def _eight_columns(
    e: Any, stop: Any, k: Any, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    p = q = r = s = t = u = v = w = dense.dtype.type(0)
    while e < stop:
        weight, x = weights[e], dense[np.uint64(col[e])]
        p += weight * x[k]
        q += weight * x[k + np.uint64(1)]
        r += weight * x[k + np.uint64(2)]
        s += weight * x[k + np.uint64(3)]
        t += weight * x[k + np.uint64(4)]
        u += weight * x[k + np.uint64(5)]
        v += weight * x[k + np.uint64(6)]
        w += weight * x[k + np.uint64(7)]
        e += np.uint64(1)
    out[k], out[k + np.uint64(1)], out[k + np.uint64(2)], out[k + np.uint64(3)] = p, q, r, s
    k += np.uint64(4)
    out[k], out[k + np.uint64(1)], out[k + np.uint64(2)], out[k + np.uint64(3)] = t, u, v, w


@compiled
def _three_columns(
    e: Any, stop: Any, k: Any, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    p = q = r = dense.dtype.type(0)
    while e < stop:
        weight, x = weights[e], dense[np.uint64(col[e])]
        p += weight * x[k]
        q += weight * x[k + np.uint64(1)]
        r += weight * x[k + np.uint64(2)]
        e += np.uint64(1)
    out[k], out[k + np.uint64(1)], out[k + np.uint64(2)] = p, q, r


@compiled
def _one_column(
    e: Any, stop: Any, k: Any, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    p = dense.dtype.type(0)
    while e < stop:
        p += weights[e] * dense[np.uint64(col[e]), k]
        e += np.uint64(1)
    out[k] = p


@compiled
def narrow_product_rows(
    first: int, last: int, crow: Array, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    """Write rows ``first .. last - 1`` of A·X, for weights [nnz] and X [n, d]."""
    width = np.uint64(dense.shape[1])
    for i in range(first, last):
        start, stop = np.uint64(crow[i]), np.uint64(crow[i + 1])
        k = np.uint64(0)
        while k + np.uint64(8) <= width:
            _eight_columns(start, stop, k, col, weights, dense, out[i])
            k += np.uint64(8)
        while k + np.uint64(3) <= width:
            _three_columns(start, stop, k, col, weights, dense, out[i])
            k += np.uint64(3)
        while k < width:
            _one_column(start, stop, k, col, weights, dense, out[i])
            k += np.uint64(1)
