"""The neighbourhoods of a graph, prepared once and counted for any labels.

What every metric does first: find the graph, the labels and the number of classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ncgnn._numba import balanced_blocks, even_blocks, over_blocks
from ncgnn.errors import InputError
from ncgnn.graph import (
    Graph,
    as_graph,
    check_class_count,
    check_labels,
    check_some_labelled,
    compact_classes,
    whole_number,
)
from ncgnn.metrics._kernels import one_hop as _one_hop
from ncgnn.metrics._kernels import within_hops as _within_hops
from ncgnn.metrics._kernels.one_hop import PACKED_CLASSES, packed_units

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike


class Labelled(NamedTuple):
    """A graph with the labels that a metric is to be computed for."""

    graph: Graph
    labels: NDArray[np.int64]
    classes: NDArray[Any]
    num_classes: int


def labelled(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    num_classes: int | None = None,
    *,
    features: bool = False,
) -> Labelled:
    """Resolve the arguments that all metrics share.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions [n], -1 = unlabelled; by default the graph's own.
        num_classes: Number of classes; by default the graph's.
        features: Whether the metric looks at features; otherwise they are not even read.
    """
    if not isinstance(graph, Graph):
        graph = as_graph(graph, labels, num_classes=num_classes, features=features)
        labels = None
    given = graph.labels if labels is None else check_labels(labels, graph.num_nodes)
    if labels is None and num_classes is None and graph.num_unlabelled < graph.num_nodes:
        # A graph's own labels were checked when it was built.
        return Labelled(graph, given, graph.compact_labels, graph.num_classes)
    check_some_labelled(given)
    known = (graph.num_classes or None) if num_classes is None else num_classes
    count = check_class_count(given, known, None)
    return Labelled(graph, given, compact_classes(given, count), count)


def mean(values: NDArray[np.floating[Any]]) -> float:
    """Mean over the nodes where a metric is defined; NaN when it is defined nowhere."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


#: Whether a node counts in its own neighbourhood ("closed") or not ("open").
Neighborhood = Literal["closed", "open"]

#: Default number of bytes that a stored pattern of k-hop neighbourhoods may take.
MEMORY_BUDGET = 2 * 1024**3


@dataclass(frozen=True)
class LabelCounts:
    """What the labels in each node's neighbourhood add up to.

    Attributes:
        size: Number of labelled nodes.
        top: Count of the commonest label.
        same: Count of the node's own label; zero for an unlabelled node.
        surprise: Sum of count · log2(count) over the classes; empty unless asked for.
        leader: The commonest label, the first among equals, -1 where there is none; empty unless
            asked for.
        matrix: All counts [n, C]; empty unless asked for.
    """

    size: NDArray[np.int32]
    top: NDArray[np.int32]
    same: NDArray[np.int32]
    surprise: NDArray[np.float64]
    leader: NDArray[np.int32]
    matrix: NDArray[np.int32]


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
        np.cumsum(_within_hops.sums_over_rows(indptr, indices, degrees), out=walks[1:])
        self.blocks = balanced_blocks(walks)
        largest = _within_hops.largest_rows(indptr, indices.nbytes)
        set_of_row = np.full(len(degrees), -1, dtype=np.int32)
        set_of_row[largest] = np.arange(len(largest))
        self.sets = set_of_row, _within_hops.bit_rows(indptr, indices, largest)

    def sizes(self) -> NDArray[np.int64]:
        """How many nodes each row has."""
        sizes = np.zeros(len(self._rows[0]) - 1, dtype=np.int64)
        search = (*self._rows, *self.sets)
        over_blocks(self.blocks, lambda a, b: _within_hops.pattern_sizes(*search, a, b, sizes))
        return sizes

    def members(
        self, sizes: NDArray[np.int64], first: int = 0, end: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The nodes of the rows from ``first`` to ``end`` as CSR, in ascending order."""
        end = len(sizes) if end is None else end
        starts = np.concatenate([[0], np.cumsum(sizes)])
        starts -= starts[first]
        members = np.empty(int(starts[end]), dtype=self._rows[1].dtype)
        search = (*self._rows, *self.sets)
        over_blocks(
            np.unique(self.blocks.clip(first, end)),
            lambda a, b: _within_hops.fill_pattern(*search, a, b, starts, members),
        )
        return starts[first : end + 1], members


class Neighborhoods:
    """The nodes within ``hops`` steps of each node, following edges backwards.

    Args:
        graph: The graph; its labels play no part.
        hops: Number of steps, at least one.
        memory_budget: Bytes that may be spent on storing the neighbourhoods. Stored ones are
            counted faster; others are searched again on every count, in memory proportional to the
            graph. One hop is stored already: it is the adjacency.

    Attributes:
        stored: Whether the neighbourhoods are stored.
        num_members: Number of (node, member) pairs, where it is known.
    """

    def __init__(self, graph: Graph, hops: int = 1, *, memory_budget: int = 0) -> None:
        self.hops = hops = checked_hops(hops)
        self.num_members: int | None = None
        self._loops = graph.self_loops if graph.num_self_loops else _read_only(np.zeros(0, bool))
        self._indptr, self._indices = graph.indptr, graph.indices
        self.stored = hops == 1
        if hops == 1:
            self._blocks = balanced_blocks(self._indptr)
            return
        self._search = HopSearch(self._indptr, self._indices, hops)
        self._blocks = self._search.blocks
        if memory_budget > 0:
            self._store(memory_budget)

    def _store(self, memory_budget: int) -> None:
        sizes = self._search.sizes()
        self.num_members = int(sizes.sum())
        taken = self.num_members * self._indices.itemsize + self._indptr.nbytes
        if taken > memory_budget:
            return
        starts, members = self._search.members(sizes)
        self._indptr, self._indices = _read_only(starts), _read_only(members)
        # Every node is a member of its own row.
        self._loops = _read_only(np.ones(len(sizes), dtype=bool))
        self._blocks = balanced_blocks(starts)
        self.stored = True

    def pattern(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The stored neighbourhoods as CSR, each node in its own row where it was stored so."""
        if not self.stored:
            raise InputError("the neighbourhoods are not stored; give a larger memory_budget.")
        return self._indptr, self._indices

    def count(
        self,
        classes: NDArray[Any],
        num_classes: int,
        neighborhood: Neighborhood = "closed",
        *,
        surprise: bool = False,
        leader: bool = False,
        matrix: bool = False,
        same: bool = True,
    ) -> LabelCounts:
        """Count the labels in every neighbourhood.

        Args:
            classes: From :func:`compact_classes`.
            num_classes: Number of classes.
            neighborhood: ``"closed"`` or ``"open"``.
            surprise: Also fill :attr:`LabelCounts.surprise`.
            leader: Also fill :attr:`LabelCounts.leader`.
            matrix: Also fill :attr:`LabelCounts.matrix`.
            same: Fill :attr:`LabelCounts.same`; leaving it out saves a little time.
        """
        check_neighborhood(neighborhood)
        n = len(classes)
        counts = LabelCounts(
            size=np.empty(n, dtype=np.int32),
            top=np.empty(n, dtype=np.int32),
            same=np.empty(n if same else 0, dtype=np.int32),
            surprise=np.empty(n if surprise else 0),
            leader=np.empty(n if leader else 0, dtype=np.int32),
            matrix=np.empty((n, num_classes) if matrix else (0, 0), dtype=np.int32),
        )
        self._fill(counts, classes, num_classes, neighborhood == "closed")
        return counts

    def confusion(
        self,
        classes: NDArray[Any],
        num_classes: int,
        neighborhood: Neighborhood = "closed",
        empty: float = float("nan"),
    ) -> NDArray[np.float64]:
        """Neighborhood Confusion of every node; arguments as in :meth:`count`."""
        check_neighborhood(neighborhood)
        if not self.stored or num_classes > PACKED_CLASSES:
            counts = self.count(classes, num_classes, neighborhood, same=False)
            return confusion_of_counts(counts, num_classes, empty)
        values = np.empty(len(classes))
        labels = (classes, packed_units(num_classes), num_classes)
        unlabelled = True if classes.max() == num_classes else None
        formula = (unlabelled, *confusion_table(num_classes, empty))
        given = (*self._packed_rows(), *labels, neighborhood == "closed", *formula)
        over_blocks(self._blocks, lambda a, b: _one_hop.confusion_packed(*given, a, b, values))
        return values

    def _packed_rows(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.bool_] | None]:
        # Compiled code is specialised on None, so that what is not needed costs nothing.
        return self._indptr, self._indices, self._loops if len(self._loops) else None

    def _fill(self, to: LabelCounts, classes: NDArray[Any], num_classes: int, closed: bool) -> None:
        results = (to.size, to.top, to.same)
        extras = (to.surprise, to.leader, to.matrix)
        if not self.stored:
            sets = (*self._search.sets, self._label_sets(classes, num_classes))
            search = (self._indptr, self._indices, self.hops, classes, num_classes, closed, *sets)
            over_blocks(
                self._blocks,
                lambda a, b: _within_hops.count_within(*search, a, b, *results, *extras),
            )
            return
        rows = (self._indptr, self._indices, self._loops)
        if num_classes <= PACKED_CLASSES and not any(len(extra) for extra in extras):
            same = to.same if len(to.same) else None
            given = (*self._packed_rows(), classes, packed_units(num_classes), num_classes, closed)
            over_blocks(
                self._blocks,
                lambda a, b: _one_hop.count_packed(*given, a, b, to.size, to.top, same),
            )
        else:
            plain = (*rows, classes, num_classes, closed)
            over_blocks(
                self._blocks, lambda a, b: _one_hop.count_rows(*plain, a, b, *results, *extras)
            )

    def _label_sets(self, classes: NDArray[Any], num_classes: int) -> NDArray[np.uint64]:
        words = (len(classes) + 63) // 64
        if (num_classes + 1) * words * 8 > max(self._indices.nbytes, 1 << 20):
            return np.zeros((0, 0), dtype=np.uint64)
        return _within_hops.class_sets(classes, num_classes)


def confusion_of_counts(
    counts: LabelCounts, num_classes: int, empty: float = float("nan")
) -> NDArray[np.float64]:
    """NC from the size of each neighbourhood and the count of its commonest label."""
    values = np.empty(len(counts.size))
    given = (counts.size, counts.top, *confusion_table(num_classes, empty), values)
    over_blocks(even_blocks(len(values)), lambda a, b: _one_hop.confusion_of(*given, a, b))
    return values


def confusion_table(num_classes: int, empty: float) -> tuple[NDArray[np.float64], float]:
    """NC for small sizes and counts, row by row; and the logarithm of the number of classes.

    The first entry, for size zero, is ``empty``.
    """
    scale = float(np.log2(num_classes)) if num_classes > 1 else float("inf")
    small = np.arange(_one_hop.TABLE_SIDE)
    ratios = np.maximum(small[:, None] / np.maximum(small, 1), 1)
    table = (np.log2(ratios) / scale).ravel()
    table[0] = empty
    return table, scale


def check_neighborhood(neighborhood: str) -> None:
    """Only two kinds of neighbourhood are known."""
    if neighborhood not in ("closed", "open"):
        raise InputError(f"neighborhood is '{neighborhood}'; choose 'closed' or 'open'.")


def checked_hops(hops: int) -> int:
    """A hop count: a whole number from 1 on."""
    return whole_number(hops, "hops", 1, np.iinfo(np.int32).max)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    # Compiled code is specialised on whether an array can be written to; the arrays of a graph
    # cannot, so those that stand in for them must not either.
    array.flags.writeable = False
    return array
