"""Batches that are prepared by other threads while the caller works on earlier ones."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from ncgnn._numba import limit_own_threads
from ncgnn.graph import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

Item = TypeVar("Item")


class Prefetcher(Generic[Item]):
    """An iterator over ``prepare(0), prepare(1), …``, which runs ahead of whoever takes them.

    Items come in order. What ``prepare`` raises is raised where its item would have come, and ends
    the iteration. Threads end with the last item, with an exception, or when the prefetcher is
    closed, as a ``with`` block does: nothing is prepared once it has been left.

    Sampling and gathering run without the interpreter lock, so that threads are enough. Each
    prepares an item alone; parallel loops inside of ``prepare`` use one thread, and the rest of the
    machine is the caller's.

    Args:
        prepare: Called with the number of an item, from several threads if there are several.
        count: Number of items.
        ahead: How many items may be prepared or under way beside the one that the caller has; this
            bounds memory.
        workers: Number of threads.

    Example:
        >>> with Prefetcher(lambda number: number**2, count=4) as squares:
        ...     list(squares)
        [0, 1, 4, 9]
    """

    def __init__(
        self, prepare: Callable[[int], Item], count: int, *, ahead: int = 2, workers: int = 1
    ) -> None:
        self._prepare = prepare
        self._count = whole_number(count, "count")
        self._ahead = whole_number(ahead, "ahead", 1)
        self._next = 0
        self._waiting: deque[Future[Item]] = deque()
        self._pool = ThreadPoolExecutor(
            whole_number(workers, "workers", 1),
            thread_name_prefix="ncgnn-prefetch",
            initializer=limit_own_threads,
            initargs=(1,),
        )
        self._submit()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        if not self._waiting:
            self.close()
            raise StopIteration
        try:
            item = self._waiting.popleft().result()
            self._submit()
        except BaseException:
            self.close()
            raise
        return item

    def _submit(self) -> None:
        while self._next < self._count and len(self._waiting) < self._ahead:
            self._waiting.append(self._pool.submit(self._prepare, self._next))
            self._next += 1

    def close(self) -> None:
        """Let the threads end what they are at, and nothing more; it may be called again."""
        self._next = self._count
        self._waiting.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Left early without ``with``: what was not begun is not prepared any more.
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
