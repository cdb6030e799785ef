"""Compiled loops that turn random pairs into sorted neighbour lists.

Loops over ``bounds`` share the nodes among threads by ranges, and each thread looks at all pairs:
no two threads write to one row, and the result is the same for any number of ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled, parallel, prange
from ncgnn.data._csbm_random import below, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.signedinteger[Any]]


@parallel
def draw_pairs(
    end_key: np.uint64,
    class_key: np.uint64,
    other_key: np.uint64,
    types: NDArray[np.int32],
    members: Indices,
    class_starts: NDArray[np.int64],
    cumulative: NDArray[np.float64],
    first: Indices,
    second: Indices,
) -> None:
    """Draw one end, the class of its neighbour, and the neighbour; both may be the same node."""
    for pair in prange(first.size):
        end = below(end_key, pair, types.size)
        chance = uniform(class_key, pair)
        wanted = np.searchsorted(cumulative[types[end]], chance, side="right")
        start = class_starts[wanted]
        first[pair] = end
        second[pair] = members[start + below(other_key, pair, class_starts[wanted + 1] - start)]


@parallel
def count_ends(
    bounds: NDArray[np.int64], first: Indices, second: Indices, degrees: NDArray[np.int64]
) -> None:
    """Count the ends of the pairs at each node, pairs of a node with itself left out."""
    for part in prange(bounds.size - 1):
        low, high = bounds[part], bounds[part + 1]
        for pair in range(first.size):
            one, other = first[pair], second[pair]
            if one != other:
                if low <= one < high:
                    degrees[one] += 1
                if low <= other < high:
                    degrees[other] += 1


@parallel
def place_ends(
    bounds: NDArray[np.int64],
    first: Indices,
    second: Indices,
    cursor: NDArray[np.int64],
    indices: Indices,
) -> None:
    """Write each end of the pairs into the row of the other, from ``cursor`` on."""
    for part in prange(bounds.size - 1):
        low, high = bounds[part], bounds[part + 1]
        for pair in range(first.size):
            one, other = first[pair], second[pair]
            if one != other:
                if low <= one < high:
                    indices[cursor[one]] = other
                    cursor[one] += 1
                if low <= other < high:
                    indices[cursor[other]] = one
                    cursor[other] += 1


@parallel
def sort_rows(indptr: NDArray[np.int64], indices: Indices, distinct: NDArray[np.int64]) -> None:
    """Sort every row and move its distinct entries, counted in ``distinct``, to the front."""
    for row in prange(indptr.size - 1):
        entries = indices[indptr[row] : indptr[row + 1]]
        entries.sort()
        kept = 0
        for position in range(entries.size):
            if kept == 0 or entries[position] != entries[kept - 1]:
                entries[kept] = entries[position]
                kept += 1
        distinct[row] = kept


@parallel
def count_type_pairs(
    bounds: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    types: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Count the edges by the types of their ends, a ≤ b; ``counts`` has one table per range."""
    for part in prange(bounds.size - 1):
        for row in range(bounds[part], bounds[part + 1]):
            for position in range(indptr[row], indptr[row] + distinct[row]):
                other = indices[position]
                if row < other:
                    low = min(types[row], types[other])
                    counts[part, low, max(types[row], types[other])] += 1


@parallel
def copy_rows(
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    new_indptr: NDArray[np.int64],
    new_indices: Indices,
) -> None:
    """Copy the front of every row to its new place."""
    for row in prange(indptr.size - 1):
        old, new = indptr[row], new_indptr[row]
        for position in range(distinct[row]):
            new_indices[new + position] = indices[old + position]


@compiled
def has_neighbour(
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    row: int,
    node: int,
) -> bool:
    """Search the sorted front of a row."""
    entries = indices[indptr[row] : indptr[row] + distinct[row]]
    position = np.searchsorted(entries, node)
    return bool(position < entries.size and entries[position] == node)
