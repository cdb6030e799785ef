"""Locks between processes, which the operating system lets go of when one of them dies."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep other processes out of the block by a file that is locked; wait for those within."""
    handle = take_lock(path)
    try:
        yield
    finally:
        if handle is not None:
            handle.close()


def take_lock(path: Path, *, wait: bool = True) -> IO[str] | None:
    """Lock a file until the handle is closed or this process ends, however it ends.

    Returns:
        The handle; None, without waiting, if another process has the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = path.open("a")
    while not _locked(handle, wait):
        if not wait:
            handle.close()
            return None
        time.sleep(0.02)
    return handle


def is_locked(path: Path) -> bool:
    """Whether some process has locked a file; nothing is written."""
    try:
        with path.open("r+" if sys.platform == "win32" else "r") as handle:
            return not _locked(handle, wait=False)
    except OSError:  # there is none, or it is not ours to look at
        return False


def _locked(handle: IO[str], wait: bool) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    return True
