"""Keeping freed memory, because getting it anew costs more than filling it."""

from __future__ import annotations

import sys

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
