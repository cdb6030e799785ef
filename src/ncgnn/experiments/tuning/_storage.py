"""The memory of a study: a journal in its folder, or a database that several machines share."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments.tuning._journal import open_journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.storages import BaseStorage

    from ncgnn.experiments.tuning._place import StudyPlace

#: Seconds between two signs of life of a trial in a database, and after how many it is dead.
HEARTBEAT, GRACE = 15, 90
#: Seconds to wait before a storage that does not answer is asked again.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
_ATTEMPTS = 6

T = TypeVar("T")


class SearchError(NcgnnError):
    """A search cannot go on."""


def patiently(place: StudyPlace, ask: Callable[[], T]) -> T:
    """Ask a storage, several times if it does not answer.

    Raises:
        SearchError: It does not answer at all.
    """
    from optuna.exceptions import StorageInternalError

    for pause in (*PAUSES, None):
        try:
            return ask()
        except (StorageInternalError, OSError) as error:
            if pause is None:
                raise SearchError(_about_storage(place, error)) from error
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _about_storage(place: StudyPlace, error: Exception) -> str:
    if place.url is not None:
        about = about_database(place.url, error.__cause__ or error)
    else:
        about = f"{place.journal} cannot be used: {error}"
    return f"{about}; the same command goes on with the search."


def open_study(
    place: StudyPlace, pruner: BasePruner, when_stale: Callable[[Study, Any], None]
) -> Study:
    """Open a study, and make it if there is none.

    Args:
        place: Where it is kept.
        pruner: Says which trials are given up.
        when_stale: Called with study and trial when a database finds the trial's process dead.
    """
    import optuna

    with place.exclusive():
        if place.url is not None:
            storage = _open_database(place.url, when_stale)
        else:
            storage = open_journal(place.journal)
    try:  # a journal would note even an attempt to make a study again
        return optuna.load_study(study_name=place.name, storage=storage, pruner=pruner)
    except KeyError:
        return optuna.create_study(
            storage=storage,
            study_name=place.name,
            direction="maximize",
            load_if_exists=True,
            pruner=pruner,
        )


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


def about_database(url: str, error: BaseException) -> str:
    """What is wrong with a database, in a sentence without its password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    shown = url
    with suppress(SQLAlchemyError, ValueError):
        shown = make_url(url).render_as_string(hide_password=True)
    reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return f"--storage {shown} cannot be used: {reason}"
