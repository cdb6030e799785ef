"""Compiled comparison of nodes by the degrees around them.

Ring k of a node holds the nodes at distance k; its list names the degrees of these nodes,
ascending, each with the number of nodes that have it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncgnn._compile import compiled


@compiled
def nearest_in_degree(
    class_of: Any, degrees: Any, class_starts: Any, members: Any, nearest: Any
) -> None:
    """Fill row v of ``nearest`` with nodes whose degrees are nearest to that of v.

    Nodes of the same degree come first, then always those of the nearest degree that is left, of
    two equally near ones the higher; nodes of one degree in ascending order.

    Args:
        class_of: Position of each node's degree in ``degrees``.
        degrees: The degrees that occur, ascending.
        class_starts: Where the nodes of each degree start in ``members``, and its length.
        members: All nodes by degree.
        nearest: Result [n, wanted], where wanted < n.
    """
    wanted = nearest.shape[1]
    for v in range(len(class_of)):
        own = class_of[v]
        taken = _take(members, class_starts, own, v, nearest[v], 0)
        below, above = own - 1, own + 1
        while taken < wanted:
            upwards = below < 0
            if above < len(degrees) and not upwards:
                upwards = degrees[above] - degrees[own] <= degrees[own] - degrees[below]
            chosen = above if upwards else below
            taken = _take(members, class_starts, chosen, v, nearest[v], taken)
            if upwards:
                above += 1
            else:
                below -= 1


@compiled
def _take(members: Any, class_starts: Any, chosen: Any, v: int, row: Any, taken: int) -> int:
    for place in range(class_starts[chosen], class_starts[chosen + 1]):
        if taken == len(row):
            break
        if members[place] != v:
            row[taken] = members[place]
            taken += 1
    return taken


@compiled
def ring_lists(
    indptr: Any,
    indices: Any,
    class_of: Any,
    degrees: Any,
    reachable: Any,
    depth: int,
    first: int,
    end: int,
) -> Any:
    """The lists of rings 0 .. depth - 1 of the nodes from ``first`` to ``end``.

    Args:
        indptr: Row starts of a symmetric adjacency.
        indices: Its columns.
        class_of: Position of each node's degree in ``degrees``.
        degrees: The degrees that occur, ascending.
        reachable: Size of each node's connected component.
        depth: Number of rings, at most 127.
        first: First node.
        end: Node after the last.

    Returns:
        Where the list of node v and ring k starts, at ``(v - first) * depth + k``, and where the
        last one ends; the degrees of all lists; the counts of all lists.
    """
    n = len(class_of)
    ring_of = np.full(n, -1, np.int8)  # small, so that it stays in the processor's cache
    queue = np.empty(n, np.int32)
    tally = np.zeros(len(degrees), np.int32)
    starts = np.empty((end - first) * depth + 1, np.int64)
    values, counts = np.empty(1024, np.int32), np.empty(1024, np.int32)
    used = 0
    for v in range(first, end):
        queue[0] = v
        ring_of[v] = 0
        begin, stop = 0, 1
        unseen = len(indices)
        for k in range(depth):
            starts[(v - first) * depth + k] = used
            if used + len(degrees) > len(values):
                values, counts = _longer(values, len(degrees)), _longer(counts, len(degrees))
            used = _append_list(queue[begin:stop], class_of, degrees, tally, values, counts, used)
            edges = 0
            for q in range(begin, stop):
                edges += indptr[queue[q] + 1] - indptr[queue[q]]
            unseen -= edges
            finished = k + 1 == depth or stop == reachable[v]
            before = stop
            if not finished:
                # Looking from the nodes outside for one inside ends early where most are inside.
                if edges > n + unseen // 4:
                    stop = _ring_from_outside(indptr, indices, ring_of, queue, stop, k)
                else:
                    stop = _ring_from_inside(indptr, indices, ring_of, queue, begin, stop, k)
            begin = before
        for q in range(stop):
            ring_of[queue[q]] = -1
    starts[-1] = used
    return starts, values[:used].copy(), counts[:used].copy()


@compiled
def _longer(array: Any, more: int) -> Any:
    longer = np.empty(2 * len(array) + more, array.dtype)
    longer[: len(array)] = array
    return longer


@compiled
def _append_list(
    ring: Any, class_of: Any, degrees: Any, tally: Any, values: Any, counts: Any, used: int
) -> int:
    """Write the list of a ring behind those that are there; ``tally`` is zero before and after."""
    start = used
    for node in ring:
        place = class_of[node]
        if tally[place] == 0:
            values[used] = place
            used += 1
        tally[place] += 1
    values[start:used].sort()
    for entry in range(start, used):
        place = values[entry]
        values[entry], counts[entry] = degrees[place], tally[place]
        tally[place] = 0
    return used


@compiled
def _ring_from_inside(
    indptr: Any, indices: Any, ring_of: Any, queue: Any, begin: int, stop: int, k: int
) -> int:
    """Queue ring k + 1: the unseen neighbours of ring k."""
    for q in range(begin, stop):
        node = queue[q]
        for e in range(indptr[node], indptr[node + 1]):
            other = indices[e]
            if ring_of[other] < 0:
                ring_of[other] = k + 1
                queue[stop] = other
                stop += 1
    return stop


@compiled
def _ring_from_outside(
    indptr: Any, indices: Any, ring_of: Any, queue: Any, stop: int, k: int
) -> int:
    """Queue ring k + 1: the unseen nodes with a neighbour in ring k."""
    for node in range(len(ring_of)):
        if ring_of[node] >= 0:
            continue
        for e in range(indptr[node], indptr[node + 1]):
            if ring_of[indices[e]] == k:
                ring_of[node] = k + 1
                queue[stop] = node
                stop += 1
                break
    return stop


@compiled
def pair_distances(
    pairs: Any,
    starts: Any,
    values: Any,
    counts: Any,
    longest: int,
    distances: Any,
    first: int,
    end: int,
) -> None:
    """Fill rows ``first`` to ``end`` of ``distances`` [pairs, depth].

    Entry k is the sum of the distances of rings 0 .. k, as long as both nodes have such rings;
    entries after that stay as they are. No list is longer than ``longest``.
    """
    depth = distances.shape[1]
    one, other = np.empty(longest), np.empty(longest)
    for p in range(first, end):
        total = 0.0
        for k in range(depth):
            a, a_end = starts[pairs[p, 0] * depth + k], starts[pairs[p, 0] * depth + k + 1]
            b, b_end = starts[pairs[p, 1] * depth + k], starts[pairs[p, 1] * depth + k + 1]
            if a == a_end or b == b_end:
                break
            total += time_warping(
                values[a:a_end], counts[a:a_end], values[b:b_end], counts[b:b_end], one, other
            )
            distances[p, k] = total


@compiled
def time_warping(
    left: Any, left_counts: Any, right: Any, right_counts: Any, row: Any, below: Any
) -> float:
    """Dynamic time warping between two lists, exact.

    No cell that already costs more than some complete path can be on the best path, so those are
    left out: what is left is a narrow band. ``row`` and ``below`` are scratch.
    """
    bound = _path_cost(left, left_counts, right, right_counts)
    total = 0.0
    low, high = 0, -1
    for j in range(len(right)):
        total += _cost(left[0], left_counts[0], right[j], right_counts[j])
        if total > bound:
            break
        row[j] = total
        high = j
    for i in range(1, len(left)):
        next_low, next_high = len(right), -1
        before = np.inf
        for j in range(low, len(right)):
            best = before
            if j <= high:
                best = min(best, row[j])
            if low < j <= high + 1:
                best = min(best, row[j - 1])
            if j > high + 1 and best == np.inf:
                break
            before = best + _cost(left[i], left_counts[i], right[j], right_counts[j])
            if before > bound:
                before = np.inf
            else:
                next_low, next_high = min(next_low, j), j
            below[j] = before
        low, high = next_low, next_high
        row, below = below, row
    return row[len(right) - 1]


@compiled
def _path_cost(left: Any, left_counts: Any, right: Any, right_counts: Any) -> float:
    """Cost of the path that always takes the cheapest step."""
    i, j = 0, 0
    total = _cost(left[0], left_counts[0], right[0], right_counts[0])
    while i + 1 < len(left) or j + 1 < len(right):
        cheapest, down, across = np.inf, False, False
        for step in range(3):  # both, down, across
            to_i, to_j = i + (step != 2), j + (step != 1)
            if to_i < len(left) and to_j < len(right):
                cost = _cost(left[to_i], left_counts[to_i], right[to_j], right_counts[to_j])
                if cost < cheapest:
                    cheapest, down, across = cost, step != 2, step != 1
        total += cheapest
        i, j = i + down, j + across
    return total


@compiled
def _cost(degree: Any, count: Any, other_degree: Any, other_count: Any) -> float:
    a, b = degree + 0.5, other_degree + 0.5
    return (max(a, b) / min(a, b) - 1.0) * max(count, other_count)
