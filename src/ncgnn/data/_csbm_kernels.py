"""Compiled loops that turn random pairs into sorted neighbour lists.

Every loop takes a range ``begin`` … ``end - 1`` of pairs, rows or parts, and no two ranges write
to the same place: ranges may run at the same time, and their number does not show in the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled
from ncgnn.data._csbm_random import below, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.signedinteger[Any]]


@compiled
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
    begin: int,
    end: int,
) -> None:
    """Draw one end, the class of its neighbour, and the neighbour; both may be the same node."""
    for pair in range(begin, end):
        one = below(end_key, pair, types.size)
        chance = uniform(class_key, pair)
        wanted = np.searchsorted(cumulative[types[one]], chance, side="right")
        start = class_starts[wanted]
        first[pair] = one
        second[pair] = members[start + below(other_key, pair, class_starts[wanted + 1] - start)]


@compiled
def count_parts(
    first: Indices, second: Indices, shift: int, counts: NDArray[np.int64], begin: int, end: int
) -> None:
    """Count the ends of the pairs in each part, pairs of a node with itself left out.

    Part p holds the nodes whose number without its last ``shift`` bits is p.
    """
    for pair in range(begin, end):
        one, other = first[pair], second[pair]
        if one != other:
            counts[one >> shift] += 1
            counts[other >> shift] += 1


@compiled
def sort_into_parts(
    first: Indices,
    second: Indices,
    shift: int,
    cursor: NDArray[np.int64],
    nodes: Indices,
    neighbours: Indices,
    begin: int,
    end: int,
) -> None:
    """Write each end and its opposite to the place of its part, from ``cursor[part]`` on."""
    for pair in range(begin, end):
        one, other = first[pair], second[pair]
        if one != other:
            place = cursor[one >> shift]
            nodes[place], neighbours[place] = one, other
            cursor[one >> shift] += 1
            place = cursor[other >> shift]
            nodes[place], neighbours[place] = other, one
            cursor[other >> shift] += 1


@compiled
def count_nodes(nodes: Indices, degrees: NDArray[np.int64], begin: int, end: int) -> None:
    """Count how often each node is named at the places ``begin`` … ``end - 1``."""
    for place in range(begin, end):
        degrees[nodes[place]] += 1


@compiled
def place_neighbours(
    nodes: Indices,
    neighbours: Indices,
    cursor: NDArray[np.int64],
    indices: Indices,
    begin: int,
    end: int,
) -> None:
    """Write each neighbour into the row of its node, from ``cursor[node]`` on."""
    for place in range(begin, end):
        node = nodes[place]
        indices[cursor[node]] = neighbours[place]
        cursor[node] += 1


@compiled
def sort_rows(
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    begin: int,
    end: int,
) -> None:
    """Sort every row and move its distinct entries, counted in ``distinct``, to the front."""
    for row in range(begin, end):
        entries = indices[indptr[row] : indptr[row + 1]]
        entries.sort()
        kept = 0
        for position in range(entries.size):
            if kept == 0 or entries[position] != entries[kept - 1]:
                entries[kept] = entries[position]
                kept += 1
        distinct[row] = kept


@compiled
def count_type_pairs(
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    types: NDArray[np.int32],
    counts: NDArray[np.int64],
    begin: int,
    end: int,
) -> None:
    """Count the edges by the types of their ends, a ≤ b."""
    for row in range(begin, end):
        for position in range(indptr[row], indptr[row] + distinct[row]):
            other = indices[position]
            if row < other:
                low = min(types[row], types[other])
                counts[low, max(types[row], types[other])] += 1


@compiled
def copy_rows(
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    new_indptr: NDArray[np.int64],
    new_indices: Indices,
    begin: int,
    end: int,
) -> None:
    """Copy the front of every row to its new place."""
    for row in range(begin, end):
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
