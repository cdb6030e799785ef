"""How much memory there is, and keeping what was freed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_GIB = 2**30
# Limits of a container, and what it uses: version 2 of control groups, then version 1.
_GROUPS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)

# Numbers of glibc's mallopt (malloc.h).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> bool:
    """Let this process keep the memory of freed tensors for the next ones.

    By default glibc returns every large block to the system when it is freed, and the next tensor
    pays for each of its pages again. This concerns the whole process, so that programs decide on it
    and libraries do not; the command line does.

    Returns:
        Whether the C library took it.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    return all(bool(mallopt(name, value)) for name, value in settings)


def available_gib(root: Path = Path("/")) -> float:
    """GiB that this process can still get: what is free, and what its container leaves it.

    Where the system does not say, it is all the memory of the machine, or no limit at all.

    Args:
        root: Where the files of the system are.
    """
    known = [_free_gib(root), *(_left_gib(root / "sys/fs/cgroup", *names) for names in _GROUPS)]
    found = [gib for gib in known if gib is not None]
    return min(found) if found else _physical_gib()


def _free_gib(root: Path) -> float | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    words = next((line.split() for line in lines if line.startswith("MemAvailable:")), None)
    return None if words is None else int(words[1]) * 1024 / _GIB


def _left_gib(folder: Path, limit: str, used: str) -> float | None:
    try:
        most, now = ((folder / name).read_text().strip() for name in (limit, used))
    except OSError:
        return None
    return max(0, int(most) - int(now)) / _GIB if most.isdigit() and now.isdigit() else None


def _physical_gib() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    except (AttributeError, OSError, ValueError):
        return float("inf")
