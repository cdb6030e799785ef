"""Sampled neighborhoods: a few of the edges around some nodes, as small matrices with places.

What is drawn is a function of seed, epoch, batch and the nodes alone: it depends neither on threads
nor on what was sampled before, so that an interrupted run goes on exactly as it would have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ncgnn._numba import even_blocks, over_blocks
from ncgnn._random import key_of
from ncgnn.errors import InputError
from ncgnn.graph import check_nodes, to_numpy, whole_number
from ncgnn.sparse import _sampling_kernels as kernels
from ncgnn.sparse._kernels import copy_rows, row_pointer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    Features = NDArray[Any] | csr_array[Any]

#: How neighbors are drawn.
Method = Literal["uniform", "labor"]

# Fewer rows do not repay another thread.
_LEAST_ROWS = 1024
_MOST_NODES = 2**31 - 2
_NO_SCALE = np.empty(0, dtype=np.float32)
# Sets these random numbers apart from all others of the same seed, such as those of dropout.
_PURPOSE = int.from_bytes(b"sampling")


@dataclass(frozen=True, eq=False)
class SampledEdges:
    """The sampled edges of one relation, as CSR over the nodes of a sample.

    Attributes:
        indptr: Row starts, int64. Rows are those nodes that were expanded, in the order of the
            sample: all but the ones that were found last.
        indices: The place of each edge's source in the sample, int32. Within a row the sources'
            own numbers rise, and none is there twice.
        edges: The place of each edge in the arrays of the relation, int64, to look up weights.
        scale: Factors, float32, with which the sum over a row is an unbiased estimate of the sum
            over all its edges; None where no edge is missing.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    edges: NDArray[np.int64]
    scale: NDArray[np.float32] | None


@dataclass(frozen=True, eq=False)
class Sample:
    """Nodes with some of the nodes around them.

    A node that was found at hop h is expanded once, and its row refers to nodes within h + 1 hops:
    what layer l of L needs are the first ``within[L - l]`` rows and ``within[L - l + 1]`` columns.

    Attributes:
        nodes: The wanted nodes in the given order, then those one hop away, two, …, int64.
        within: How many nodes are within 0, 1, …, L hops.
        relations: The sampled edges of each relation.
    """

    nodes: NDArray[np.int64]
    within: tuple[int, ...]
    relations: tuple[SampledEdges, ...]

    def part(
        self, wanted: NDArray[np.int64]
    ) -> tuple[Sample, NDArray[np.int64], tuple[NDArray[np.int64], ...]]:
        """What some of the wanted nodes need of it.

        Args:
            wanted: Their places, different ones.

        Returns:
            Their sample, where its nodes are in this one, and where each of its rows starts here,
            for every relation.
        """
        place = np.full(len(self.nodes), -1, dtype=np.int32)
        place[wanted] = np.arange(len(wanted))
        found, ends = [wanted.astype(np.int64)], [len(wanted)]
        for _ in self.within[1:]:
            is_new = np.zeros(len(place), dtype=np.bool_)
            for one in self.relations:
                is_new[one.indices[_entries_of(one, found[-1])]] = True
            found.append(np.flatnonzero(is_new & (place < 0)))
            place[found[-1]] = np.arange(ends[-1], ends[-1] + len(found[-1]))
            ends.append(ends[-1] + len(found[-1]))
        places, rows = np.concatenate(found), np.concatenate([found[0][:0], *found[:-1]])
        relations: list[SampledEdges] = []
        for one in self.relations:
            entries = _entries_of(one, rows)
            sizes = one.indptr[rows + 1] - one.indptr[rows]
            indptr = np.concatenate([[0], np.cumsum(sizes)])
            scale = None if one.scale is None else one.scale[entries]
            relations.append(
                SampledEdges(indptr, place[one.indices[entries]], one.edges[entries], scale)
            )
        starts = tuple(one.indptr[rows] for one in self.relations)
        return Sample(self.nodes[places], tuple(ends), tuple(relations)), places, starts


def _entries_of(edges: SampledEdges, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the entries of some rows."""
    starts = edges.indptr[rows]
    sizes = edges.indptr[rows + 1] - starts
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


class NeighborSampler:
    """Samples the in-neighbors of nodes, hop by hop, from CSR adjacencies (rows = targets).

    ``"uniform"`` takes as many neighbors of every node as the fan-out says, without replacement,
    each subset with the same probability. ``"labor"`` (LABOR-0; Balin and Çatalyürek,
    Layer-Neighbor Sampling, NeurIPS 2023) takes as many on average, but lets nodes of a batch share
    what they take: a source has one random number in a batch, and a node with d neighbors takes
    those whose number is at most fan-out / d. Fewer different nodes are found for the same fan-out.

    It may be used by several threads at a time.

    Args:
        relations: One or more pairs ``(indptr, indices)`` over the same nodes, for example of
            incoming and of outgoing edges; rows must rise. The arrays may be memory-mapped, and
            are not copied where they are int64 and int32 or int64.
        fanout: How many neighbors of a node are taken at hop 1, 2, … in every relation; None takes
            all.
        method: ``"uniform"`` or ``"labor"``.
        seed: Seed of all draws.

    Example:
        >>> import numpy as np
        >>> star = np.array([0, 3, 4, 5, 6]), np.array([1, 2, 3, 0, 0, 0])
        >>> sample = NeighborSampler([star], [2]).sample(np.array([0]), epoch=0, batch=0)
        >>> sample.within, sample.relations[0].scale.tolist()
        ((1, 3), [1.5, 1.5])
    """

    def __init__(
        self,
        relations: Sequence[tuple[ArrayLike, ArrayLike]],
        fanout: Sequence[int | None],
        *,
        method: Method = "uniform",
        seed: int = 0,
    ) -> None:
        if method not in get_args(Method):
            raise InputError(f"method must be 'uniform' or 'labor'; got {method!r}.")
        self.method: Method = method
        self.seed = whole_number(seed, "seed")
        self.fanout = tuple(
            None if count is None else whole_number(count, "fanout", 1, _MOST_NODES)
            for count in fanout
        )
        if not self.fanout:
            raise InputError("fanout must have a number for each hop, like [10, 10]; got none.")
        self._relations = _check_relations(relations)
        self.num_nodes = len(self._relations[0][0]) - 1
        # Arrays over all nodes that are not in use: one for each thread that has sampled.
        self._places: list[NDArray[np.int32]] = []

    def sample(self, nodes: ArrayLike, epoch: int, batch: int) -> Sample:
        """Sample around different nodes, which are given by their numbers."""
        wanted = _check_numbers(nodes)
        key = (self.seed, _PURPOSE, whole_number(epoch, "epoch"), whole_number(batch, "batch"))
        # A source of LABOR has one number in a batch, whichever relation it is met in.
        own = [() if self.method == "labor" else (place,) for place in range(len(self._relations))]
        keys = [key_of(*key, *numbers) for numbers in own]
        try:
            place = self._places.pop()
        except IndexError:
            place = np.full(self.num_nodes, -1, dtype=np.int32)
        expansion = _Expansion(self._relations, place, shared=self.method == "labor")
        try:
            expansion.begin(wanted)
            for count in self.fanout:
                expansion.expand(kernels.ALL if count is None else count, keys)
            return expansion.finish()
        finally:
            expansion.forget()
            self._places.append(place)


def _check_relations(
    relations: Sequence[tuple[ArrayLike, ArrayLike]],
) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Relations as contiguous arrays that cannot be written to; their entries are checked later."""
    if len(relations) == 0:
        raise InputError("relations must be one or more pairs (indptr, indices); got none.")
    checked: list[tuple[NDArray[np.int64], NDArray[Any]]] = []
    for given in relations:
        indptr, indices = to_numpy(given[0], "indptr"), to_numpy(given[1], "indices")
        for name, array in (("indptr", indptr), ("indices", indices)):
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise InputError(
                    f"{name} must be a vector of whole numbers; got {array.dtype} of shape "
                    f"{list(array.shape)}."
                )
        wide = np.int32 if indices.dtype == np.int32 else np.int64
        pair = (
            np.ascontiguousarray(indptr, dtype=np.int64).view(),
            np.ascontiguousarray(indices, dtype=wide).view(),
        )
        for array in pair:
            array.flags.writeable = False  # compiled code is made once, for such arrays
        checked.append(pair)
    counts = sorted({len(indptr) - 1 for indptr, _ in checked})
    if len(counts) > 1 or not 1 <= counts[0] <= _MOST_NODES:
        raise InputError(
            f"relations must be over the same 1 to {_MOST_NODES} nodes; got indptr for "
            f"{' and '.join(map(str, counts))}."
        )
    return checked


class _Expansion:
    """A sample that grows hop by hop."""

    def __init__(
        self,
        relations: list[tuple[NDArray[np.int64], NDArray[Any]]],
        place: NDArray[np.int32],
        *,
        shared: bool,
    ) -> None:
        self._relations = relations
        self._place = place
        self._shared = shared
        self._nodes = np.empty(0, dtype=np.int64)
        self._within: list[int] = []
        self._found = 0
        self._problem = np.zeros(2, dtype=np.int64)
        nothing = (np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
        self._edges = [SampledEdges(*nothing, None) for _ in relations]

    def begin(self, wanted: NDArray[np.int64]) -> None:
        """Start with the wanted nodes."""
        self._nodes = np.empty(len(wanted), dtype=np.int64)
        self._found = kernels.begin_nodes(wanted, self._place, self._nodes, self._problem)
        self._check()
        self._within.append(self._found)

    def expand(self, fanout: int, keys: list[int]) -> None:
        """Expand the nodes that were found last, with so many neighbors in each relation."""
        first = self._within[-2] if len(self._within) > 1 else 0
        last = self._nodes[first : self._within[-1]]
        for relation, key in enumerate(keys):
            before = self._edges[relation]
            edges = self._draw(relation, last, fanout, np.uint64(key))
            sources = edges.indices[len(before.indices) :]
            self._nodes = _grown(self._nodes[: self._found], len(sources) + 1)
            found = kernels.place_sources(sources, self._place, self._nodes, self._found)
            self._found = int(found)
            self._edges[relation] = edges
        self._within.append(self._found)

    def _draw(
        self, relation: int, nodes: NDArray[np.int64], fanout: int, key: np.uint64
    ) -> SampledEdges:
        """The edges so far and those of more rows, whose columns are sources as yet."""
        before, (indptr, indices) = self._edges[relation], self._relations[relation]
        rows, old = len(nodes), len(before.edges)
        blocks = even_blocks(rows, _LEAST_ROWS)
        degrees = np.empty(rows, dtype=np.int64)
        found = (np.empty(rows, dtype=np.int64), degrees, np.empty(rows, dtype=np.uint64))
        draw = (fanout, key, self._shared, *found)
        starts = _grown(before.indptr, rows)
        counts = starts[len(before.indptr) :]
        over_blocks(
            blocks, kernels.count_edges, nodes, indptr, indices, *draw, counts, self._problem
        )
        self._check()
        counts[:1] += old
        np.cumsum(counts, out=counts)
        new = int(starts[-1]) - old
        edges, sources, scale = _grown(before.edges, new), _grown(before.indices, new), before.scale
        if scale is None and degrees.max(initial=0) > fanout:
            scale = np.ones(old, dtype=np.float32)
        scale = None if scale is None else _grown(scale, new)
        over_blocks(
            blocks,
            kernels.take_edges,
            *(nodes, len(indptr) - 1, indices, *draw, starts[len(before.indptr) - 1 :]),
            *(edges, sources, _NO_SCALE if scale is None else scale, self._problem),
        )
        self._check()
        return SampledEdges(starts, sources, edges, scale)

    def finish(self) -> Sample:
        """What has been sampled."""
        nodes = self._nodes[: self._found].copy()
        return Sample(nodes, tuple(self._within), tuple(self._edges))

    def forget(self) -> None:
        """Leave the places of all nodes as they were, whatever happened."""
        kernels.forget(self._place, self._nodes[: self._found])

    def _check(self) -> None:
        code, number = self._problem.tolist()
        if code == kernels.FINE:
            return
        count = len(self._place)
        if code == kernels.NO_NODE:
            check_nodes(np.array([number]), "nodes", count)
        if code == kernels.BAD_SOURCE:
            check_nodes(np.array([number]), "indices", count)
        if code == kernels.TWICE:
            raise InputError(f"nodes contain {number} twice; give each node once.")
        if code == kernels.BAD_ROW:
            raise InputError(
                f"indptr must rise from 0 to the length of indices; it does not at row {number}."
            )
        raise InputError(
            "indices must rise within each row, without repetition; they do not around entry "
            f"{number}. Sort and merge them, as Graph.from_csr does."
        )


def _check_numbers(nodes: ArrayLike) -> NDArray[np.int64]:
    """Node numbers are a vector of whole numbers, or nothing."""
    numbers = to_numpy(nodes, "nodes")
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise InputError(
            f"nodes must be a vector of whole numbers; got {numbers.dtype} of shape "
            f"{list(numbers.shape)}."
        )
    return np.ascontiguousarray(numbers, dtype=np.int64)


def _grown(array: NDArray[Any], more: int) -> NDArray[Any]:
    """The same entries in an array with room for more."""
    grown = np.empty(len(array) + more, dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def take_rows(features: Any, nodes: ArrayLike, out: NDArray[Any] | None = None) -> Any:
    """The features of some nodes, gathered on all threads.

    Args:
        features: A dense array [n, d], which may be memory-mapped, or a scipy CSR matrix.
        nodes: Numbers of the nodes, in any order.
        out: Where to write dense rows to; by default a new array.

    Returns:
        A dense array, or a CSR matrix of the same type.
    """
    from scipy.sparse import issparse

    wanted = _check_numbers(nodes)
    check_nodes(wanted, "nodes", features.shape[0])
    if issparse(features):
        return _take_sparse_rows(features, wanted)
    dense = np.asarray(features)
    if dense.ndim != 2:
        raise InputError(f"features must be a matrix; got shape {list(dense.shape)}.")
    if out is None:
        out = np.empty((len(wanted), dense.shape[1]), dtype=dense.dtype)
    elif out.shape != (len(wanted), dense.shape[1]) or out.dtype != dense.dtype:
        raise InputError(
            f"out must be {dense.dtype} of shape {[len(wanted), dense.shape[1]]}; "
            f"got {out.dtype} of shape {list(out.shape)}."
        )
    if not dense.flags.c_contiguous or not out.flags.c_contiguous:
        out[:] = dense[wanted]
        return out
    readable = dense.view()
    readable.flags.writeable = False
    blocks = even_blocks(len(wanted), _LEAST_ROWS)
    over_blocks(blocks, kernels.copy_dense_rows, readable, wanted, out)
    return out


def _take_sparse_rows(features: Any, wanted: NDArray[np.int64]) -> Any:
    from scipy.sparse import csr_array

    if features.format != "csr":
        raise InputError(f"features must be dense or a CSR matrix; got {features.format}.")
    indptr = np.empty(len(wanted) + 1, dtype=features.indptr.dtype)
    row_pointer(features.indptr, wanted, indptr)
    indices = np.empty(int(indptr[-1]), dtype=features.indices.dtype)
    values = np.empty(len(indices), dtype=features.data.dtype)
    parts = (features.indptr, features.indices, features.data)
    copy_rows(*parts, wanted, indptr, indices, values)
    return csr_array((values, indices, indptr), shape=(len(wanted), features.shape[1]))
