"""Compiled row loops of the sparse products.

A kernel works on the rows ``first .. last - 1``, so that threads can share the rows out. A row is
always summed in the same order: the result is the same bit for bit on any number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@compiled
def _store_one(out: Array, w: Any, x: Array) -> None:
    for f in range(out.shape[0]):
        out[f] = w * x[f]


@compiled
def _store_two(out: Array, w: Any, x: Array, v: Any, y: Array) -> None:
    for f in range(out.shape[0]):
        out[f] = w * x[f] + v * y[f]


@compiled
def _store_three(out: Array, w: Any, x: Array, v: Any, y: Array, u: Any, z: Array) -> None:
    for f in range(out.shape[0]):
        out[f] = w * x[f] + v * y[f] + u * z[f]


@compiled
def product_rows(
    first: int, last: int, crow: Array, col: Array, weights: Array, dense: Array, out: Array
) -> None:
    """Write rows ``first .. last - 1`` of A·X, for weights [nnz] and X [n, d]."""
    for i in range(first, last):
        start, stop = crow[i], crow[i + 1]
        target = out[i]
        # Four entries per pass over the row of the result: a quarter of its loads and stores.
        rest = (stop - start) % 4
        if rest == 0:
            target[:] = 0
        elif rest == 1:
            _store_one(target, weights[start], dense[col[start]])
        elif rest == 2:
            _store_two(
                target,
                weights[start],
                dense[col[start]],
                weights[start + 1],
                dense[col[start + 1]],
            )
        else:
            _store_three(
                target,
                weights[start],
                dense[col[start]],
                weights[start + 1],
                dense[col[start + 1]],
                weights[start + 2],
                dense[col[start + 2]],
            )
        for e in range(start + rest, stop, 4):
            a, b, c, d = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
            x, y = dense[col[e]], dense[col[e + 1]]
            z, t = dense[col[e + 2]], dense[col[e + 3]]
            for f in range(target.shape[0]):
                target[f] += (a * x[f] + b * y[f]) + (c * z[f] + d * t[f])


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
