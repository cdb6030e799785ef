"""Attention over the entries of a sparse pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import leaky_relu

from ncgnn.graph.sparse import edge_softmax, gather_columns, gather_rows, weighted_matmul
from ncgnn.nn._dropout import dropout

if TYPE_CHECKING:
    from ncgnn.graph.sparse import SparsePattern

_SLOPE = 0.2


def attended(
    pattern: SparsePattern,
    nodes: torch.Tensor,
    target: torch.Tensor,
    source: torch.Tensor,
    rate: float = 0.0,
    key: int | None = None,
) -> torch.Tensor:
    """Σ_j α_ij z_j with α_ij = softmax_j LeakyReLU(⟨a, z_i⟩ + ⟨b, z_j⟩), in every head.

    Memory grows with entries × heads and with nodes × width, never with entries × width.

    Args:
        pattern: Row i has an entry in column j where i sees j.
        nodes: z [n, heads, width].
        target: a [heads, width].
        source: b [heads, width].
        rate: Rate of dropout of α.
        key: Key of this dropout.

    Returns:
        [n, heads, width].
    """
    of_target = torch.einsum("nhd,hd->nh", nodes, target)
    of_source = torch.einsum("nhd,hd->nh", nodes, source)
    scores = gather_rows(pattern, of_target) + gather_columns(pattern, of_source)
    attention = edge_softmax(pattern, leaky_relu(scores, _SLOPE))
    attention = dropout(attention, rate, key)
    if len(target) == 1:  # products without heads are faster
        return weighted_matmul(pattern, attention[:, 0], nodes[:, 0]).unsqueeze(1)
    return weighted_matmul(pattern, attention, nodes)
