"""Compiled dot products of dense rows, sampled at the entries of a sparse pattern.

One dot product is a chain of dependent additions, so several are computed side by side: the
processor overlaps them without any change to the order of one sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@compiled
def _one_dot(g: Array, x: Array) -> float:
    width = g.shape[0]
    whole = width - width % 4
    p = q = r = s = g.dtype.type(0)
    for f in range(0, whole, 4):
        p += g[f] * x[f]
        q += g[f + 1] * x[f + 1]
        r += g[f + 2] * x[f + 2]
        s += g[f + 3] * x[f + 3]
    for f in range(whole, width):
        p += g[f] * x[f]
    return (p + q) + (r + s)


@compiled
def _four_dots(
    g: Array, x: Array, y: Array, z: Array, t: Array
) -> tuple[float, float, float, float]:
    p = q = r = s = g.dtype.type(0)
    for f in range(g.shape[0]):
        value = g[f]
        p += value * x[f]
        q += value * y[f]
        r += value * z[f]
        s += value * t[f]
    return p, q, r, s


@compiled
def _eight_dots(e: int, h: int, g: Array, col: Array, right: Array, out: Array) -> None:
    a, b, c, d = right[col[e], h], right[col[e + 1], h], right[col[e + 2], h], right[col[e + 3], h]
    i, j, k, m = (
        right[col[e + 4], h],
        right[col[e + 5], h],
        right[col[e + 6], h],
        right[col[e + 7], h],
    )
    p = q = r = s = t = u = v = w = g.dtype.type(0)
    for f in range(g.shape[0]):
        value = g[f]
        p += value * a[f]
        q += value * b[f]
        r += value * c[f]
        s += value * d[f]
        t += value * i[f]
        u += value * j[f]
        v += value * k[f]
        w += value * m[f]
    out[e, h], out[e + 1, h], out[e + 2, h], out[e + 3, h] = p, q, r, s
    out[e + 4, h], out[e + 5, h], out[e + 6, h], out[e + 7, h] = t, u, v, w


@compiled
def dot_rows(
    first: int, last: int, crow: Array, col: Array, left: Array, right: Array, out: Array
) -> None:
    """Write ⟨left_ih, right_jh⟩ for every entry (i, j) of the rows ``first .. last - 1``.

    The dense arrays are [rows, heads, d], the result is [nnz, heads].
    """
    for i in range(first, last):
        stop = crow[i + 1]
        for h in range(left.shape[1]):
            e = crow[i]
            g = left[i, h]
            while e + 8 <= stop:
                _eight_dots(e, h, g, col, right, out)
                e += 8
            if e + 4 <= stop:
                out[e, h], out[e + 1, h], out[e + 2, h], out[e + 3, h] = _four_dots(
                    g,
                    right[col[e], h],
                    right[col[e + 1], h],
                    right[col[e + 2], h],
                    right[col[e + 3], h],
                )
                e += 4
            while e < stop:
                out[e, h] = _one_dot(g, right[col[e], h])
                e += 1
