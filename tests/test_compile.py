"""Cutting rows into blocks and working on them in several threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncgnn import _numba as _compile
from ncgnn._numba import balanced_blocks, compiled, even_blocks, over_blocks, thread_count

row_work = st.lists(st.integers(0, 50) | st.sampled_from([0, 10_000]), max_size=60)


def before(work):
    return np.concatenate([[0], np.cumsum(np.array(work, dtype=np.int64))]).astype(np.int64)


def assert_covers(blocks, rows):
    assert blocks[0] == 0
    assert blocks[-1] == rows
    assert np.all(np.diff(blocks) >= 0)
    assert np.issubdtype(blocks.dtype, np.integer)


@given(row_work, st.integers(1, 2000))
@settings(deadline=None, max_examples=200)
def test_blocks_cover_all_rows_in_order(work, least_work):
    blocks = balanced_blocks(before(work), least_work=least_work)
    assert_covers(blocks, len(work))
    total = sum(work) + len(work)
    assert len(blocks) - 1 <= max(1, total // least_work)
    assert len(blocks) - 1 <= 64


@given(row_work, st.integers(1, 7))
@settings(deadline=None)
def test_the_number_of_blocks_can_be_limited(work, most_blocks):
    blocks = balanced_blocks(before(work), least_work=1, most_blocks=most_blocks)
    assert_covers(blocks, len(work))
    assert len(blocks) - 1 <= most_blocks


@given(row_work.filter(len), st.integers(1, 200))
@settings(deadline=None, max_examples=200)
def test_no_block_has_much_more_than_its_share(work, least_work):
    blocks = balanced_blocks(before(work), least_work=least_work)
    total = sum(work) + len(work)
    share = total / (len(blocks) - 1)
    heaviest = max(work) + 1
    for first, end in pairwise(blocks):
        assert sum(work[first:end]) + (end - first) <= share + heaviest + 1e-6


def test_equal_rows_make_equal_blocks():
    blocks = balanced_blocks(np.arange(1001, dtype=np.int64) * 9, least_work=1000)
    assert np.ptp(np.diff(blocks)) <= 1
    assert len(blocks) == 11


def test_a_heavy_row_ends_its_block():
    work = [1] * 10 + [100_000] + [1] * 10
    blocks = balanced_blocks(before(work), least_work=1000)
    assert next(end for first, end in pairwise(blocks) if first <= 10 < end) == 11


@pytest.mark.parametrize("work", [[3] * 500, [0, 9000, 1] * 40])
def test_blocks_do_not_depend_on_the_number_of_threads(work, monkeypatch):
    found = []
    for count in (1, 2, 16):
        monkeypatch.setattr(_compile, "thread_count", lambda count=count: count)
        found.append((balanced_blocks(before(work), least_work=5), even_blocks(10**6)))
    for balanced, even in found[1:]:
        assert np.array_equal(balanced, found[0][0])
        assert np.array_equal(even, found[0][1])


def test_little_work_is_one_block():
    assert balanced_blocks(before([5, 5, 5])).tolist() == [0, 3]
    assert balanced_blocks(before([])).tolist() == [0, 0]
    assert even_blocks(0).tolist() == [0, 0]
    assert even_blocks(1000).tolist() == [0, 1000]


@pytest.mark.parametrize("rows", [1 << 15, 1 << 16, (1 << 17) + 13, 5_000_001])
def test_even_blocks_are_even(rows):
    blocks = even_blocks(rows)
    assert_covers(blocks, rows)
    assert np.ptp(np.diff(blocks)) <= 1
    assert len(blocks) - 1 == min(rows >> 15, 32)


def test_even_blocks_of_few_rows():
    blocks = even_blocks(100, 64)
    assert blocks.tolist() == [0, 100]
    assert_covers(even_blocks(1000, 64), 1000)
    assert len(even_blocks(1000, 64)) - 1 == 15


@pytest.fixture(params=[1, 2])
def threads(request, monkeypatch):
    monkeypatch.setattr(_compile, "thread_count", lambda: request.param)
    return request.param


@given(cuts=st.lists(st.integers(0, 40), max_size=12))
@settings(deadline=None, max_examples=30)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_row_is_worked_on_once(count, cuts):
    blocks = np.array([0, *sorted(cuts), 40])
    done = np.zeros(40, dtype=np.int64)

    def work(first, end):
        done[first:end] += 1

    def work_on(first, end, rows):
        rows[first:end] += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_compile, "thread_count", lambda: count)
        over_blocks(blocks, work)
        over_blocks(blocks, work_on, done)
    assert done.tolist() == [2] * 40


def test_an_error_in_the_work_is_raised(threads):
    def work(first, end):
        if first == 2:
            raise ZeroDivisionError("in the third block")

    with pytest.raises(ZeroDivisionError, match="third"):
        over_blocks(np.arange(5), work)


def test_blocks_run_at_the_same_time(monkeypatch):
    monkeypatch.setattr(_compile, "thread_count", lambda: 2)
    meeting = threading.Barrier(2, timeout=20)
    # Each block waits for the other one: one thread alone would never come through.
    over_blocks(np.arange(3), lambda first, end: meeting.wait() and None)


def test_one_thread_is_the_callers_own(monkeypatch):
    monkeypatch.setattr(_compile, "thread_count", lambda: 1)
    seen = []
    over_blocks(np.arange(4), lambda first, end: seen.append((threading.get_ident(), first, end)))
    own = threading.get_ident()
    assert seen == [(own, 0, 1), (own, 1, 2), (own, 2, 3)]


def test_the_thread_count_is_that_of_numba():
    default = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert thread_count() == 1
    finally:
        numba.set_num_threads(default)
    assert thread_count() == default


def test_no_more_threads_than_torch_may_use():
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert thread_count() == 1
    finally:
        torch.set_num_threads(before)


def _sum_of_squares(values):
    total = 0.0
    for k in range(len(values)):
        total += values[k] * values[k]
    return total


def test_compiled_functions_compute_the_same():
    values = np.arange(10.0)
    function = compiled(_sum_of_squares)
    assert function(values) == _sum_of_squares(values) == 285
    assert function.targetoptions["nogil"]
    assert not function.targetoptions.get("fastmath")


CACHED = """
import os
os.umask({umask})
from ncgnn._numba import compiled

@compiled
def double(number):
    return 2 * number

print(double(21))
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions of another kind")
@pytest.mark.parametrize(("umask", "is_kept"), [(0o000, False), (0o022, True)])
def test_compiled_code_is_kept_where_not_everybody_may_write(tmp_path, umask, is_kept):
    script = tmp_path / "script.py"
    script.write_text(CACHED.format(umask=umask))
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        assert done.stdout == "42\n"
        assert done.stderr.count("others may write to") == (not is_kept)
        assert any(tmp_path.glob("cache/*/*.nbi")) == is_kept
