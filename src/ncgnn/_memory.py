"""How much memory is available, and keeping what was freed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_GIB = 2**30
# Limits of a container, and what it uses: version 2 of control groups, then version 1.
_GROUPS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)

# Numbers of glibc's mallopt (malloc.h), and the largest threshold that it takes.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_LARGE = 32 << 20


def keep_freed_memory() -> bool:
    """Let this process keep the memory of freed tensors for the next ones.

    By default glibc returns every large block to the system when it is freed, and the next tensor
    pays for each of its pages again. Blocks of 32 MiB and more are mappings of their own, and those
    of tensors that this package makes wait in a pool, see :mod:`ncgnn._pool`. This concerns the
    whole process, so that programs decide on it and libraries do not; the command line does.

    Returns:
        Whether the C library took it.
    """
    if (library := _libc()) is None:
        return False
    from ncgnn._pool import start_pool

    start_pool()
    settings = ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    return all(bool(library.mallopt(name, value)) for name, value in settings)


def return_freed_memory() -> None:
    """Give what was freed, and is kept for later, back to the system.

    Before a large allocation of another kind than what came before; the next tensors pay for their
    pages again.
    """
    from ncgnn._pool import release_pool

    release_pool()
    if (library := _libc()) is not None:
        library.malloc_trim(0)


def _libc() -> Any:
    """The C library with what glibc adds to it; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        library = ctypes.CDLL("libc.so.6")
        return library if library.mallopt and library.malloc_trim else None
    except (OSError, AttributeError):
        return None


def available_gib(groups: Path = Path("/sys/fs/cgroup")) -> float:
    """GiB that this process can still get: what is free, and what its container leaves it.

    Args:
        groups: Folder of the system's control groups.
    """
    import psutil  # the command line imports this module for help, too

    left = [_left_in_group(groups / limit, groups / used) for limit, used in _GROUPS]
    return (
        min([psutil.virtual_memory().available, *(one for one in left if one is not None)]) / _GIB
    )


def used_gib() -> float:
    """GiB that this process has in memory now."""
    import psutil

    return psutil.Process().memory_info().rss / _GIB


def _left_in_group(limit: Path, used: Path) -> int | None:
    """Bytes that a control group may still take; None if it has no limit."""
    try:
        most, now = limit.read_text().strip(), used.read_text().strip()
    except OSError:
        return None
    if not most.isdigit() or not now.isdigit():
        return None
    return max(0, int(most) - int(now) + _cached(used.with_name("memory.stat")))


def _cached(counts: Path) -> int:
    """Bytes of files that a control group holds for no one, and gives up when asked."""
    try:
        lines = counts.read_text().splitlines()
    except OSError:
        return 0
    found = [line.split() for line in lines]
    return sum(int(value) for name, value in found if name == "inactive_file")
