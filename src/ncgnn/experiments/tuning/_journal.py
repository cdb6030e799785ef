"""The journal of a study, a file that no kill and no full disk can damage for good."""

from __future__ import annotations

import json
import warnings
from typing import IO, TYPE_CHECKING, Any

from ncgnn._locks import take_lock
from ncgnn.errors import InputError, NcgnnWarning

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.storages import BaseStorage


def open_journal(path: Path) -> BaseStorage:
    """Open a journal, and make it if there is none; no two local processes at a time."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    lock: Any = JournalLock(path)
    lock.acquire()
    mend_journal(path)
    lock.release()
    try:
        return JournalStorage(JournalFileBackend(str(path), lock))
    except (ValueError, KeyError, AssertionError) as error:
        raise InputError(
            f"{path} is damaged ({error}); remove the folder {path.parent} to begin anew."
        ) from None


class JournalLock:
    """The lock that Optuna's journal wants, of a kind that cannot outlive its process.

    What a killed process has left of a line is cut off before anything is appended to it.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._handle: IO[str] | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._handle = take_lock(self._journal.with_suffix(".lock"))
        if _is_torn(self._journal):
            mend_journal(self._journal)
        return True

    def release(self) -> None:
        """Let go of the lock."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def _is_torn(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as stream:
        stream.seek(-1, 2)
        return stream.read(1) != b"\n"


def mend_journal(path: Path) -> None:
    """Cut off last lines that are not whole, as a killed process or a full disk leaves them."""
    if not path.is_file():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    whole = len(lines)
    while whole and not _is_whole(lines[whole - 1]):
        whole -= 1
    cut = lines[whole:]
    if len(cut) > 1 or any(line.endswith(b"\n") for line in cut):  # a kill tears one line
        warnings.warn(
            f"{path} was damaged; what its last {len(cut)} lines told of the search is lost.",
            NcgnnWarning,
            stacklevel=2,
        )
    if whole < len(lines):
        with path.open("rb+") as stream:
            stream.truncate(sum(len(line) for line in lines[:whole]))


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False
