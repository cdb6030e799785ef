"""Random numbers by place: words that are a function of a key and a counter, and of nothing else.

What is drawn depends neither on threads nor on what was drawn before, so that a resumed run repeats
it without any stored state. The function is the finalizer of SplitMix64 (Steele, Lea and Flood,
OOPSLA 2014): the words of the counters key + GOLDEN, key + 2 · GOLDEN, … are its sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncgnn._numba import compiled

GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def key_of(seed: int, *numbers: int) -> int:
    """The 64-bit key of a seed and of the numbers that say what is drawn: epoch, place, …."""
    key = mix_bits((seed * GOLDEN) & _MASK)
    for number in numbers:
        key = mix_bits((key ^ number) + GOLDEN & _MASK)
    return key


def mix_bits(word: int) -> int:
    """The random word of one counter; see :func:`random_word` for compiled code."""
    word = ((word ^ (word >> 30)) * MIX_1) & _MASK
    word = ((word ^ (word >> 27)) * MIX_2) & _MASK
    return word ^ (word >> 31)


@compiled
def random_word(counter: Any) -> Any:
    """The random word of one counter, all unsigned 64-bit."""
    word = (counter ^ (counter >> np.uint64(30))) * np.uint64(MIX_1)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(MIX_2)
    return word ^ (word >> np.uint64(31))
