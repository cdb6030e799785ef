"""Pairs of nodes at distance exactly two, as an operator that is applied block by block."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from ncgnn._compile import compiled, even_blocks, over_blocks
from ncgnn.graph.sparse import ConstantSparse, SparsePattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Pairs of nodes in one block of rows, 64 MiB of columns.
PAIRS_PER_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class DistanceTwo:
    """D^-½ A D^-½ for the pairs of nodes at distance exactly two in an undirected graph.

    Attributes:
        blocks: Rows of A, whose ones are all views of the same memory.
        scale: The diagonal D^-½ [n, 1], 0 for nodes without such pairs.
    """

    blocks: tuple[ConstantSparse, ...]
    scale: torch.Tensor

    @classmethod
    def of(
        cls, adjacency: ConstantSparse, counts: NDArray[np.int64], block: int = PAIRS_PER_BLOCK
    ) -> DistanceTwo:
        """Find the pairs of an undirected graph, about ``block`` of them at a time.

        Args:
            adjacency: The graph.
            counts: From :func:`pairs_per_node`.
            block: Number of pairs.
        """
        n, edges = len(counts), _edges(adjacency)
        starts = np.concatenate([[0], np.cumsum(counts)])
        cuts = np.searchsorted(starts, np.arange(block, starts[-1], block))
        bounds = [0, *np.unique(cuts[cuts < n]).tolist(), n]
        most = max(int(starts[b] - starts[a]) for a, b in pairwise(bounds))
        ones = adjacency.values.new_ones(most)
        patterns = [_pairs(edges, starts, a, b).to(adjacency.device) for a, b in pairwise(bounds)]
        degrees = torch.from_numpy(counts)[:, None].to(adjacency.values)
        scale = degrees.pow(-0.5).masked_fill_(degrees == 0, 0)
        return cls(tuple(ConstantSparse(rows, ones[: rows.nnz]) for rows in patterns), scale)

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        product = _SymmetricProduct.apply(self.blocks, self.scale * dense)
        return self.scale * cast("torch.Tensor", product)


def pairs_per_node(adjacency: ConstantSparse) -> NDArray[np.int64]:
    """How many nodes are at distance two of each in an undirected graph; O(n) memory."""
    counts, edges = np.zeros(adjacency.shape[0], dtype=np.int64), _edges(adjacency)
    over_blocks(even_blocks(len(counts), 256), lambda a, b: _count_pairs(*edges, counts, a, b))
    return counts


class _SymmetricProduct(torch.autograd.Function):
    """A·X for a symmetric matrix in blocks of rows; the gradient of X is A·G."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        ctx.blocks, dense = arguments
        return torch.cat([block @ dense for block in ctx.blocks])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, cast("torch.Tensor", _SymmetricProduct.apply(ctx.blocks, gradients[0]))


def _edges(adjacency: ConstantSparse) -> tuple[NDArray[Any], NDArray[Any]]:
    """Starts of rows and columns, where compiled code can read them."""
    return adjacency.pattern.crow.cpu().numpy(), adjacency.pattern.col.cpu().numpy()


def _pairs(
    edges: tuple[NDArray[Any], NDArray[Any]], starts: NDArray[np.int64], first: int, end: int
) -> SparsePattern:
    """The pairs of some rows, with ascending columns."""
    crow = starts[first : end + 1] - starts[first]
    wide = max(int(crow[-1]), len(starts)) > np.iinfo(np.int32).max
    col = np.empty(int(crow[-1]), dtype=np.int64 if wide else np.int32)
    over_blocks(
        even_blocks(end - first, 256),
        lambda a, b: _write_pairs(*edges, first, crow, col, a, b),
    )
    shape = (end - first, len(starts) - 1)
    return SparsePattern(torch.from_numpy(crow.astype(col.dtype)), torch.from_numpy(col), shape)


@compiled
def _count_pairs(crow: Any, col: Any, counts: Any, first: int, end: int) -> None:
    n = len(crow) - 1
    seen, found = np.full(n, -1), np.empty(n, col.dtype)
    for i in range(first, end):
        counts[i] = _at_distance_two(i, crow, col, seen, found)


@compiled
def _write_pairs(
    crow: Any, col: Any, offset: int, starts: Any, pairs: Any, first: int, end: int
) -> None:
    n = len(crow) - 1
    seen, found = np.full(n, -1), np.empty(n, col.dtype)
    for i in range(first, end):
        count = _at_distance_two(offset + i, crow, col, seen, found)
        pairs[starts[i] : starts[i + 1]] = np.sort(found[:count])


@compiled
def _at_distance_two(i: int, crow: Any, col: Any, seen: Any, found: Any) -> int:
    """Write the nodes at distance two from i to ``found``; their number."""
    seen[i] = i
    for e in range(crow[i], crow[i + 1]):
        seen[col[e]] = i
    count = 0
    for e in range(crow[i], crow[i + 1]):
        j = col[e]
        for f in range(crow[j], crow[j + 1]):
            k = col[f]
            if seen[k] != i:
                seen[k] = i
                found[count] = k
                count += 1
    return count
