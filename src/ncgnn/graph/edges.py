"""Edges in canonical form: CSR over incoming edges, merged, with what each edge carries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph.checks import to_numpy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: Bits of ``Graph.edge_directions``: the edge was given as source → target, or the other way round.
FORWARD, BACKWARD = 1, 2


@dataclass(frozen=True, eq=False)
class Edges:
    """The stored edges of a graph, rows being targets, each pair once.

    Attributes:
        indptr: Row starts, int64 [n + 1].
        indices: Sources, ascending in every row.
        weights: Weight per stored edge, or None: all one.
        directions: Bits ``FORWARD`` and ``BACKWARD`` per stored edge, or None.
        merged: How many repeated edges were merged.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    weights: NDArray[np.float32] | None = None
    directions: NDArray[np.uint8] | None = None
    merged: int = 0

    def reverse(self) -> Edges:
        """Every edge the other way round."""
        from scipy.sparse import csr_array

        size = len(self.indptr) - 1
        entries: NDArray[Any] = np.ones(len(self.indices), dtype=bool)
        if self.weights is not None or self.directions is not None:
            entries = np.arange(1, len(self.indices) + 1)
        # Scipy would make all of them as wide as the widest.
        starts = self.indptr.astype(index_type(max(size, len(entries))), copy=False)
        parts = (entries, self.indices, starts)
        turned = csr_array(parts, shape=(size, size)).T.tocsr()
        place = turned.data if turned.data.dtype == bool else turned.data - 1
        return Edges(
            turned.indptr.astype(np.int64),
            turned.indices.astype(self.indices.dtype, copy=False),
            None if self.weights is None else self.weights[place],
            None if self.directions is None else _turn(self.directions[place]),
            self.merged,
        )

    def without_loops(self) -> Edges:
        """The edges between different nodes."""
        targets = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return self.keep(self.indices != targets)

    def keep(self, kept: NDArray[np.bool_]) -> Edges:
        """Those edges that a mask names."""
        return Edges(
            np.concatenate([[0], np.cumsum(kept)])[self.indptr],
            self.indices[kept],
            None if self.weights is None else self.weights[kept],
            None if self.directions is None else self.directions[kept],
            self.merged,
        )


def merge_edges(
    targets: NDArray[Any],
    sources: NDArray[Any],
    num_nodes: int,
    weights: NDArray[Any] | None = None,
    directions: NDArray[np.uint8] | None = None,
) -> Edges:
    """Edges in any order, repeated or not; weights of repeated ones add up, directions unite."""
    from scipy.sparse import coo_array

    kind = index_type(num_nodes)
    shape = (num_nodes, num_nodes)
    if weights is None and directions is None:
        ones = np.ones(len(targets), dtype=bool)
        matrix = coo_array((ones, (targets, sources)), shape=shape).tocsr()
        indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(kind, copy=False)
        return Edges(indptr, indices, merged=len(targets) - matrix.nnz)
    order = np.lexsort((sources, targets))
    targets, sources = targets[order], sources[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (targets[1:] != targets[:-1]) | (sources[1:] != sources[:-1])
    starts = np.flatnonzero(first)
    counts = np.bincount(targets[starts], minlength=num_nodes) if len(starts) else 0
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    indptr[1:] = np.cumsum(counts) if len(starts) else 0
    if weights is not None:
        totals = weights[order].astype(np.float64)
        weights = (np.add.reduceat(totals, starts) if len(starts) else totals).astype(np.float32)
    if directions is not None:
        bits = directions[order]
        directions = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits
    merged = len(order) - len(starts)
    return Edges(indptr, sources[starts].astype(kind, copy=False), weights, directions, merged)


def insert_edges(
    edges: Edges,
    num_nodes: int,
    targets: NDArray[Any],
    sources: NDArray[Any],
    weights: NDArray[np.float32] | None = None,
    directions: NDArray[np.uint8] | None = None,
) -> Edges:
    """The same edges and some more, among the same nodes and new ones with higher numbers.

    Work grows with the number of stored edges only by copying them. An edge that is stored
    already gets the larger weight and both directions.
    """
    added = num_nodes - (len(edges.indptr) - 1)
    indptr = np.concatenate([edges.indptr, np.full(added, edges.indptr[-1])])
    if not len(targets):
        indices = edges.indices.astype(index_type(num_nodes), copy=False)
        return replace(edges, indptr=indptr, indices=indices)
    fresh = merge_edges(targets, sources, num_nodes, weights, directions)
    rows = np.repeat(np.arange(num_nodes), np.diff(fresh.indptr))
    place = _find_places(indptr, edges.indices, rows, fresh.indices)
    inside = place < indptr[rows + 1]
    known = np.zeros(len(rows), dtype=bool)
    known[inside] = edges.indices[place[inside]] == fresh.indices[inside]
    new, at = ~known, place[~known]
    counts = np.bincount(rows[new], minlength=num_nodes)
    indptr = indptr + np.concatenate([[0], np.cumsum(counts)])
    kind = index_type(num_nodes)
    indices = np.insert(edges.indices.astype(kind, copy=False), at, fresh.indices[new])
    old_weights = edges.weights
    if old_weights is None and fresh.weights is not None:
        old_weights = np.ones(len(edges.indices), dtype=np.float32)
    if old_weights is not None:
        more = fresh.weights if fresh.weights is not None else np.ones(len(rows), dtype=np.float32)
        old_weights = old_weights.copy()
        old_weights[place[known]] = np.maximum(old_weights[place[known]], more[known])
        old_weights = np.insert(old_weights, at, more[new])
    old_bits = edges.directions
    if old_bits is not None:
        if fresh.directions is None:
            raise InputError("edge_directions are missing for the new edges; give them.")
        old_bits = old_bits.copy()
        old_bits[place[known]] |= fresh.directions[known]
        old_bits = np.insert(old_bits, at, fresh.directions[new])
    merged = edges.merged + fresh.merged + int(known.sum())
    return Edges(indptr, indices, old_weights, old_bits, merged)


def _find_places(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    rows: NDArray[np.int64],
    sources: NDArray[Any],
) -> NDArray[np.int64]:
    """Where each source belongs in the ascending row of its target: all by one bisection."""
    low, high = indptr[rows], indptr[rows + 1]
    while (open_rows := low < high).any():
        middle = (low + high) // 2
        value = indices[np.minimum(middle, len(indices) - 1)] if len(indices) else middle
        right = open_rows & (value < sources)
        low = np.where(right, middle + 1, low)
        high = np.where(open_rows & ~right, middle, high)
    return low


def check_edge_weights(weights: ArrayLike, num_edges: int) -> NDArray[np.float64]:
    """Weights are positive finite numbers, one per edge."""
    found = to_numpy(weights, "edge_weights")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (num_edges,):
        raise InputError(
            f"edge_weights must hold one number per edge, [{num_edges}]; got {list(found.shape)}."
        )
    if found.dtype.kind not in "iufb":
        raise InputError(f"edge_weights must be numbers; got {found.dtype}.")
    found = found.astype(np.float64)
    # What is too small or too large for float32 becomes 0 or infinite there.
    with np.errstate(over="ignore", under="ignore"):
        stored = found.astype(np.float32)
    wrong = ~(np.isfinite(stored) & (stored > 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise InputError(
            f"edge_weights must be positive finite numbers; got {found[place]} for edge {place}; "
            "leave out edges that do not count."
        )
    return found


def check_edge_directions(directions: ArrayLike, num_edges: int) -> NDArray[np.uint8]:
    """Directions are 1, 2 or 3, one per edge."""
    found = to_numpy(directions, "edge_directions")
    if found.shape != (num_edges,) or found.dtype.kind not in "iu":
        raise InputError(
            f"edge_directions must be whole numbers [{num_edges}]; got {found.dtype} "
            f"{list(found.shape)}."
        )
    if found.size and not 1 <= int(found.min()) <= int(found.max()) <= 3:
        raise InputError("edge_directions must be 1 (forward), 2 (backward) or 3 (both).")
    return found.astype(np.uint8)


def index_type(num_nodes: int) -> type[np.int32] | type[np.int64]:
    """The smallest type that numbers all nodes."""
    return np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64


def _turn(directions: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Forward for backward, and the other way round."""
    turned = ((directions & FORWARD) << 1) | ((directions & BACKWARD) >> 1)
    return turned.astype(np.uint8)
