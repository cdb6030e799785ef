"""Compiled searches of the nodes within k hops, streamed node by node.

Memory is proportional to the graph: one bit and one queue entry per node and thread, and for the
largest rows a bit set each, together no larger than the adjacency itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._numba import compiled, even_blocks, over_blocks
from ncgnn.metrics._kernels.one_hop import (
    adjust_own,
    finish_node,
    lowest_bit,
    popcount,
    write_extras,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_U0, _U1, _U6, _U63 = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)
# Taking a row's bit set costs about as much as setting this share of its words bit by bit.
_BITS_PER_WORD_COST = 6
# Reading one node out of a bit set costs about as much as counting this many words of one class.
_WORDS_PER_NODE_READ = 4


def largest_rows(indptr: NDArray[np.int64], bytes_allowed: int) -> NDArray[np.int64]:
    """The rows for which a bit set pays, the largest first, within a memory allowance."""
    num_nodes = len(indptr) - 1
    words = (num_nodes + 63) // 64
    degrees = np.diff(indptr)
    paying = np.flatnonzero(degrees * _BITS_PER_WORD_COST > words)
    order = np.argsort(-degrees[paying], kind="stable")
    return paying[order][: bytes_allowed // (8 * words)]


@compiled
def sums_over_rows(
    indptr: NDArray[np.int64], indices: NDArray[Any], values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Sum of the values of each row's members."""
    sums = np.zeros(len(indptr) - 1, np.int64)
    for i in range(len(sums)):
        for source in indices[indptr[i] : indptr[i + 1]]:
            sums[i] += values[source]
    return sums


def bit_rows(
    indptr: NDArray[np.int64], indices: NDArray[Any], rows: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The neighbours of each given row as a bit set, [rows, words]."""
    sets = np.zeros((len(rows), (len(indptr) - 1 + 63) // 64), dtype=np.uint64)
    _mark_rows(indptr, indices, rows, sets)
    return sets


def class_sets(classes: NDArray[Any], num_classes: int) -> NDArray[np.uint64]:
    """The nodes of each class as a bit set, [C + 1, words]; the last row holds the unlabelled."""
    sets = np.zeros((num_classes + 1, (len(classes) + 63) // 64), dtype=np.uint64)
    # Blocks are whole words, so that no two threads write to the same one.
    over_blocks(even_blocks(sets.shape[1]), lambda a, b: _mark_classes(classes, sets, a, b))
    return sets


@compiled
def count_within(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    hops: int,
    classes: NDArray[Any],
    num_classes: int,
    closed: bool,
    set_of_row: NDArray[np.int32],
    row_sets: NDArray[np.uint64],
    label_sets: NDArray[np.uint64],
    first_row: int,
    end_row: int,
    size: NDArray[np.int32],
    top: NDArray[np.int32],
    same: NDArray[np.int32],
    surprise: NDArray[np.float64],
    leader: NDArray[np.int32],
    matrix: NDArray[np.int32],
) -> None:
    """Count the labels of all nodes within ``hops`` steps against the direction of the edges.

    Args:
        indptr: Row starts.
        indices: Sources of incoming edges.
        hops: Number of steps, at least one.
        classes: Class per node, ``num_classes`` for unlabelled.
        num_classes: Number of classes.
        closed: Whether the node itself counts.
        set_of_row: Position of a row's bit set in ``row_sets``, or -1.
        row_sets: Bit sets of the largest rows.
        label_sets: Bit sets of the classes, or empty where they would take too much memory.
        first_row: First node to count for.
        end_row: Node to stop before.
        size: Filled with the number of labelled nodes.
        top: Filled with the count of the commonest label.
        same: Filled with the count of the node's own label, unless empty.
        surprise: Filled with the sum of count · log2(count), unless empty.
        leader: Filled with the commonest class, unless empty.
        matrix: Filled with all counts [n, C], unless empty.
    """
    num_nodes = len(indptr) - 1
    seen = np.zeros((num_nodes + 63) // 64, np.uint64)
    queue = np.empty(num_nodes, indices.dtype)
    counts = np.zeros(num_classes + 1, np.int64)
    for i in range(first_row, end_row):
        head, tail = _inner_hops(i, hops, indptr, indices, seen, queue)
        if _is_sparse(head, tail, indptr, queue, len(seen)):
            tail = _expand(head, tail, indptr, indices, seen, queue)
            for k in range(tail):
                counts[classes[np.uint64(queue[k])]] += 1
            _clear(queue[:tail], seen)
        else:
            _mark_last_hop(head, tail, indptr, indices, seen, queue, set_of_row, row_sets)
            _count_marked(seen, classes, num_classes, label_sets, counts)
        own = classes[i]
        adjust_own(counts, own, closed, True)
        write_extras(i, own, num_classes, counts, same, surprise, leader, matrix)
        finish_node(i, num_classes, counts, size, top)


@compiled
def pattern_sizes(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    hops: int,
    exactly: bool,
    set_of_row: NDArray[np.int32],
    row_sets: NDArray[np.uint64],
    first_row: int,
    end_row: int,
    sizes: NDArray[np.int64],
) -> None:
    """Number of nodes within ``hops`` steps of each node, itself included, or exactly there."""
    num_nodes = len(indptr) - 1
    seen = np.zeros((num_nodes + 63) // 64, np.uint64)
    queue = np.empty(num_nodes, indices.dtype)
    for i in range(first_row, end_row):
        head, tail = _inner_hops(i, hops, indptr, indices, seen, queue)
        if _is_sparse(head, tail, indptr, queue, len(seen)):
            sizes[i] = _expand(head, tail, indptr, indices, seen, queue)
            _clear(queue[: sizes[i]], seen)
        else:
            _mark_last_hop(head, tail, indptr, indices, seen, queue, set_of_row, row_sets)
            total = _U0
            for word in range(len(seen)):
                total += popcount(seen[word])
                seen[word] = _U0
            sizes[i] = np.int64(total)
        if exactly:
            sizes[i] -= tail


@compiled
def fill_pattern(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    hops: int,
    exactly: bool,
    set_of_row: NDArray[np.int32],
    row_sets: NDArray[np.uint64],
    first_row: int,
    end_row: int,
    starts: NDArray[np.int64],
    members: NDArray[Any],
) -> None:
    """Write the nodes that :func:`pattern_sizes` counts, those of each row in rising order."""
    num_nodes = len(indptr) - 1
    seen = np.zeros((num_nodes + 63) // 64, np.uint64)
    queue = np.empty(num_nodes, indices.dtype)
    for i in range(first_row, end_row):
        head, tail = _inner_hops(i, hops, indptr, indices, seen, queue)
        left_out = tail if exactly else 0
        if _is_sparse(head, tail, indptr, queue, len(seen)):
            end = _expand(head, tail, indptr, indices, seen, queue)
            members[starts[i] : starts[i + 1]] = np.sort(queue[left_out:end])
            _clear(queue[:end], seen)
            continue
        _mark_last_hop(head, tail, indptr, indices, seen, queue, set_of_row, row_sets)
        for node in queue[:left_out]:
            seen[np.uint64(node) >> _U6] &= ~(_U1 << (np.uint64(node) & _U63))
        position = starts[i]
        for word in range(len(seen)):
            bits = seen[word]
            seen[word] = _U0
            while bits != _U0:
                members[position] = word * 64 + np.int64(lowest_bit(bits))
                position += 1
                bits &= bits - _U1


@compiled
def _inner_hops(node: Any, hops: Any, indptr: Any, indices: Any, seen: Any, queue: Any) -> Any:
    """Search all hops but the last; returns the part of the queue that the last starts from."""
    queue[0] = node
    seen[np.uint64(node) >> _U6] |= _U1 << (np.uint64(node) & _U63)
    head, tail = 0, 1
    for _ in range(hops - 1):
        if head == tail:
            break
        grown = _expand(head, tail, indptr, indices, seen, queue)
        head, tail = tail, grown
    return head, tail


@compiled
def _expand(head: Any, tail: Any, indptr: Any, indices: Any, seen: Any, queue: Any) -> Any:
    """Append the unseen neighbours of queue[head:tail]; returns the new end of the queue."""
    end = tail
    for k in range(head, tail):
        row = queue[k]
        for source in indices[indptr[row] : indptr[row + 1]]:
            word, bit = np.uint64(source) >> _U6, _U1 << (np.uint64(source) & _U63)
            if not seen[word] & bit:
                seen[word] |= bit
                queue[end] = source
                end += 1
    return end


@compiled
def _clear(nodes: Any, seen: Any) -> None:
    for k in range(len(nodes)):
        seen[np.uint64(nodes[k]) >> _U6] = _U0


@compiled
def _is_sparse(head: Any, tail: Any, indptr: Any, queue: Any, words: Any) -> Any:
    """Whether the last hop touches so little that walking it beats sweeping the whole bit set."""
    edges = tail
    for k in range(head, tail):
        row = queue[k]
        edges += indptr[row + 1] - indptr[row]
        if edges > words:
            return False
    return True


@compiled
def _mark_last_hop(
    head: Any,
    tail: Any,
    indptr: Any,
    indices: Any,
    seen: Any,
    queue: Any,
    set_of_row: Any,
    row_sets: Any,
) -> None:
    for k in range(head, tail):
        row = queue[k]
        at = set_of_row[row]
        if at >= 0:
            marked = row_sets[at]
            for word in range(len(seen)):
                seen[word] |= marked[word]
        else:
            _mark_row(indices[indptr[row] : indptr[row + 1]], seen)


@compiled
def _mark_rows(indptr: Any, indices: Any, rows: Any, sets: Any) -> None:
    for k in range(len(rows)):
        _mark_row(indices[indptr[rows[k]] : indptr[rows[k] + 1]], sets[k])


@compiled
def _mark_classes(classes: Any, sets: Any, first_word: int, end_word: int) -> None:
    for i in range(first_word * 64, min(len(classes), end_word * 64)):
        sets[classes[i], i >> 6] |= _U1 << np.uint64(i & 63)


@compiled
def _mark_row(row: Any, seen: Any) -> None:
    for k in range(len(row)):
        node = np.uint64(row[k])
        seen[node >> _U6] |= _U1 << (node & _U63)


@compiled
def _count_marked(seen: Any, classes: Any, num_classes: Any, label_sets: Any, counts: Any) -> None:
    """Count the classes of all marked nodes and clear the marks."""
    total = _U0
    for word in range(len(seen)):
        total += popcount(seen[word])
    sweep = (num_classes + 1) * len(seen)
    if len(label_sets) > 0 and np.int64(total) * _WORDS_PER_NODE_READ > sweep:
        for c in range(num_classes + 1):
            members = label_sets[c]
            found = _U0
            for word in range(len(seen)):
                found += popcount(seen[word] & members[word])
            counts[c] = np.int64(found)
        for word in range(len(seen)):
            seen[word] = _U0
        return
    for word in range(len(seen)):
        bits = seen[word]
        if bits == _U0:
            continue
        seen[word] = _U0
        while bits != _U0:
            counts[classes[np.uint64(word) * np.uint64(64) + lowest_bit(bits)]] += 1
            bits &= bits - _U1
