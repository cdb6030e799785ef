"""Matrices of compatibility between classes."""

from __future__ import annotations

import torch


def doubly_stochastic(
    matrix: torch.Tensor, iterations: int = 3000, tolerance: float = 1e-9
) -> torch.Tensor:
    """Scale columns and rows in turn until all of them sum to 1 (Sinkhorn and Knopp).

    Args:
        matrix: Entries that are not negative [C, C].
        iterations: Upper limit of the number of turns; a matrix whose zeros forbid it never gets
            there, and a column or row of zeros stays as it is.
        tolerance: How far from 1 the sums may be.
    """
    least = torch.finfo(matrix.dtype).tiny
    for _ in range(iterations):
        matrix = matrix / matrix.sum(0).clamp_min(least)
        matrix = matrix / matrix.sum(1, keepdim=True).clamp_min(least)
        if bool((matrix.sum(0) - 1).abs().max() < tolerance):
            break
    return matrix


def with_missing_rows(matrix: torch.Tensor) -> torch.Tensor:
    """A matrix whose rows of zeros are filled from its columns, and with 1/C where both lack."""
    missing = matrix.sum(1) == 0
    unknown = missing[:, None] & missing
    filled = torch.where(missing[:, None], matrix.t(), matrix)
    return torch.where(unknown, 1 / len(matrix), filled)
