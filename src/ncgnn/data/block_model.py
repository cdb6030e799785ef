"""Random graphs whose homophily is known: a contextual stochastic block model.

Random numbers that depend on nothing but a key and an index, for compiled loops.

Number i of a stream does not depend on the numbers drawn before it, so a loop gives the same
result however its iterations are shared among threads.

Compiled loops that turn random pairs into sorted neighbour lists.

Every loop takes a range ``begin`` … ``end - 1`` of pairs, rows or parts, and no two ranges write
to the same place: ranges may run at the same time, and their number does not show in the result.

From pairs of nodes to rows of neighbours, on all threads.

Pairs name nodes all over the graph. Their ends are first sorted into parts, ranges of nodes so
small that a part's rows stay in the processor's cache; then every part is one thread's own.

Drawing the edges that are still missing after duplicates and loops are gone.

From a plan to the neighbour lists of a block-model graph.

What a block-model graph is asked to be: checked, and worked out per type of node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from operator import index as whole_index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ncgnn._numba import balanced_blocks, compiled, even_blocks, over_blocks
from ncgnn.data.splits.families import allocate, apportion, checked_shares, stream_key
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


def key_of(stream: str, seed: int) -> np.uint64:
    """Return the 64-bit key of a named stream."""
    return np.uint64(stream_key(f"csbm/{stream}", seed) & 0xFFFFFFFFFFFFFFFF)


@compiled
def word(key: np.uint64, index: int) -> np.uint64:
    """Return 64 random bits: output ``index`` of the generator SplitMix64 started at ``key``.

    G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA
    2014), with the constants of S. Vigna's reference implementation.
    """
    mixed = key + (np.uint64(index) + np.uint64(1)) * _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


@compiled
def uniform(key: np.uint64, index: int) -> float:
    """Return a multiple of 2⁻⁵³ in [0, 1)."""
    return float(word(key, index) >> np.uint64(11)) * _UNIT


@compiled
def below(key: np.uint64, index: int, bound: int) -> int:
    """Return an integer in 0 … ``bound`` - 1; its bias is of the order of bound / 2⁵³."""
    return int(uniform(key, index) * bound)


@compiled
def normal(key: np.uint64, index: int) -> float:
    """Return a standard normal number by the method of Box and Muller.

    √(-2 ln u₁) · cos(2π u₂) with u₁ in (0, 1] and u₂ in [0, 1).
    """
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, 2 * index)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * index + 1))


@compiled
def permutation(key: np.uint64, order: NDArray[np.signedinteger[Any]]) -> None:
    """Fill ``order`` with 0 … n - 1 in random order (the shuffle of Fisher and Yates)."""
    for position in range(order.size):
        other = below(key, position, position + 1)
        order[position] = order[other]
        order[other] = position


@compiled
def unit_rows(key: np.uint64, rows: NDArray[np.float64]) -> None:
    """Fill each row with a point drawn uniformly from the unit sphere."""
    for row in range(rows.shape[0]):
        square = 0.0
        for column in range(rows.shape[1]):
            rows[row, column] = normal(key, row * rows.shape[1] + column)
            square += rows[row, column] ** 2
        rows[row] /= math.sqrt(square)


@compiled
def noisy_rows(
    key: np.uint64,
    labels: NDArray[np.int64],
    means: NDArray[np.float64],
    rows: NDArray[np.float32],
    begin: int,
    end: int,
) -> None:
    """Fill row i, begin ≤ i < end, with the mean of its class plus standard normal noise."""
    for row in range(begin, end):
        for column in range(rows.shape[1]):
            noise = normal(key, row * rows.shape[1] + column)
            rows[row, column] = means[labels[row], column] + noise


if TYPE_CHECKING:
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


if TYPE_CHECKING:
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
    over_blocks(each, lambda span, _: count_parts(first, second, shift, counts[span], *spans[span]))
    # Part by part, and within a part span by span.
    cursor = _starts(counts.T.ravel())
    part_starts = np.append(cursor[:: len(spans)][: counts.shape[1]], cursor[-1])
    cursor = np.ascontiguousarray(cursor[:-1].reshape(counts.T.shape).T)
    nodes, neighbours = np.empty((2, int(part_starts[-1])), dtype=first.dtype)
    over_blocks(
        each,
        lambda span, _: sort_into_parts(
            first, second, shift, cursor[span], nodes, neighbours, *spans[span]
        ),
    )
    return Ends(nodes, neighbours, part_starts)


def add_degrees(ends: Ends, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the number of ends at each node to ``degrees``; return where rows of that size start."""
    starts = ends.part_starts
    over_blocks(
        balanced_blocks(starts),
        lambda part, end: count_nodes(ends.nodes, degrees, starts[part], starts[end]),
    )
    return _starts(degrees)


def fill_rows(ends: Ends, cursor: NDArray[np.int64], indices: Indices) -> None:
    """Write the neighbours of every node from its place in ``cursor`` on."""
    starts = ends.part_starts
    over_blocks(
        balanced_blocks(starts),
        lambda part, end: place_neighbours(
            ends.nodes, ends.neighbours, cursor, indices, starts[part], starts[end]
        ),
    )


def sort_rows_csbm_rows(indptr: NDArray[np.int64], indices: Indices) -> NDArray[np.int64]:
    """Sort every row, its distinct entries at the front; return how many these are."""
    distinct = np.empty(indptr.size - 1, dtype=np.int64)
    over_blocks(
        balanced_blocks(indptr),
        lambda begin, end: sort_rows(indptr, indices, distinct, begin, end),
    )
    return distinct


def copy_rows_csbm_rows(
    rows: Rows, distinct: NDArray[np.int64], new_indptr: NDArray[np.int64], new_indices: Indices
) -> None:
    """Copy the distinct entries of every row to their new place."""
    indptr, indices = rows
    over_blocks(
        balanced_blocks(indptr),
        lambda begin, end: copy_rows(
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
        lambda block, end: count_type_pairs(
            indptr, indices, distinct, types, tables[block], bounds[block], bounds[end]
        ),
    )
    return tables.sum(axis=0)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


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


_LEAST_PAIRS_csbm_edges = 1 << 15


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
    distinct = sort_rows_csbm_rows(indptr, indices)
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
        type_pair_counts((indptr, indices), distinct, types, len(plan.capacity)),
        first,
        second,
    )
    return _merged((indptr, indices), distinct, first, second)


def _independent_draws(
    plan: Plan, edges: int, seed: int, types: NDArray[np.int32], members: Indices
) -> Rows:
    ends = _drawn_ends(plan, edges, seed, types, members)
    indptr = add_degrees(ends, np.zeros(types.size, dtype=np.int64))
    indices = np.empty(int(indptr[-1]), dtype=members.dtype)
    fill_rows(ends, indptr[:-1].copy(), indices)
    return indptr, indices


def _drawn_ends(
    plan: Plan, edges: int, seed: int, types: NDArray[np.int32], members: Indices
) -> Ends:
    first, second = np.empty((2, edges), dtype=members.dtype)
    end_key, class_key, other_key = (key_of(stream, seed) for stream in ("end", "class", "other"))
    class_starts, cumulative = plan.class_starts, plan.cumulative
    over_blocks(
        even_blocks(edges, _LEAST_PAIRS_csbm_edges),
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
    return sorted_ends(first, second, types.size)


def _merged(rows: Rows, distinct: NDArray[np.int64], first: Indices, second: Indices) -> Rows:
    """Close the gaps that duplicates left and add the edges drawn later."""
    ends = sorted_ends(first, second, distinct.size)
    indptr = add_degrees(ends, distinct.copy())
    indices = np.empty(int(indptr[-1]), dtype=first.dtype)
    copy_rows_csbm_rows(rows, distinct, indptr, indices)
    fill_rows(ends, indptr[:-1] + distinct, indices)
    sort_rows_csbm_rows(indptr, indices)
    return indptr, indices


@dataclass(frozen=True, eq=False)
class Plan:
    """The law of the edges. A node's type is its class and group: class · G + group.

    Attributes:
        classes: Number of classes C.
        groups: Number of groups G.
        type_starts: Node positions by type, int64 [T + 1]: a class is a run of types.
        cumulative: Row t holds, for each class, the probability that a node of type t draws its
            neighbour from that class or an earlier one, float64 [T, C].
        probability: Entry (a, b), a ≤ b: probability that one draw ties two different nodes of
            types a and b, float64 [T, T].
        capacity: Entry (a, b), a ≤ b: how many such pairs there are, int64 [T, T].
    """

    classes: int
    groups: int
    type_starts: NDArray[np.int64]
    cumulative: NDArray[np.float64]
    probability: NDArray[np.float64]
    capacity: NDArray[np.int64]

    @property
    def class_starts(self) -> NDArray[np.int64]:
        """Node positions by class, int64 [C + 1]."""
        return self.type_starts[:: self.groups].copy()

    @property
    def reachable_pairs(self) -> int:
        """How many different edges the draws can ever produce."""
        return int(self.capacity[self.probability > 0].sum())


def make_plan(
    nodes: int,
    classes: int,
    groups: Sequence[tuple[float, float | ArrayLike]],
    class_shares: Sequence[float] | None,
) -> Plan:
    """Work out sizes and probabilities.

    Raises:
        InputError: Shares or preferences that make no sense, or a class that is wanted as a
            neighbour but has no node.
    """
    if nodes < 1 or classes < 1:
        raise InputError(f"nodes and classes must be ≥ 1, but they are {nodes} and {classes}.")
    if not groups:
        raise InputError("groups must name at least one (share, homophily).")
    group_shares = checked_shares([share for share, _ in groups], "shares of the groups")
    shares = np.full(classes, 1 / classes)
    if class_shares is not None:
        shares = checked_shares(class_shares, "class_shares")
        if shares.size != classes:
            raise InputError(f"class_shares has {shares.size} entries for {classes} classes.")
    counts = apportion(nodes, shares)
    no_minimum = np.zeros((classes, len(groups)), dtype=np.int64)
    sizes = allocate(counts, group_shares, no_minimum)
    # Type class · G + group prefers what its group prefers.
    preferences = np.stack([preference_matrix(wish, classes) for _, wish in groups], axis=1)
    preferences = preferences.reshape(-1, classes)
    _check_wanted_classes(preferences[sizes.ravel() > 0], counts)
    return Plan(
        classes=classes,
        groups=len(groups),
        type_starts=np.concatenate([[0], np.cumsum(sizes)]),
        cumulative=_cumulative(preferences),
        probability=_pair_probability(sizes, counts, preferences),
        capacity=_pair_capacity(sizes.ravel()),
    )


def preference_matrix(wish: float | ArrayLike, classes: int) -> NDArray[np.float64]:
    """Return P [C, C]: row c says from which class a node of class c draws its neighbours.

    A number h puts h on the diagonal and (1 - h) / (C - 1) elsewhere; a matrix stands for itself.
    """
    matrix = np.array(wish, dtype=np.float64)
    if matrix.ndim == 0:
        homophily = float(matrix)
        if not 0 <= homophily <= 1:
            raise InputError(f"homophily must be within 0 … 1, but it is {homophily}.")
        if classes == 1 and homophily != 1:
            raise InputError("with one class, homophily can only be 1.")
        matrix = np.full((classes, classes), (1 - homophily) / max(classes - 1, 1))
        np.fill_diagonal(matrix, homophily)
    if matrix.shape != (classes, classes):
        raise InputError(
            f"a homophily matrix must have shape ({classes}, {classes}), not {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InputError("a homophily matrix must be finite and without negative entries.")
    sums = matrix.sum(axis=1, keepdims=True)
    if (np.abs(sums - 1) > 1e-9).any():
        raise InputError(f"rows of a homophily matrix must sum to 1, not {sums.ravel().tolist()}.")
    # Smaller ones would vanish in products with them.
    matrix[matrix < 1e-30] = 0.0
    return matrix / sums


def _check_wanted_classes(preferences: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
    wanted_but_empty = np.flatnonzero((preferences > 0).any(axis=0) & (counts == 0))
    if wanted_but_empty.size:
        raise InputError(
            f"class {wanted_but_empty[0]} is wanted as a neighbour but has no node; "
            "ask for more nodes, fewer classes or other class_shares."
        )


def _cumulative(preferences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum up each row so that the first entry above a uniform number names the class drawn."""
    cumulative = np.cumsum(preferences, axis=1)
    # Rounding must not leave room above the last class that can be drawn.
    cumulative[cumulative >= cumulative[:, -1:]] = 1.0
    return cumulative


def _pair_probability(
    sizes: NDArray[np.int64], counts: NDArray[np.int64], preferences: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Probability that a draw ties two different nodes of types a ≤ b.

    A draw goes from a node of type a to one of type b with probability
    n_a / n · P_a[class of b] · n_b / n_{class of b}, and a pair may be drawn from either end.
    """
    groups = sizes.shape[1]
    flat = sizes.ravel().astype(np.float64)
    share_in_class = flat / np.repeat(np.maximum(counts, 1), groups)
    directed = flat[:, None] / flat.sum() * np.repeat(preferences, groups, axis=1) * share_in_class
    both = np.triu(directed + directed.T, 1)
    no_loops = np.maximum(flat - 1, 0) / np.maximum(flat, 1)
    return both + np.diag(np.diag(directed) * no_loops)


def _pair_capacity(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the pairs of different nodes of types a ≤ b."""
    return np.triu(np.outer(sizes, sizes), 1) + np.diag(sizes * (sizes - 1) // 2)


DEFAULT_HOMOPHILY = 0.8


@dataclass(frozen=True, eq=False)
class CsbmArrays:
    """An undirected graph without self-loops and duplicates, as neighbour lists.

    Attributes:
        indptr: The neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``; int64 [n + 1].
        indices: Neighbours, sorted within each node, every edge in both directions; int32 [2m],
            or int64 where there are too many nodes for that.
        labels: Class per node, int64 [n].
        groups: Group per node, int32 [n].
        features: Node features float32 [n, d], or None.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    labels: NDArray[np.int64]
    groups: NDArray[np.int32]
    features: NDArray[np.float32] | None

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return self.labels.size

    @property
    def num_edges(self) -> int:
        """Number of undirected edges m."""
        return self.indices.size // 2


def csbm(
    nodes: int,
    edges: int,
    *,
    classes: int = 2,
    homophily: float | ArrayLike | None = None,
    groups: Sequence[tuple[float, float | ArrayLike]] | None = None,
    features: int = 0,
    feature_signal: float = 1.0,
    class_shares: Sequence[float] | None = None,
    seed: int = 0,
) -> CsbmArrays:
    r"""Draw a graph from a contextual stochastic block model.

    After Deshpande et al., "Contextual Stochastic Block Models"
    (https://arxiv.org/abs/1807.09596), with a fixed number of edges, any preferences between
    classes, and groups of nodes that differ in them.

    **Edges.** A draw picks an end :math:`i` uniformly among all nodes, the class :math:`d` of its
    neighbour from row :math:`c_i` of the preference matrix :math:`P^{(g_i)}` of its group, and the
    other end :math:`j` uniformly in class :math:`d`. The graph is made of the first ``edges``
    distinct pairs :math:`i \ne j` of an endless sequence of such draws.

    **What a node's neighbours look like.** A node starts m/n edges on average and those follow its
    own row. It also receives edges, as an end that others have picked whatever its own group, and
    those follow the wishes of the others. In a sparse graph with class shares :math:`\pi_c` and
    :math:`\bar P = \sum_g \mathrm{share}_g P^{(g)}`, the expected part of class d among the
    neighbours of the nodes of class c and group g is

    .. math:: \frac{\pi_c P^{(g)}_{cd} + \pi_d \bar P_{dc}}
                   {\pi_c + \sum_b \pi_b \bar P_{bc}}.

    With one group, equal classes and a symmetric matrix this is :math:`P_{cd}` itself. With groups
    of homophily :math:`h_g` and equal classes, the nodes of group g end up with
    :math:`(h_g + \bar h) / 2` where :math:`\bar h` is the mean over all nodes.

    **Features.** The mean of a class is a random direction of length ``feature_signal``; a node's
    features are the mean of its class plus standard normal noise.

    The result depends on the arguments only, not on the number of threads.

    Args:
        nodes: Number of nodes n.
        edges: Number of undirected edges m, met exactly.
        classes: Number of classes C.
        homophily: A number h for h on the diagonal of P and (1 - h)/(C - 1) elsewhere, or P
            [C, C] with rows that sum to 1; 0.8 if neither this nor ``groups`` is given. Entries
            below 1e-30 count as 0.
        groups: In place of ``homophily``, a sequence of (share, homophily) for groups of nodes;
            every class is divided by the same shares, rounded.
        features: Number of features d; 0 for none.
        feature_signal: Length of the class means.
        class_shares: Shares of the classes [C], rounded to whole nodes; equal if None.
        seed: Seed, not negative.

    Raises:
        InputError: Arguments that cannot be used, or more edges than there can be.
    """
    if homophily is not None and groups is not None:
        raise InputError("homophily and groups exclude each other; each group has a homophily.")
    if groups is None:
        groups = [(1.0, DEFAULT_HOMOPHILY if homophily is None else homophily)]
    nodes, edges = _whole("nodes", nodes), _whole("edges", edges)
    classes, features = _whole("classes", classes), _whole("features", features)
    seed = _whole("seed", seed)
    if not np.isfinite(feature_signal):
        raise InputError(f"feature_signal must be a finite number, not {feature_signal}.")
    plan = make_plan(nodes, classes, groups, class_shares)
    _check_room(plan, nodes, edges)
    types, members = _types(plan, nodes, seed)
    indptr, indices = draw_edges(plan, edges, seed, types, members)
    labels = types.astype(np.int64) // plan.groups
    return CsbmArrays(
        indptr=indptr,
        indices=indices,
        labels=labels,
        groups=types % np.int32(plan.groups),
        features=_features(labels, classes, features, feature_signal, seed) if features else None,
    )


def _types(
    plan: Plan, nodes: int, seed: int
) -> tuple[NDArray[np.int32], NDArray[np.signedinteger[Any]]]:
    """Deal the types out at random: the type of each node, and the nodes by type."""
    members = np.empty(nodes, dtype=np.int32 if nodes <= np.iinfo(np.int32).max else np.int64)
    permutation(key_of("types", seed), members)
    types = np.empty(nodes, dtype=np.int32)
    sizes = np.diff(plan.type_starts)
    types[members] = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
    return types, members


def _features(
    labels: NDArray[np.int64], classes: int, features: int, signal: float, seed: int
) -> NDArray[np.float32]:
    means = np.empty((classes, features), dtype=np.float64)
    unit_rows(key_of("means", seed), means)
    rows = np.empty((labels.size, features), dtype=np.float32)
    key, scaled = key_of("noise", seed), signal * means
    over_blocks(
        even_blocks(labels.size, max(1, (1 << 18) // features)),
        lambda begin, end: noisy_rows(key, labels, scaled, rows, begin, end),
    )
    return rows


def _whole(name: str, value: int) -> int:
    try:
        whole = whole_index(value)
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, not {value!r}.") from error
    if whole < 0:
        raise InputError(f"{name} must not be negative, but it is {whole}.")
    return whole


def _check_room(plan: Plan, nodes: int, edges: int) -> None:
    pairs = nodes * (nodes - 1) // 2
    if edges > pairs:
        raise InputError(f"{nodes} nodes have room for {pairs} edges, but {edges} are wanted.")
    if edges > plan.reachable_pairs:
        raise InputError(
            f"the homophily allows only {plan.reachable_pairs} different edges, but {edges} are "
            "wanted; ask for fewer edges or let more classes be neighbours."
        )
