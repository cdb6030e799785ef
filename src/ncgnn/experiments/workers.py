"""Processes that work on the trials of one study, on this machine and maybe on others.

Processes for workers: quick to start, and without anything of their parent's threads.

Cells on the processes of this machine.

A process that works on the trials of a study.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import sys
import threading
import time
import warnings
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments.sweeps import Cell, Outcome, failed, work
from ncgnn.experiments.tuning.study import SearchError, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from ncgnn.experiments.sweeps import Watcher
    from ncgnn.experiments.tuning.space import Plan
    from ncgnn.experiments.tuning.study import StudyPlace

#: What training imports when it begins.
_HEAVY = ("ncgnn.training.run", "ncgnn.experiments.signals_again")


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


#: Seconds between two signs of life of a training cell.
SIGN_OF_LIFE = 0.5
#: Seconds before a cell that another process trains is looked at again.
PATIENCE = 1.0
#: So many processes in a row may be killed before they have begun.
MOST_FALSE_STARTS = 10


def run_local(
    cells: Iterable[Cell], watcher: Watcher, *, workers: int, retries: int
) -> Iterable[Outcome]:
    """Work on cells with several processes; each takes the next cell when it is free.

    A process that dies (killed, out of memory) is replaced, and its cell is tried again, from its
    latest checkpoint.

    Args:
        cells: What to do.
        watcher: Told of progress, and asked whether to stop.
        workers: Number of processes.
        retries: How often a cell is tried again after its process died.
    """
    pool = _Pool(list(cells), watcher, retries)
    try:
        pool.start(workers)
        yield from pool.outcomes()
    finally:
        pool.close()


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    cell: Cell | None = None
    ready: bool = False


class _Pool:
    def __init__(self, cells: list[Cell], watcher: Watcher, retries: int) -> None:
        self._waiting: deque[tuple[float, Cell]] = deque((0.0, cell) for cell in cells)
        self._watcher, self._retries = watcher, retries
        self._deaths: dict[str, int] = {}
        self._stopping, self._false_starts = False, 0
        self._context = process_context()
        self._workers: list[_Worker] = []

    def start(self, workers: int) -> None:
        """Start so many processes, or one for every cell."""
        for _ in range(min(workers, len(self._waiting))):
            self._workers.append(self._new_worker())

    def _new_worker(self) -> _Worker:
        return _Worker(*start_worker(self._context, serve))

    def outcomes(self) -> Iterable[Outcome]:
        while True:
            if self._watcher.stop() and not self._stopping:
                self._stopping = True
                self._waiting.clear()
                for worker in self._workers:
                    _send(worker.pipe, "stop")
            self._hand_out()
            if not self._waiting and all(worker.cell is None for worker in self._workers):
                return
            ready = wait([worker.pipe for worker in self._workers], timeout=0.2)
            for worker in list(self._workers):
                if worker.pipe in ready:
                    yield from self._heard(worker)

    def _hand_out(self) -> None:
        for worker in self._workers:
            if not worker.ready or worker.cell is not None:
                continue
            if self._waiting and self._waiting[0][0] <= time.monotonic():
                _, worker.cell = self._waiting.popleft()
                self._watcher.started(worker.cell)
                _send(worker.pipe, worker.cell)

    def _heard(self, worker: _Worker) -> Iterable[Outcome]:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            yield from self._died(worker)
            return
        cell = worker.cell
        if cell is None:
            worker.ready, self._false_starts = True, 0
            return
        if isinstance(message, dict):
            self._watcher.progress(cell, message)
            return
        worker.cell = None
        if message.state == "busy" and not self._stopping:
            self._waiting.append((time.monotonic() + PATIENCE, cell))
            return
        yield message

    def _died(self, worker: _Worker) -> Iterable[Outcome]:
        """Replace a process, and try its cell again."""
        worker.process.join()
        code, cell = worker.process.exitcode, worker.cell
        worker.pipe.close()
        self._workers.remove(worker)
        if not worker.ready:
            if self._false_starts:  # what starts processes may have died, which happens once
                check_false_start(code)
            self._false_starts += 1
            if self._false_starts >= MOST_FALSE_STARTS:
                raise NcgnnError(
                    f"worker processes are ended {_how(code)} before they begin; if memory ran "
                    "out, use fewer --workers."
                )
        if not self._stopping:
            self._workers.append(self._new_worker())
        if cell is None:
            return
        if self._stopping:
            yield Outcome(cell.name, "stopped")
            return
        self._deaths[cell.name] = self._deaths.get(cell.name, 0) + 1
        if self._deaths[cell.name] > self._retries:
            times = f"{self._deaths[cell.name]} times" if self._retries else "once"
            yield failed(
                cell,
                f"its process was ended {times}, the last time {_how(code)}; if memory ran out, "
                "use fewer --workers.",
            )
            return
        self._waiting.appendleft((0.0, cell))

    def close(self) -> None:
        """End all processes; those that still train have the time to save their state."""
        for worker in self._workers:
            _send(worker.pipe, "stop")
            _send(worker.pipe, None)
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(timeout=30)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def _send(pipe: Connection, message: object) -> None:
    with suppress(OSError):  # a process that has died is noticed when it is listened to
        pipe.send(message)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with exit code {code}"


def serve(pipe: Connection) -> None:
    """Work on cells that come through a pipe until it closes; then leave at once."""
    from ncgnn._memory import keep_freed_memory

    ignore_signals()
    keep_freed_memory()
    _send(pipe, "ready")
    asked_to_stop = threading.Event()
    cells: queue.Queue[Cell | None] = queue.Queue()
    threading.Thread(target=_listen, args=(pipe, cells, asked_to_stop), daemon=True).start()
    while (cell := cells.get()) is not None:
        _send(pipe, work(cell, _signs_of_life(pipe), asked_to_stop.is_set))


def _listen(
    pipe: Connection, cells: queue.Queue[Cell | None], asked_to_stop: threading.Event
) -> None:
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):  # the parent is gone: save the state and leave
            message = None
        if message is None or message == "stop":
            asked_to_stop.set()
        if message != "stop":
            cells.put(message)
        if message is None:
            return


def _signs_of_life(pipe: Connection) -> Callable[[dict[str, Any]], None]:
    latest, best = 0.0, 0.0

    def on_epoch(record: dict[str, Any]) -> None:
        nonlocal latest, best
        best = max(best, record["val_accuracy"])
        if time.monotonic() - latest >= SIGN_OF_LIFE:
            latest = time.monotonic()
            _send(pipe, {"epoch": record["epoch"], "best": best})

    return on_epoch


#: Seconds after which a process without a trial looks for one again.
PATIENCE_serve = 0.5


@dataclass(frozen=True)
class SearchJob:
    """What a process must know to work on trials.

    Attributes:
        plan: What is searched.
        place: Where the study is kept.
        total: Number of trials that are wanted.
        data_dir: Folder with npz files.
        threads: Number of threads of each process.
    """

    plan: Plan
    place: StudyPlace
    total: int
    data_dir: Path | None
    threads: int


def serve_serve(pipe: Connection, job: SearchJob) -> None:
    """Work on trials until there are no more."""
    from ncgnn._memory import keep_freed_memory
    from ncgnn._numba import use_threads

    ignore_signals()
    with suppress(OSError):
        pipe.send("ready")
    warnings.simplefilter("ignore")
    keep_freed_memory()
    use_threads(job.threads)
    stopped = threading.Event()
    threading.Thread(target=_listen_serve, args=(pipe, stopped), daemon=True).start()
    try:
        with quiet():
            _work(pipe, job, stopped)
        last: object = "done"
    except Exception as error:
        from ncgnn.errors import sentence

        last = SearchError(sentence(error))
    with suppress(OSError):
        pipe.send(last)


def _work(pipe: Connection, job: SearchJob, stopped: threading.Event) -> None:
    from ncgnn.data import load
    from ncgnn.experiments.tuning.search import run_trial
    from ncgnn.experiments.tuning.study import TuningStudy

    graph = load(job.plan.first.data.dataset, job.data_dir)
    study = TuningStudy(job.plan, job.place, job.total)
    while not stopped.is_set():
        taken = study.take()
        if taken is not None:
            run_trial(study, taken, graph, stopped.is_set)
            with suppress(OSError):
                pipe.send("trial")
        elif study.state().is_over:
            return
        else:  # the last trials are in other hands, whose processes may die
            time.sleep(PATIENCE_serve)


def _listen_serve(pipe: Connection, stopped: threading.Event) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    stopped.set()  # asked to, or the parent is gone: save the state and leave


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
    pool = _TrialPool(job)
    try:
        pool.start(workers)
        pool.run(on_trial, stop)
    finally:
        pool.close()


class _TrialPool:
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
        process, pipe = start_worker(self._context, serve_serve, self._job)
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
