"""Differentiable functions between the nodes and the entries of a pattern.

They hold one number per entry and head: what a score needs. Wide node features belong into
``weighted_matmul`` and ``sampled_dot``, which never spread them over the entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from ncgnn.errors import InputError
from ncgnn.graph import _sparse_ops as ops
from ncgnn.graph._sparse_checks import check_float, check_match
from ncgnn.graph._sparse_weighted import check_entries

if TYPE_CHECKING:
    from ncgnn.graph._sparse_pattern import SparsePattern


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
        softmax = ops.softmax(pattern, scores)
        ctx.pattern = pattern
        ctx.save_for_backward(softmax)
        return softmax

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        (softmax,), pattern = ctx.saved_tensors, ctx.pattern
        if not torch.is_grad_enabled():
            return None, ops.softmax_gradient(pattern, softmax, gradients[0])
        weighted = softmax * gradients[0]
        return None, weighted - softmax * _spread(pattern, _row_sum(pattern, weighted))


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return ops.row_sums(pattern, entries)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, _spread(ctx.pattern, gradients[0])


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return torch.repeat_interleave(nodes, pattern.row_counts, dim=0, output_size=pattern.nnz)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, _row_sum(ctx.pattern, gradients[0])


class _GatherColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return nodes.index_select(0, pattern.col)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        transposed, permutation = ctx.pattern.transposed
        return None, _row_sum(transposed, gradients[0].index_select(0, permutation))


def _row_sum(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _RowSum.apply(pattern, entries))


def _spread(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _Spread.apply(pattern, nodes))


def edge_softmax(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores over the entries of each row, i.e. over each target's edges.

    α_e = exp(s_e - max s) / Σ exp(s - max s), both over the row of e.

    Args:
        pattern: Places of the entries.
        scores: [nnz] or [nnz, heads], in the order of the pattern's entries.

    Returns:
        As the scores. A score of -inf gets weight 0; a row of nothing but -inf gets NaN, as in
        ``torch.softmax``.
    """
    check_entries(pattern, scores, "scores")
    return cast("torch.Tensor", _EdgeSoftmax.apply(pattern, scores))


def row_sum(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum over each row of entries [nnz] or [nnz, heads]; 0 for an empty row."""
    check_entries(pattern, entries, "entries")
    return _row_sum(pattern, entries)


def gather_rows(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    """``nodes[i]`` for each entry (i, j), from [m] or [m, heads]: the value at the target."""
    _check_nodes(nodes, pattern.shape[0], pattern)
    return _spread(pattern, nodes)


def gather_columns(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    """``nodes[j]`` for each entry (i, j), from [n] or [n, heads]: the value at the source."""
    _check_nodes(nodes, pattern.shape[1], pattern)
    return cast("torch.Tensor", _GatherColumns.apply(pattern, nodes))


def _check_nodes(nodes: torch.Tensor, size: int, pattern: SparsePattern) -> None:
    check_match(nodes, "nodes", getattr(nodes, "dtype", torch.float32), pattern.device)
    check_float(nodes, "nodes")
    if nodes.dim() not in (1, 2) or nodes.shape[0] != size:
        raise InputError(
            f"nodes must have shape [{size}] or [{size}, heads], not {[*nodes.shape]}."
        )
