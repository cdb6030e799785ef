"""How often each class meets each other class along the edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import balanced_blocks, compiled, over_blocks
from ncgnn.errors import InputError
from ncgnn.metrics._inputs import labelled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike
    from ncgnn.metrics._inputs import Labelled

_MOST_CLASSES = 10_000


def class_pair_counts(
    graph: GraphLike, labels: ArrayLike | None = None, *, num_classes: int | None = None
) -> NDArray[np.int64]:
    """Number of stored edges from each class to each class, [C, C]: row = target, column = source.

    Self-loops and edges with an unlabelled end are left out. Symmetric for undirected graphs, which
    store every edge twice.
    """
    return class_pairs(labelled(graph, labels, num_classes))[0]


def class_sizes(labels: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    """Number of labelled nodes of each class."""
    return np.bincount(labels[labels >= 0], minlength=num_classes)


def class_pairs(given: Labelled) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edges between each pair of classes, counted twice over.

    Returns:
        The number of stored edges, row = target; and the probability that a node, drawn uniformly
        among the labelled ones with a labelled neighbour, and one of its neighbours, drawn
        uniformly, have these classes.
    """
    indptr, indices = given.graph.indptr, given.graph.indices
    if given.num_classes > _MOST_CLASSES:
        raise InputError(
            f"{given.num_classes} classes are too many for a table of all class pairs; "
            f"at most {_MOST_CLASSES} work."
        )
    # Every block has a table of its own; together they stay within a quarter of a gigabyte.
    most_blocks = max(1, min(64, (1 << 24) // given.num_classes**2))
    blocks = balanced_blocks(indptr, most_blocks=most_blocks)
    place = {int(first): k for k, first in enumerate(blocks[:-1])}
    shape = (len(blocks) - 1, given.num_classes, given.num_classes)
    counts, shares = np.zeros(shape, dtype=np.int64), np.zeros(shape)

    def count(first: int, end: int) -> None:
        at = place[first]
        _count_pairs(indptr, indices, given.classes, first, end, counts[at], shares[at])

    over_blocks(blocks, count)
    total = float(shares.sum())
    return counts.sum(axis=0), shares.sum(axis=0) / (total if total > 0 else 1.0)


@compiled
def _count_pairs(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    classes: NDArray[Any],
    first_row: int,
    end_row: int,
    counts: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> None:
    num_classes = len(counts)
    row_counts = np.zeros(num_classes + 1, np.int64)
    for i in range(first_row, end_row):
        own = classes[i]
        if own == num_classes:
            continue
        size = 0
        for source in indices[indptr[i] : indptr[i + 1]]:
            if source != i:
                row_counts[classes[source]] += 1
                size += 1
        size -= row_counts[num_classes]
        row_counts[num_classes] = 0
        if size == 0:
            continue
        for c in range(num_classes):
            counts[own, c] += row_counts[c]
            shares[own, c] += row_counts[c] / size
            row_counts[c] = 0
