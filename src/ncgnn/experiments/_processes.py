"""Processes for workers: quick to start, and without anything of their parent's threads."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError, NcgnnError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

#: What training imports when it begins.
_HEAVY = ("ncgnn.training._run", "ncgnn.experiments._signals_again")


def process_context() -> Any:
    """Processes that start from one which has imported all and done nothing, where there are such.

    A plain fork would copy the state of running threads; starting anew costs seconds of imports.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_HEAVY))
    return context


def start_worker(
    context: Any, target: Callable[..., None], *args: Any
) -> tuple[BaseProcess, Connection]:
    """Start a process with one end of a pipe as its first argument; returns it and the other end.

    Raises:
        NcgnnError: What starts processes was killed itself.
    """
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *args), daemon=True)
    try:
        if context.get_start_method() == "forkserver":
            with _without_signals():
                forkserver.ensure_running()
            process.start()
        else:
            with _without_signals():
                process.start()
    except (EOFError, OSError) as error:
        raise NcgnnError(
            f"a worker process could not be started ({error or 'its parent has died'}); the same "
            "command goes on."
        ) from None
    theirs.close()
    return process, ours


@contextmanager
def _without_signals() -> Generator[None]:
    """Let processes that start here hear nothing of Ctrl-C, not even while they import.

    A terminal sends it to all of its processes; what it means is for the parent to decide.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # lets signals through again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_signals() -> None:
    """In a worker: Ctrl-C and the like reach all processes; the parent decides what they mean."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def check_false_start(code: int | None) -> None:
    """Complain of a process that ended before it began, unless a signal has ended it.

    Raises:
        InputError: It was the script that every process imports.
    """
    if code is None or code >= 0:
        raise InputError(
            "worker processes end before they begin. A script that starts them must do so under "
            'if __name__ == "__main__":, because every process imports it.'
        )
