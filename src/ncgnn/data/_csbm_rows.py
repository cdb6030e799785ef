"""From pairs of nodes to rows of neighbours, on all threads.

Pairs name nodes all over the graph. Their ends are first sorted into parts, ranges of nodes so
small that a part's rows stay in the processor's cache; then every part is one thread's own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ncgnn._compile import balanced_blocks, even_blocks, over_blocks
from ncgnn.data import _csbm_kernels as kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.signedinteger[Any]]
    Rows = tuple[NDArray[np.int64], Indices]

_PARTS_BITS = 8
_LEAST_PART_BITS = 12
_LEAST_PAIRS = 1 << 17
_TABLE_ENTRIES = 1 << 24


class Ends(NamedTuple):
    """Both ends of all pairs but those of a node with itself, sorted by part of the nodes.

    Attributes:
        nodes: Every end.
        neighbours: The other end of its pair.
        part_starts: Where each part starts, int64 [parts + 1].
    """

    nodes: Indices
    neighbours: Indices
    part_starts: NDArray[np.int64]


def sorted_ends(first: Indices, second: Indices, num_nodes: int) -> Ends:
    """Sort the ends of pairs into parts."""
    shift = max(_LEAST_PART_BITS, num_nodes.bit_length() - _PARTS_BITS)
    spans = list(pairwise(even_blocks(first.size, _LEAST_PAIRS).tolist()))
    each = np.arange(len(spans) + 1)
    counts = np.zeros((len(spans), (num_nodes >> shift) + 1), dtype=np.int64)
    over_blocks(
        each, lambda span, _: kernels.count_parts(first, second, shift, counts[span], *spans[span])
    )
    # Part by part, and within a part span by span.
    cursor = _starts(counts.T.ravel())
    part_starts = np.append(cursor[:: len(spans)][: counts.shape[1]], cursor[-1])
    cursor = np.ascontiguousarray(cursor[:-1].reshape(counts.T.shape).T)
    nodes, neighbours = np.empty((2, int(part_starts[-1])), dtype=first.dtype)
    over_blocks(
        each,
        lambda span, _: kernels.sort_into_parts(
            first, second, shift, cursor[span], nodes, neighbours, *spans[span]
        ),
    )
    return Ends(nodes, neighbours, part_starts)


def add_degrees(ends: Ends, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the number of ends at each node to ``degrees``; return where rows of that size start."""
    starts = ends.part_starts
    over_blocks(
        balanced_blocks(starts),
        lambda part, end: kernels.count_nodes(ends.nodes, degrees, starts[part], starts[end]),
    )
    return _starts(degrees)


def fill_rows(ends: Ends, cursor: NDArray[np.int64], indices: Indices) -> None:
    """Write the neighbours of every node from its place in ``cursor`` on."""
    starts = ends.part_starts
    over_blocks(
        balanced_blocks(starts),
        lambda part, end: kernels.place_neighbours(
            ends.nodes, ends.neighbours, cursor, indices, starts[part], starts[end]
        ),
    )


def sort_rows(indptr: NDArray[np.int64], indices: Indices) -> NDArray[np.int64]:
    """Sort every row, its distinct entries at the front; return how many these are."""
    distinct = np.empty(indptr.size - 1, dtype=np.int64)
    over_blocks(
        balanced_blocks(indptr),
        lambda begin, end: kernels.sort_rows(indptr, indices, distinct, begin, end),
    )
    return distinct


def copy_rows(
    rows: Rows, distinct: NDArray[np.int64], new_indptr: NDArray[np.int64], new_indices: Indices
) -> None:
    """Copy the distinct entries of every row to their new place."""
    indptr, indices = rows
    over_blocks(
        balanced_blocks(indptr),
        lambda begin, end: kernels.copy_rows(
            indptr, indices, distinct, new_indptr, new_indices, begin, end
        ),
    )


def type_pair_counts(
    rows: Rows, distinct: NDArray[np.int64], types: NDArray[np.int32], num_types: int
) -> NDArray[np.int64]:
    """Count the edges by the types of their ends, a ≤ b; int64 [T, T]."""
    indptr, indices = rows
    most = max(1, min(64, _TABLE_ENTRIES // num_types**2))
    bounds = balanced_blocks(indptr, most_blocks=most).tolist()
    tables = np.zeros((len(bounds) - 1, num_types, num_types), dtype=np.int64)
    over_blocks(
        np.arange(len(bounds)),
        lambda block, end: kernels.count_type_pairs(
            indptr, indices, distinct, types, tables[block], bounds[block], bounds[end]
        ),
    )
    return tables.sum(axis=0)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts
