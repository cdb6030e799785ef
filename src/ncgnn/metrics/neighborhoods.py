"""The neighborhoods of a graph, prepared once and counted for any labels.

One hop is the adjacency itself. More hops are searched node by node, in memory proportional to the
graph: one bit and one queue entry per node and thread, and for the largest rows a bit set each,
together no larger than the adjacency; or they are stored, within a budget of memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ncgnn._intrinsics import lowest_bit, popcount
from ncgnn._numba import balanced_blocks, compiled, even_blocks, over_blocks
from ncgnn.errors import InputError
from ncgnn.graph import (
    Graph,
    as_graph,
    check_class_count,
    check_labels,
    check_some_labeled,
    compact_classes,
    number_classes,
    whole_number,
)
from ncgnn.metrics._kernels import (
    PACKED_CLASSES,
    TABLE_SIDE,
    adjust_own,
    confusion_compared,
    confusion_of,
    confusion_packed,
    count_packed,
    count_rows,
    finish_node,
    packed_units,
    write_extras,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike

#: Whether a node counts in its own neighborhood ("closed") or not ("open").
Neighborhood = Literal["closed", "open"]

#: Default number of bytes that a stored pattern of k-hop neighborhoods may take.
MEMORY_BUDGET = 2 * 1024**3

_U0, _U1, _U6, _U63 = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)
_NO_LOOPS = np.zeros(0, dtype=bool)
_NO_LOOPS.flags.writeable = False
# Taking a row's bit set costs about as much as setting this share of its words bit by bit.
_BITS_PER_WORD_COST = 6
# Reading one node out of a bit set costs about as much as counting this many words of one class.
_WORDS_PER_NODE_READ = 4


class LabeledGraph(NamedTuple):
    """A graph with the labels that a metric is to be computed for."""

    graph: Graph
    labels: NDArray[np.int64]
    classes: NDArray[Any]
    num_classes: int


def label_graph(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    num_classes: int | None = None,
    *,
    features: bool = False,
) -> LabeledGraph:
    """Resolve the arguments that all metrics share.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions [n], -1 = unlabeled; by default the graph's own.
        num_classes: Number of classes; by default the graph's.
        features: Whether the metric looks at features; otherwise they are not even read.
    """
    if not isinstance(graph, Graph):
        graph = as_graph(graph, labels, num_classes=num_classes, features=features)
        labels = num_classes = None
    if labels is None and num_classes is None:
        # A graph's own labels were checked when it was built.
        check_some_labeled(graph.labels)
        return LabeledGraph(graph, graph.labels, graph.compact_labels, graph.num_classes)
    given, known = graph.labels, (graph.num_classes or None) if num_classes is None else num_classes
    if labels is not None:
        numbers, names = number_classes(labels, graph.class_names)
        given = check_labels(numbers, graph.num_nodes)
        if num_classes is None and names != graph.class_names:
            known = None if names is None else len(names)
    check_some_labeled(given)
    count = check_class_count(given, known)
    return LabeledGraph(graph, given, compact_classes(given, count), count)


def label_counts(
    given: LabeledGraph, labels: NDArray[np.int64], num_classes: int | None = None
) -> LabelCounts:
    """Count other labels around each node of a graph, itself included; -1 is not counted."""
    count = given.num_classes if num_classes is None else num_classes
    return Neighborhoods(given.graph).count(compact_classes(labels, count), count)


def mean(values: NDArray[np.floating[Any]]) -> float:
    """Mean over the nodes where a metric is defined; NaN when it is defined nowhere."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def is_closed(neighborhood: Neighborhood) -> bool:
    """Whether a node counts in its own neighborhood."""
    if neighborhood not in ("closed", "open"):
        raise InputError(f"neighborhood must be 'closed' or 'open'; got '{neighborhood}'.")
    return neighborhood == "closed"


class LabelCounts(NamedTuple):
    """What the labels in each node's neighborhood add up to; some arrays may be empty.

    Attributes:
        size: Number of labeled nodes.
        top: Count of the commonest label.
        same: Count of the node's own label; zero for an unlabeled node.
        surprise: Sum of count · log2(count) over the classes.
        leader: The commonest label, the first among equals, -1 where there is none.
        matrix: All counts [n, C].
    """

    size: NDArray[np.int32]
    top: NDArray[np.int32]
    same: NDArray[np.int32]
    surprise: NDArray[np.float64]
    leader: NDArray[np.int32]
    matrix: NDArray[np.int32]


class Neighborhoods:
    """The nodes within ``hops`` steps of each node, following edges backwards.

    Args:
        graph: The graph; its labels play no part.
        hops: Number of steps, at least one.
        memory_budget: Bytes that may be spent on storing the neighborhoods. Stored ones are
            counted faster; others are searched again on every count.

    Attributes:
        stored: Whether the neighborhoods are stored, as those of one hop always are.
        num_members: Number of (node, member) pairs, where it is known.
    """

    def __init__(self, graph: Graph, hops: int = 1, *, memory_budget: int = 0) -> None:
        self.hops = whole_number(hops, "hops", 1, np.iinfo(np.int32).max)
        self.num_members: int | None = None
        self._indptr, self._indices = graph.indptr, graph.indices
        # Compiled code is specialized on None, so that what is not needed costs nothing.
        self._loops = graph.self_loops if graph.self_loops.any() else None
        self.stored = hops == 1
        if self.stored:
            self._blocks = balanced_blocks(self._indptr)
            return
        self._search = HopSearch(self._indptr, self._indices, self.hops)
        self._blocks = self._search.blocks
        if memory_budget > 0:
            self._store(memory_budget)

    def _store(self, memory_budget: int) -> None:
        sizes = self._search.sizes()
        self.num_members = int(sizes.sum())
        if self.num_members * self._indices.itemsize + self._indptr.nbytes > memory_budget:
            return
        self._indptr, self._indices = map(_read_only, self._search.members(sizes))
        # Every node is a member of its own row.
        self._loops = _read_only(np.ones(len(sizes), dtype=bool))
        self._blocks = balanced_blocks(self._indptr)
        self.stored = True

    def pattern(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The stored neighborhoods as CSR, each node in its own row where it was stored so."""
        if not self.stored:
            raise InputError("the neighborhoods are not stored; give a larger memory_budget.")
        return self._indptr, self._indices

    def count(
        self,
        classes: NDArray[Any],
        num_classes: int,
        closed: bool = True,
        *,
        surprise: bool = False,
        leader: bool = False,
        matrix: bool = False,
        same: bool = True,
    ) -> LabelCounts:
        """Count the labels in every neighborhood, closed or open.

        ``classes`` are from :func:`compact_classes`; ``size`` and ``top`` of the result are always
        filled, the other arrays on request.
        """
        n = len(classes)
        counts = LabelCounts(
            size=np.empty(n, dtype=np.int32),
            top=np.empty(n, dtype=np.int32),
            same=np.empty(n if same else 0, dtype=np.int32),
            surprise=np.empty(n if surprise else 0),
            leader=np.empty(n if leader else 0, dtype=np.int32),
            matrix=np.empty((n, num_classes) if matrix else (0, 0), dtype=np.int32),
        )
        rows = (self._indptr, self._indices)
        labels = (classes, num_classes, closed)
        if not self.stored:
            sets = (*self._search.sets, self._label_sets(classes, num_classes))
            over_blocks(self._blocks, _count_within, *rows, self.hops, *labels, *sets, *counts)
        elif num_classes > PACKED_CLASSES or surprise or leader or matrix:
            loops = _NO_LOOPS if self._loops is None else self._loops
            over_blocks(self._blocks, count_rows, *rows, loops, *labels, *counts)
        else:
            over_blocks(
                self._blocks,
                count_packed,
                *(*rows, self._loops, classes, packed_units(num_classes), num_classes, closed),
                *(counts.size, counts.top, counts.same if same else None),
            )
        return counts

    def _label_sets(self, classes: NDArray[Any], num_classes: int) -> NDArray[np.uint64]:
        """The nodes of each class as a bit set, [C + 1, words], or none if they are too large.

        The last row holds the unlabeled nodes.
        """
        words = (len(classes) + 63) // 64
        if (num_classes + 1) * words * 8 > max(self._indices.nbytes, 1 << 20):
            return np.zeros((0, 0), dtype=np.uint64)
        sets = np.zeros((num_classes + 1, words), dtype=np.uint64)
        # Blocks are whole words, so that no two threads write to the same one.
        over_blocks(even_blocks(words), _mark_classes, classes, sets)
        return sets

    def confusion(
        self,
        classes: NDArray[Any],
        num_classes: int,
        closed: bool = True,
        empty: float = float("nan"),
    ) -> NDArray[np.float64]:
        """Neighborhood Confusion of every node; arguments as in :meth:`count`."""
        if not self.stored:
            counts = self.count(classes, num_classes, closed, same=False)
            return confusion_of_counts(counts, num_classes, empty)
        values = np.empty(len(classes))
        if num_classes > PACKED_CLASSES:
            over_blocks(
                self._blocks,
                confusion_compared,
                *(self._indptr, self._indices, self._loops),
                *(classes, num_classes, closed, *_confusion_table(num_classes, empty), values),
            )
            return values
        over_blocks(
            self._blocks,
            confusion_packed,
            *(self._indptr, self._indices, self._loops),
            *(classes, packed_units(num_classes), num_classes, closed),
            True if classes.max() == num_classes else None,
            *_confusion_table(num_classes, empty),
            values,
        )
        return values


def confusion_of_counts(
    counts: LabelCounts, num_classes: int, empty: float = float("nan")
) -> NDArray[np.float64]:
    """NC from the size of each neighborhood and the count of its commonest label."""
    values = np.empty(len(counts.size))
    table, scale = _confusion_table(num_classes, empty)
    blocks = even_blocks(len(values))
    over_blocks(blocks, confusion_of, counts.size, counts.top, table, scale, values)
    return values


@lru_cache(maxsize=16)
def _confusion_table(num_classes: int, empty: float) -> tuple[NDArray[np.float64], float]:
    """NC for small sizes and counts, row by row; and the logarithm of the number of classes.

    The first entry, for size zero, is ``empty``.
    """
    scale = float(np.log2(num_classes)) if num_classes > 1 else float("inf")
    small = np.arange(TABLE_SIDE)
    ratios = np.maximum(small[:, None] / np.maximum(small, 1), 1)
    table = (np.log2(ratios) / scale).ravel()
    table[0] = empty
    return table, scale


class HopSearch:
    """Finds the nodes within some steps of each node, in memory proportional to the graph.

    Args:
        indptr: Row starts of an adjacency.
        indices: Its columns: the nodes that are one step away.
        hops: Number of steps, at least one.
        exactly: Whether nodes that are fewer steps away are left out, as is the node itself.

    Attributes:
        blocks: Blocks of rows of about equal work.
        sets: Which bit set of a neighborhood each row has, -1 for none; and these sets.
    """

    def __init__(
        self, indptr: NDArray[Any], indices: NDArray[Any], hops: int, *, exactly: bool = False
    ) -> None:
        indptr = _read_only(np.asarray(indptr, dtype=np.int64).view())
        indices = _read_only(indices.view())
        self._rows = indptr, indices, hops, exactly
        degrees = np.diff(indptr)
        # Work of the second hop; further hops are assumed to spread alike.
        walks = np.zeros(len(indptr), dtype=np.int64)
        np.cumsum(_sum_over_rows(indptr, indices, degrees), out=walks[1:])
        self.blocks = balanced_blocks(walks)
        # The rows for which a bit set pays, the largest first, within the size of the adjacency.
        words = (len(degrees) + 63) // 64
        paying = np.flatnonzero(degrees * _BITS_PER_WORD_COST > words)
        order = np.argsort(-degrees[paying], kind="stable")
        largest = paying[order][: indices.nbytes // (8 * words)]
        row_sets = np.zeros((len(largest), words), dtype=np.uint64)
        _mark_rows(indptr, indices, largest, row_sets)
        set_of_row = np.full(len(degrees), -1, dtype=np.int32)
        set_of_row[largest] = np.arange(len(largest))
        self.sets = set_of_row, row_sets

    def sizes(self) -> NDArray[np.int64]:
        """How many nodes each row has."""
        sizes = np.zeros(len(self._rows[0]) - 1, dtype=np.int64)
        over_blocks(self.blocks, _size_pattern, *self._rows, *self.sets, sizes)
        return sizes

    def members(
        self, sizes: NDArray[np.int64], first: int = 0, end: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The nodes of the rows from ``first`` to ``end`` as CSR, in ascending order."""
        end = len(sizes) if end is None else end
        starts = np.concatenate([[0], np.cumsum(sizes)])
        starts -= starts[first]
        members = np.empty(int(starts[end]), dtype=self._rows[1].dtype)
        blocks = np.unique(self.blocks.clip(first, end))
        over_blocks(blocks, _fill_pattern, *self._rows, *self.sets, starts, members)
        return starts[first : end + 1], members


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    # Compiled code is specialized on whether an array can be written to; the arrays of a graph
    # cannot, so those that stand in for them must not either.
    array.flags.writeable = False
    return array


@compiled
def _count_within(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    hops: int,
    classes: NDArray[Any],
    num_classes: int,
    closed: bool,
    set_of_row: NDArray[np.int32],
    row_sets: NDArray[np.uint64],
    label_sets: NDArray[np.uint64],
    size: NDArray[np.int32],
    top: NDArray[np.int32],
    same: NDArray[np.int32],
    surprise: NDArray[np.float64],
    leader: NDArray[np.int32],
    matrix: NDArray[np.int32],
) -> None:
    """Count the labels of all nodes within ``hops`` steps against the direction of the edges.

    ``set_of_row`` is the position of a row's bit set in ``row_sets``, or -1; ``label_sets`` is
    empty where the classes' bit sets would take too much memory. The results are those of
    :class:`LabelCounts`, the last four left out where they are empty.
    """
    num_nodes = len(indptr) - 1
    seen = np.zeros((num_nodes + 63) // 64, np.uint64)
    queue = np.empty(num_nodes, indices.dtype)
    counts = np.zeros(num_classes + 1, np.int64)
    for i in range(first_row, end_row):
        head, tail = _search_inner(i, hops, indptr, indices, seen, queue)
        if _is_sparse(head, tail, indptr, queue, len(seen)):
            tail = _expand(head, tail, indptr, indices, seen, queue)
            for k in range(tail):
                counts[classes[np.uint64(queue[k])]] += 1
            _clear(queue[:tail], seen)
        else:
            _mark_last_hop(head, tail, indptr, indices, seen, queue, set_of_row, row_sets)
            _count_marked(seen, classes, num_classes, label_sets, counts)
        own = classes[i]
        adjust_own(counts, own, closed, True)
        write_extras(i, own, num_classes, counts, same, surprise, leader, matrix)
        finish_node(i, num_classes, counts, size, top)


@compiled
def _size_pattern(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    hops: int,
    exactly: bool,
    set_of_row: NDArray[np.int32],
    row_sets: NDArray[np.uint64],
    sizes: NDArray[np.int64],
) -> None:
    """Number of nodes within ``hops`` steps of each node, itself included, or exactly there."""
    num_nodes = len(indptr) - 1
    seen = np.zeros((num_nodes + 63) // 64, np.uint64)
    queue = np.empty(num_nodes, indices.dtype)
    for i in range(first_row, end_row):
        head, tail = _search_inner(i, hops, indptr, indices, seen, queue)
        if _is_sparse(head, tail, indptr, queue, len(seen)):
            sizes[i] = _expand(head, tail, indptr, indices, seen, queue)
            _clear(queue[: sizes[i]], seen)
        else:
            _mark_last_hop(head, tail, indptr, indices, seen, queue, set_of_row, row_sets)
            total = _U0
            for word in range(len(seen)):
                total += popcount(seen[word])
                seen[word] = _U0
            sizes[i] = np.int64(total)
        if exactly:
            sizes[i] -= tail


@compiled
def _fill_pattern(
    first_row: int,
    end_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    hops: int,
    exactly: bool,
    set_of_row: NDArray[np.int32],
    row_sets: NDArray[np.uint64],
    starts: NDArray[np.int64],
    members: NDArray[Any],
) -> None:
    """Write the nodes that :func:`_size_pattern` counts, those of each row in rising order."""
    num_nodes = len(indptr) - 1
    seen = np.zeros((num_nodes + 63) // 64, np.uint64)
    queue = np.empty(num_nodes, indices.dtype)
    for i in range(first_row, end_row):
        head, tail = _search_inner(i, hops, indptr, indices, seen, queue)
        left_out = tail if exactly else 0
        if _is_sparse(head, tail, indptr, queue, len(seen)):
            end = _expand(head, tail, indptr, indices, seen, queue)
            members[starts[i] : starts[i + 1]] = np.sort(queue[left_out:end])
            _clear(queue[:end], seen)
            continue
        _mark_last_hop(head, tail, indptr, indices, seen, queue, set_of_row, row_sets)
        for node in queue[:left_out]:
            seen[np.uint64(node) >> _U6] &= ~(_U1 << (np.uint64(node) & _U63))
        position = starts[i]
        for word in range(len(seen)):
            bits = seen[word]
            seen[word] = _U0
            while bits != _U0:
                members[position] = word * 64 + np.int64(lowest_bit(bits))
                position += 1
                bits &= bits - _U1


@compiled
def _search_inner(node: Any, hops: Any, indptr: Any, indices: Any, seen: Any, queue: Any) -> Any:
    """Search all hops but the last; returns the part of the queue that the last starts from."""
    queue[0] = node
    seen[np.uint64(node) >> _U6] |= _U1 << (np.uint64(node) & _U63)
    head, tail = 0, 1
    for _ in range(hops - 1):
        if head == tail:
            break
        grown = _expand(head, tail, indptr, indices, seen, queue)
        head, tail = tail, grown
    return head, tail


@compiled
def _expand(head: Any, tail: Any, indptr: Any, indices: Any, seen: Any, queue: Any) -> Any:
    """Append the unseen neighbors of queue[head:tail]; returns the new end of the queue."""
    end = tail
    for k in range(head, tail):
        row = queue[k]
        for source in indices[indptr[row] : indptr[row + 1]]:
            word, bit = np.uint64(source) >> _U6, _U1 << (np.uint64(source) & _U63)
            if not seen[word] & bit:
                seen[word] |= bit
                queue[end] = source
                end += 1
    return end


@compiled
def _clear(nodes: Any, seen: Any) -> None:
    for k in range(len(nodes)):
        seen[np.uint64(nodes[k]) >> _U6] = _U0


@compiled
def _is_sparse(head: Any, tail: Any, indptr: Any, queue: Any, words: Any) -> Any:
    """Whether the last hop touches so little that walking it beats sweeping the whole bit set."""
    edges = tail
    for k in range(head, tail):
        row = queue[k]
        edges += indptr[row + 1] - indptr[row]
        if edges > words:
            return False
    return True


@compiled
def _mark_last_hop(
    head: Any,
    tail: Any,
    indptr: Any,
    indices: Any,
    seen: Any,
    queue: Any,
    set_of_row: Any,
    row_sets: Any,
) -> None:
    for k in range(head, tail):
        row = queue[k]
        at = set_of_row[row]
        if at >= 0:
            marked = row_sets[at]
            for word in range(len(seen)):
                seen[word] |= marked[word]
        else:
            _mark_row(indices[indptr[row] : indptr[row + 1]], seen)


@compiled
def _sum_over_rows(
    indptr: NDArray[np.int64], indices: NDArray[Any], values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Sum of the values of each row's members."""
    sums = np.zeros(len(indptr) - 1, np.int64)
    for i in range(len(sums)):
        for source in indices[indptr[i] : indptr[i + 1]]:
            sums[i] += values[source]
    return sums


@compiled
def _mark_rows(indptr: Any, indices: Any, rows: Any, sets: Any) -> None:
    for k in range(len(rows)):
        _mark_row(indices[indptr[rows[k]] : indptr[rows[k] + 1]], sets[k])


@compiled
def _mark_classes(first_word: int, end_word: int, classes: Any, sets: Any) -> None:
    for i in range(first_word * 64, min(len(classes), end_word * 64)):
        sets[classes[i], i >> 6] |= _U1 << np.uint64(i & 63)


@compiled
def _mark_row(row: Any, seen: Any) -> None:
    for k in range(len(row)):
        node = np.uint64(row[k])
        seen[node >> _U6] |= _U1 << (node & _U63)


@compiled
def _count_marked(seen: Any, classes: Any, num_classes: Any, label_sets: Any, counts: Any) -> None:
    """Count the classes of all marked nodes and clear the marks."""
    total = _U0
    for word in range(len(seen)):
        total += popcount(seen[word])
    sweep = (num_classes + 1) * len(seen)
    if len(label_sets) > 0 and np.int64(total) * _WORDS_PER_NODE_READ > sweep:
        for c in range(num_classes + 1):
            members = label_sets[c]
            found = _U0
            for word in range(len(seen)):
                found += popcount(seen[word] & members[word])
            counts[c] = np.int64(found)
        for word in range(len(seen)):
            seen[word] = _U0
        return
    for word in range(len(seen)):
        bits = seen[word]
        if bits == _U0:
            continue
        seen[word] = _U0
        while bits != _U0:
            counts[classes[np.uint64(word) * np.uint64(64) + lowest_bit(bits)]] += 1
            bits &= bits - _U1
