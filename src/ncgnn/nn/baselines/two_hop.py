"""Pairs of nodes at most two steps apart in an undirected graph, found row by row.

H2GCN passes messages between nodes at distance exactly two, HOG has weights for all nodes within
two steps. Both count their pairs first, in memory of the size of the nodes, to refuse a graph with
too many of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._numba import compiled, even_blocks, over_blocks
from ncgnn.sparse import ConstantSparse, SparsePattern

if TYPE_CHECKING:
    from numpy.typing import NDArray


def count_pairs(adjacency: ConstantSparse, *, exactly: bool) -> NDArray[np.int64]:
    """How many nodes are within two steps of each, itself included.

    Args:
        adjacency: An undirected graph without self-loops.
        exactly: Count the nodes at distance two alone.
    """
    crow, col = _csr(adjacency)
    counts = np.zeros(adjacency.shape[0], dtype=np.int64)
    over_blocks(
        even_blocks(len(counts), 256), lambda a, b: _count(crow, col, exactly, counts, a, b)
    )
    return counts


def find_pairs(
    adjacency: ConstantSparse,
    counts: NDArray[np.int64],
    *,
    exactly: bool,
    first: int = 0,
    end: int | None = None,
) -> SparsePattern:
    """The pairs of the rows from ``first`` to ``end``, with ascending columns.

    Args:
        adjacency: An undirected graph without self-loops.
        counts: From :func:`count_pairs`.
        exactly: As there.
        first: First row.
        end: Row after the last; by default the number of nodes.
    """
    n = adjacency.shape[0]
    starts = np.concatenate([[0], np.cumsum(counts[first:end])])
    wide = max(int(starts[-1]), n + 1) > np.iinfo(np.int32).max
    pairs = np.empty(int(starts[-1]), dtype=np.int64 if wide else np.int32)
    arrays = (*_csr(adjacency), exactly, first, starts, pairs)
    over_blocks(even_blocks(len(starts) - 1, 256), lambda a, b: _write(*arrays, a, b))
    parts = torch.from_numpy(starts.astype(pairs.dtype)), torch.from_numpy(pairs)
    return SparsePattern(*parts, (len(starts) - 1, n))


def count_walks(adjacency: ConstantSparse, pairs: SparsePattern) -> ConstantSparse:
    """(A + I)²: the number of walks of two steps, or of waiting, between the nodes of each pair.

    Args:
        adjacency: A, undirected and without self-loops.
        pairs: All pairs within two steps.
    """
    walks = torch.empty(pairs.nnz, dtype=adjacency.dtype)
    arrays = (*_csr(adjacency), pairs.crow.numpy(), pairs.col.numpy(), walks.numpy())
    over_blocks(even_blocks(pairs.shape[0], 256), lambda a, b: _count_walks(*arrays, a, b))
    return ConstantSparse(pairs, walks)


def _csr(adjacency: ConstantSparse) -> tuple[NDArray[Any], NDArray[Any]]:
    """Starts of rows and columns, where compiled code can read them."""
    return adjacency.pattern.crow.cpu().numpy(), adjacency.pattern.col.cpu().numpy()


@compiled
def _count(crow: Any, col: Any, exactly: bool, counts: Any, first: int, end: int) -> None:
    n = len(crow) - 1
    seen, found = np.full(n, -1), np.empty(n, col.dtype)
    for i in range(first, end):
        counts[i] = len(_search(i, crow, col, exactly, seen, found))


@compiled
def _write(
    crow: Any,
    col: Any,
    exactly: bool,
    offset: int,
    starts: Any,
    pairs: Any,
    first: int,
    end: int,
) -> None:
    n = len(crow) - 1
    seen, found = np.full(n, -1), np.empty(n, col.dtype)
    for i in range(first, end):
        near = _search(offset + i, crow, col, exactly, seen, found)
        pairs[starts[i] : starts[i + 1]] = np.sort(near)


@compiled
def _search(i: int, crow: Any, col: Any, exactly: bool, seen: Any, found: Any) -> Any:
    """The nodes within two steps of i, or at distance two alone, as a view of ``found``."""
    seen[i], found[0] = i, i
    count = 1
    for e in range(crow[i], crow[i + 1]):
        seen[col[e]], found[count] = i, col[e]
        count += 1
    nearer = count if exactly else 0
    for e in range(crow[i], crow[i + 1]):
        j = col[e]
        for f in range(crow[j], crow[j + 1]):
            k = col[f]
            if seen[k] != i:
                seen[k], found[count] = i, k
                count += 1
    return found[nearer:count]


@compiled
def _count_walks(
    crow: Any, col: Any, starts: Any, pairs: Any, walks: Any, first: int, end: int
) -> None:
    times = np.zeros(len(crow) - 1, np.int64)
    for i in range(first, end):
        times[i] += 1
        for e in range(crow[i], crow[i + 1]):
            j = col[e]
            times[j] += 2  # waiting before the step or after it
            for f in range(crow[j], crow[j + 1]):
                times[col[f]] += 1
        for e in range(starts[i], starts[i + 1]):
            walks[e] = times[pairs[e]]
            times[pairs[e]] = 0
