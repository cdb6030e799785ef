"""Sweeps: many runs at once; finished ones are never trained again, interrupted ones go on."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.experiments.cells import fail, make_cells, work
from ncgnn.experiments.ray import run_ray
from ncgnn.experiments.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ncgnn.experiments.cells import Cell
    from ncgnn.training import RunConfig, RunResult

EngineName = Literal["local", "ray"]
#: Seconds between two reports of a cell that is trained.
_REPORT_SECONDS = 0.5
#: Seconds before a cell that another process trains is looked at again.
_PATIENCE = 1.0


class Watcher:
    """Hears of a sweep's progress and may stop it; this one is silent and never does."""

    def planned(self, cells: Iterable[Cell], finished: int) -> None:
        """So many cells are to be done, and so many were done before."""

    def started(self, cell: Cell) -> None:
        """A cell was begun."""

    def progress(self, cell: Cell, state: dict[str, Any]) -> None:
        """A cell has come to an ``epoch``, with a ``best`` validation score."""

    def ended(self, cell: Cell) -> None:
        """A cell was left, in the state that it has now."""

    def stop(self) -> bool:
        """Whether the sweep shall stop."""
        return False


@dataclass(frozen=True)
class SweepResult:
    """What came of a sweep.

    Attributes:
        cells: All runs, in the order in which they were asked for, as they stand now.
    """

    cells: tuple[Cell, ...]

    @property
    def runs(self) -> tuple[RunResult, ...]:
        """The finished runs."""
        return tuple(cell.run for cell in self.cells if cell.run is not None)

    @property
    def failed(self) -> dict[Path, str]:
        """The error of every run that failed, by its folder."""
        failed = [cell for cell in self.cells if cell.state == "failed" and not cell.wanted]
        return {cell.folder.path: cell.error for cell in failed}

    @property
    def left(self) -> tuple[Path, ...]:
        """Folders of runs that are not finished because the sweep was stopped."""
        return tuple(cell.folder.path for cell in self.cells if cell.wanted)


def sweep(
    configs: Sequence[RunConfig],
    runs: Path | str = "runs",
    *,
    data_dir: Path | str | None = None,
    engine: EngineName = "local",
    workers: int | None = None,
    threads: int = 1,
    retries: int = 2,
    retry_failed: bool = False,
    address: str | None = None,
    warm_up: bool = False,
    watcher: Watcher | None = None,
) -> SweepResult:
    """Train all runs that are not finished.

    A script that calls it must do so under ``if __name__ == "__main__":``, as every process imports
    the script. The outcome does not depend on the engine or on the number of workers. It may differ
    in the last digits with the number of threads, which is recorded in each run.

    Args:
        configs: What to train; equal configurations are one run.
        runs: Folder of all runs. For a Ray cluster, one that all its machines see.
        data_dir: Folder with npz files.
        engine: ``local`` processes, or tasks of a ``ray`` cluster.
        workers: Number of processes; by default one for every ``threads`` cores.
        threads: Number of threads of each.
        retries: How often a run is tried again whose process died.
        retry_failed: Whether to try runs that failed before once more.
        address: Of an existing Ray cluster; by default a local one is started.
        warm_up: Whether two epochs that are thrown away come before every run, so that its time is
            without what a process does once.
        watcher: Hears of progress, and may stop the sweep.

    Returns:
        Finished, failed and left runs.
    """
    if threads < 1 or (workers is not None and workers < 1):
        raise InputError("workers and threads must be at least 1.")
    if retries < 0:
        raise InputError("retries must be at least 0.")
    if engine not in ("local", "ray"):
        raise InputError(f"engine must be local or ray; got '{engine}'.")
    if address is not None and engine == "local":
        raise InputError("an address is one of a Ray cluster; it needs --engine ray.")
    if address is not None and workers is not None:
        raise InputError("an existing cluster decides how many run at a time; leave --workers out.")
    watcher = Watcher() if watcher is None else watcher
    options: dict[str, Any] = {"threads": threads, "warm_up": warm_up, "retry_failed": retry_failed}
    cells = {cell.name: cell for cell in make_cells(configs, runs, data_dir, **options)}
    wanted = [cell for cell in cells.values() if cell.wanted]
    watcher.planned(wanted, finished=sum(cell.state == "finished" for cell in cells.values()))
    if wanted:
        workers = default_workers(threads) if workers is None else workers
        if engine == "local":
            done = _run_local(wanted, watcher, workers, retries)
        else:
            done = run_ray(wanted, watcher, workers=workers, retries=retries, address=address)
        for cell in done:
            watcher.ended(cell)
            cells[cell.name] = cell
    return SweepResult(tuple(cells.values()))


def plan(
    configs: Sequence[RunConfig], runs: Path | str = "runs", *, data_dir: Path | str | None = None
) -> list[Cell]:
    """Where every run stands that :func:`sweep` would be given.

    Nothing is downloaded; where a graph is not at hand, runs are not checked against it.

    Args:
        configs: What is to be trained; equal configurations are one run.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
    """
    return make_cells(configs, runs, data_dir, download=False)


def finished_runs(
    configs: Sequence[RunConfig], runs: Path | str, data_dir: Path | str | None = None
) -> list[RunResult]:
    """The finished among some runs, without training any.

    Damaged ones, and those whose graph has changed since, are left out with a warning. Nothing is
    downloaded; where a graph is not at hand, runs on it are taken at their word.
    """
    cells = make_cells(configs, runs, data_dir, retry_failed=True, download=False)
    for cell in cells:
        if cell.state == "damaged" or (cell.state == "failed" and not cell.wanted):
            warnings.warn(cell.error, NcgnnWarning, stacklevel=2)
    return [cell.run for cell in cells if cell.run is not None]


def default_workers(threads: int) -> int:
    """As many processes as keep every core of this process busy with one thread each."""
    known = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    return max(1, cores // threads)


def _run_local(
    cells: Iterable[Cell], watcher: Watcher, workers: int, retries: int
) -> Iterator[Cell]:
    """Work on cells with processes of this machine.

    A cell whose process dies is tried again, from its latest checkpoint, up to ``retries`` times.
    """
    deaths: Counter[str] = Counter()
    with WorkerPool(_work, workers) as pool:
        for cell in cells:
            pool.add(cell)
        for event in pool.events(watcher.stop):
            cell: Cell = event.task
            if event.kind == "started":
                watcher.started(cell)
            elif event.kind == "report":
                watcher.progress(cell, event.value)
            elif event.kind == "error":
                yield fail(cell, event.value)
            elif event.kind == "result":
                if event.value.state == "running" and not pool.stopping:
                    pool.add(cell, delay=_PATIENCE)
                else:
                    yield event.value
            elif pool.stopping:
                yield replace(cell, state="interrupted")
            else:
                deaths[cell.name] += 1
                if deaths[cell.name] <= retries:
                    pool.add(cell, first=True)
                    continue
                times = f"{deaths[cell.name]} times" if retries else "once"
                yield fail(
                    cell,
                    f"its process was ended {times}, the last time {event.value}; if memory ran "
                    "out, use fewer --workers.",
                )


def _work(cell: Cell, report: Callable[[Any], None], stop: Callable[[], bool]) -> Cell:
    """In a worker: train a cell, and report now and then how far it is."""
    latest, best, score = 0.0, 0.0, f"val_{cell.config.training.metric}"

    def on_epoch(record: dict[str, Any]) -> None:
        nonlocal latest, best
        best = max(best, record[score])
        if time.monotonic() - latest >= _REPORT_SECONDS:
            latest = time.monotonic()
            report({"epoch": record["epoch"], "best": best})

    return work(cell, on_epoch, stop)
