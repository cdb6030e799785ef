"""Compiled loops that draw neighbors and gather rows.

A loop works on the rows ``first .. end - 1`` of what is expanded, so that threads can share them
out. Of each row it is first found where the relation stores it and how many edges will be taken,
then which. Every random number is a function of the key, the node and the slot or the neighbor.

Nothing is trusted: what could lead outside of an array is noted in ``problem`` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._intrinsics import lowest_bit, popcount, prefetch
from ncgnn._numba import compiled
from ncgnn._random import GOLDEN, random_word

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: What ``problem`` says: nothing is wrong; a row is not within its relation; an edge comes from no
#: node; a row does not rise; a wanted node is none of the graph's, or is wanted twice.
FINE, BAD_ROW, BAD_SOURCE, NOT_RISING, NO_NODE, TWICE = 0, 1, 2, 3, 4, 5
#: A fan-out that takes all neighbors.
ALL = 1 << 62

_GOLDEN = np.uint64(GOLDEN)
_U0, _U1, _U6, _U32 = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(32)
_U63, _LOW = np.uint64(63), np.uint64(0xFFFFFFFF)
_WORD = 64
# Up to so many chosen ones are kept sorted by insertion, more by a bit set.
_FEW = 48
# Rows that are fetched ahead: far enough to hide the memory, near enough to stay in cache.
_AHEAD = 12
# Entries of 4 bytes in a line of the cache.
_LINE = 16


@compiled
def begin_nodes(
    wanted: NDArray[np.int64],
    place: NDArray[np.int32],
    nodes: NDArray[np.int64],
    problem: NDArray[np.int64],
) -> int:
    """Give the wanted nodes the first places; returns how many were placed."""
    for k in range(len(wanted)):
        node = wanted[k]
        if node < 0 or node >= len(place):
            problem[0], problem[1] = NO_NODE, node
            return k
        if place[node] >= 0:
            problem[0], problem[1] = TWICE, node
            return k
        place[node] = k
        nodes[k] = node
    return len(wanted)


@compiled
def count_edges(
    first: int,
    end: int,
    nodes: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    fanout: int,
    key: Any,
    shared: bool,
    begins: NDArray[np.int64],
    degrees: NDArray[np.int64],
    chosen: NDArray[np.uint64],
    counts: NDArray[np.int64],
    problem: NDArray[np.int64],
) -> None:
    """Find each row and how many of its edges are taken: all, or as many as the fan-out says.

    If numbers are shared (LABOR), a source is taken if its own is below fan-out / degree, by all
    rows that see it and allow for it; otherwise every row draws ``fanout`` of its edges. The choice
    is noted in ``chosen``, as a bit set, where the row has at most 64 edges.
    """
    for r in range(first, end):
        begins[r], degrees[r] = _find_row(nodes[r], indptr, len(indices), problem)
    for r in range(first, end):
        degree = degrees[r]
        if shared and r + _AHEAD < end:
            _fetch_row(indices, begins[r + _AHEAD], degrees[r + _AHEAD])
        if degree <= fanout or not shared:
            counts[r] = min(degree, fanout)
            if fanout < degree <= _WORD:
                chosen[r] = _choose_bits(_word_of(key, nodes[r]), degree, fanout)
            continue
        row, limit = indices[begins[r] : begins[r] + degree], _limit(fanout, degree)
        if degree <= _WORD:
            bits = _U0
            for k in range(degree):
                bits |= np.uint64(_word_of(key, row[k]) < limit) << np.uint64(k)
            chosen[r], counts[r] = bits, np.int64(popcount(bits))
        else:
            counts[r] = 0
            for k in range(degree):
                counts[r] += _word_of(key, row[k]) < limit


@compiled
def take_edges(
    first: int,
    end: int,
    nodes: NDArray[np.int64],
    num_nodes: int,
    indices: NDArray[Any],
    fanout: int,
    key: Any,
    shared: bool,
    begins: NDArray[np.int64],
    degrees: NDArray[np.int64],
    chosen: NDArray[np.uint64],
    starts: NDArray[np.int64],
    edges: NDArray[np.int64],
    sources: NDArray[np.int32],
    scale: NDArray[np.float32],
    problem: NDArray[np.int64],
) -> None:
    """Write which edges are taken, in rising order, with their sources and factors.

    Those of row r start at ``starts[r]``. ``scale`` is empty where all rows are complete.
    """
    marks = np.zeros(0, np.uint64)
    for r in range(first, end):
        if r + _AHEAD < end:
            _fetch_row(indices, begins[r + _AHEAD], degrees[r + _AHEAD])
        start, stop = starts[r], starts[r + 1]
        begin, degree = begins[r], degrees[r]
        if degree <= fanout:
            for k in range(degree):
                edges[start + k] = begin + k
        elif degree <= _WORD:
            _write_bits(chosen[r], begin, edges[start:stop])
        elif shared:
            _choose_shared(key, fanout, begin, indices[begin : begin + degree], edges[start:stop])
        elif fanout <= _FEW:
            _choose_few(_word_of(key, nodes[r]), begin, degree, edges[start:stop])
        else:
            words = (degree + 63) // 64
            if len(marks) < words:
                marks = np.zeros(words, np.uint64)
            _choose_many(_word_of(key, nodes[r]), begin, degree, marks[:words], edges[start:stop])
        if len(scale) > 0:
            scale[start:stop] = np.float32(max(degree / fanout, 1.0))
        _write_sources(indices, num_nodes, edges[start:stop], sources[start:stop], problem)


@compiled
def place_sources(
    sources: NDArray[np.int32],
    place: NDArray[np.int32],
    nodes: NDArray[np.int64],
    found: int,
) -> Any:
    """Turn sources into places; those that have none get the next one. Returns how many have one.

    Everything is written, needed or not: a branch would be mispredicted at every other edge.
    ``nodes`` needs room for one node too many.
    """
    count = np.uint64(found)
    for e in range(len(sources)):
        source = np.uint64(sources[e])
        known = place[source]
        nodes[count] = np.int64(source)
        at = np.int32(count) if known < 0 else known
        place[source] = at
        sources[e] = at
        count += np.uint64(known < 0)
    return count


@compiled
def forget(place: NDArray[np.int32], nodes: NDArray[np.int64]) -> None:
    """Take the places of nodes back."""
    for k in range(len(nodes)):
        place[nodes[k]] = -1


@compiled
def copy_dense_rows(
    first: int, end: int, dense: NDArray[Any], rows: NDArray[np.int64], out: NDArray[Any]
) -> None:
    """Write ``dense[rows]`` for the places ``first .. end - 1``."""
    width = dense.shape[1]
    lines = (width * dense.itemsize + 63) // 64
    line = 64 // dense.itemsize
    for r in range(first, end):
        if r + _AHEAD < end and lines <= 16:
            ahead = rows[r + _AHEAD] * width
            for k in range(lines):
                prefetch(dense, ahead + k * line)
        row, target = dense[np.uint64(rows[r])], out[r]
        for k in range(width):
            target[k] = row[k]


@compiled
def _find_row(node: Any, indptr: Any, size: Any, problem: Any) -> Any:
    begin, stop = indptr[node], indptr[node + 1]
    if begin < 0 or stop < begin or stop > size:
        problem[0], problem[1] = BAD_ROW, node
        return np.int64(0), np.int64(0)
    return begin, stop - begin


@compiled
def _fetch_row(indices: Any, begin: Any, degree: Any) -> None:
    prefetch(indices, begin)
    prefetch(indices, begin + min(degree, 2 * _LINE) // 2)
    prefetch(indices, begin + min(degree, 2 * _LINE))


@compiled
def _word_of(key: Any, node: Any) -> Any:
    """The random word of a node: the number of a source, or the key of a row."""
    return random_word(key + np.uint64(node) * _GOLDEN)


@compiled
def _limit(fanout: Any, degree: Any) -> Any:
    """The share fan-out / degree, below 1, as a 64-bit number."""
    return np.uint64(fanout / degree * 18446744073709551616.0)


@compiled
def _below(key: Any, slot: Any, bound: Any) -> Any:
    """An exactly uniform whole number below ``bound`` (Lemire, ACM TOMACS 2019)."""
    word = random_word(key + np.uint64(slot + 1) * _GOLDEN)
    product = (word >> _U32) * bound
    if (product & _LOW) < bound:
        least = ((_U1 << _U32) - bound) % bound
        while (product & _LOW) < least:
            word = random_word(word + _GOLDEN)
            product = (word >> _U32) * bound
    return product >> _U32


@compiled
def _choose_bits(key: Any, degree: Any, count: Any) -> Any:
    """Choose so many of at most 64 by Floyd's method, or leave the others out if they are fewer."""
    turned = 2 * count > degree
    draws = degree - count if turned else count
    bits = _U0
    for slot in range(draws):
        last = np.uint64(degree - draws + slot)
        at = _below(key, slot, last + _U1)
        bits |= _U1 << (last if (bits >> at) & _U1 else at)
    if turned:
        bits ^= ~_U0 >> np.uint64(_WORD - degree)
    return bits


@compiled
def _write_bits(bits: Any, begin: Any, edges: Any) -> None:
    for k in range(len(edges)):
        edges[k] = begin + np.int64(lowest_bit(bits))
        bits &= bits - _U1


@compiled
def _choose_shared(key: Any, fanout: Any, begin: Any, row: Any, edges: Any) -> None:
    """Take the sources whose numbers are small enough, of which there are as many as edges."""
    limit, w = _limit(fanout, len(row)), 0
    for k in range(len(row)):
        if _word_of(key, row[k]) < limit:
            edges[w] = begin + k
            w += 1


@compiled
def _choose_few(key: Any, begin: Any, degree: Any, edges: Any) -> None:
    """Floyd's method, with the chosen ones kept in order."""
    draws = len(edges)
    for slot in range(draws):
        last = np.uint64(degree - draws + slot)
        at = begin + np.int64(_below(key, slot, last + _U1))
        w = slot
        while w > 0 and edges[w - 1] >= at:
            w -= 1
        if w < slot and edges[w] == at:
            edges[slot] = begin + np.int64(last)  # larger than all before
            continue
        for k in range(slot, w, -1):
            edges[k] = edges[k - 1]
        edges[w] = at


@compiled
def _choose_many(key: Any, begin: Any, degree: Any, marks: Any, edges: Any) -> None:
    """Floyd's method with a bit set, which is clear before and after."""
    draws = len(edges)
    for slot in range(draws):
        last = np.uint64(degree - draws + slot)
        at = _below(key, slot, last + _U1)
        if (marks[at >> _U6] >> (at & _U63)) & _U1:
            at = last
        marks[at >> _U6] |= _U1 << (at & _U63)
    w = 0
    for word in range(len(marks)):
        bits = marks[word]
        marks[word] = _U0
        while bits != _U0:
            edges[w] = begin + word * 64 + np.int64(lowest_bit(bits))
            w += 1
            bits &= bits - _U1


@compiled
def _write_sources(indices: Any, num_nodes: Any, edges: Any, sources: Any, problem: Any) -> None:
    """Look up where edges come from; rows must rise, so that none of them is met twice."""
    before = np.int64(-1)
    wrong = False
    for k in range(len(edges)):
        source = np.int64(indices[np.uint64(edges[k])])
        sources[k] = np.int32(source)
        wrong |= source <= before
        before = source
    if wrong or before >= num_nodes:
        problem[0], problem[1] = NOT_RISING, edges[0]
        for e in edges:
            if indices[e] < 0 or indices[e] >= num_nodes:
                problem[0], problem[1] = BAD_SOURCE, indices[e]
