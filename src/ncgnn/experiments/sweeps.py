"""Many runs at once: what is finished is never trained again, what was interrupted goes on.

One cell of a sweep: a run that is trained wherever there is room, and never twice.

What an engine is: it works on cells, wherever, and says what came of each.

Where the runs of a sweep stand, before anything is trained.
"""

from __future__ import annotations

import os
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from ncgnn.errors import (
    DataNotFoundError,
    InputError,
    NcgnnError,
    NcgnnWarning,
    lacks_memory,
    sentence,
)
from ncgnn.training import (
    CONFIG,
    ERROR,
    DamagedFileError,
    OtherRunError,
    RunFolder,
    RunInUseError,
    RunResult,
    check_same_config,
    check_same_graph,
    checked_device,
    finished_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig

Status = Literal["finished", "failed", "interrupted", "missing"]


@dataclass(frozen=True)
class Cell:
    """A run to be trained, and where.

    Attributes:
        config: Its configuration, all options filled in.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
        threads: Number of threads that train it.
        graph_sha256: Hash of the graph that it is trained on; "" if that is not at hand.
        split_sha256: Hash of its split.
        warm_up: Whether two epochs that are thrown away come first, so that its time is without
            what a process does once.
    """

    config: RunConfig
    runs: Path
    data_dir: Path | None = None
    threads: int = 1
    graph_sha256: str = ""
    split_sha256: str = ""
    warm_up: bool = False

    @property
    def name(self) -> str:
        """The name of its run."""
        return self.config.name

    @property
    def folder(self) -> RunFolder:
        """The folder of its run."""
        return RunFolder(self.runs / self.name)


@dataclass(frozen=True)
class Outcome:
    """What came of working on a cell.

    Attributes:
        name: Of its run.
        state: ``finished``; ``failed`` with an error; ``stopped`` on request; or ``busy``, because
            another process trains it.
        result: What ``result.json`` holds.
        seconds: How long training took.
        fresh: Whether it was trained now, and not found finished.
        error: What went wrong, in a sentence.
        warnings: What a person should know.
    """

    name: str
    state: Literal["finished", "failed", "stopped", "busy"]
    result: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0
    fresh: bool = False
    error: str = ""
    warnings: tuple[str, ...] = ()


def status(cell: Cell) -> Status:
    """Where a cell stands; a finished one is finished only if every file is as it was written.

    Raises:
        InputError: Its folder holds another run, or its graph or split has changed since.
    """
    folder = cell.folder
    check_same_config(folder, cell.config)
    if folder.is_done():
        try:
            folder.check()
        except NcgnnError:
            return "interrupted"
        if cell.graph_sha256:
            check_same_graph(folder, cell.config, cell.graph_sha256, cell.split_sha256)
        return "finished"
    if (folder / ERROR).is_file():
        # What was wrong with the input may have been put right since.
        return "interrupted" if _kept(folder).get("input") else "failed"
    return "interrupted" if folder.path.is_dir() else "missing"


def work(
    cell: Cell,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Outcome:
    """Train a cell, go on with it, or find it finished; an error is kept in its folder."""
    from ncgnn._numba import use_threads
    from ncgnn.training import train_run

    use_threads(cell.threads)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            graph = _checked_graph(cell)
            if cell.warm_up and not cell.folder.is_done() and not cell.folder.is_in_use():
                _warm_up(cell.config, graph, stop)
            run = train_run(cell.config, cell.runs, graph=graph, on_epoch=on_epoch, stop=stop)
        except RunInUseError:
            return Outcome(cell.name, "busy")
        except KeyboardInterrupt:
            return Outcome(cell.name, "stopped")
        except OtherRunError as error:  # whose folder is left as it is
            return Outcome(cell.name, "failed", error=sentence(error))
        except Exception as error:  # whatever it is, the other cells go on
            if lacks_memory(error):
                error = InputError("this does not fit into memory; ask for less.")
            wrong_input = isinstance(error, InputError)
            return failed(cell, sentence(error), traceback.format_exc(), wrong_input=wrong_input)
    told = tuple(dict.fromkeys(str(w.message) for w in caught if _for_people(w)))
    return Outcome(cell.name, "finished", run.result, run.seconds, fresh=run.fresh, warnings=told)


def _warm_up(config: RunConfig, graph: Graph, stop: Callable[[], bool] | None) -> None:
    from tempfile import TemporaryDirectory

    from ncgnn.training import train_run

    few = config.training.model_copy(update={"epochs": 2})
    # What goes wrong here does so in the run itself, which keeps its error.
    with TemporaryDirectory() as folder, suppress(Exception):
        train_run(config.model_copy(update={"training": few}), Path(folder), graph=graph, stop=stop)


def failed(cell: Cell, error: str, trace: str = "", *, wrong_input: bool = False) -> Outcome:
    """Keep a cell's error in its folder, so that it is listed and not tried for ever."""
    # The folder itself may be what is wrong, or another process at work on it since.
    with suppress(OSError, RunInUseError), cell.folder.lock():
        cell.folder.write_error(error, wrong_input=wrong_input, trace=trace)
    return Outcome(cell.name, "failed", error=error)


def kept_error(folder: RunFolder) -> str:
    """The error that a run ended with."""
    return str(_kept(folder).get("error", "unknown error"))


def _kept(folder: RunFolder) -> dict[str, Any]:
    try:
        return folder.read_json(ERROR)
    except DamagedFileError:
        return {}


def _for_people(warning: warnings.WarningMessage) -> bool:
    from ncgnn.errors import NcgnnWarning

    return issubclass(warning.category, NcgnnWarning)


def _checked_graph(cell: Cell) -> Graph:
    """The graph of a cell; an error if it is not the one that the sweep was planned with."""
    from ncgnn.data import make_split

    config = cell.config
    graph, graph_sha256 = _graph(config.data.dataset, cell.data_dir)
    if cell.graph_sha256:
        split = make_split(graph, config.data.split, config.split_seed, warn=False)
        if (graph_sha256, split.sha256) != (cell.graph_sha256, cell.split_sha256):
            raise InputError(
                f"{config.data.dataset} is another graph here than where the sweep was begun, or "
                "has changed since; make the files the same."
            )
    return graph


@lru_cache(maxsize=2)
def _graph(dataset: str, data_dir: Path | None) -> tuple[Graph, str]:
    from ncgnn.data import load

    graph = load(dataset, data_dir)
    return graph, graph.fingerprint


EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = ("local", "ray")


class Watcher:
    """Hears of a sweep's progress and may stop it; this one is silent and never does."""

    def planned(self, cells: Iterable[Cell], finished: int) -> None:
        """So many cells are to be done, and so many were done before."""

    def started(self, cell: Cell) -> None:
        """A cell was begun."""

    def progress(self, cell: Cell, state: dict[str, Any]) -> None:
        """A cell has come to an ``epoch``, with a ``best`` validation accuracy."""

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        """A cell was left."""

    def stop(self) -> bool:
        """Whether the sweep shall stop."""
        return False


def default_workers(threads: int) -> int:
    """As many processes as keep every core busy with one thread each."""
    return max(1, available_cores() // threads)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work_on(
    cells: list[Cell],
    watcher: Watcher,
    *,
    engine: EngineName,
    workers: int,
    retries: int,
    address: str | None,
) -> Iterable[Outcome]:
    """Work on cells with one of the engines."""
    if engine == "local":
        from ncgnn.experiments.workers import run_local

        return run_local(cells, watcher, workers=workers, retries=retries)
    if engine == "ray":
        from ncgnn.experiments.ray import run_ray

        return run_ray(cells, watcher, workers=workers, retries=retries, address=address)
    raise InputError(f"engine is '{engine}'; choose {' or '.join(ENGINES)}.")


State = Literal["finished", "running", "interrupted", "damaged", "failed", "missing"]


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        folder: Where it is, or will be.
        config: Its configuration.
        state: ``finished``; ``running`` in another process; ``interrupted``; ``damaged`` since it
            was finished; ``failed``; or ``missing``.
        error: Why a failed one failed, or cannot be trained, or what is damaged.
    """

    folder: Path
    config: RunConfig
    state: State
    error: str = ""


def plan(
    configs: Sequence[RunConfig], runs: Path | str = "runs", *, data_dir: Path | str | None = None
) -> list[PlannedRun]:
    """Where every run stands that :func:`ncgnn.experiments.sweep` would be given.

    Nothing is downloaded; where a graph is not at hand, runs are not checked against it.

    Args:
        configs: What is to be trained; equal configurations are one run.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
    """
    cells = cells_of(configs, Path(runs), data_dir, download=False)
    states, errors = standing(cells, retry_failed=False)
    return [
        _planned(cell, states[name], errors.get(cell.folder.path, ""))
        for name, cell in cells.items()
    ]


def _planned(cell: Cell, state: Status, error: str) -> PlannedRun:
    """A run for people: what a sweep would take up again need not have been interrupted."""
    folder, shown = cell.folder, cast("State", state)
    if state == "interrupted":
        if folder.is_in_use():
            shown = "running"
        elif folder.is_done():
            shown, error = "damaged", _damage(folder)
        elif (folder / ERROR).is_file():
            shown, error = "failed", kept_error(folder)
        elif not (folder / CONFIG).is_file():
            shown = "missing"
    return PlannedRun(folder.path, cell.config, shown, error)


def _damage(folder: RunFolder) -> str:
    try:
        folder.check()
    except NcgnnError as damage:
        return str(damage)
    return ""


def standing(
    cells: dict[str, Cell], retry_failed: bool
) -> tuple[dict[str, Status], dict[Path, str]]:
    """Where every cell stands, and the errors of those that are not to be tried."""
    before: dict[str, Status] = {}
    known: dict[Path, str] = {}
    for name, cell in cells.items():
        try:
            before[name] = status(cell)
        except (InputError, OSError) as problem:  # a changed graph, or an unreadable folder
            before[name], known[cell.folder.path] = "failed", str(problem)
            continue
        if before[name] == "failed" and not retry_failed:
            known[cell.folder.path] = kept_error(cell.folder)
    return before, known


def cells_of(
    configs: Sequence[RunConfig],
    runs: Path,
    data_dir: Path | str | None,
    *,
    threads: int = 1,
    warm_up: bool = False,
    download: bool = True,
) -> dict[str, Cell]:
    """The cells by name, after a look at all that would make every one of them fail.

    Without ``download``, nothing will be trained: cells whose graph is not at hand know no hashes
    of it, and any device will do.
    """
    from ncgnn.data import load
    from ncgnn.training import trainable_split

    place = None if data_dir is None else Path(data_dir).expanduser().resolve()
    root = runs.expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise InputError(f"--runs is {root}, which is a file; name a folder.")
    hashes: dict[str, str] = {}
    splits: dict[tuple[str, str, int], str] = {}
    for dataset in dict.fromkeys(config.data.dataset for config in configs):
        try:
            graph = load(dataset, place, download=download)
        except DataNotFoundError:
            if download:
                raise
            continue
        hashes[dataset] = graph.fingerprint
        mine = [config for config in configs if config.data.dataset == dataset]
        for key in dict.fromkeys(_split_of(config) for config in mine):
            splits[key] = trainable_split(graph, *key).sha256
    for device in {config.training.device for config in configs} if download else ():
        checked_device(device)
    found = [(c, hashes.get(c.data.dataset, ""), splits.get(_split_of(c), "")) for c in configs]
    return {
        config.name: Cell(config, root, place, threads, graph, split, warm_up)
        for config, graph, split in found
    }


def _split_of(config: RunConfig) -> tuple[str, str, int]:
    return config.data.dataset, config.data.split, config.split_seed


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
