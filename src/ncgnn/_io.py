"""Files that appear whole or not at all, and locks that die with their process."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import time
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from filelock import FileLock

_A_DAY = 24 * 3600.0
# Bytes of a file's name that file systems take.
_LONGEST_NAME = 255
# What temporary_path makes, and what earlier releases have made, and how many letters it adds.
_LEFTOVER = re.compile(
    r"\.(?P<name>.+)\."
    r"(?:(?P<machine>[0-9a-f]{8})-(?P<process>\d{1,10})-[0-9a-f]{12}|[0-9a-f]{32})\.part",
    re.DOTALL,
)
_MARKS = 40


def as_path(name: Path | str) -> Path:
    """A path from what a person gave for one, the home folder filled in.

    Raises:
        InputError: It is no name of a file, or in the home of nobody.
    """
    try:
        path = Path(name).expanduser()
    except TypeError:
        raise InputError(f"a path must be text or a pathlib.Path; got {name!r:.80}.") from None
    except RuntimeError:
        raise InputError(f"{name}: there is no such user here; name another folder.") from None
    if "\0" in str(path):
        raise InputError(f"{str(path)!r} is no path: a name cannot hold NUL; give another one.")
    try:
        too_long = any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts)
    except UnicodeEncodeError:
        raise InputError(f"{str(path)!r} is no path: it is no text; give another one.") from None
    if too_long:
        raise InputError(f"{path!s:.60}… is no path: a name is too long; give another one.")
    return path


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document.

    Raises:
        ValueError: It is none, or one that Python's parser cannot take.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    except ValueError as error:  # Python reads no number of thousands of digits, and says how to
        raise ValueError(str(error).partition(";")[0]) from None


@contextmanager
def atomic_write(path: Path | str, *, durable: bool = True) -> Generator[IO[bytes]]:
    """Open ``path`` for writing; it appears, complete, only when the block ends without an error.

    The bytes go to a temporary file in the same folder, are flushed to the disk, and the file is
    renamed over ``path``. Missing parent folders are made.

    Args:
        path: The file.
        durable: Whether it must outlast a power cut from now on, for which the disk is waited for.
            A process that dies loses nothing either way; :func:`make_durable` does it later for
            many files at once.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
        if durable:
            _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Where something is made that will be renamed to ``path``; the name tells who makes it."""
    maker = f"{_here()}-{os.getpid()}-{uuid4().hex[:12]}"
    return path.with_name(f".{_beginning(path.name)}.{maker}.part")


def _beginning(name: str) -> str:
    """What of a name the longest name of a temporary file has room for."""
    return os.fsdecode(os.fsencode(name)[: _LONGEST_NAME - _MARKS])


def remove_leftovers(folder: Path, of: str | None = None) -> None:
    """Remove what processes that have died on this machine have left half made in a folder.

    What was left by another machine, or by an earlier release, is removed after a day. Whatever has
    no name of :func:`temporary_path` stays.

    Args:
        folder: The folder.
        of: The name of the file that was being made; None for any.
    """
    for path in folder.glob(".*.part"):
        found = _LEFTOVER.fullmatch(path.name)
        if found is None or (of is not None and found["name"] != _beginning(of)):
            continue
        with suppress(OSError):
            if found["machine"] == _here():
                if _is_alive(int(found["process"])):
                    continue
            elif time.time() - path.lstat().st_mtime < _A_DAY:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@cache
def _here() -> str:
    """This machine, or container, in a few letters: processes are numbered in each on its own."""
    numbered = ""
    with suppress(OSError):  # there is no /proc elsewhere
        numbered = str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(f"{platform.node()}{numbered}".encode()).hexdigest()[:8]


def _is_alive(process: int) -> bool:
    """Whether a process of this machine still runs."""
    if os.name != "posix":  # where asking would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_text(path: Path | str, text: str, *, durable: bool = True) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_write(path, durable=durable) as stream:
        stream.write(text.encode())


def make_durable(paths: Sequence[Path]) -> None:
    """Flush files to the disk, all at once: a disk does many together as fast as one."""
    if paths:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(paths)) as pool:
            list(pool.map(_sync_file, paths))


def sha256_of_file(path: Path | str) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync_file(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    # The file is in place already; some file systems refuse to flush a folder.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def take_lock(path: Path, *, wait: bool = True) -> FileLock | None:
    """Lock a file until the lock is released or this process ends, however it ends.

    Returns:
        The lock; None, without waiting, if another process has it.
    """
    from filelock import FileLock, Timeout  # the command line imports this module for help, too

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=wait, poll_interval=0.02)
    except Timeout:
        return None
    return lock


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Wait for the lock of a file, and keep other processes out of the block."""
    lock = take_lock(path)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def is_locked(path: Path) -> bool:
    """Whether some process has locked a file; nothing is written."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, thread_local=False)
    try:
        if not path.is_file():
            return False
        lock.acquire(blocking=False)
    except Timeout:
        return True
    except OSError:  # it is not ours to look at
        return False
    lock.release()
    return False
