"""Large blocks of memory that are used again, without the gaps that a heap gets.

The pages of a fresh block cost about as much as writing to it twice, so that a program which makes
the same large arrays again and again should keep what it frees. In the heap of the C library large
blocks of different sizes leave gaps between them, into which nothing fits: it grows by a third
beyond what is used at any time. Here every block is a mapping of its own. A freed one waits for the
next array of about its size, and those that wait are given back to the system before all together
are more than was ever used at one time.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAGE = 2 << 20  # a huge page
# A block serves an array that is smaller than it by this factor at most.
_SLACK = 1.1
# What waits may make the whole this much larger than what was used.
_MORE = 1.05


class Pool:
    """Blocks of memory, taken as arrays; an array that is freed gives its block back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[mmap.mmap] = []
        # Arrays are freed at any moment, also while the lock is held; appending needs none.
        self._returned: deque[mmap.mmap] = deque()
        self.used = 0
        self.waiting = 0
        self.most_used = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        """An uninitialized array of so many bytes."""
        needed = max(1, -(-size // _PAGE)) * _PAGE
        with self._lock:
            self._collect()
            block = self._find(needed)
            if block is None:
                self.most_used = max(self.most_used, self.used + needed)
                self._shrink(int(_MORE * self.most_used) - self.used - needed)
                block = self._map_or_shrink(needed)
            self.used += len(block)
            self.most_used = max(self.most_used, self.used)
        return np.asarray(_Lease(block, self._returned))[:size]

    def _map_or_shrink(self, needed: int) -> Any:
        """New memory; what waits is given back first where there is no more.

        Raises:
            MemoryError: There is none at all.
        """
        try:
            return _map(needed)
        except OSError:
            self._shrink(0)
        try:
            return _map(needed)
        except OSError as error:
            raise MemoryError(f"cannot allocate {needed:,} bytes of memory") from error

    def release(self) -> None:
        """Give all that waits back to the system."""
        with self._lock:
            self._collect()
            self._shrink(0)

    def _collect(self) -> None:
        """Let what was freed wait."""
        while self._returned:
            block = self._returned.popleft()
            self._waiting.append(block)
            self.used -= len(block)
            self.waiting += len(block)

    def _find(self, needed: int) -> mmap.mmap | None:
        """The smallest block that waits and is large enough, and not much too large."""
        fitting = [one for one in self._waiting if needed <= len(one) <= _SLACK * needed + _PAGE]
        if not fitting:
            return None
        # The latest of equal ones: its content may still be in the cache.
        block = min(reversed(fitting), key=len)
        self._waiting.remove(block)
        self.waiting -= len(block)
        return block

    def _shrink(self, most: int) -> None:
        """Give blocks back, those that have waited longest first, until at most so much waits."""
        while self._waiting and self.waiting > most:
            self.waiting -= len(self._waiting.pop(0))


class _Lease:
    """What an array of the pool rests on; when nobody has the array any more, its block returns."""

    def __init__(self, block: mmap.mmap, returned: deque[mmap.mmap]) -> None:
        self._block, self._returned = block, returned
        view = np.frombuffer(block, dtype=np.uint8)
        self.__array_interface__: dict[str, Any] = view.__array_interface__

    def __del__(self) -> None:
        self._returned.append(self._block)


def _map(size: int) -> mmap.mmap:
    """Fresh memory of this process alone, in huge pages where the system has them."""
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


#: The pool of this process, where it has one.
_pool: Pool | None = None


def start_pool() -> Pool | None:
    """Let this process have a pool from now on; None where the system has no such mappings."""
    global _pool
    if _pool is None and sys.platform.startswith("linux"):
        _pool = Pool()
        # A child begins with its own: the lock of its parent may be held for ever.
        os.register_at_fork(after_in_child=_renew)
    return _pool


def release_pool() -> None:
    """Give what waits in the pool of this process, if it has one, back to the system."""
    if _pool is not None:
        _pool.release()


def _renew() -> None:
    global _pool
    _pool = Pool()


def empty_bytes(size: int, alignment: int = 64) -> NDArray[np.uint8]:
    """An uninitialized array of so many bytes: of the pool, or of numpy."""
    if _pool is not None:
        return _pool.take(size)
    memory = np.empty(size + alignment, dtype=np.uint8)
    offset = -memory.ctypes.data % alignment
    return memory[offset : offset + size]
