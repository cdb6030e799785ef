"""Bit tricks for compiled kernels: population counts, and sixteen small counters in one word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ncgnn._compile import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: How many classes one word of packed counters holds, and how far each counter can count.
PACKED_CLASSES = 16
PACKED_LIMIT = 15
#: How far a byte counter can count for :func:`byte_max` to be right.
BYTE_LIMIT = 127

_LOW_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_LOW_BITS = np.uint64(0x1111111111111111)
_U0, _U2, _U3 = np.uint64(0), np.uint64(2), np.uint64(3)
_U1, _U4, _U7, _U8 = np.uint64(1), np.uint64(4), np.uint64(7), np.uint64(8)
_U16, _U32, _U56, _U255 = np.uint64(16), np.uint64(32), np.uint64(56), np.uint64(255)


def _population_count(_typing: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _trailing_zeros(_typing: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


#: Number of ones in a 64-bit word.
popcount = cast("Callable[[Any], Any]", intrinsic(_population_count))
#: Position of the lowest one in a 64-bit word.
lowest_bit = cast("Callable[[Any], Any]", intrinsic(_trailing_zeros))


def packed_units(num_classes: int) -> NDArray[np.uint64]:
    """For each class the word that adds one to its counter; zero for every other class value."""
    units = np.zeros(256, dtype=np.uint64)
    units[:num_classes] = np.uint64(1) << (np.arange(num_classes, dtype=np.uint64) * _U4)
    return units


@compiled
def widened(packed: Any) -> Any:
    """Sixteen four-bit counters as two words of byte counters: even classes and odd ones."""
    return packed & _LOW_NIBBLES, (packed >> _U4) & _LOW_NIBBLES


@compiled
def packed_sum(packed: Any) -> Any:
    """Sum of sixteen four-bit counters; it must be at most 255."""
    even, odd = widened(packed)
    return ((even + odd) * _ONES) >> _U56


@compiled
def packed_max(packed: Any) -> Any:
    """Largest of sixteen four-bit counters, found bit by bit from the highest on.

    Of the counters that are still in the running, those with the bit set stay, if there are any.
    """
    found = (packed >> _U3) & _LOW_BITS
    running = found if found != _U0 else _LOW_BITS
    largest = _U8 if found != _U0 else _U0
    found = (packed >> _U2) & running
    running = found if found != _U0 else running
    largest += _U4 if found != _U0 else _U0
    found = (packed >> _U1) & running
    running = found if found != _U0 else running
    largest += _U2 if found != _U0 else _U0
    return largest + (_U1 if packed & running != _U0 else _U0)


@compiled
def byte_sum(even: Any, odd: Any) -> Any:
    """Sum of sixteen byte counters; it must be at most 255."""
    return np.int32(((even + odd) * _ONES) >> _U56)


@compiled
def byte_max(even: Any, odd: Any) -> Any:
    """Largest of sixteen byte counters, each below 128."""
    largest = _max_of_bytes(even, odd)
    largest = _max_of_bytes(largest, largest >> _U32)
    largest = _max_of_bytes(largest, largest >> _U16)
    largest = _max_of_bytes(largest, largest >> _U8)
    return np.int32(largest & _U255)


@compiled
def byte_at(even: Any, odd: Any, position: Any) -> Any:
    """The byte counter of one class."""
    word = odd if position & 1 else even
    return np.int32((word >> ((np.uint64(position) >> _U1) * _U8)) & _U255)


@compiled
def _max_of_bytes(left: Any, right: Any) -> Any:
    """Byte by byte maximum of two words whose bytes are below 128."""
    not_less = (((left | _HIGH_BITS) - right) & _HIGH_BITS) >> _U7
    chosen = not_less * _U255
    return (left & chosen) | (right & ~chosen)
