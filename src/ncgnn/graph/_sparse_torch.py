"""The sparse operations in plain torch, for any device and without any E × d array.

Entries are taken in chunks, so that no temporary exceeds :data:`CHUNK_ELEMENTS` numbers. On CUDA,
``index_add_`` adds in no fixed order unless ``torch.use_deterministic_algorithms(True)`` is set.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from ncgnn.graph._sparse_backend import torch_csr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncgnn.graph._sparse_pattern import SparsePattern

CHUNK_ELEMENTS = 1 << 22


def _chunks(nnz: int, dense: torch.Tensor, buffers: int) -> Iterator[tuple[slice, torch.Tensor]]:
    """Slices of the entries, each with buffers for a row of ``dense`` per entry.

    The buffers are used again for every slice: memory that is given back and asked for again
    many times fragments, and the process grows.
    """
    step = min(nnz, max(1, CHUNK_ELEMENTS // max(1, math.prod(dense.shape[1:]))))
    memory = dense.new_empty((buffers, step, *dense.shape[1:]))
    for start in range(0, nnz, step):
        stop = min(start + step, nnz)
        yield slice(start, stop), memory[:, : stop - start]


def csr_product(pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """A·X by the CSR product of torch; one product per head for weights [nnz, heads]."""
    if weights.dim() == 1:
        matrix = torch_csr(pattern.crow, pattern.col, weights, pattern.shape)
        return matrix @ dense
    per_head = [
        csr_product(pattern, weights[:, head].contiguous(), dense[:, head].contiguous())
        for head in range(weights.shape[1])
    ]
    return torch.stack(per_head, dim=1)


def chunked_product(
    pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """A·X by gather and ``index_add_``, a bounded number of entries at a time."""
    out = dense.new_zeros((pattern.shape[0], *dense.shape[1:]))
    for chunk, (messages,) in _chunks(pattern.nnz, dense, buffers=1):
        torch.index_select(dense, 0, pattern.col[chunk], out=messages)
        messages *= weights[chunk].unsqueeze(-1)
        out.index_add_(0, pattern.row[chunk], messages)
    return out


def sampled_dots(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """⟨left_i, right_j⟩ over the last dimension for every entry (i, j), in bounded chunks."""
    out = left.new_empty((pattern.nnz, *left.shape[1:-1]))
    for chunk, (products, factors) in _chunks(pattern.nnz, left, buffers=2):
        torch.index_select(left, 0, pattern.row[chunk], out=products)
        torch.index_select(right, 0, pattern.col[chunk], out=factors)
        torch.sum(products.mul_(factors), dim=-1, out=out[chunk])
    return out


def row_sums(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum of the entries [nnz, heads] of each row."""
    out = entries.new_zeros((pattern.shape[0], *entries.shape[1:]))
    return out.index_add_(0, pattern.row, entries)


def softmax(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores [nnz, heads] of each row."""
    rows = pattern.row.to(torch.int64)
    highest = scores.new_full((pattern.shape[0], *scores.shape[1:]), -torch.inf)
    highest.scatter_reduce_(0, rows.view(-1, 1).expand_as(scores), scores, "amax")
    exponentials = (scores - highest.index_select(0, rows)).exp_()
    return exponentials.div_(row_sums(pattern, exponentials).index_select(0, rows))


def softmax_gradient(
    pattern: SparsePattern, softmax_values: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    """p·(g - Σ p g) for each row."""
    weighted = softmax_values * gradient
    totals = row_sums(pattern, weighted).index_select(0, pattern.row)
    return weighted.sub_(totals.mul_(softmax_values))
