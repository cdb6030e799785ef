"""Walks of two steps between nodes, and the memory that weights on them take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._compile import balanced_blocks, compiled, over_blocks
from ncgnn.graph.sparse import ConstantSparse, SparsePattern, with_self_loops
from ncgnn.nn.baselines._memory_guard import GIB, free_gib, refuse_beyond

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.nn._inputs import GraphInputs

    Array = NDArray[Any]

# Floats and indices per pair of nodes, from measured peaks. Training: two weights with gradients,
# moments and best values, what a step keeps for its gradients, and a checkpoint being written,
# which takes as much as all weights twice. Prediction: the walks, two weights, the same two as they
# are read from a file, and what a forward pass computes. Model: the walks and two weights.
_TRAINING, _PREDICTION, _MODEL = (54, 3), (10, 2), (3, 1)


def looped_undirected(inputs: GraphInputs) -> ConstantSparse:
    """A + I with every edge in both directions, made once."""
    return inputs.kept(
        "undirected with self-loops", lambda: with_self_loops(inputs.undirected_adjacency)
    )


def pairs_per_node(inputs: GraphInputs) -> NDArray[np.int64]:
    """How many nodes are at most two steps away from each, itself included; O(n) memory."""

    def make() -> NDArray[np.int64]:
        crow, col, blocks = _parts(inputs)
        counts = np.zeros(inputs.num_nodes, dtype=np.int64)
        over_blocks(blocks, lambda a, b: _count(crow, col, counts, a, b))
        return counts

    return inputs.kept("nodes within two steps", make)


def two_hop_walks(inputs: GraphInputs) -> ConstantSparse:
    """(A + I)², the numbers of walks of two steps, made once; columns ascend in every row."""

    def make() -> ConstantSparse:
        crow, col, blocks = _parts(inputs)
        starts = np.concatenate([[0], np.cumsum(pairs_per_node(inputs))])
        small = max(int(starts[-1]), inputs.num_nodes) <= np.iinfo(np.int32).max
        columns = np.empty(int(starts[-1]), dtype=np.int32 if small else np.int64)
        walks = torch.empty(len(columns), dtype=inputs.dtype)
        starts = starts.astype(columns.dtype)
        arrays = (crow, col, starts, columns, walks.numpy())
        over_blocks(blocks, lambda a, b: _fill(*arrays, a, b))
        shape = (inputs.num_nodes, inputs.num_nodes)
        pattern = SparsePattern(torch.from_numpy(starts), torch.from_numpy(columns), shape)
        return ConstantSparse(pattern, walks).to(inputs.device)

    return inputs.kept("walks of two steps", make)


def one_hop_entries(inputs: GraphInputs) -> torch.Tensor:
    """A + I at the entries of :func:`two_hop_walks`: 1 for neighbours and oneself, otherwise 0."""
    crow, col, blocks = _parts(inputs)
    pattern = two_hop_walks(inputs).pattern.to("cpu")
    entries = torch.zeros(pattern.nnz, dtype=inputs.dtype)
    arrays = (crow, col, pattern.crow.numpy(), pattern.col.numpy(), entries.numpy())
    over_blocks(blocks, lambda a, b: _mark(*arrays, a, b))
    return entries.to(inputs.device)


def needed_memory(pairs: int, bytes_per_float: int = 4, *, training: bool = True) -> float:
    """GiB that two weights per pair of nodes take; all else is small beside it."""
    return _gib(pairs, bytes_per_float, *(_TRAINING if training else _PREDICTION))


def check_memory(inputs: GraphInputs, limit: float | None = None, *, training: bool) -> None:
    """Refuse a graph with too many pairs of nodes at most two steps apart.

    Args:
        inputs: The graph.
        limit: GiB that may be used; None = what is available now.
        training: Whether the model, which is there already, is to be trained; otherwise it is still
            to be made, and will only predict.
    """
    pairs, size = int(pairs_per_node(inputs).sum()), inputs.dtype.itemsize
    needed = needed_memory(pairs, size, training=training)
    there = free_gib(inputs.device) + (_gib(pairs, size, *_MODEL) if training else 0)
    found = (
        f"there are {pairs:,} pairs of nodes at most two steps apart, with two weights each; "
        f"{'training' if training else 'the model'}"
    )
    refuse_beyond(limit, there, needed, found, "a smaller graph")


def _gib(pairs: int, bytes_per_float: int, floats: int, indices: int) -> float:
    bytes_per_index = 4 if pairs < 2**31 else 8
    return pairs * (floats * bytes_per_float + indices * bytes_per_index) / GIB


def _parts(inputs: GraphInputs) -> tuple[Array, Array, NDArray[np.int64]]:
    """CSR parts of A + I, and blocks of rows with about equal numbers of walks."""
    pattern = looped_undirected(inputs).pattern.to("cpu")
    crow, col = pattern.crow.numpy(), pattern.col.numpy()
    walks = np.concatenate([[0], np.cumsum(np.diff(crow).astype(np.int64)[col])])
    return crow, col, balanced_blocks(walks[crow])


@compiled
def _count(crow: Array, col: Array, counts: Array, first: int, end: int) -> None:
    seen = np.full(counts.shape[0], -1, dtype=np.int64)
    for i in range(first, end):
        count = 0
        for e in range(crow[i], crow[i + 1]):
            for f in range(crow[col[e]], crow[col[e] + 1]):
                if seen[col[f]] != i:
                    seen[col[f]] = i
                    count += 1
        counts[i] = count


@compiled
def _fill(
    crow: Array, col: Array, starts: Array, columns: Array, walks: Array, first: int, end: int
) -> None:
    times = np.zeros(crow.shape[0] - 1, dtype=np.int64)
    for i in range(first, end):
        place = starts[i]
        for e in range(crow[i], crow[i + 1]):
            for f in range(crow[col[e]], crow[col[e] + 1]):
                if times[col[f]] == 0:
                    columns[place] = col[f]
                    place += 1
                times[col[f]] += 1
        columns[starts[i] : place].sort()
        for e in range(starts[i], place):
            walks[e] = times[columns[e]]
            times[columns[e]] = 0


@compiled
def _mark(
    crow: Array, col: Array, starts: Array, columns: Array, entries: Array, first: int, end: int
) -> None:
    for i in range(first, end):
        e = crow[i]
        for place in range(starts[i], starts[i + 1]):
            if e < crow[i + 1] and columns[place] == col[e]:
                entries[place] = 1
                e += 1
