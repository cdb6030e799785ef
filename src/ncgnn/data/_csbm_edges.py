"""From a plan to the neighbour lists of a block-model graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import thread_count
from ncgnn.data import _csbm_kernels as kernels
from ncgnn.data._csbm_random import key_of
from ncgnn.data._csbm_top_up import draw_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data._csbm_plan import Plan

    Indices = NDArray[np.signedinteger[Any]]
    Rows = tuple[NDArray[np.int64], Indices]


def draw_edges(
    plan: Plan, edges: int, seed: int, types: NDArray[np.int32], members: Indices
) -> Rows:
    """Draw the first ``edges`` distinct edges of an endless sequence of independent draws.

    As many draws as edges are made at once. What loops and duplicates leave missing, a small part
    in a sparse graph, is drawn one by one (:func:`draw_missing`).

    Returns:
        Row starts int64 [n + 1] and sorted neighbours, each edge in both directions.
    """
    indptr, indices = _independent_draws(plan, edges, seed, types, members)
    distinct = np.empty(types.size, dtype=np.int64)
    kernels.sort_rows(indptr, indices, distinct)
    missing = edges - int(distinct.sum()) // 2
    if not missing:
        return indptr, indices
    first, second = np.empty((2, missing), dtype=members.dtype)
    draw_missing(
        key_of("missing", seed),
        key_of("places", seed),
        indptr,
        indices,
        distinct,
        members,
        plan.type_starts,
        plan.probability,
        plan.capacity,
        _present(plan, indptr, indices, distinct, types),
        first,
        second,
    )
    return _merged(indptr, indices, distinct, first, second)


def _independent_draws(
    plan: Plan, edges: int, seed: int, types: NDArray[np.int32], members: Indices
) -> Rows:
    first = np.empty(edges, dtype=members.dtype)
    second = np.empty(edges, dtype=members.dtype)
    kernels.draw_pairs(
        key_of("end", seed),
        key_of("class", seed),
        key_of("other", seed),
        types,
        members,
        plan.class_starts,
        plan.cumulative,
        first,
        second,
    )
    bounds = _ranges(types.size)
    degrees = np.zeros(types.size, dtype=np.int64)
    kernels.count_ends(bounds, first, second, degrees)
    indptr = _starts(degrees)
    indices = np.empty(int(indptr[-1]), dtype=members.dtype)
    kernels.place_ends(bounds, first, second, indptr[:-1].copy(), indices)
    return indptr, indices


def _present(
    plan: Plan,
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    types: NDArray[np.int32],
) -> NDArray[np.int64]:
    bounds = _ranges(types.size)
    counts = np.zeros((bounds.size - 1, *plan.capacity.shape), dtype=np.int64)
    kernels.count_type_pairs(bounds, indptr, indices, distinct, types, counts)
    return counts.sum(axis=0)


def _merged(
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    first: Indices,
    second: Indices,
) -> Rows:
    """Close the gaps that duplicates left and add the edges drawn later."""
    bounds = _ranges(distinct.size)
    degrees = distinct.copy()
    kernels.count_ends(bounds, first, second, degrees)
    new_indptr = _starts(degrees)
    new_indices = np.empty(int(new_indptr[-1]), dtype=indices.dtype)
    kernels.copy_rows(indptr, indices, distinct, new_indptr, new_indices)
    kernels.place_ends(bounds, first, second, new_indptr[:-1] + distinct, new_indices)
    kernels.sort_rows(new_indptr, new_indices, degrees)
    return new_indptr, new_indices


def _ranges(nodes: int) -> NDArray[np.int64]:
    """Share the nodes among the threads."""
    return np.linspace(0, nodes, thread_count() + 1).astype(np.int64)


def _starts(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.zeros(degrees.size + 1, dtype=np.int64)
    np.cumsum(degrees, out=starts[1:])
    return starts
