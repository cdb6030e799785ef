"""Instructions of the processor, against Python."""

from __future__ import annotations

import random
from collections import Counter

import numba
import numpy as np
import pytest

from ncgnn import _intrinsics


@numba.njit
def _word_tricks(word):
    return _intrinsics.popcount(word), _intrinsics.lowest_bit(word)


@pytest.mark.parametrize("word", [1, 2, 1 << 63, (1 << 64) - 1, 0xF0F0, 0xDEADBEEF << 20])
def test_bits_of_words(word):
    ones, lowest = _word_tricks(np.uint64(word))
    assert ones == word.bit_count()
    assert lowest == (word & -word).bit_length() - 1


@numba.njit
def _fetch(values, place):
    _intrinsics.prefetch(values, place)
    return values[0]


@pytest.mark.parametrize("place", [0, 2, -5, 1 << 40])
def test_fetching_ahead_is_a_hint(place):
    assert _fetch(np.arange(3.0), place) == 0
    assert _fetch(np.arange(6, dtype=np.int32).reshape(2, 3), place)[0] == 0


@numba.njit
def _compare(lanes, labels, first, count, own, more, none):
    if lanes == 16:
        return _intrinsics.compare_16(labels, first, count, own, more, none)
    if lanes == 32:
        return _intrinsics.compare_32(labels, first, count, own, more, none)
    return _intrinsics.compare_64(labels, first, count, own, more, none)


@pytest.mark.parametrize("lanes", [16, 32, 64])
@pytest.mark.parametrize("kind", [np.uint8, np.int32])
def test_labels_are_compared_with_each_other(lanes, kind):
    draw = random.Random(0)
    for _ in range(300):
        classes = draw.choice([1, 2, 5, 40, 255])
        labels = np.array([draw.randrange(classes + 1) for _ in range(lanes + 7)], dtype=kind)
        count, first, own = draw.randrange(lanes + 1), draw.randrange(8), draw.randrange(classes)
        seen = Counter(x for x in labels[first : first + count].tolist() if x != classes)
        more = draw.choice([-1, 0, 1]) if seen[own] else draw.choice([0, 1])
        arguments = (np.uint64(first), count, kind(own), more, kind(classes))
        found = _compare(lanes, labels, *arguments)
        size = seen.total()
        if seen[own]:
            seen[own] += more
        assert (found >> 8, found & 255) == (size, max(seen.values(), default=0))
