"""Compiled counts of labels among direct neighbours.

Every kernel fills, per node, the number of labelled nodes in its neighbourhood (``size``), the
count of the commonest label (``top``) and the count of the node's own label (``same``, zero for an
unlabelled node). Class values equal to ``num_classes`` mean "unlabelled" and are never counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled
from ncgnn.metrics._bits import BYTE_LIMIT, PACKED_LIMIT, byte_at, byte_max, byte_sum, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Neighbour labels are fetched for this many edges at a time, ahead of counting: the fetches then
# overlap, where a row by row loop would stall on every row's end.
_TILE = 4096
_ROW_LIMIT = BYTE_LIMIT - 1  # room for the node itself


@compiled
def count_packed(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    loops: NDArray[np.bool_],
    classes: NDArray[Any],
    units: NDArray[np.uint64],
    num_classes: int,
    closed: bool,
    first_row: int,
    end_row: int,
    size: NDArray[np.int32],
    top: NDArray[np.int32],
    same: NDArray[np.int32],
) -> None:
    """Count with sixteen four-bit counters per row, for at most sixteen classes.

    The counters of all edges of a tile are summed up running, without looking at row ends; those of
    up to fifteen consecutive edges are the difference of two running sums, exact although the
    running sum overflows. A row adds up such pieces in byte counters; very long rows fall back to
    counters in memory.
    """
    sums = np.zeros(_TILE + 1, np.uint64)
    after_edge = sums[1:]
    counts = np.zeros(num_classes + 1, np.int64)
    row = first_row
    while row < end_row:
        start = indptr[row]
        stop_row = row + 1
        while stop_row < end_row and indptr[stop_row + 1] - start <= _TILE:
            stop_row += 1
        tile = indices[start : min(indptr[stop_row], start + _TILE)]
        running = np.uint64(0)
        for k in range(len(tile)):
            running += units[classes[np.uint64(tile[k])]]
            after_edge[k] = running
        for i in range(row, stop_row):
            own = classes[i]
            looped = len(loops) > 0 and loops[i]
            first, last = indptr[i] - start, indptr[i + 1] - start
            if last - first > _ROW_LIMIT:
                _count_row(indices[indptr[i] : indptr[i + 1]], classes, counts)
                adjust_own(counts, own, closed, looped)
                finish_node(i, own, num_classes, counts, size, top, same)
                continue
            even, odd = widened(units[own] if closed and not looped else np.uint64(0))
            while first < last:
                piece = min(first + PACKED_LIMIT, last)
                more_even, more_odd = widened(sums[piece] - sums[first])
                even += more_even
                odd += more_odd
                first = piece
            if looped and not closed:
                less_even, less_odd = widened(units[own])
                even -= less_even
                odd -= less_odd
            size[i] = byte_sum(even, odd)
            top[i] = byte_max(even, odd)
            if len(same) > 0:
                same[i] = byte_at(even, odd, own) if own < num_classes else 0
        row = stop_row


@compiled
def count_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    loops: NDArray[np.bool_],
    classes: NDArray[Any],
    num_classes: int,
    closed: bool,
    first_row: int,
    end_row: int,
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
        stop_row = row + 1
        while stop_row < end_row and indptr[stop_row + 1] - start <= _TILE:
            stop_row += 1
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
            write_extras(i, num_classes, counts, surprise, leader, matrix)
            finish_node(i, own, num_classes, counts, size, top, same)
        row = stop_row


@compiled
def _count_row(row: Any, classes: Any, counts: Any) -> None:
    for k in range(len(row)):
        counts[classes[np.uint64(row[k])]] += 1


@compiled
def adjust_own(counts: Any, own: Any, closed: bool, looped: bool) -> None:
    """A self-loop is no neighbour; the node itself counts once in a closed neighbourhood."""
    if closed and not looped:
        counts[own] += 1
    elif looped and not closed:
        counts[own] -= 1


@compiled
def write_extras(
    node: Any, num_classes: Any, counts: Any, surprise: Any, leader: Any, matrix: Any
) -> None:
    """Write what only some metrics need."""
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
def finish_node(
    node: Any, own: Any, num_classes: Any, counts: Any, size: Any, top: Any, same: Any
) -> None:
    """Write the results of one node and clear its counters."""
    if len(same) > 0:
        same[node] = counts[own] if own < num_classes else 0
    total = 0
    largest = 0
    for c in range(num_classes):
        total += counts[c]
        largest = max(largest, counts[c])
        counts[c] = 0
    counts[num_classes] = 0
    size[node] = total
    top[node] = largest
