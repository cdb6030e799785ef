"""A typed door to numba: compiled, cached on disk, and without the interpreter lock.

Floating-point results must not depend on the machine's mood, so ``fastmath`` is never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")

prange = cast("Callable[[int], range]", numba.prange)


def compiled(function: Function) -> Function:
    """Compile a function for one thread; other compiled functions may call it."""
    return cast("Function", numba.njit(cache=True, nogil=True)(function))


def parallel(function: Function) -> Function:
    """Compile a function whose ``prange`` loops run on all threads."""
    return cast("Function", numba.njit(cache=True, nogil=True, parallel=True)(function))


def thread_count() -> int:
    """How many threads the parallel loops of this process use."""
    return int(numba.get_num_threads())
