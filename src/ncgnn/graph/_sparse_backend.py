"""Which code computes a sparse operation, on how many threads and into which memory.

There are three paths, and they compute the same numbers up to rounding:

* ``compiled``: row loops in machine code, on the CPU only;
* ``csr``: the CSR product of torch (MKL, cuSPARSE), and torch operations for the rest;
* ``chunks``: gather and ``index_add`` on a bounded number of entries at a time, for devices
  without a CSR product.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numba
import numpy as np
import torch

from ncgnn._compile import thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from numpy.typing import NDArray

Path = Literal["compiled", "csr", "chunks"]

#: Below this width the product of MKL is faster than the compiled one (measured: 2 x at width 7,
#: equal between 16 and 32).
NARROW = 32
#: Fewer multiply-adds than this do not repay the start of the threads.
SERIAL_WORK = 1 << 15
#: From this size on NumPy asks for huge pages and torch does not (measured: the page faults of a
#: fresh block cost a quarter). Large blocks go back to the system when they are freed, so every
#: new result pays for its pages again.
HUGE_BYTES = 4 << 20
ALIGNMENT = 64

_forced: Path | None = None
_forked = False


def _note_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


@contextlib.contextmanager
def forced(path: Path) -> Generator[None]:
    """Use one path for everything inside the block: for tests and benchmarks."""
    global _forced
    before, _forced = _forced, path
    try:
        yield
    finally:
        _forced = before


def path_for(device: torch.device) -> Path:
    """The path of an operation on a device."""
    if _forced is not None:
        return _forced
    if device.type == "cpu":
        return "compiled"
    return "csr" if device.type == "cuda" else "chunks"


def product_path(device: torch.device, entries: int, width: int) -> Path:
    """The path of a product with one weight per entry."""
    path = path_for(device)
    if _forced is None and path == "compiled" and not _forked and torch.backends.mkl.is_available():
        # MKL always starts its threads, so that small products are left to the compiled loop.
        return "csr" if width < NARROW and entries * width >= SERIAL_WORK else "compiled"
    return path


def run_rows(
    rows_kernel: Callable[..., None],
    blocks_kernel: Callable[..., None],
    bounds: NDArray[Any],
    work: int,
    *arrays: NDArray[Any],
) -> None:
    """Run a kernel over all rows, on as many threads as torch and numba both allow.

    A forked child uses one: the threads of its parent are gone, and OpenMP would end the process.
    """
    allowed = thread_count()
    threads = 1 if _forked else min(torch.get_num_threads(), allowed)
    if threads == 1 or work < SERIAL_WORK:
        rows_kernel(0, int(bounds[-1]), *arrays)
        return
    numba.set_num_threads(threads)
    try:
        blocks_kernel(bounds, *arrays)
    finally:
        numba.set_num_threads(allowed)


def empty(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """An uninitialised contiguous tensor of the type and device of another one."""
    size = like.element_size() * math.prod(shape)
    if like.device.type != "cpu" or size < HUGE_BYTES:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    return torch.from_numpy(memory[offset : offset + size]).view(like.dtype).view(shape)


def torch_csr(
    crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """A torch CSR tensor that shares the memory of its parts."""
    _announce_csr_silently()
    return torch.sparse_csr_tensor(crow, col, values, size=shape, check_invariants=False)


@functools.cache
def _announce_csr_silently() -> None:
    """Let torch say once, unheard, that its CSR support is in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zero = torch.zeros(1, dtype=torch.int64)
        torch.sparse_csr_tensor(zero, zero[:0], torch.zeros(0), size=(0, 0))
