"""Compiled loops of the metrics: labels among neighbors, pairs of classes, and equal rows.

A loop works on the rows ``first_row`` to ``end_row - 1``, so that threads can share the rows out.
Loops that count labels fill, per node, the number of labeled nodes in its neighborhood (``size``),
the count of the commonest label (``top``) and the count of the node's own label (``same``, zero for
an unlabeled node). A class equal to ``num_classes`` means "unlabeled" and is never counted.

Up to sixteen classes are counted in one machine word, with four bits for each. For NC among more
classes, all pairs of a row's labels are compared in vector registers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._intrinsics import compare_16, compare_32, compare_64
from ncgnn._numba import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How many classes one word of packed counters holds, and how far each counter can count.
PACKED_CLASSES = 16
PACKED_LIMIT = 15
#: How far a byte counter can count for :func:`byte_max` to be right.
BYTE_LIMIT = 127

_LOW_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_LOW_BITS = np.uint64(0x1111111111111111)
_U0, _U2, _U3 = np.uint64(0), np.uint64(2), np.uint64(3)
_U1, _U4, _U7, _U8 = np.uint64(1), np.uint64(4), np.uint64(7), np.uint64(8)
_U16, _U32, _U56, _U255 = np.uint64(16), np.uint64(32), np.uint64(56), np.uint64(255)


@cache
def packed_units(num_classes: int) -> NDArray[np.uint64]:
    """For each class the word that adds one to its counter; zero for every other class value."""
    units = np.zeros(256, dtype=np.uint64)
    units[:num_classes] = np.uint64(1) << (np.arange(num_classes, dtype=np.uint64) * _U4)
    return units


@compiled
def widen(packed: Any) -> Any:
    """Sixteen four-bit counters as two words of byte counters: even classes and odd ones."""
    return packed & _LOW_NIBBLES, (packed >> _U4) & _LOW_NIBBLES


@compiled
def packed_sum(packed: Any) -> Any:
    """Sum of sixteen four-bit counters; it must be at most 255."""
    even, odd = widen(packed)
    return ((even + odd) * _ONES) >> _U56


@compiled
def packed_max(packed: Any) -> Any:
    """Largest of sixteen four-bit counters, found bit by bit from the highest on.

    Of the counters that are still in the running, those with the bit set stay, if there are any.
    """
    found = (packed >> _U3) & _LOW_BITS
    running = found if found != _U0 else _LOW_BITS
    largest = _U8 if found != _U0 else _U0
    found = (packed >> _U2) & running
    running = found if found != _U0 else running
    largest += _U4 if found != _U0 else _U0
    found = (packed >> _U1) & running
    running = found if found != _U0 else running
    largest += _U2 if found != _U0 else _U0
    return largest + (_U1 if packed & running != _U0 else _U0)


@compiled
def byte_sum(even: Any, odd: Any) -> Any:
    """Sum of sixteen byte counters; it must be at most 255."""
    return np.int32(((even + odd) * _ONES) >> _U56)


@compiled
def byte_max(even: Any, odd: Any) -> Any:
    """Largest of sixteen byte counters, each below 128."""
    largest = _max_of_bytes(even, odd)
    largest = _max_of_bytes(largest, largest >> _U32)
    largest = _max_of_bytes(largest, largest >> _U16)
    largest = _max_of_bytes(largest, largest >> _U8)
    return np.int32(largest & _U255)


@compiled
def byte_at(even: Any, odd: Any, position: Any) -> Any:
    """The byte counter of one class."""
    word = odd if position & 1 else even
    return np.int32((word >> ((np.uint64(position) >> _U1) * _U8)) & _U255)


@compiled
def _max_of_bytes(left: Any, right: Any) -> Any:
    """Byte by byte maximum of two words whose bytes are below 128."""
    not_less = (((left | _HIGH_BITS) - right) & _HIGH_BITS) >> _U7
    chosen = not_less * _U255
    return (left & chosen) | (right & ~chosen)


# Neighbor labels are fetched for this many edges at a time, ahead of counting: the fetches then
# overlap, where a row by row loop would stall on every row's end. A tile fits the first cache.
_TILE = 1024
# Unsigned, because positions that could be negative cost a test each.
_ROW_LIMIT = np.uint64(BYTE_LIMIT - 1)  # room for the node itself
_PIECE, _WHOLE_TILE, _ONE = np.uint64(PACKED_LIMIT), np.uint64(_TILE), np.uint64(1)
#: Side of the table of NC values for small neighborhoods.
TABLE_SIDE = 64
_TABLE_SIDE = np.uint64(TABLE_SIDE)


@compiled
def count_packed(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    loops: NDArray[np.bool_] | None,
    classes: NDArray[Any],
    units: NDArray[np.uint64],
    num_classes: int,
    closed: bool,
    size: NDArray[np.int32],
    top: NDArray[np.int32],
    same: NDArray[np.int32] | None,
) -> None:
    """Count with sixteen four-bit counters per row, for at most sixteen classes.

    The counters of all edges of a tile are summed up running, without looking at row ends; those of
    up to fifteen consecutive edges are the difference of two running sums, exact although the
    running sum overflows. A row adds up such pieces in byte counters; very long rows fall back to
    counters in memory.
    """
    sums = np.zeros(_TILE + 1, np.uint64)
    counts = np.zeros(num_classes + 1, np.int64)
    row = first_row
    while row < end_row:
        start = indptr[row]
        stop_row = _end_of_tile(indptr, row, end_row)
        tile = indices[start : min(indptr[stop_row], start + _TILE)]
        _sum_up(tile, classes, units, sums[1:])
        first = np.uint64(0)
        for i in range(row, stop_row):
            own = classes[i]
            looped = False
            if loops is not None:
                looped = loops[i]
            last = np.uint64(indptr[i + 1] - start)
            if last - first > _ROW_LIMIT:
                _count_row(indices[indptr[i] : indptr[i + 1]], classes, counts)
                adjust_own(counts, own, closed, looped)
                if same is not None:
                    same[i] = counts[own] if own < num_classes else 0
                finish_node(i, num_classes, counts, size, top)
                first = last
                continue
            even, odd = widen(units[own] if closed and not looped else np.uint64(0))
            even, odd = _add_pieces(even, odd, sums, first, last)
            first = last
            if loops is not None and looped and not closed:
                less_even, less_odd = widen(units[own])
                even -= less_even
                odd -= less_odd
            size[i] = byte_sum(even, odd)
            top[i] = byte_max(even, odd)
            if same is not None:
                same[i] = byte_at(even, odd, own) if own < num_classes else 0
        row = stop_row


@compiled
def confusion_packed(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    loops: NDArray[np.bool_] | None,
    classes: NDArray[Any],
    units: NDArray[np.uint64],
    num_classes: int,
    closed: bool,
    unlabeled: bool | None,
    table: NDArray[np.float64],
    scale: float,
    values: NDArray[np.float64],
) -> None:
    """Neighborhood Confusion at once, without storing counts: as :func:`count_packed` counts.

    ``loops`` is None if no node is a member of its own row, and ``unlabeled`` None if all nodes are
    labeled, so that sizes need no counting. ``table`` holds NC by size and count of the commonest
    label, row by row, first the value of an empty neighborhood; ``scale`` is the logarithm of the
    number of classes.
    """
    sums = np.zeros(_TILE + 1, np.uint64)
    counts = np.zeros(num_classes + 1, np.int64)
    pair = np.zeros(2, np.int32)
    itself = np.uint64(1 if closed else 0)
    own_units = units * itself
    row = first_row
    while row < end_row:
        start = indptr[row]
        stop_row = _end_of_tile(indptr, row, end_row)
        tile = indices[start : min(indptr[stop_row], start + _TILE)]
        _sum_up(tile, classes, units, sums[1:])
        first = np.uint64(0)
        for i in range(row, stop_row):
            last = np.uint64(indptr[i + 1] - start)
            if last - first < _PIECE:
                packed = sums[last] - sums[first] + own_units[classes[i]]
                size = last - first + itself
                if loops is not None and loops[i]:
                    packed -= units[classes[i]]
                    size -= _ONE
                if unlabeled is not None:
                    size = packed_sum(packed)
                values[i] = table[size * _TABLE_SIDE + packed_max(packed)]
                first = last
                continue
            looped = False
            if loops is not None:
                looped = loops[i]
            if last - first <= _ROW_LIMIT and not looped:
                even, odd = widen(own_units[classes[i]])
                even, odd = _add_pieces(even, odd, sums, first, last)
                values[i] = _one_confusion(byte_sum(even, odd), byte_max(even, odd), table, scale)
            else:
                _count_row(indices[indptr[i] : indptr[i + 1]], classes, counts)
                adjust_own(counts, classes[i], closed, looped)
                finish_node(0, num_classes, counts, pair[:1], pair[1:])
                values[i] = _one_confusion(pair[0], pair[1], table, scale)
            first = last
        row = stop_row


@compiled
def confusion_compared(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    loops: NDArray[np.bool_] | None,
    classes: NDArray[Any],
    num_classes: int,
    closed: bool,
    table: NDArray[np.float64],
    scale: float,
    values: NDArray[np.float64],
) -> None:
    """Neighborhood Confusion at once, for any number of classes; see :func:`confusion_packed`.

    Labels of a row are compared each with each, without counters or branches; those of rows with
    more than 64 are counted.
    """
    fetched = np.zeros(_TILE + 64, classes.dtype)
    counts = np.zeros((4, num_classes + 1), np.int32)
    none = classes.dtype.type(num_classes)
    row = first_row
    while row < end_row:
        start = indptr[row]
        stop_row = _end_of_tile(indptr, row, end_row)
        tile = indices[start : min(indptr[stop_row], start + _TILE)]
        for k in range(len(tile)):
            fetched[k] = classes[np.uint64(tile[k])]
        first = np.uint64(0)
        for i in range(row, stop_row):
            own = classes[i]
            more = np.int64(1 if closed else 0)
            if loops is not None and loops[i]:
                more -= 1
            last = np.uint64(indptr[i + 1] - start)
            degree = np.int64(last - first)
            if degree <= 16:
                found = compare_16(fetched, first, degree, own, more, none)
            elif degree <= 32:
                found = compare_32(fetched, first, degree, own, more, none)
            elif degree <= 64:
                found = compare_64(fetched, first, degree, own, more, none)
            else:
                labels = fetched[first : min(last, _WHOLE_TILE)]
                rest = indices[start + _TILE : max(start + _TILE, indptr[i + 1])]
                size, top = _count_long_row(labels, rest, classes, own, more, counts)
                values[i] = _one_confusion(size, top, table, scale)
                first = last
                continue
            size, top = found >> 8, found & 255
            if own != none:
                size += more
                top = max(top, more)
            values[i] = _one_confusion(size, top, table, scale)
            first = last
        row = stop_row


@compiled
def _count_long_row(labels: Any, rest: Any, classes: Any, own: Any, more: Any, counts: Any) -> Any:
    """Size and highest count of a row: labels, those of more nodes, and ``more`` times its own."""
    # Four counters per class take turns, so that none waits for its last increment to be stored.
    for k in range(len(labels)):
        counts[k & 3, labels[k]] += 1
    for k in range(len(rest)):
        counts[k & 3, classes[np.uint64(rest[k])]] += 1
    counts[0, own] += more
    size, top, num_classes = 0, 0, counts.shape[1] - 1
    for c in range(num_classes):
        count = counts[0, c] + counts[1, c] + counts[2, c] + counts[3, c]
        size += count
        top = max(top, count)
    counts[:] = 0
    return size, top


@compiled
def _add_pieces(even: Any, odd: Any, sums: Any, first: Any, last: Any) -> Any:
    """Add the counters of the edges between two positions of a tile, fifteen at a time."""
    while first < last:
        piece = min(first + _PIECE, last)
        more_even, more_odd = widen(sums[piece] - sums[first])
        even += more_even
        odd += more_odd
        first = piece
    return even, odd


@compiled
def _end_of_tile(indptr: Any, row: Any, end_row: Any) -> Any:
    """The row before which a tile ends: as many rows as fit, at least one."""
    stop = row + 1
    while stop < end_row and indptr[stop + 1] - indptr[row] <= _TILE:
        stop += 1
    return stop


@compiled
def _sum_up(tile: Any, classes: Any, units: Any, sums: Any) -> None:
    """Running sums of the packed counters of a tile's members."""
    running = np.uint64(0)
    for k in range(len(tile)):
        running += units[classes[np.uint64(tile[k])]]
        sums[k] = running


@compiled
def count_rows(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    loops: NDArray[np.bool_],
    classes: NDArray[Any],
    num_classes: int,
    closed: bool,
    size: NDArray[np.int32],
    top: NDArray[np.int32],
    same: NDArray[np.int32],
    surprise: NDArray[np.float64],
    leader: NDArray[np.int32],
    matrix: NDArray[np.int32],
) -> None:
    """Count with one counter per class in memory.

    Unless they are empty, also fills ``surprise`` with the sum of count · log2(count) over the
    classes, ``leader`` with the commonest class (the first among equals, -1 without labels), and
    ``matrix`` [n, C] with all counts.
    """
    counts = np.zeros(num_classes + 1, np.int64)
    fetched = np.zeros(_TILE, classes.dtype)
    row = first_row
    while row < end_row:
        start = indptr[row]
        stop_row = _end_of_tile(indptr, row, end_row)
        tile = indices[start : min(indptr[stop_row], start + _TILE)]
        for k in range(len(tile)):
            fetched[k] = classes[np.uint64(tile[k])]
        for i in range(row, stop_row):
            own = classes[i]
            looped = len(loops) > 0 and loops[i]
            for label in fetched[indptr[i] - start : indptr[i + 1] - start]:
                counts[label] += 1
            if indptr[i + 1] - start > _TILE:
                _count_row(indices[start + _TILE : indptr[i + 1]], classes, counts)
            adjust_own(counts, own, closed, looped)
            write_extras(i, own, num_classes, counts, same, surprise, leader, matrix)
            finish_node(i, num_classes, counts, size, top)
        row = stop_row


@compiled
def _count_row(row: Any, classes: Any, counts: Any) -> None:
    for k in range(len(row)):
        counts[classes[np.uint64(row[k])]] += 1


@compiled
def adjust_own(counts: Any, own: Any, closed: bool, looped: bool) -> None:
    """A self-loop is no neighbor; the node itself counts once in a closed neighborhood."""
    if closed and not looped:
        counts[own] += 1
    elif looped and not closed:
        counts[own] -= 1


@compiled
def write_extras(
    node: Any,
    own: Any,
    num_classes: Any,
    counts: Any,
    same: Any,
    surprise: Any,
    leader: Any,
    matrix: Any,
) -> None:
    """Write what only some metrics need."""
    if len(same) > 0:
        same[node] = counts[own] if own < num_classes else 0
    if len(surprise) > 0:
        total = 0.0
        for c in range(num_classes):
            if counts[c] > 1:
                total += counts[c] * np.log2(counts[c])
        surprise[node] = total
    if len(leader) > 0:
        leader[node] = -1
        largest = 0
        for c in range(num_classes):
            if counts[c] > largest:
                largest = counts[c]
                leader[node] = c
    if len(matrix) > 0:
        for c in range(num_classes):
            matrix[node, c] = counts[c]


@compiled
def finish_node(node: Any, num_classes: Any, counts: Any, size: Any, top: Any) -> None:
    """Write the results of one node and clear its counters."""
    total = 0
    largest = 0
    for c in range(num_classes):
        total += counts[c]
        largest = max(largest, counts[c])
        counts[c] = 0
    counts[num_classes] = 0
    size[node] = total
    top[node] = largest


@compiled
def confusion_of(
    first_row: int,
    end_row: int,
    size: NDArray[np.int32],
    top: NDArray[np.int32],
    table: NDArray[np.float64],
    scale: float,
    values: NDArray[np.float64],
) -> None:
    """Neighborhood Confusion from counts; arguments as in :func:`confusion_packed`."""
    for i in range(first_row, end_row):
        values[i] = _one_confusion(size[i], top[i], table, scale)


@compiled
def _one_confusion(size: Any, top: Any, table: Any, scale: Any) -> Any:
    if size < TABLE_SIDE:
        return table[np.uint64(size) * _TABLE_SIDE + np.uint64(top)]
    return np.log2(size / top) / scale


@compiled
def count_pairs(
    first_row: int,
    end_row: int,
    blocks: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    classes: NDArray[Any],
    all_counts: NDArray[np.int64],
    all_shares: NDArray[np.float64],
) -> None:
    """Add up, by class of node and neighbor, the edges and their shares of the node's edges.

    Every block of rows has a table [C, C] of its own in ``all_counts`` and ``all_shares``.
    """
    block = np.searchsorted(blocks, first_row, side="right") - 1
    counts, shares = all_counts[block], all_shares[block]
    num_classes = len(counts)
    row_counts = np.zeros(num_classes + 1, np.int64)
    for i in range(first_row, end_row):
        own = classes[i]
        if own == num_classes:
            continue
        size = 0
        for source in indices[indptr[i] : indptr[i + 1]]:
            if source != i:
                row_counts[classes[source]] += 1
                size += 1
        size -= row_counts[num_classes]
        row_counts[num_classes] = 0
        if size == 0:
            continue
        for c in range(num_classes):
            counts[own, c] += row_counts[c]
            shares[own, c] += row_counts[c] / size
            row_counts[c] = 0


@compiled
def rank_classes(
    first_row: int,
    end_row: int,
    nodes: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    classes: NDArray[Any],
    num_classes: int,
    found: NDArray[np.int32],
    counts: NDArray[np.int32],
    size: NDArray[np.int64],
) -> None:
    """The commonest classes among the neighbors of some nodes, as many as ``found`` has columns.

    A row is a place in ``nodes``. ``found`` and ``counts`` hold -1 and 0 where nothing is written.
    """
    tally = np.zeros(num_classes + 1, np.int32)
    present = np.empty(num_classes + 1, np.int32)
    for row in range(first_row, end_row):
        node, kinds = nodes[row], 0
        for source in indices[indptr[node] : indptr[node + 1]]:
            label = classes[source]
            if source != node and label != num_classes:
                if tally[label] == 0:
                    present[kinds] = label
                    kinds += 1
                tally[label] += 1
                size[row] += 1
        for place in range(min(found.shape[1], kinds)):
            best = present[0]
            for c in present[1:kinds]:
                if tally[c] > tally[best] or (tally[c] == tally[best] and c < best):
                    best = c
            found[row, place], counts[row, place] = best, tally[best]
            tally[best] = 0
        for c in present[:kinds]:
            tally[c] = 0


@compiled
def hash_rows(
    indptr: NDArray[np.int64], indices: NDArray[Any], values: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Two independent 64-bit hashes of every row."""
    rows = len(indptr) - 1
    first, second = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
    for i in range(rows):
        a, b = np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344)
        for e in range(indptr[i], indptr[i + 1]):
            word = np.uint64(indices[e])
            if len(values) > 0:
                word ^= values[e] * np.uint64(0x9E3779B97F4A7C15)
            a = (a ^ word) * np.uint64(0xBF58476D1CE4E5B9)
            a ^= a >> np.uint64(29)
            b = (b ^ word) * np.uint64(0x94D049BB133111EB)
            b ^= b >> np.uint64(31)
        first[i], second[i] = a, b
    return first, second


@compiled
def compare_rows(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    candidates: NDArray[np.bool_],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    values: NDArray[np.uint64],
) -> NDArray[np.bool_]:
    """Whether each pair of candidate rows is equal."""
    equal = candidates.copy()
    for k in range(len(left)):
        if not candidates[k]:
            continue
        a, b = indptr[left[k]], indptr[right[k]]
        for step in range(indptr[left[k] + 1] - a):
            same = indices[a + step] == indices[b + step]
            if len(values) > 0:
                same = same and values[a + step] == values[b + step]
            if not same:
                equal[k] = False
                break
    return equal
