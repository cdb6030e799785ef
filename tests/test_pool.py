"""Large blocks of memory that are used again."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from ncgnn._pool import Pool, empty_bytes

MIB = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the pool")


def place(array):
    return array.__array_interface__["data"][0]


def test_a_freed_block_serves_the_next_array_of_about_its_size():
    pool = Pool()
    first = pool.take(10 * MIB)
    where = place(first)
    del first
    assert place(smaller := pool.take(10 * MIB - 100)) == where
    assert pool.used == 10 * MIB
    assert pool.waiting == 0
    assert len(smaller) == 10 * MIB - 100


def test_what_is_in_use_is_never_given_out_again():
    pool = Pool()
    arrays = [pool.take(8 * MIB) for _ in range(5)]
    for number, array in enumerate(arrays):
        array[:] = number
    view = arrays[2][100:200]  # keeps its block
    del arrays[2]
    more = pool.take(8 * MIB)
    more[:] = 99
    assert (view == 2).all()
    assert [int(array[-1]) for array in arrays] == [0, 1, 3, 4]


def test_all_together_is_hardly_more_than_what_was_used_at_one_time():
    pool = Pool()
    sizes = np.random.default_rng(0).integers(4, 40, 300) * MIB
    most = 0
    held = []
    for size in sizes.tolist():
        held.append(pool.take(size))
        held = held[-3:]
        used = sum(-(-len(one) // (2 * MIB)) * 2 * MIB for one in held)
        most = max(most, used)
        assert pool.used + pool.waiting <= 1.3 * most + 45 * MIB


def test_release_gives_back_what_waits():
    pool = Pool()
    array = pool.take(6 * MIB)
    del array
    pool.release()
    assert (pool.used, pool.waiting) == (0, 0)


def test_without_a_pool_bytes_are_aligned_arrays_of_numpy():
    array = empty_bytes(5 * MIB)
    assert place(array) % 64 == 0
    assert len(array) == 5 * MIB


FORKED = """
import os
from ncgnn._memory import keep_freed_memory
from ncgnn._pool import empty_bytes
assert keep_freed_memory()
mine = empty_bytes(8 << 20)
mine[:] = 1
child = os.fork()
if child == 0:
    own = empty_bytes(8 << 20)
    own[:] = 2
    mine[:] = 3
    os._exit(0 if int(own[0]) == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
assert int(mine[0]) == 1
"""


def test_a_forked_child_has_memory_of_its_own():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60, env=dict(os.environ))
