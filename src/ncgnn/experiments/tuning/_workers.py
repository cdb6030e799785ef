"""Processes that work on the trials of one study, on this machine and maybe on others."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from ncgnn.experiments._processes import check_false_start, process_context, start_worker
from ncgnn.experiments.tuning._serve import SearchJob, serve
from ncgnn.experiments.tuning._storage import SearchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

#: So many processes may die before one of them has ended a trial.
_DEATHS_AT_START = 10


def search(
    job: SearchJob, workers: int, on_trial: Callable[[], None], stop: Callable[[], bool]
) -> None:
    """Work on trials with several processes until all are done or the search is stopped.

    A process that dies is replaced; its trial goes on in another one.

    Args:
        job: What to do.
        workers: Number of processes.
        on_trial: Called whenever a trial has ended.
        stop: Asked again and again; if it says yes, trials save their state and end.
    """
    pool = _Pool(job)
    try:
        pool.start(workers)
        pool.run(on_trial, stop)
    finally:
        pool.close()


class _Pool:
    def __init__(self, job: SearchJob) -> None:
        self._job, self._deaths, self._stopping = job, 0, False
        self._context = process_context()
        self._workers: dict[Connection, Any] = {}
        self._ready: set[Connection] = set()

    def start(self, workers: int) -> None:
        """Start so many processes."""
        for _ in range(workers):
            self._add()

    def _add(self) -> None:
        process, pipe = start_worker(self._context, serve, self._job)
        self._workers[pipe] = process

    def run(self, on_trial: Callable[[], None], stop: Callable[[], bool]) -> None:
        while self._workers:
            if not self._stopping and stop():
                self.ask_to_stop()
            for pipe in wait(list(self._workers), timeout=0.2):
                self._heard(pipe, on_trial)

    def _heard(self, pipe: Any, on_trial: Callable[[], None]) -> None:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            message = None
        if message == "ready":
            self._ready.add(pipe)
            return
        if message == "trial":
            self._deaths = 0
            on_trial()
            return
        pipe.close()
        process = self._workers.pop(pipe)
        process.join()
        if isinstance(message, Exception):
            raise message
        if message is None and not self._stopping:
            self._replace(process.exitcode, was_ready=pipe in self._ready)

    def _replace(self, code: int, was_ready: bool) -> None:
        """Start a process in place of one that has died."""
        if not was_ready:
            check_false_start(code)
        self._deaths += 1
        if self._deaths >= _DEATHS_AT_START:
            raise SearchError(
                f"processes of the search end at once (exit code {code}); "
                "if memory ran out, use fewer --workers."
            )
        self._add()

    def ask_to_stop(self) -> None:
        self._stopping = True
        for pipe in self._workers:
            with suppress(OSError):
                pipe.send("stop")

    def close(self) -> None:
        """End all processes; those that still train have the time to save their state."""
        self.ask_to_stop()
        for pipe in self._workers:  # all of them first: whatever happens now, the processes leave
            pipe.close()
        for process in self._workers.values():
            process.join(timeout=30)
            if process.is_alive():
                process.kill()
                process.join()
