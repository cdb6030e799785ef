"""Where Optuna keeps the trials of a study: a journal, or a database that machines share."""

from __future__ import annotations

import json
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError

from ncgnn._io import locked, take_lock
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from filelock import FileLock
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

#: Seconds between two heartbeats of a trial in a database, and without one until it is dead.
HEARTBEAT, GRACE = 15, 90
#: Seconds to wait before a storage that does not answer is asked again.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)

T = TypeVar("T")


class SearchError(NcgnnError):
    """A search cannot continue."""


@contextmanager
def quiet() -> Generator[None]:
    """Silence Optuna's log and its warnings of experimental features."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        try:
            yield
        finally:
            optuna.logging.set_verbosity(before)


def call(ask: Callable[[], T], journal: Path, url: str | None) -> T:
    """Ask a storage, again after a pause if it does not answer.

    Raises:
        SearchError: It does not answer at all.
    """
    errors = (StorageInternalError, OSError)
    try:
        return _repeat(ask, errors, PAUSES)
    except errors as error:
        about = f"{journal} cannot be used: {error}"
        if url is not None:
            about = _describe_database(url, error.__cause__ or error)
        raise SearchError(f"{about}; the same command continues the search.") from error


def _repeat(ask: Callable[[], T], errors: Any, pauses: Sequence[float]) -> T:
    """Ask until there is no error, for the last time after the last pause."""
    for pause in pauses:
        try:
            return ask()
        except errors:
            time.sleep(pause)
    return ask()


def open_storage(
    journal: Path, url: str | None, on_stale: Callable[[optuna.Study, FrozenTrial], None]
) -> BaseStorage:
    """Open a journal, or a database if there is one; either is created where it is missing.

    A trial of a database that has had no heartbeat for too long is handed to ``on_stale``.
    """
    with locked(journal.with_name("study.lock")):
        return _open_journal(journal) if url is None else _open_database(url, on_stale)


def _open_database(url: str, on_stale: Callable[[optuna.Study, FrozenTrial], None]) -> BaseStorage:
    """Connect to a database; machines that create its tables at the same time try again."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    # A database of one file makes its writers wait for each other.
    arguments = {"timeout": 60} if url.startswith("sqlite") else {}

    def connect() -> BaseStorage:
        return optuna.storages.RDBStorage(
            url,
            # A connection per question, so that none is kept that has broken meanwhile.
            engine_kwargs={"connect_args": arguments, "poolclass": NullPool},
            heartbeat_interval=HEARTBEAT,
            grace_period=GRACE,
            heartbeat_stale_trial_callback=on_stale,
        )

    try:
        make_url(url).get_dialect()  # a wrong address stays wrong
        return _repeat(connect, SQLAlchemyError, PAUSES[:3])
    except (SQLAlchemyError, ValueError, ImportError) as error:
        raise InputError(_describe_database(url, error)) from None


def _describe_database(url: str, error: BaseException) -> str:
    """What is wrong with a database, in a sentence without its password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    shown = url
    with suppress(SQLAlchemyError, ValueError):
        shown = make_url(url).render_as_string(hide_password=True)
    reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return f"--storage {shown} cannot be used: {reason}"


def _open_journal(path: Path) -> BaseStorage:
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
    """The lock of Optuna's journal, of a kind that cannot outlive its process.

    What a killed process has left of a line is cut off before anything is appended to it.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._handle: FileLock | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._handle = take_lock(self._journal.with_suffix(".lock"))
        if self._journal.is_file() and self._journal.stat().st_size:
            with self._journal.open("rb") as stream:
                stream.seek(-1, 2)
                is_torn = stream.read(1) != b"\n"
            if is_torn:
                mend_journal(self._journal)
        return True

    def release(self) -> None:
        """Let go of the lock."""
        if self._handle is not None:
            self._handle.release()
            self._handle = None


def mend_journal(path: Path) -> None:
    """Cut off last lines that are not whole, as a killed process or a full disk leaves them."""
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    whole = len(lines)
    while whole and not _is_whole(lines[whole - 1]):
        whole -= 1
    cut = lines[whole:]
    if len(cut) > 1 or any(line.endswith(b"\n") for line in cut):  # a kill tears one line
        warnings.warn(
            f"{path} was damaged; its last {len(cut)} lines are lost; the search continues.",
            NcgnnWarning,
            stacklevel=2,
        )
    if cut:
        with path.open("rb+") as stream:
            stream.truncate(sum(len(line) for line in lines[:whole]))


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False
