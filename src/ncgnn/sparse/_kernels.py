"""Compiled row loops of the sparse operations.

A kernel works on the rows ``first .. last - 1``, so that threads can share the rows out. A row is
always summed in the same order: the result is the same bit for bit on any number of threads.
Positions are unsigned where they can be: they cannot count from the end, which spares a test at
every access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._numba import compiled

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
def transpose_pattern(
    crow: Array, col: Array, new_crow: Array, new_col: Array, order: Array
) -> None:
    """Write the pattern of the transpose and, for each of its entries, the entry here."""
    new_crow[:] = 0
    for e in range(col.shape[0]):
        new_crow[col[e] + 1] += 1
    for k in range(1, new_crow.shape[0]):
        new_crow[k] += new_crow[k - 1]
    cursor = new_crow[:-1].copy()
    for i in range(crow.shape[0] - 1):
        for e in range(crow[i], crow[i + 1]):
            place = cursor[col[e]]
            new_col[place], order[place] = i, e
            cursor[col[e]] = place + 1


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

    Every entry is written, and the next one overwrites it where it is not kept: a branch would
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


@compiled
def count_kept(crow: Array, kept: Array, new_crow: Array) -> None:
    """Write the row pointer of the entries that a mask keeps."""
    new_crow[0] = 0
    for i in range(crow.shape[0] - 1):
        count = new_crow[i]
        for e in range(crow[i], crow[i + 1]):
            count += kept[e]
        new_crow[i + 1] = count


@compiled
def keep_entries(
    kept: Array, col: Array, payload: Array, new_col: Array, new_payload: Array
) -> None:
    """Copy the entries that a mask keeps; the new arrays need room for one entry too many."""
    new = np.uint64(0)
    for e in range(np.uint64(kept.shape[0])):
        new_col[new], new_payload[new] = col[e], payload[e]
        new += np.uint64(kept[e])


@compiled
def mark_between(crow: Array, col: Array, targets: Array, sources: Array, kept: Array) -> None:
    """Mark the entries whose row and column are in two masks, and the diagonal."""
    for i in range(crow.shape[0] - 1):
        for e in range(np.uint64(crow[i]), np.uint64(crow[i + 1])):
            j = col[e]
            kept[e] = (targets[i] & sources[np.uint64(j)]) | (i == j)


@compiled
def count_looped(crow: Array, col: Array, new_crow: Array) -> bool:
    """Write the row pointer of a matrix with its whole diagonal.

    Returns:
        Whether columns rise in every row; otherwise the pointer is of no use.
    """
    new_crow[0] = 0
    for i in range(crow.shape[0] - 1):
        missing, before = 1, -1
        for e in range(crow[i], crow[i + 1]):
            if col[e] <= before:
                return False
            before = col[e]
            if before == i:
                missing = 0
        new_crow[i + 1] = new_crow[i] + (crow[i + 1] - crow[i]) + missing
    return True


@compiled
def insert_loops(
    crow: Array, col: Array, values: Array, new_crow: Array, new_col: Array, new_values: Array
) -> None:
    """Copy a matrix with rising columns, with 1 at the places of its diagonal that it lacks."""
    for i in range(crow.shape[0] - 1):
        new = new_crow[i]
        missing = new_crow[i + 1] - new > crow[i + 1] - crow[i]
        for e in range(crow[i], crow[i + 1]):
            if missing and col[e] > i:
                new_col[new], new_values[new] = i, 1
                new += 1
                missing = False
            new_col[new], new_values[new] = col[e], values[e]
            new += 1
        if missing:
            new_col[new], new_values[new] = i, 1


@compiled
def scale_entries(
    first: int,
    last: int,
    crow: Array,
    col: Array,
    values: Array,
    left: Array,
    right: Array,
    out: Array,
) -> None:
    """Write (left_i · right_j) · v for every entry; an empty diagonal is left out."""
    for i in range(first, last):
        for e in range(np.uint64(crow[i]), np.uint64(crow[i + 1])):
            if right.shape[0] == 0:
                out[e] = left[i] * values[e]
            elif left.shape[0] == 0:
                out[e] = right[np.uint64(col[e])] * values[e]
            else:
                out[e] = left[i] * right[np.uint64(col[e])] * values[e]


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
