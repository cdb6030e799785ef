"""The memory of a study: a journal in its folder, or a database that several machines share."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from ncgnn.errors import InputError
from ncgnn.experiments.tuning._place import StudyPlace, take_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from optuna import Study
    from optuna.storages import BaseStorage

#: Seconds between two signs of life of a trial in a database, and after how many it is dead.
HEARTBEAT, GRACE = 15, 90
_ATTEMPTS = 6


def open_storage(place: StudyPlace, when_stale: Callable[[Study, Any], None]) -> BaseStorage:
    """Open the storage, and make it if there is none; no two local processes at a time.

    Args:
        place: Where the study is kept.
        when_stale: Called with study and trial when a database finds the trial's process dead.
    """
    with place.exclusive():
        if place.url is not None:
            return _open_database(place.url, when_stale)
        return _open_journal(place.journal)


def _open_journal(path: Path) -> BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    lock: Any = _JournalLock(path)
    lock.acquire()
    mend_journal(path)
    lock.release()
    try:
        return JournalStorage(JournalFileBackend(str(path), lock))
    except (ValueError, KeyError, AssertionError) as error:
        raise InputError(
            f"{path} is damaged ({error}); remove the folder {path.parent} to begin anew."
        ) from None


class _JournalLock:
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
    if whole < len(lines):
        with path.open("rb+") as stream:
            stream.truncate(sum(len(line) for line in lines[:whole]))


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _open_database(url: str, when_stale: Callable[[Study, Any], None]) -> BaseStorage:
    """Connect to a database; machines that make its tables at the same time try again."""
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    # A database of one file makes its writers wait for each other.
    patience = {"timeout": 60} if url.startswith("sqlite") else {}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return RDBStorage(
                url,
                # A connection per question, so that none is kept that has broken meanwhile.
                engine_kwargs={"connect_args": patience, "poolclass": NullPool},
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=when_stale,
            )
        except (ArgumentError, ValueError, ImportError) as error:
            raise InputError(about_database(url, error)) from None
        except SQLAlchemyError as error:
            if attempt == _ATTEMPTS:
                raise InputError(about_database(url, error)) from None
            time.sleep(0.2 * attempt)
    raise AssertionError("the last attempt returns or raises")


def about_database(url: str, error: Exception) -> str:
    """What is wrong with a database, in a sentence without its password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    shown = url
    with suppress(SQLAlchemyError, ValueError):
        shown = make_url(url).render_as_string(hide_password=True)
    reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return f"--storage {shown} cannot be used: {reason}"
