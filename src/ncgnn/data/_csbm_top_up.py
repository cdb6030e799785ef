"""Drawing the edges that are still missing after duplicates and loops are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled
from ncgnn.data._csbm_kernels import has_neighbour
from ncgnn.data._csbm_random import below, uniform, word

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.signedinteger[Any]]

_FREE = -1


@compiled
def draw_missing(
    key: np.uint64,
    place_key: np.uint64,
    indptr: NDArray[np.int64],
    indices: Indices,
    distinct: NDArray[np.int64],
    members: Indices,
    type_starts: NDArray[np.int64],
    probability: NDArray[np.float64],
    capacity: NDArray[np.int64],
    present: NDArray[np.int64],
    first: Indices,
    second: Indices,
) -> None:
    """Draw edges that are new, as if draws went on and known pairs were passed over.

    All pairs between two types are equally likely, so the types of the next new edge have the
    probability p · (capacity - present) / capacity, up to a common factor, and given the types it
    is any of the absent pairs. Drawing the types first means that types whose pairs are all there
    cost nothing, however much the preferences favour them.

    Args:
        key: Key of the stream for types and pairs.
        place_key: Key of the hash function.
        indptr: Rows of the edges drawn so far.
        indices: Neighbours, of which the first ``distinct`` of each row count.
        distinct: Neighbours per row.
        members: Nodes by type.
        type_starts: Where each type starts in ``members``.
        probability: Probability of each pair of types in one draw.
        capacity: Number of pairs between two types.
        present: How many of them are edges already; kept up to date.
        first: One end of each new edge, to be filled.
        second: The other end, to be filled.
    """
    table_size = 4
    while table_size < 2 * first.size:
        table_size *= 2
    table = np.full(table_size, _FREE, dtype=np.int64)
    weights = probability * ((capacity - present) / np.maximum(capacity, 1))
    row_weights = weights.sum(axis=1)
    draw = 0
    for missing in range(first.size):
        one = _draw_index(uniform(key, draw) * row_weights.sum(), row_weights)
        other = _draw_index(uniform(key, draw + 1) * row_weights[one], weights[one])
        draw += 2
        start, size = type_starts[one], type_starts[one + 1] - type_starts[one]
        other_start, other_size = type_starts[other], type_starts[other + 1] - type_starts[other]
        while True:
            node = int(members[start + below(key, draw, size)])
            neighbour = int(members[other_start + below(key, draw + 1, other_size)])
            draw += 2
            low, high = min(node, neighbour), max(node, neighbour)
            if (
                low != high
                and not has_neighbour(indptr, indices, distinct, low, high)
                and _insert(place_key, table, low * members.size + high)
            ):
                break
        first[missing], second[missing] = low, high
        present[one, other] += 1
        free = capacity[one, other] - present[one, other]
        weights[one, other] = probability[one, other] * (free / capacity[one, other])
        row_weights[one] = weights[one].sum()


@compiled
def _draw_index(target: float, weights: NDArray[np.float64]) -> int:
    """Return the first index where the running sum passes ``target``, else the last positive."""
    chosen = 0
    passed = 0.0
    for index in range(weights.size):
        if weights[index] > 0:
            chosen = index
            passed += weights[index]
            if passed > target:
                break
    return chosen


@compiled
def _insert(place_key: np.uint64, table: NDArray[np.int64], pair: int) -> bool:
    """Put a pair into a hash table with open addressing; False if it was there already."""
    last = table.size - 1
    place = np.int64(word(place_key, pair) & np.uint64(last))
    while table[place] != _FREE:
        if table[place] == pair:
            return False
        place = (place + 1) & last
    table[place] = pair
    return True
