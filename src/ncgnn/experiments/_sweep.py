"""Many runs at once: what is finished is never trained again, what was interrupted goes on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn.errors import InputError, NcgnnError, NcgnnWarning
from ncgnn.experiments._engine import Watcher, default_workers, work_on
from ncgnn.experiments._plan import cells_of, standing
from ncgnn.training._run import RunResult, finished_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.experiments._cell import Cell, Outcome, Status
    from ncgnn.experiments._engine import EngineName
    from ncgnn.training import RunConfig


@dataclass(frozen=True)
class SweepResult:
    """What came of a sweep.

    Attributes:
        runs: The finished runs, in the order in which they were asked for.
        failed: The error of every run that failed, by its folder.
        left: Folders of runs that are not finished because the sweep was stopped.
    """

    runs: tuple[RunResult, ...]
    failed: dict[Path, str]
    left: tuple[Path, ...]


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
    if address is not None and engine == "local":
        raise InputError("an address is one of a Ray cluster; it needs --engine ray.")
    if address is not None and workers is not None:
        raise InputError("an existing cluster decides how many run at a time; leave --workers out.")
    watcher = Watcher() if watcher is None else watcher
    cells = cells_of(configs, Path(runs), data_dir, threads=threads, warm_up=warm_up)
    before, known = standing(cells, retry_failed)
    wanted = [
        cell
        for name, cell in cells.items()
        if before[name] != "finished" and cell.folder.path not in known
    ]
    watcher.planned(wanted, finished=sum(state == "finished" for state in before.values()))
    fresh: dict[str, Outcome] = {}
    if wanted:
        count = default_workers(threads) if workers is None else workers
        outcomes = work_on(
            wanted, watcher, engine=engine, workers=count, retries=retries, address=address
        )
        for outcome in outcomes:
            watcher.ended(cells[outcome.name], outcome)
            fresh[outcome.name] = outcome
    return _sweep_result(cells, before, fresh, known)


def _sweep_result(
    cells: dict[str, Cell],
    before: dict[str, Status],
    fresh: dict[str, Outcome],
    known: dict[Path, str],
) -> SweepResult:
    failed = known | {
        cells[name].folder.path: outcome.error
        for name, outcome in fresh.items()
        if outcome.state == "failed"
    }
    done = {name for name, state in before.items() if state == "finished"}
    done |= {name for name, outcome in fresh.items() if outcome.state == "finished"}
    left = [cell.folder.path for name, cell in cells.items() if name not in done]
    return SweepResult(
        runs=tuple(_result(cells[name], fresh.get(name)) for name in cells if name in done),
        failed=failed,
        left=tuple(path for path in left if path not in failed),
    )


def _result(cell: Cell, outcome: Outcome | None) -> RunResult:
    if outcome is None:
        return finished_run(cell.folder)
    path = cell.folder.path
    return RunResult(path, cell.config, outcome.result, outcome.seconds, outcome.fresh)


def finished_runs(
    configs: Sequence[RunConfig], runs: Path | str, data_dir: Path | str | None = None
) -> list[RunResult]:
    """The finished among some runs, without training any.

    Damaged ones, and those whose graph has changed since, are left out with a warning. Nothing is
    downloaded; where a graph is not at hand, runs on it are taken at their word.
    """
    cells = cells_of(configs, Path(runs), data_dir, download=False)
    before, known = standing(cells, retry_failed=True)
    for name, cell in cells.items():
        if before[name] == "interrupted" and cell.folder.is_done():
            try:
                cell.folder.check()
            except NcgnnError as damage:
                known[cell.folder.path] = str(damage)
    for problem in known.values():
        warnings.warn(problem, NcgnnWarning, stacklevel=2)
    return [finished_run(c.folder) for name, c in cells.items() if before[name] == "finished"]
