"""Matrices of compatibility between classes."""

from __future__ import annotations

import torch


def doubly_stochastic(
    matrix: torch.Tensor, iterations: int = 3000, tolerance: float = 1e-9
) -> torch.Tensor:
    """Scale columns and rows in turn until all of them sum to 1 (Sinkhorn and Knopp).

    Rows are scaled last, so that they sum to 1 whatever happens. Zeros stay zeros, and where they
    leave no way to do it, columns do not: entries for which there is no way tend to 0, the others
    to fixed values, and that is the result, as soon as it no longer changes. A column or row of
    zeros stays as it is.

    Args:
        matrix: Entries that are not negative [C, C].
        iterations: Upper limit of the number of turns.
        tolerance: How far from 1 the sums of columns may be.
    """
    number = torch.finfo(matrix.dtype)
    for _ in range(iterations):
        before = matrix
        matrix = matrix / matrix.sum(0).clamp_min(number.tiny)
        matrix = matrix / matrix.sum(1, keepdim=True).clamp_min(number.tiny)
        done = (matrix.sum(0) - 1).abs().max() < tolerance
        if bool(done | ((matrix - before).abs().max() <= 4 * number.eps)):
            break
    return matrix


def with_missing_rows(matrix: torch.Tensor) -> torch.Tensor:
    """A matrix whose rows of zeros are filled from its columns, and with 1/C where both lack."""
    missing = matrix.sum(1) == 0
    unknown = missing[:, None] & missing
    filled = torch.where(missing[:, None], matrix.t(), matrix)
    return torch.where(unknown, 1 / len(matrix), filled)
