"""Which code computes a sparse operation, on how many threads and into which memory.

There are three paths, which compute the same numbers up to rounding. The CPU takes the first,
CUDA the second and every other device the third:

* ``compiled``: row loops in machine code;
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
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ncgnn._compile import thread_count, thread_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from numpy.typing import NDArray

Path = Literal["compiled", "csr", "chunks"]

#: Fewer multiply-adds than this do not repay a second thread.
SERIAL_WORK = 1 << 21
#: Blocks of rows that threads share out, and the multiply-adds that are worth a block.
BLOCKS = 64
BLOCK_WORK = 1 << 21
#: From this size on NumPy asks for huge pages and torch does not (measured: the page faults of a
#: fresh block cost a quarter). Large blocks go back to the system when they are freed, so every
#: new result pays for its pages again.
HUGE_BYTES = 4 << 20
ALIGNMENT = 64

_forced: Path | None = None


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


def run_rows(
    kernel: Callable[..., None], bounds: NDArray[Any], work: int, *arrays: NDArray[Any]
) -> None:
    """Call ``kernel(first, last, *arrays)`` for all rows, on as many threads as torch may use.

    The calling thread takes blocks as the others do, and whoever is free takes the next one: a
    thread that has to wait for a busy core does not hold up the rest.

    Args:
        kernel: Compiled code, which runs without the interpreter lock.
        bounds: Bounds of :data:`BLOCKS` blocks of rows.
        work: Number of multiply-adds; small work stays on the calling thread, and neighbouring
            blocks are joined until a block is worth its call.
        arrays: Passed on.
    """
    threads = min(torch.get_num_threads(), thread_count())
    if threads == 1 or work < SERIAL_WORK:
        kernel(0, int(bounds[-1]), *arrays)
        return
    join = 1
    while join < BLOCKS // 2 and work * join < BLOCKS * BLOCK_WORK:
        join *= 2
    spans = iter(list(pairwise(bounds[::join].tolist())))

    def take_blocks() -> None:
        for first, last in spans:
            kernel(first, last, *arrays)

    helpers = [
        thread_pool(os.getpid(), threads - 1).submit(take_blocks) for _ in range(threads - 1)
    ]
    take_blocks()
    for helper in helpers:
        if not helper.cancel():
            helper.result()


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
