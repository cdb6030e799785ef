"""Cells as tasks of a Ray cluster."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ncgnn._memory import keep_freed_memory
from ncgnn.data import DATA_VARIABLE
from ncgnn.errors import InputError
from ncgnn.experiments.cells import fail, work

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from ncgnn.experiments.cells import Cell
    from ncgnn.experiments.sweeps import Watcher


def run_ray(
    cells: Iterable[Cell],
    watcher: Watcher,
    *,
    workers: int,
    retries: int,
    address: str | None,
) -> Iterable[Cell]:
    """Work on cells with the processes of a Ray cluster, whose machines all see their folders.

    The cluster is an existing one by its ``address`` (``auto`` for that of this machine), or one
    that is started here for so many ``workers``. Ray tries a cell again whose process died.
    """
    cells, data = list(cells), os.environ.get(DATA_VARIABLE)
    order = cells[0].runs / f".stop-{uuid4().hex}"
    with connect(address, workers * max(cell.threads for cell in cells)) as ray:
        _check_room(ray, max(cell.threads for cell in cells))
        task = ray.remote(max_retries=retries)(_work)
        waiting = {
            task.options(num_cpus=cell.threads, name=cell.name).remote(cell, order, data): cell
            for cell in cells
        }
        try:
            while waiting:
                if watcher.stop() and not order.exists():
                    order.parent.mkdir(parents=True, exist_ok=True)
                    order.touch()  # tasks look for it, save their state and end
                ready, _ = ray.wait(list(waiting), timeout=0.5)
                for reference in ready:
                    yield _fetch(ray, reference, waiting.pop(reference), retries)
        finally:
            for reference in waiting:
                ray.cancel(reference)
            order.unlink(missing_ok=True)


def _check_room(ray: Any, threads: int) -> None:
    """Refuse more threads than any machine has cores; Ray itself would wait for ever."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    most = max((node["Resources"].get("CPU", 0) for node in alive), default=0)
    if most < threads:
        raise InputError(
            f"--threads must be at most {most:.0f}, the cores of the largest node; got {threads}."
        )


def _work(cell: Cell, order: Path, data: str | None) -> Cell:
    """Work on a cell until a file orders to stop; wait while another process has it."""
    if data is not None:
        os.environ[DATA_VARIABLE] = data
    keep_freed_memory()
    while not order.exists():
        done = work(cell, stop=order.exists)
        if done.state != "running":
            return done
        time.sleep(1.0)
    return replace(cell, state="interrupted")


def _fetch(ray: Any, reference: Any, cell: Cell, retries: int) -> Cell:
    try:
        return ray.get(reference)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
        reason = str(error).strip().splitlines()[0]
        return fail(cell, f"its process was ended {retries + 1} times: {reason}")
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0]
        return fail(cell, f"Ray could not work on it: {reason}")


@contextmanager
def connect(address: str | None, cores: int) -> Generator[Any]:
    """Connect to a cluster, or start one that ends with the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # A cluster started here has its machine to itself, like the processes of the local engine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise InputError(
            "engine 'ray' needs Ray: install it with pip install 'ncgnn[ray]'."
        ) from None
    was_connected = ray.is_initialized()
    if not was_connected:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            options |= {"num_cpus": cores, "include_dashboard": False}
        else:
            _check_reachable(address)
            options["address"] = address
        try:
            with _own_signals():
                ray.init(**options)
        except (ConnectionError, ValueError) as error:
            raise InputError(f"cannot reach the Ray cluster '{address}': {error}") from None
    try:
        yield ray
    finally:
        if not was_connected:
            ray.shutdown()


@contextmanager
def _own_signals() -> Generator[None]:
    """Keep the handlers of signals, by which work is saved; Ray would replace them."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def _check_reachable(address: str) -> None:
    """Refuse an address at which nobody answers; Ray itself would wait for ever."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # a name that Ray looks up itself, like auto
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise InputError(
            f"cannot reach the Ray cluster '{address}' ({error}); check --address, or leave it out "
            "to start one here."
        ) from None
