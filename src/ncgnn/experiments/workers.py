"""Worker processes of sweeps and of parameter searches.

A parent hands tasks to processes through pipes and hears what comes of them. A process that dies
(killed, out of memory) is replaced, and the parent decides what becomes of its task. Ctrl-C is for
the parent alone; processes whose parent is gone save their state and leave.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Literal, Self

from ncgnn._launch import stop_signals
from ncgnn._memory import keep_freed_memory
from ncgnn.errors import InputError, NcgnnError, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    #: Works on a task; reports by its second argument, and leaves when the third one says so.
    Work = Callable[[Any, Callable[[Any], None], Callable[[], bool]], Any]

#: How many processes in a row may end before they have begun.
MOST_FALSE_STARTS = 10
#: What to do about a model that worker processes do not know.
IMPORT_REMEDY = (
    "put a model of your own into a module that can be imported, with @register_model, or name it "
    "as an entry point in the group ncgnn.models."
)
#: Seconds that a process has at the end to save its state.
LAST_SECONDS = 30


@dataclass(frozen=True)
class Event:
    """What happened to a task.

    Attributes:
        kind: ``started``; ``report`` from within; ``result`` or ``error`` at its end; ``died``
            together with its process.
        value: The report, the result, the error in a sentence, or how the process ended.
    """

    kind: Literal["started", "report", "result", "error", "died"]
    task: Any
    value: Any = None


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    task: Any = None


class WorkerPool:
    """Processes that each take the next task when they are free; used in a ``with`` block.

    Args:
        work: A function of a module, called in a process for every task.
        workers: Number of processes; no more are started than there are tasks.
    """

    def __init__(self, work: Work, workers: int) -> None:
        self._work, self._size = work, workers
        self._context = _process_context()
        self._workers: list[_Worker] = []
        self._waiting: deque[tuple[float, Any]] = deque()
        self._false_starts = 0
        #: Whether the tasks have been asked to stop.
        self.stopping = False
        #: Processes of this machine are replaced and never lost for good.
        self.lost = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes; those at work have time to save their state."""
        for worker in self._workers:
            _send(worker.pipe, ("stop", None))
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(timeout=LAST_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def room(self, task: Any) -> int:
        """How many tasks are worked on at a time."""
        return self._size

    def add(self, task: Any, *, delay: float = 0.0, first: bool = False) -> None:
        """Queue a task, at the end or as the first; it begins after ``delay`` seconds or later."""
        put = self._waiting.appendleft if first else self._waiting.append
        put((time.monotonic() + delay, task))

    def events(self, stop: Callable[[], bool]) -> Iterator[Event]:
        """What happens until no task is left; tasks may be added meanwhile.

        Once ``stop`` says yes, waiting tasks are dropped, and the others are asked to save their
        state and end.
        """
        while True:
            if not self.stopping and stop():
                self.stopping = True
                self._waiting.clear()
                for worker in self._workers:
                    _send(worker.pipe, ("stop", None))
            busy = sum(worker.task is not None for worker in self._workers)
            if not self._waiting and not busy:
                return
            while len(self._workers) < min(self._size, len(self._waiting) + busy):
                self._workers.append(self._start_worker())
            yield from self._hand_out()
            heard = wait([worker.pipe for worker in self._workers], timeout=0.2)
            for worker in [worker for worker in self._workers if worker.pipe in heard]:
                yield from self._hear(worker)

    def _hand_out(self) -> Iterator[Event]:
        for worker in self._workers:
            due = self._waiting and self._waiting[0][0] <= time.monotonic()
            if due and worker.ready and worker.task is None:
                worker.task = self._waiting.popleft()[1]
                yield Event("started", worker.task)
                _send(worker.pipe, ("task", worker.task))

    def _hear(self, worker: _Worker) -> Iterator[Event]:
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, OSError):
            kind, value = "died", self._bury(worker)
        if kind == "ready":
            worker.ready, self._false_starts = True, 0
        elif worker.task is not None:
            task = worker.task
            if kind != "report":
                worker.task = None
            yield Event(kind, task, value)

    def _bury(self, worker: _Worker) -> str:
        """Forget a process that has ended; returns how it ended."""
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        code = worker.process.exitcode or 0
        killed = code < 0
        how = f"by signal {signal.Signals(-code).name}" if killed else f"with exit code {code}"
        if worker.ready:
            return how
        # The process that starts all others may have died, which happens once.
        if self._false_starts and not killed:
            raise InputError(
                "worker processes end before they begin. A script that starts them must do so "
                'under if __name__ == "__main__":, because every process imports it.'
            )
        self._false_starts += 1
        if self._false_starts >= MOST_FALSE_STARTS:
            raise NcgnnError(
                f"worker processes are ended {how} before they begin; if memory ran out, use "
                "fewer --workers."
            )
        return how

    def _start_worker(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._work), daemon=True)
        try:
            if self._context.get_start_method() == "forkserver":
                with _blocked_signals():
                    forkserver.ensure_running()
                process.start()
            else:
                with _blocked_signals():
                    process.start()
        except (EOFError, OSError) as error:
            raise NcgnnError(
                f"a worker process could not be started ({error or 'its parent has died'}); the "
                "same command continues."
            ) from None
        theirs.close()
        return _Worker(process, ours)


def _process_context() -> Any:
    """Processes that start from one which has imported all and done nothing, where there are such.

    A plain fork would copy the state of running threads; starting anew costs seconds of imports.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


@contextmanager
def _blocked_signals() -> Generator[None]:
    """Let processes that start here hear nothing of Ctrl-C, not even while they import.

    A terminal sends it to all of its processes; what it means is for the parent to decide.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # lets signals through again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unblock_signals(told: Iterable[signal.Signals] | None = None) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals() if told is None else told)


if hasattr(os, "register_at_fork") and "multiprocessing.forkserver" in " ".join(sys.orig_argv):
    # This is the process that starts others, from which signals are kept (see _blocked_signals).
    # It serves the whole program: its children shall hear signals like those of any program.
    os.register_at_fork(after_in_child=_unblock_signals)


def _serve(pipe: Connection, work: Work) -> None:
    """In a worker: work on tasks that come through a pipe until it closes."""
    told = stop_signals()
    for number in told:  # the parent decides what they mean
        signal.signal(number, signal.SIG_IGN)
    _unblock_signals(told)
    keep_freed_memory()
    _send(pipe, ("ready", None))
    stopped = threading.Event()
    tasks: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(pipe, tasks, stopped), daemon=True).start()
    while (task := tasks.get()) is not None:
        try:
            if isinstance(task, InputError):  # it could not be read
                raise task
            done = work(task, lambda value: _send(pipe, ("report", value)), stopped.is_set)
            _send(pipe, ("result", done))
        except Exception as error:
            _send(pipe, ("error", sentence(error)))


def _listen(pipe: Connection, tasks: queue.Queue[Any], stopped: threading.Event) -> None:
    with suppress(EOFError, OSError):
        while True:
            try:
                kind, task = pipe.recv()
            except (AttributeError, ImportError) as error:
                kind = "task"
                task = InputError(
                    f"a worker process cannot read its task ({error}); {IMPORT_REMEDY}"
                )
            if kind == "stop":
                stopped.set()
            else:
                tasks.put(task)
    stopped.set()  # the parent is gone: save the state and leave
    tasks.put(None)


def _send(pipe: Connection, message: object) -> None:
    with suppress(OSError):  # a process that has died is noticed when it is listened to
        pipe.send(message)
