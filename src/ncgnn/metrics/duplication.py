"""Nodes that are copies of each other, which leak labels from train to test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ncgnn._numba import compiled
from ncgnn.errors import InputError
from ncgnn.metrics.neighborhoods import labelled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike


@dataclass(frozen=True)
class Duplication:
    """Share of labelled nodes that repeat another one.

    Attributes:
        neighbors: With the same label and the same set of neighbours.
        features: With the same label and the same feature row; NaN without features.
    """

    neighbors: float
    features: float


def duplication_rates(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    direction: Literal["out", "in"] = "out",
    binary_features: bool = False,
    num_classes: int | None = None,
) -> Duplication:
    """Duplication rates of a graph: (nodes - distinct keys) / nodes.

    The appendix table "Duplication detection for nodes of same labels" of "Clarify Confused Nodes
    via Separated Learning". The keys are (label, set of neighbours) and (label, feature row); a
    node is not added to its own set, self-loops stay, and isolated nodes share the empty set.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: Class per node; by default the graph's own. Unlabelled nodes are left out.
        direction: On a directed graph, compare the targets of outgoing edges (``"out"``, which is
            what the paper's numbers are) or the sources of incoming ones (``"in"``).
        binary_features: Compare only which features are not zero.
        num_classes: Number of classes; by default the graph's.
    """
    if direction not in ("out", "in"):
        raise InputError(f"direction is '{direction}'; choose 'out' or 'in'.")
    given = labelled(graph, labels, num_classes, features=True)
    rows = given.graph.reverse() if direction == "out" and given.graph.is_directed else given.graph
    none = np.zeros(0, dtype=np.uint64)
    neighbors = _rate(given.labels, rows.indptr, rows.indices, none)
    if given.graph.features is None:
        return Duplication(neighbors, float("nan"))
    from scipy.sparse import csr_array

    features = csr_array(given.graph.features)
    bits = f"uint{8 * features.dtype.itemsize}"
    values = none if binary_features else features.data.view(bits).astype(np.uint64)
    starts = features.indptr.astype(np.int64)
    return Duplication(neighbors, _rate(given.labels, starts, features.indices, values))


def _rate(
    labels: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    values: NDArray[np.uint64],
) -> float:
    nodes = np.flatnonzero(labels >= 0)
    first, second = _row_hashes(indptr, indices, values)
    lengths = np.diff(indptr)
    order = nodes[np.lexsort((second[nodes], first[nodes], lengths[nodes], labels[nodes]))]
    left, right = order[:-1], order[1:]
    alike = (labels[left] == labels[right]) & (lengths[left] == lengths[right])
    alike &= (first[left] == first[right]) & (second[left] == second[right])
    # Equal hashes are only a candidate: the rows themselves decide.
    alike &= _rows_equal(left, right, alike, indptr, indices, values)
    return float(np.count_nonzero(alike)) / len(nodes)


@compiled
def _row_hashes(
    indptr: NDArray[np.int64], indices: NDArray[Any], values: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Two independent 64-bit hashes of every row."""
    rows = len(indptr) - 1
    first, second = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
    for i in range(rows):
        a, b = np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344)
        for e in range(indptr[i], indptr[i + 1]):
            word = np.uint64(indices[e])
            if len(values) > 0:
                word ^= values[e] * np.uint64(0x9E3779B97F4A7C15)
            a = (a ^ word) * np.uint64(0xBF58476D1CE4E5B9)
            a ^= a >> np.uint64(29)
            b = (b ^ word) * np.uint64(0x94D049BB133111EB)
            b ^= b >> np.uint64(31)
        first[i], second[i] = a, b
    return first, second


@compiled
def _rows_equal(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    candidates: NDArray[np.bool_],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    values: NDArray[np.uint64],
) -> NDArray[np.bool_]:
    equal = candidates.copy()
    for k in range(len(left)):
        if not candidates[k]:
            continue
        a, b = indptr[left[k]], indptr[right[k]]
        for step in range(indptr[left[k] + 1] - a):
            same = indices[a + step] == indices[b + step]
            if len(values) > 0:
                same = same and values[a + step] == values[b + step]
            if not same:
                equal[k] = False
                break
    return equal
