"""From a plan to the neighbour lists of a block-model graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import even_blocks, over_blocks
from ncgnn.data import _csbm_rows as rows_of
from ncgnn.data._csbm_kernels import draw_pairs
from ncgnn.data._csbm_random import key_of
from ncgnn.data._csbm_top_up import draw_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data._csbm_plan import Plan

    Indices = NDArray[np.signedinteger[Any]]
    Rows = tuple[NDArray[np.int64], Indices]

_LEAST_PAIRS = 1 << 15


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
    distinct = rows_of.sort_rows(indptr, indices)
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
        rows_of.type_pair_counts((indptr, indices), distinct, types, len(plan.capacity)),
        first,
        second,
    )
    return _merged((indptr, indices), distinct, first, second)


def _independent_draws(
    plan: Plan, edges: int, seed: int, types: NDArray[np.int32], members: Indices
) -> Rows:
    ends = _drawn_ends(plan, edges, seed, types, members)
    indptr = rows_of.add_degrees(ends, np.zeros(types.size, dtype=np.int64))
    indices = np.empty(int(indptr[-1]), dtype=members.dtype)
    rows_of.fill_rows(ends, indptr[:-1].copy(), indices)
    return indptr, indices


def _drawn_ends(
    plan: Plan, edges: int, seed: int, types: NDArray[np.int32], members: Indices
) -> rows_of.Ends:
    first, second = np.empty((2, edges), dtype=members.dtype)
    end_key, class_key, other_key = (key_of(stream, seed) for stream in ("end", "class", "other"))
    class_starts, cumulative = plan.class_starts, plan.cumulative
    over_blocks(
        even_blocks(edges, _LEAST_PAIRS),
        lambda begin, end: draw_pairs(
            end_key,
            class_key,
            other_key,
            types,
            members,
            class_starts,
            cumulative,
            first,
            second,
            begin,
            end,
        ),
    )
    return rows_of.sorted_ends(first, second, types.size)


def _merged(rows: Rows, distinct: NDArray[np.int64], first: Indices, second: Indices) -> Rows:
    """Close the gaps that duplicates left and add the edges drawn later."""
    ends = rows_of.sorted_ends(first, second, distinct.size)
    indptr = rows_of.add_degrees(ends, distinct.copy())
    indices = np.empty(int(indptr[-1]), dtype=first.dtype)
    rows_of.copy_rows(rows, distinct, indptr, indices)
    rows_of.fill_rows(ends, indptr[:-1] + distinct, indices)
    rows_of.sort_rows(indptr, indices)
    return indptr, indices
