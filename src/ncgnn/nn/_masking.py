"""Adjacency matrices with some of their edges removed."""

from __future__ import annotations

import torch

from ncgnn.graph.sparse import ConstantSparse, SparsePattern


def masked_adjacency(
    adjacency: ConstantSparse,
    *,
    targets: torch.Tensor | None = None,
    sources: torch.Tensor | None = None,
) -> ConstantSparse:
    """The entries whose target and source are in the masks, and the whole stored diagonal.

    A stored self-loop is not a message, so that no mask removes it.
    """
    row, col = adjacency.pattern.row.to(torch.int64), adjacency.pattern.col.to(torch.int64)
    kept = torch.ones_like(row, dtype=torch.bool)
    if targets is not None:
        kept &= targets.index_select(0, row)
    if sources is not None:
        kept &= sources.index_select(0, col)
    return _entries(adjacency, kept | (row == col))


def or_itself(operator: ConstantSparse, inside: torch.Tensor) -> ConstantSparse:
    """The operator among the nodes inside a mask for them, and the identity for all others.

    With M the mask as a diagonal matrix this is M·S·M + (I − M).
    """
    row, col = operator.pattern.row.to(torch.int64), operator.pattern.col.to(torch.int64)
    kept = inside.index_select(0, row) & inside.index_select(0, col)
    return _with_identity(_entries(operator, kept), ~inside)


def rows_or_itself(operator: ConstantSparse, inside: torch.Tensor) -> ConstantSparse:
    """The operator's rows for the nodes inside a mask, the identity for others: M·S + (I − M)."""
    kept = inside.index_select(0, operator.pattern.row.to(torch.int64))
    return _with_identity(_entries(operator, kept), ~inside)


def _entries(matrix: ConstantSparse, kept: torch.Tensor) -> ConstantSparse:
    pattern = matrix.pattern
    crow = torch.zeros_like(pattern.crow)
    before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.to(torch.int64).cumsum(0)])
    crow.copy_(before.index_select(0, pattern.crow.to(torch.int64)))
    return ConstantSparse(
        SparsePattern(crow, pattern.col[kept], pattern.shape), matrix.values[kept]
    )


def _with_identity(matrix: ConstantSparse, nodes: torch.Tensor) -> ConstantSparse:
    """A matrix whose rows are empty at the given nodes, with ones on the diagonal there."""
    pattern = matrix.pattern
    row = torch.cat([pattern.row.to(torch.int64), torch.nonzero(nodes).view(-1)])
    order = torch.argsort(row, stable=True)
    extra = torch.nonzero(nodes).view(-1)
    col = torch.cat([pattern.col, extra.to(pattern.col.dtype)]).index_select(0, order)
    values = torch.cat([matrix.values, matrix.values.new_ones(len(extra))]).index_select(0, order)
    crow = torch.zeros_like(pattern.crow)
    crow[1:] = torch.bincount(row, minlength=pattern.shape[0]).cumsum(0)
    return ConstantSparse(SparsePattern(crow, col, pattern.shape), values)
