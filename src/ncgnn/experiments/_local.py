"""Cells on the processes of this machine."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from ncgnn.errors import NcgnnError
from ncgnn.experiments._cell import Cell, Outcome, failed, work
from ncgnn.experiments._processes import (
    check_false_start,
    ignore_signals,
    process_context,
    start_worker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from ncgnn.experiments._engine import Watcher

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
