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
import time
import warnings
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._compile import balanced_blocks, over_blocks
from ncgnn._files import atomic_write
from ncgnn.data._fetch import cache_dir
from ncgnn.data._npz_archive import NpzArchive
from ncgnn.errors import NcgnnError, NcgnnWarning
from ncgnn.graph.sparse import ConstantSparse
from ncgnn.nn.baselines import _structural_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.nn._inputs import GraphInputs

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
        f"rings of neighbours only, instead of {wanted}; the option rings sets their number.",
        NcgnnWarning,
        stacklevel=2,
    )
    return _RINGS_OF_LARGE_GRAPHS


def _visits(nodes: int, edges: int) -> int:
    return nodes * (nodes + edges)


def structural_relations(inputs: GraphInputs, depth: int) -> tuple[ConstantSparse, ...]:
    """Relations 0 .. depth - 1 of a graph, or fewer where no pair has more rings.

    Row = target, column = source; the weights are divided by the number of edges into the target.
    Edge directions are ignored.
    """
    return inputs.kept(("structural relations", depth), lambda: _made_relations(inputs, depth))


def _made_relations(inputs: GraphInputs, depth: int) -> tuple[ConstantSparse, ...]:
    pattern = inputs.undirected_adjacency.pattern
    indptr, indices = pattern.crow.cpu().numpy(), pattern.col.cpu().numpy()
    chosen = chosen_nodes(indptr)
    pairs, pair_of = unique_pairs(chosen)
    distances = _kept_distances(indptr, indices, pairs, depth)
    entries = relation_entries(chosen, distances[pair_of])
    shape = (inputs.num_nodes, inputs.num_nodes)
    found: list[ConstantSparse] = []
    for starts, columns, weights in entries:
        same = found and found[-1].nnz == len(columns)  # pairs only ever drop out
        if same:
            values = torch.from_numpy(weights).to(found[-1].device).to(inputs.dtype)
            found.append(ConstantSparse(found[-1].pattern, values))
        else:
            relation = ConstantSparse.from_csr(starts, columns, weights, shape=shape)
            found.append(relation.to(inputs.device).to(inputs.dtype))
    return tuple(found)


def chosen_nodes(indptr: Ints) -> Ints:
    """The nodes that each is compared with, [n, min(⌊2·log₂ n⌋ + 1, n - 1)]."""
    n = len(indptr) - 1
    degrees, class_of = np.unique(np.diff(indptr), return_inverse=True)
    members = np.argsort(class_of, kind="stable")
    class_starts = np.searchsorted(class_of[members], np.arange(len(degrees) + 1))
    chosen = np.empty((n, min(math.floor(2 * math.log2(n)) + 1, n - 1)), dtype=np.int64)
    kernels.nearest_in_degree(class_of, degrees, class_starts, members, chosen)
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
    starts, values, counts = _all_lists(indptr, indices, depth, progress)
    lengths = np.diff(starts).reshape(-1, depth)
    work = (lengths[pairs[:, 0]] + lengths[pairs[:, 1]]).sum(axis=1)
    longest = int(lengths.max())
    distances = np.full((len(pairs), depth), np.nan)

    def compare(first: int, end: int) -> None:
        kernels.pair_distances(pairs, starts, values, counts, longest, distances, first, end)
        progress.advance(0.5 * (end - first) / len(pairs))

    over_blocks(_blocks(work), compare)
    return distances


def _all_lists(
    indptr: Ints, indices: Ints, depth: int, progress: _Progress
) -> tuple[Ints, Ints, Ints]:
    """Row n·depth + k says where the list of ring k of node n starts in the two arrays."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n = len(indptr) - 1
    matrix = csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(n, n))
    component: Ints = connected_components(matrix, directed=False)[1]
    reachable = np.bincount(component)[component]
    degrees, class_of = np.unique(np.diff(indptr), return_inverse=True)
    parts: dict[int, tuple[Ints, Ints, Ints]] = {}

    def search(first: int, end: int) -> None:
        graph = (indptr, indices, class_of, degrees, reachable)
        parts[first] = kernels.ring_lists(*graph, depth, first, end)
        progress.advance(0.5 * (end - first) / n)

    over_blocks(_blocks(reachable), search)
    ordered = [parts[first] for first in sorted(parts)]
    lengths = np.concatenate([np.diff(starts) for starts, _, _ in ordered])
    values, counts = (np.concatenate([part[i] for part in ordered]) for i in (1, 2))
    return np.concatenate([[0], np.cumsum(lengths)]), values, counts


def _blocks(work: Ints) -> Ints:
    before = np.concatenate([[0], np.cumsum(work)]).astype(np.int64)
    return balanced_blocks(before, least_work=1 << 14, most_blocks=256)


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
        yield _weighted(rows[there], columns[there], distance[there], n)


def _weighted(rows: Ints, columns: Ints, distance: Floats, n: int) -> tuple[Ints, Ints, Floats]:
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


def _kept_distances(indptr: Ints, indices: Ints, pairs: Ints, depth: int) -> Floats:
    """The distances from the cache, or made and put there."""
    if _visits(len(indptr) - 1, len(indices)) < _WORTH_KEEPING:
        return ring_distances(indptr, indices, pairs, depth)
    place = cache_dir() / "structural" / f"{_digest(indptr, indices, pairs)}-{depth}.npz"
    known = _read(place, (len(pairs), depth))
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


def _read(place: Path, shape: tuple[int, int]) -> Floats | None:
    """What a file of the cache holds; None where it is missing or damaged."""
    try:
        with NpzArchive(place) as archive:
            distances = archive.array("distances")
    except (NcgnnError, OSError):
        return None
    return distances if distances.shape == shape and distances.dtype == np.float64 else None


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
            self._print(line + self._kept)
            self._kept = ""

    def _print(self, line: str) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)
