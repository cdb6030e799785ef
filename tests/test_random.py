"""Random words by place."""

from __future__ import annotations

from itertools import product

import numpy as np

from ncgnn._random import GOLDEN, key_of, mix_bits, random_word

# The first outputs of the reference generator of SplitMix64 with seed 0.
REFERENCE = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_the_mixer_is_that_of_splitmix64():
    counters = [GOLDEN * (k + 1) & (2**64 - 1) for k in range(3)]
    assert [mix_bits(counter) for counter in counters] == REFERENCE
    assert [random_word(np.uint64(counter)) for counter in counters] == REFERENCE


def test_every_number_of_a_key_counts():
    keys = {key_of(*numbers) for numbers in product(range(4), repeat=3)}
    assert len(keys) == 4**3
    assert len(keys | {key_of(*numbers, 5) for numbers in product(range(4), repeat=3)}) == 2 * 4**3
