"""Random numbers that depend on nothing but a key and an index, for compiled loops.

Number i of a stream does not depend on the numbers drawn before it, so a loop gives the same
result however its iterations are shared among threads.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import compiled
from ncgnn.data.splits._random import stream_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


def key_of(stream: str, seed: int) -> np.uint64:
    """Return the 64-bit key of a named stream."""
    return np.uint64(stream_key(f"csbm/{stream}", seed) & 0xFFFFFFFFFFFFFFFF)


@compiled
def word(key: np.uint64, index: int) -> np.uint64:
    """Return 64 random bits: output ``index`` of the generator SplitMix64 started at ``key``.

    G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA
    2014), with the constants of S. Vigna's reference implementation.
    """
    mixed = key + (np.uint64(index) + np.uint64(1)) * _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


@compiled
def uniform(key: np.uint64, index: int) -> float:
    """Return a multiple of 2⁻⁵³ in [0, 1)."""
    return float(word(key, index) >> np.uint64(11)) * _UNIT


@compiled
def below(key: np.uint64, index: int, bound: int) -> int:
    """Return an integer in 0 … ``bound`` - 1; its bias is of the order of bound / 2⁵³."""
    return int(uniform(key, index) * bound)


@compiled
def normal(key: np.uint64, index: int) -> float:
    """Return a standard normal number by the method of Box and Muller.

    √(-2 ln u₁) · cos(2π u₂) with u₁ in (0, 1] and u₂ in [0, 1).
    """
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, 2 * index)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * index + 1))


@compiled
def permutation(key: np.uint64, order: NDArray[np.signedinteger[Any]]) -> None:
    """Fill ``order`` with 0 … n - 1 in random order (the shuffle of Fisher and Yates)."""
    for position in range(order.size):
        other = below(key, position, position + 1)
        order[position] = order[other]
        order[other] = position


@compiled
def unit_rows(key: np.uint64, rows: NDArray[np.float64]) -> None:
    """Fill each row with a point drawn uniformly from the unit sphere."""
    for row in range(rows.shape[0]):
        square = 0.0
        for column in range(rows.shape[1]):
            rows[row, column] = normal(key, row * rows.shape[1] + column)
            square += rows[row, column] ** 2
        rows[row] /= math.sqrt(square)


@compiled
def noisy_rows(
    key: np.uint64,
    labels: NDArray[np.int64],
    means: NDArray[np.float64],
    rows: NDArray[np.float32],
    begin: int,
    end: int,
) -> None:
    """Fill row i, begin ≤ i < end, with the mean of its class plus standard normal noise."""
    for row in range(begin, end):
        for column in range(rows.shape[1]):
            noise = normal(key, row * rows.shape[1] + column)
            rows[row, column] = means[labels[row], column] + noise
