"""Compiled code on all threads: a typed door to numba, cached on disk, without interpreter lock.

Floating-point results must not depend on the compiler's choices, so ``fastmath`` is never used.
"""

from __future__ import annotations

import os
import stat
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast

import numba
import numpy as np

from ncgnn.errors import NcgnnWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Function = TypeVar("Function", bound="Callable[..., Any]")
Arrays = TypeVarTuple("Arrays")


def compiled(function: Function) -> Function:
    """Compile a function for one thread; other compiled functions may call it.

    What is compiled is kept on disk, in ``__pycache__`` beside the source, in the user's cache
    where that cannot be written to, or in ``NUMBA_CACHE_DIR``. Reading it back runs code, so that a
    folder of somebody else, or one that anybody may write to, is not used.
    """
    untyped = cast("Any", numba)
    try:
        found = untyped.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no place on disk to write the cache to
        return untyped.njit(nogil=True)(function)
    return found if _is_ours(str(found.stats.cache_path)) else untyped.njit(nogil=True)(function)


@cache
def _is_ours(folder: str) -> bool:
    """Whether a folder is this user's or root's and nobody else may write there; says so once."""
    if os.name != "posix":
        return True
    with suppress(OSError):
        about = Path(folder).stat()
        mine = about.st_uid == os.getuid()
        others = stat.S_IWOTH if mine else stat.S_IWOTH | stat.S_IWGRP
        if (mine or about.st_uid == 0) and not about.st_mode & others:
            return True
        warnings.warn(
            f"others may write to {folder}, so that compiled code is neither read from there nor "
            "kept; take that permission away, or name another folder in NUMBA_CACHE_DIR.",
            NcgnnWarning,
            stacklevel=2,
        )
    return False


def thread_count() -> int:
    """How many threads the parallel loops of this process use: never more than torch may."""
    _start_numba()
    count, torch = int(numba.get_num_threads()), sys.modules.get("torch")
    return count if torch is None else min(count, torch.get_num_threads())


def use_threads(count: int) -> None:
    """Let torch and the parallel loops of this process use so many threads."""
    import torch

    _start_numba()
    most = cast("Any", numba).config.NUMBA_NUM_THREADS
    numba.set_num_threads(min(count, most))
    torch.set_num_threads(count)


def limit_own_threads(count: int) -> None:
    """Let the parallel loops that this very thread starts use so many threads; torch keeps its."""
    _start_numba()
    numba.set_num_threads(count)


@cache
def _start_numba() -> None:
    """Ask numba for its threads once: that sets OpenMP's number, which is torch's, for everyone."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    numba.get_num_threads()
    if torch is not None:
        torch.set_num_threads(before)


def balanced_blocks(
    work_before: NDArray[np.int64], *, least_work: int = 1 << 18, most_blocks: int = 64
) -> NDArray[np.int64]:
    """Cut rows into consecutive blocks of about equal work.

    Args:
        work_before: Work of all rows before each row, [rows + 1]. Every row costs one unit more.
        least_work: Below this much work another thread does not pay.
        most_blocks: Upper limit of the number of blocks.

    Returns:
        Block boundaries, from 0 to the number of rows.
    """
    rows = len(work_before) - 1
    total = int(work_before[-1]) + rows
    # The number of threads plays no part, so that sums over blocks never depend on it.
    parts = max(1, min(rows, total // least_work, most_blocks))
    goals = np.linspace(0, total, parts + 1)
    low, high = np.zeros(parts + 1, dtype=np.int64), np.full(parts + 1, rows)
    while np.any(low < high):
        middle = (low + high) // 2
        enough = work_before[middle] + middle >= goals
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    low[0], low[-1] = 0, rows
    return low


def even_blocks(rows: int, least_rows: int = 1 << 15) -> NDArray[np.int64]:
    """Blocks of rows that all cost the same."""
    parts = max(1, min(rows // least_rows, 32))
    return np.linspace(0, rows, parts + 1).astype(np.int64)


def over_blocks(
    blocks: NDArray[Any], work: Callable[[int, int, *Arrays], None], *arrays: *Arrays
) -> None:
    """Call ``work(first_row, end_row, *arrays)`` for every block, on all threads.

    The work must be compiled code, which runs without the interpreter lock. The calling thread
    takes blocks like the others, and a free thread takes the next one: a thread that has to wait
    for a busy core does not hold up the rest. Unlike OpenMP, this neither competes with torch's
    threads for cores while idle nor breaks in forked processes.
    """
    spans = list(pairwise(blocks.tolist()))
    threads = min(thread_count(), len(spans)) if len(spans) > 1 else 1
    if threads == 1:
        for first, end in spans:
            work(first, end, *arrays)
        return
    waiting = iter(spans)

    def take_blocks() -> None:
        for first, end in waiting:
            work(first, end, *arrays)

    pool = _thread_pool(os.getpid(), threads - 1)
    helpers = [pool.submit(take_blocks) for _ in range(threads - 1)]
    try:
        take_blocks()
    finally:
        for _ in waiting:
            pass  # after an error nobody takes another block
        for helper in helpers:
            if not helper.cancel():
                helper.result()


@cache
def _thread_pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that are kept; a forked process gets its own, as it does not inherit any."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"ncgnn-{process}")
