"""The multigraph of nodes whose surroundings look alike, which WRGAT works on.

A variant of struc2vec (arXiv:1704.03165). Every node is compared with about 2·log₂ n others of
nearly the same degree. Ring k of a node is the ascending list of the degrees of the nodes at
distance k, each with its count. The distance f_k of two rings is that of dynamic time warping with

    cost((a, s), (b, t)) = ((max(a, b) + ½) / (min(a, b) + ½) - 1) · max(s, t),

and D_k = f_0 + … + f_k, as far as both nodes have rings. Relation k joins the pairs that have D_k,
in both directions, and twice where each node chose the other; the edge from j to i weighs
exp(-D_k) divided by the sum of that over all edges from j.

Nothing here depends on features, labels or splits, nor on the number of threads. What takes long is
kept in the cache folder.
"""

from __future__ import annotations

import hashlib
import math
import sys
import time
import warnings
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ncgnn._io import atomic_write
from ncgnn._numba import balanced_blocks, compiled, over_blocks
from ncgnn.data import NpzArchive, cache_dir
from ncgnn.errors import NcgnnError, NcgnnWarning
from ncgnn.sparse import ConstantSparse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.nn.inputs import GraphInputs

    Ints = NDArray[Any]
    Floats = NDArray[np.float64]

# Searching visits up to n·(n + m) nodes and edges. A thousand million take some ten seconds, with
# the comparison that follows; what is much less is not kept, and 10¹² are too many.
_WORTH_KEEPING, _TOO_MANY = 10**8, 10**12
_RINGS, _RINGS_OF_LARGE_GRAPHS = 10, 3
_QUIET_SECONDS, _SECONDS_BETWEEN_LINES = 4.0, 15.0


def ring_limit(inputs: GraphInputs, rings: int | None, relations: int) -> int:
    """How many rings are compared, one per relation at most.

    Args:
        inputs: The graph.
        rings: The most that are allowed; None = as many as the graph's size allows.
        relations: How many are wanted.
    """
    if rings is not None:
        return min(rings, relations)
    wanted = min(_RINGS, relations)
    many = _visits(inputs.num_nodes, inputs.undirected_adjacency.nnz) > _TOO_MANY
    if not many or wanted <= _RINGS_OF_LARGE_GRAPHS:
        return wanted
    warnings.warn(
        f"the graph '{inputs.graph.name}' is so large that WRGAT compares {_RINGS_OF_LARGE_GRAPHS} "
        f"rings of neighbors only, instead of {wanted}; the option rings sets their number.",
        NcgnnWarning,
        stacklevel=2,
    )
    return _RINGS_OF_LARGE_GRAPHS


def _visits(nodes: int, edges: int) -> int:
    return nodes * (nodes + edges)


def structural_relations(inputs: GraphInputs, depth: int) -> tuple[ConstantSparse, ...]:
    """Relations 0 .. depth - 1 of a graph, or fewer where no pair has more rings; made once.

    Row = target, column = source; the weights are divided by the number of edges into the target.
    Edge directions are ignored.
    """
    return inputs.kept(("structural relations", depth), lambda: _build_relations(inputs, depth))


def _build_relations(inputs: GraphInputs, depth: int) -> tuple[ConstantSparse, ...]:
    pattern = inputs.undirected_adjacency.pattern
    indptr, indices = pattern.crow.cpu().numpy(), pattern.col.cpu().numpy()
    chosen = choose_nodes(indptr)
    pairs, pair_of = unique_pairs(chosen)
    distances = _load_distances(indptr, indices, pairs, depth)
    found: list[ConstantSparse] = []
    for starts, columns, weights in relation_entries(chosen, distances[pair_of]):
        if found and found[-1].nnz == len(columns):  # the same pairs, as they only ever drop out
            values = torch.from_numpy(weights).to(found[-1].device).to(inputs.dtype)
            found.append(ConstantSparse(found[-1].pattern, values))
        else:
            shape = (inputs.num_nodes, inputs.num_nodes)
            relation = ConstantSparse.from_csr(starts, columns, weights, shape=shape)
            found.append(relation.to(inputs.device).to(inputs.dtype))
    return tuple(found)


def choose_nodes(indptr: Ints) -> Ints:
    """The nodes that each is compared with, [n, min(⌊2·log₂ n⌋ + 1, n - 1)]."""
    n = len(indptr) - 1
    degrees, class_of = np.unique(np.diff(indptr), return_inverse=True)
    members = np.argsort(class_of, kind="stable")
    class_starts = np.searchsorted(class_of[members], np.arange(len(degrees) + 1))
    chosen = np.empty((n, min(math.floor(2 * math.log2(n)) + 1, n - 1)), dtype=np.int64)
    nearest_in_degree(class_of, degrees, class_starts, members, chosen)
    return chosen


def unique_pairs(chosen: Ints) -> tuple[Ints, Ints]:
    """The pairs (lower node, higher node) that occur, and which of them each choice is."""
    n, wanted = chosen.shape
    node = np.repeat(np.arange(n), wanted)
    other = chosen.reshape(-1)
    keys, pair_of = np.unique(
        np.minimum(node, other) * n + np.maximum(node, other), return_inverse=True
    )
    return np.stack([keys // n, keys % n], axis=1), pair_of


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


def _load_distances(indptr: Ints, indices: Ints, pairs: Ints, depth: int) -> Floats:
    """The distances of pairs from the cache, or else computed and put there."""
    if _visits(len(indptr) - 1, len(indices)) < _WORTH_KEEPING:
        return ring_distances(indptr, indices, pairs, depth)
    place = cache_dir() / "structural" / f"{_digest(indptr, indices, pairs)}-{depth}.npz"
    known = _read_distances(place, (len(pairs), depth))
    if known is not None:
        return known
    distances = ring_distances(indptr, indices, pairs, depth, place=place)
    try:
        with atomic_write(place) as stream:
            np.savez(stream, distances=distances)
    except OSError as error:
        warnings.warn(
            f"WRGAT: distances of nodes cannot be kept in {place.parent} ({error}); every run will "
            "compute them again.",
            NcgnnWarning,
            stacklevel=2,
        )
    return distances


def _digest(*parts: Ints) -> str:
    digest = hashlib.sha256(b"ncgnn structural distances 2\n")
    for part in parts:
        digest.update(f"{part.shape}\n".encode())
        digest.update(part.astype("<i8").data)
    return digest.hexdigest()


def _read_distances(place: Path, shape: tuple[int, int]) -> Floats | None:
    """What a file of the cache holds; None where it is missing or damaged."""
    try:
        with NpzArchive(place) as archive:
            distances = archive.array("distances")
    except (NcgnnError, OSError):
        return None
    return distances if distances.shape == shape and distances.dtype == np.float64 else None


def ring_distances(
    indptr: Ints, indices: Ints, pairs: Ints, depth: int, *, place: Path | None = None
) -> Floats:
    """D_0 .. D_(depth - 1) of every pair, [pairs, depth], NaN where there is none.

    Args:
        indptr: Row starts of a symmetric adjacency without self-loops.
        indices: Its columns.
        pairs: Pairs of nodes [p, 2].
        depth: Number of rings, the node itself being the first.
        place: Where the result will be kept, for the lines that tell of the progress.
    """
    if not len(pairs):
        return np.empty((0, depth))
    progress = _Progress(f"comparing {len(pairs)} pairs of nodes", place)
    starts, values, counts = _find_lists(indptr, indices, depth, progress)
    lengths = np.diff(starts).reshape(-1, depth)
    work = (lengths[pairs[:, 0]] + lengths[pairs[:, 1]]).sum(axis=1)
    longest = int(lengths.max())
    distances = np.full((len(pairs), depth), np.nan)

    def compare(first: int, end: int) -> None:
        pair_distances(pairs, starts, values, counts, longest, distances, first, end)
        progress.advance(0.5 * (end - first) / len(pairs))

    over_blocks(_blocks(work), compare)
    return distances


def _find_lists(
    indptr: Ints, indices: Ints, depth: int, progress: _Progress
) -> tuple[Ints, Ints, Ints]:
    """Where each list starts, that of node v and ring k at v·depth + k; all degrees; all counts."""
    n = len(indptr) - 1
    matrix = csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(n, n))
    component: Ints = connected_components(matrix, directed=False)[1]
    reachable = np.bincount(component)[component]
    degrees, class_of = np.unique(np.diff(indptr), return_inverse=True)
    parts: dict[int, tuple[Ints, Ints, Ints]] = {}

    def search(first: int, end: int) -> None:
        graph = (indptr, indices, class_of, degrees, reachable)
        parts[first] = ring_lists(*graph, depth, first, end)
        progress.advance(0.5 * (end - first) / n)

    over_blocks(_blocks(reachable), search)
    ordered = [parts[first] for first in sorted(parts)]
    lengths = np.concatenate([np.diff(starts) for starts, _, _ in ordered])
    values, counts = (np.concatenate([part[i] for part in ordered]) for i in (1, 2))
    return np.concatenate([[0], np.cumsum(lengths)]), values, counts


def _blocks(work: Ints) -> Ints:
    before = np.concatenate([[0], np.cumsum(work)]).astype(np.int64)
    return balanced_blocks(before, least_work=1 << 14, most_blocks=256)


class _Progress:
    """Lines on standard error, once some work takes long; a bar would fight with that of a run."""

    def __init__(self, what: str, place: Path | None) -> None:
        self._lock = Lock()
        self._what = what
        self._kept = "" if place is None else f"; done once, then kept in {place.parent}"
        self._begin = time.monotonic()
        self._next = self._begin + _QUIET_SECONDS
        self._done = 0.0

    def advance(self, share: float) -> None:
        """Some share of the work is done."""
        with self._lock:
            self._done += share
            now = time.monotonic()
            if now < self._next or self._done > 0.999:
                return
            self._next = now + _SECONDS_BETWEEN_LINES
            line = f"WRGAT: {self._what}, {self._done:.0%} after {now - self._begin:.0f} s"
            print(line + self._kept, file=sys.stderr, flush=True)
            self._kept = ""


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
    """Queue ring k + 1: the unseen neighbors of ring k."""
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
    """Queue ring k + 1: the unseen nodes with a neighbor in ring k."""
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


def relation_entries(chosen: Ints, distances: Floats) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Row starts, columns and weights of every relation that has edges, one after another.

    Args:
        chosen: The nodes that each is compared with, [n, wanted].
        distances: D_k of each choice, [n·wanted, depth], NaN where there is none.
    """
    n, wanted = chosen.shape
    node, other = np.repeat(np.arange(n), wanted), chosen.reshape(-1)
    rows, columns = np.concatenate([node, other]), np.concatenate([other, node])
    order = np.lexsort((columns, rows))
    rows, columns, choice = rows[order], columns[order], order % len(node)
    for k in range(distances.shape[1]):
        distance = distances[choice, k]
        there = ~np.isnan(distance)
        if not there.any():
            break
        yield _weigh(rows[there], columns[there], distance[there], n)


def _weigh(rows: Ints, columns: Ints, distance: Floats, n: int) -> tuple[Ints, Ints, Floats]:
    """exp(-D) over its sum at the source, divided by the number of edges into the target.

    The least distance of a source is taken off all of them first, which changes nothing but saves
    the sum from becoming zero.
    """
    counts = np.bincount(rows, minlength=n)
    starts = np.concatenate([[0], np.cumsum(counts)])
    filled = np.flatnonzero(counts)
    least, total = np.zeros(n), np.zeros(n)
    # Edges go in both directions, so the edges into a node have the distances of those from it.
    least[filled] = np.minimum.reduceat(distance, starts[filled])
    total[filled] = np.add.reduceat(np.exp(least[rows] - distance), starts[filled])
    weights = np.exp(least[columns] - distance) / total[columns]
    return starts, columns, weights / counts[rows]
