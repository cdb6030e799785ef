"""WRGAT: relational attention on a multigraph of nodes with similar surroundings.

The multigraph is a variant of that of struc2vec (arXiv:1704.03165). Every node is compared with
about 2·log₂ n others of nearly the same degree. Ring k of a node is the ascending list of the
degrees of the nodes at distance k, each with its count. The distance f_k of two rings is that of
dynamic time warping with

    cost((a, s), (b, t)) = ((max(a, b) + ½) / (min(a, b) + ½) - 1) · max(s, t),

and D_k = f_0 + … + f_k, as far as both nodes have rings. Relation k joins the pairs that have D_k,
in both directions, and twice where each node chose the other; the edge from j to i weighs
exp(-D_k) divided by the sum of that over all edges from j. Relations depend on the edges alone.
"""

from __future__ import annotations

import hashlib
import math
import sys
import time
import warnings
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from ncgnn._io import atomic_write
from ncgnn._numba import balanced_blocks, compiled, over_blocks
from ncgnn.data import NpzArchive, cache_dir
from ncgnn.errors import NcgnnError, NcgnnWarning
from ncgnn.nn.base import Model, PlainOptions, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import times
from ncgnn.sparse import (
    ConstantSparse,
    edge_softmax,
    gather_columns,
    gather_rows,
    row_normalize,
    sampled_dot,
    weighted_matmul,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, GraphInputs

    Ints = NDArray[Any]
    Floats = NDArray[np.float64]

_SLOPE = 0.2
# Searching visits up to n·(n + m) nodes and edges. A thousand million take some ten seconds, with
# the comparison that follows; what is much less is not kept, and 10¹² are too many.
_WORTH_KEEPING, _TOO_MANY = 10**8, 10**12
_RINGS, _RINGS_OF_LARGE_GRAPHS = 10, 3
_QUIET_SECONDS, _SECONDS_BETWEEN_LINES = 4.0, 15.0


class WRGATOptions(PlainOptions):
    """Options of WRGAT."""

    relations: Annotated[int, Field(ge=1, le=100)] = 10
    """Number of structural relations, from ring 0 on, the node's own degree."""
    rings: Annotated[int, Field(ge=1, le=100)] | None = None
    """Upper limit of the rings that are compared; relations beyond it have no edges. By default 10,
    and 3 where comparing 10 would take hours.
    """
    original_edges: bool = False
    """Whether the edges of the graph are one more relation, before the others."""


class WRGAT(Model):
    r"""Relational attention on a multigraph of similar nodes (https://arxiv.org/abs/2106.06586).

    Relation k joins nodes whose rings 0 … k are alike, and :math:`w_{ij}` says how much. A layer is

    .. math::
        x_i' = x_i W + b + \sum_r \frac{1}{|N_r(i)|} \sum_{j \in N_r(i)} w_{ij} α_{ij} x_j W_r,
        \qquad α_{ij} = \operatorname{softmax}_{j \in N_r(i)}
        \operatorname{LeakyReLU}_{0.2}(a_r^\top [x_i W_r \,\|\, x_j W_r]),

    and the model is two of them with ReLU and dropout between.

    As in the released code, the mean follows the softmax, weights are normalized at the source of
    an edge, repeated edges count repeatedly, and the graph's own edges take no part by default.
    What is different: rings are compared by exact dynamic time warping, where the released code
    approximates it (fastDTW with radius 1, which never finds less); exp(-D) is normalized without
    underflow; nodes of one degree are chosen in ascending order, so that the order of nodes counts;
    and ``relations = 10`` are relations 0 … 9, where the released filter of that number keeps 0 …
    10. Directed edges count in both directions for the rings; as a relation of their own they
    point from source to target.

    The relations are made when a graph is first seen, which takes minutes for tens of thousands of
    nodes, and kept in the cache folder. Training holds one relation's activations of the first
    layer at a time and computes them again in the backward pass.
    """

    paper = (
        "Suresh et al., Breaking the Limit of Graph Neural Networks by Improving the "
        "Assortativity of Graphs with Local Mixing Patterns, KDD 2021, arXiv:2106.06586"
    )
    family = "rewired"
    memory = "relations × (nodes × log nodes + features × hidden)"
    edges = "both"
    Options = WRGATOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        hidden = self.options.hidden
        relations = self.options.relations + self.options.original_edges
        self.first = RelationalAttention(num_features, hidden, relations)
        self.second = RelationalAttention(hidden, num_classes, relations)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        relations = self.relations(inputs)
        hidden = self.first(inputs.features, relations)
        hidden = relu_dropout(hidden, self.options.dropout, at(key, 0))
        return self.second(hidden, relations)

    def relations(self, inputs: GraphInputs) -> tuple[ConstantSparse, ...]:
        """The relations of a graph, with weights divided by the number of edges into a node."""
        wanted = self.options.rings, self.options.relations
        depth = inputs.kept(("structural rings", *wanted), lambda: limit_rings(inputs, *wanted))
        name = ("structural relations", depth)
        structural = inputs.kept(name, lambda: build_relations(inputs, depth))
        if not self.options.original_edges:
            return structural
        original = inputs.kept("original relation", lambda: row_normalize(inputs.adjacency))
        return (original, *structural)


class RelationalAttention(nn.Module):
    """A layer with weights and attention of its own for each relation.

    Relations that a graph does not have play no part.
    """

    def __init__(self, width: int, out: int, relations: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(relations, width, out))
        # For each relation the part of the target and that of the source.
        self.attention = nn.Parameter(torch.empty(relations, 2, out))
        self.root = nn.Parameter(torch.empty(width, out))
        self.bias = nn.Parameter(torch.zeros(out))
        # As the released code: Glorot's.
        for parameter, fans in (
            (self.weight, width + out),
            (self.root, width + out),
            (self.attention, relations + 2 * out),
        ):
            bound = (6 / fans) ** 0.5
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Constant, relations: Sequence[ConstantSparse]) -> torch.Tensor:
        """[n, out] from [n, width]."""
        total = times(x, self.root) + self.bias
        # One backward step for all slices, which also gives zeros to relations without edges.
        weights, attentions = self.weight.unbind(), self.attention.unbind()
        products = self._products(x, len(relations))
        for relation, x_r, weight, attention in zip(
            relations, products, weights, attentions, strict=False
        ):
            own = None if x_r is not x else weight
            total += cast("torch.Tensor", _Message.apply(relation, x_r, own, attention))
        return total

    def _products(self, x: Constant, count: int) -> list[Constant]:
        """X·W_r of each relation, where all of them are no wider than dense rows of x; else x."""
        _, width, out = self.weight.shape
        if isinstance(x, ConstantSparse) or count * out > width:
            return [x] * count
        together = times(x, self.weight[:count].transpose(0, 1).reshape(width, count * out))
        return [*together.view(len(together), count, out).transpose(0, 1).contiguous()]


class _Message(torch.autograd.Function):
    """What one relation adds; keeps nothing but its arguments for the backward pass."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        ctx.relation, x, weight, attention = arguments
        ctx.constant = None if isinstance(x, torch.Tensor) else x
        ctx.save_for_backward(x if ctx.constant is None else None, weight, attention)
        return weighted_matmul(ctx.relation.pattern, *_attend(*arguments))

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        wanted = ctx.needs_input_grad[1:]
        copies: list[Any] = [
            None if tensor is None else tensor.detach().requires_grad_(wants)
            for tensor, wants in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        x = ctx.constant if copies[0] is None else copies[0]
        with torch.enable_grad():
            parts = _attend(ctx.relation, x, *copies[1:])
        values, transformed = (part.detach() for part in parts)
        pattern = ctx.relation.pattern
        transposed, order = pattern.transposed
        of_parts = (
            sampled_dot(pattern, gradients[0], transformed),
            weighted_matmul(transposed, values.index_select(0, order), gradients[0]),
        )
        trained = [i for i, part in enumerate(parts) if part.requires_grad]
        found = torch.autograd.grad(
            [parts[i] for i in trained],
            [copy for copy, wants in zip(copies, wanted, strict=True) if wants],
            [of_parts[i] for i in trained],
        )
        remaining = iter(found)
        return None, *(next(remaining) if wants else None for wants in wanted)


def _attend(
    relation: ConstantSparse, x: Any, weight: torch.Tensor | None, attention: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The entries w_ij·α_ij and the matrix X·W_r that they multiply, which may be given as x.

    A score is a sum of one number of the target and one of the source, (X·W_r)·aᵀ or X·(W_r·aᵀ).
    """
    pattern = relation.pattern
    transformed: torch.Tensor = x if weight is None else times(x, weight)
    entries = x.shape[1] if isinstance(x, torch.Tensor) else x.nnz / max(1, x.shape[0])
    if weight is None or entries > weight.shape[1]:
        both = transformed @ attention.t()
    else:
        both = times(x, weight @ attention.t())
    target, source = both.unbind(1)
    scores = gather_rows(pattern, target.contiguous())
    scores = scores + gather_columns(pattern, source.contiguous())
    shares = edge_softmax(pattern, leaky_relu(scores, _SLOPE))
    return shares * relation.values, transformed


def limit_rings(inputs: GraphInputs, rings: int | None, relations: int) -> int:
    """How many rings are compared, one per relation at most; None leaves it to the graph's size."""
    if rings is not None:
        return min(rings, relations)
    wanted = min(_RINGS, relations)
    visits = inputs.num_nodes * (inputs.num_nodes + inputs.undirected_adjacency.nnz)
    if visits <= _TOO_MANY or wanted <= _RINGS_OF_LARGE_GRAPHS:
        return wanted
    warnings.warn(
        f"the graph '{inputs.graph.name}' is so large that WRGAT compares {_RINGS_OF_LARGE_GRAPHS} "
        f"rings of neighbors only, instead of {wanted}; the option rings sets their number.",
        NcgnnWarning,
        stacklevel=2,
    )
    return _RINGS_OF_LARGE_GRAPHS


def build_relations(inputs: GraphInputs, depth: int) -> tuple[ConstantSparse, ...]:
    """Relations 0 .. depth - 1 of a graph, or fewer where no pair has more rings.

    Row = target, column = source; the weights are divided by the number of edges into the target.
    """
    pattern, n = inputs.undirected_adjacency.pattern, inputs.num_nodes
    indptr, indices = pattern.crow.cpu().numpy(), pattern.col.cpu().numpy()
    chosen = choose_nodes(indptr)
    pairs, pair_of = find_pairs(chosen)
    distances = _load_distances(indptr, indices, pairs, depth)
    node, other = np.repeat(np.arange(n), chosen.shape[1]), chosen.reshape(-1)
    rows, columns = np.concatenate([node, other]), np.concatenate([other, node])
    order = np.lexsort((columns, rows))
    rows, columns, pair_of = rows[order], columns[order], pair_of[order % max(1, len(node))]
    found: list[ConstantSparse] = []
    for k in range(depth):
        distance = distances[pair_of, k]
        there = ~np.isnan(distance)
        if not there.any():
            break
        starts, sources, weights = _weigh_edges(rows[there], columns[there], distance[there], n)
        if found and found[-1].nnz == len(sources):  # the same pairs, as they only ever drop out
            values = torch.from_numpy(weights).to(inputs.device).to(inputs.dtype)
            found.append(ConstantSparse(found[-1].pattern, values))
        else:
            relation = ConstantSparse.from_csr(starts, sources, weights, shape=(n, n))
            found.append(relation.to(inputs.device).to(inputs.dtype))
    return tuple(found)


def _weigh_edges(rows: Ints, columns: Ints, distance: Floats, n: int) -> tuple[Ints, Ints, Floats]:
    """Row starts, columns and exp(-D) over its sum at the source and the edges into the target.

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


def choose_nodes(indptr: Ints) -> Ints:
    """The nodes that each is compared with, [n, min(⌊2·log₂ n⌋ + 1, n - 1)].

    Those of the nearest degree come first, of two equally near ones the higher; nodes of one degree
    are in ascending order.
    """
    n = len(indptr) - 1
    wanted = min(math.floor(2 * math.log2(n)) + 1, n - 1)
    degrees, class_of = np.unique(np.diff(indptr), return_inverse=True)
    members = np.split(np.argsort(class_of, kind="stable"), np.bincount(class_of).cumsum()[:-1])
    chosen = np.empty((n, wanted), dtype=np.int64)
    for degree, nodes in zip(degrees, members, strict=True):
        nearest = nodes[:0]
        for near in np.lexsort((-degrees, abs(degrees - degree))):
            nearest = np.concatenate([nearest, members[near]])
            if len(nearest) > wanted:
                break
        nearest = nearest[: wanted + 1]
        chosen[nodes] = nearest[:wanted]
        for node in nodes[: wanted + 1]:
            chosen[node] = nearest[nearest != node]
    return chosen


def find_pairs(chosen: Ints) -> tuple[Ints, Ints]:
    """The pairs (lower node, higher node) that occur, and which of them each choice is."""
    n, wanted = chosen.shape
    node, other = np.repeat(np.arange(n), wanted), chosen.reshape(-1)
    keys, pair_of = np.unique(
        np.minimum(node, other) * n + np.maximum(node, other), return_inverse=True
    )
    return np.stack([keys // n, keys % n], axis=1), pair_of


def _load_distances(indptr: Ints, indices: Ints, pairs: Ints, depth: int) -> Floats:
    """The distances of pairs from the cache, or else computed and put there."""
    nodes = len(indptr) - 1
    if nodes * (nodes + len(indices)) < _WORTH_KEEPING:
        return compare_rings(indptr, indices, pairs, depth)
    digest = hashlib.sha256(b"ncgnn structural distances 2\n")
    for part in (indptr, indices, pairs):
        digest.update(f"{part.shape}\n".encode())
        digest.update(part.astype("<i8").data)
    place = cache_dir() / "structural" / f"{digest.hexdigest()}-{depth}.npz"
    try:
        with NpzArchive(place) as archive:
            known = archive.array("distances")
        if known.shape == (len(pairs), depth) and known.dtype == np.float64:
            return known
    except (NcgnnError, OSError):  # missing or damaged
        pass
    distances = compare_rings(indptr, indices, pairs, depth, place=place)
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


def compare_rings(
    indptr: Ints, indices: Ints, pairs: Ints, depth: int, *, place: Path | None = None
) -> Floats:
    """D_0 .. D_(depth - 1) of every pair, [pairs, depth], NaN where there is none.

    ``place`` says where the result will be kept, for the lines that tell of the progress.
    """
    if not len(pairs):
        return np.empty((0, depth))
    progress = _Progress(f"comparing {len(pairs)} pairs of nodes", place)
    starts, values, counts = find_rings(indptr, indices, depth, progress)
    lengths = np.diff(starts).reshape(-1, depth)
    work = (lengths[pairs[:, 0]] + lengths[pairs[:, 1]]).sum(axis=1)
    longest = int(lengths.max())
    distances = np.full((len(pairs), depth), np.nan)

    def compare(first: int, end: int) -> None:
        _compare_pairs(pairs, starts, values, counts, longest, distances, first, end)
        progress.advance(0.5 * (end - first) / len(pairs))

    over_blocks(_blocks(work), compare)
    return distances


def find_rings(
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
        parts[first] = _list_rings(*graph, depth, first, end)
        progress.advance(0.5 * (end - first) / n)

    over_blocks(_blocks(reachable), search)
    lengths, values, counts = (
        np.concatenate([parts[first][i] for first in sorted(parts)]) for i in range(3)
    )
    return np.concatenate([[0], np.cumsum(lengths)]), values, counts


def _blocks(work: Ints) -> Ints:
    before = np.concatenate([[0], np.cumsum(work)]).astype(np.int64)
    return balanced_blocks(before, least_work=1 << 14, most_blocks=256)


class _Progress:
    """Lines on standard error, once some work takes long; a bar would fight with that of a run."""

    def __init__(self, what: str, place: Path | None) -> None:
        self._what, self._lock, self._done = what, Lock(), 0.0
        self._kept = "" if place is None else f"; done once, then kept in {place.parent}"
        self._begin = time.monotonic()
        self._next = self._begin + _QUIET_SECONDS

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
def _list_rings(
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

    ``degrees`` holds the degrees that occur, ascending; ``class_of``, where that of each node is in
    it; ``reachable``, the size of each node's connected component. There are at most 127 rings.
    Unlike :class:`ncgnn.metrics.HopSearch`, this keeps the rings of a node apart.

    Returns:
        The lengths of all lists, node by node; their degrees; their counts.
    """
    n = len(class_of)
    ring_of = np.full(n, -1, np.int8)  # small, so that it stays in the processor's cache
    queue = np.empty(n, np.int32)
    tally = np.zeros(len(degrees), np.int32)
    lengths = np.empty((end - first) * depth, np.int64)
    values, counts = np.empty(1024, np.int32), np.empty(1024, np.int32)
    used = 0
    for v in range(first, end):
        queue[0] = v
        ring_of[v] = 0
        begin, stop = 0, 1
        unseen = len(indices)
        for k in range(depth):
            if used + len(degrees) > len(values):
                more = np.empty(len(values) + len(degrees), np.int32)
                values, counts = np.concatenate((values, more)), np.concatenate((counts, more))
            before = used
            used = _append_list(queue[begin:stop], class_of, degrees, tally, values, counts, used)
            lengths[(v - first) * depth + k] = used - before
            edges = 0
            for q in range(begin, stop):
                edges += indptr[queue[q] + 1] - indptr[queue[q]]
            unseen -= edges
            ring_begin, begin = begin, stop
            if k + 1 == depth or stop == reachable[v]:
                continue
            # Looking from the nodes outside for one inside ends early where most are inside.
            if edges > n + unseen // 4:
                stop = _ring_from_outside(indptr, indices, ring_of, queue, stop, k)
            else:
                stop = _ring_from_inside(indptr, indices, ring_of, queue, ring_begin, stop, k)
        for q in range(stop):
            ring_of[queue[q]] = -1
    return lengths, values[:used].copy(), counts[:used].copy()


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
def _compare_pairs(
    pairs: Any,
    starts: Any,
    values: Any,
    counts: Any,
    longest: int,
    distances: Any,
    first: int,
    end: int,
) -> None:
    """Fill rows ``first`` to ``end`` of D [pairs, depth], as long as both nodes have rings.

    No list is longer than ``longest``.
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
            total += warp(
                values[a:a_end], counts[a:a_end], values[b:b_end], counts[b:b_end], one, other
            )
            distances[p, k] = total


@compiled
def warp(left: Any, left_counts: Any, right: Any, right_counts: Any, row: Any, below: Any) -> float:
    """Distance of two lists by dynamic time warping, exact; ``row`` and ``below`` are scratch.

    No cell that already costs more than some complete path can be on the best path, so those are
    left out: what is left is a narrow band.
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
