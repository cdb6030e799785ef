"""Self-loops and the usual normalisations of an adjacency matrix.

Rows are targets, so degrees are the sums of rows: weighted in-degrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ncgnn.errors import InputError
from ncgnn.graph._sparse_build import merged_entries
from ncgnn.graph._sparse_matrix import ConstantSparse
from ncgnn.graph._sparse_pattern import SparsePattern

if TYPE_CHECKING:
    from torch import Tensor


def with_self_loops(adjacency: ConstantSparse) -> ConstantSparse:
    """Give weight 1 to the diagonal of every node that has no stored self-loop.

    A self-loop that is there keeps its weight, which is 1 in an unweighted graph. Columns are
    ascending in the result, and repeated entries are merged into their sum.
    """
    _check_square(adjacency)
    pattern = adjacency.pattern
    looped = torch.zeros(adjacency.shape[0], dtype=torch.bool, device=adjacency.device)
    looped[pattern.col[pattern.row == pattern.col].to(torch.int64)] = True
    missing = torch.nonzero(~looped).view(-1)
    crow, col, place = merged_entries(
        torch.cat([pattern.row.to(torch.int64), missing]),
        torch.cat([pattern.col.to(torch.int64), missing]),
        adjacency.shape,
    )
    weights = torch.cat([adjacency.values, adjacency.values.new_ones(missing.shape[0])])
    values = weights.new_zeros(col.shape[0]).index_add_(0, place, weights)
    return ConstantSparse(SparsePattern(crow, col, adjacency.shape), values)


def gcn_normalised(adjacency: ConstantSparse, self_loops: bool = True) -> ConstantSparse:
    """The symmetric normalisation of graph convolutional networks (arXiv:1609.02907).

    Â = (D + I)^-½ (A + I) (D + I)^-½ with self-loops (see :func:`with_self_loops`), or
    Ã = D^-½ A D^-½ without, where D holds the sums of rows. A node of degree 0 gets 0.
    """
    _check_square(adjacency)
    weighted = with_self_loops(adjacency) if self_loops else adjacency
    scale = _power_or_zero(weighted.row_sums(), -0.5)
    return weighted.scale(rows=scale, cols=scale)


def row_normalised(adjacency: ConstantSparse, self_loops: bool = False) -> ConstantSparse:
    """D^-1 A, or (D + I)^-1 (A + I) with self-loops: each row sums to 1, an empty one to 0."""
    weighted = with_self_loops(adjacency) if self_loops else adjacency
    return weighted.scale(rows=_power_or_zero(weighted.row_sums(), -1.0))


def _power_or_zero(degrees: Tensor, exponent: float) -> Tensor:
    return degrees.pow(exponent).masked_fill_(degrees == 0, 0)


def _check_square(adjacency: ConstantSparse) -> None:
    if adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"adjacency must be square, but its shape is {list(adjacency.shape)}.")
