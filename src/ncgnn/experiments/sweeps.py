"""Sweeps: every model on every graph with every seed, trained in several processes.

Finished runs are never trained again, and interrupted ones continue.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._io import as_path
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.experiments.cells import fail, load_graph, make_cells, work
from ncgnn.experiments.engines import Engine, needs_of
from ncgnn.nn import model_name
from ncgnn.training import locate_dataset, make_config, read_config_file, refuse_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ncgnn.experiments.cells import Cell
    from ncgnn.experiments.engines import EngineName
    from ncgnn.experiments.ray import Needs
    from ncgnn.experiments.tuning.study import SearchState
    from ncgnn.nn import Model
    from ncgnn.training import ConfigFile, RunConfig, RunResult

#: Seconds between two reports of a cell that is trained.
_REPORT_SECONDS = 0.5
#: Seconds before a cell that another process trains is looked at again.
_PAUSE = 1.0
#: Options that distinguish the runs of a grid, and what sets them.
_SET_ELSEWHERE = {
    "data.dataset": "GRAPH",
    "data.split": "--split",
    "model.name": "--models",
    "training.seed": "--seeds",
}


class Watcher:
    """Hears of the progress of a sweep or a search, and may stop it; this one does nothing."""

    def on_plan(self, cells: Iterable[Cell], finished: int) -> None:
        """Some cells will be trained, and a number of others were finished before."""

    def on_start(self, cell: Cell) -> None:
        """A cell has begun."""

    def on_progress(self, cell: Cell, state: dict[str, Any]) -> None:
        """A cell has reached an ``epoch``, with a ``best`` validation score."""

    def on_end(self, cell: Cell) -> None:
        """A cell was left, in its present state."""

    def on_trial(self, state: SearchState) -> None:
        """A search has begun, or a trial of it has ended."""

    def stop(self) -> bool:
        """Whether to stop."""
        return False


@dataclass(frozen=True)
class SweepResult:
    """What came of a sweep: all runs, in the order of their configurations, in their last state."""

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


def grid(
    datasets: str | Sequence[str] | None = None,
    models: str | type[Model] | Sequence[str | type[Model]] | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    split: str | None = None,
    device: str | None = None,
    config: Path | str | Sequence[Path | str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[RunConfig]:
    """Every model on every dataset with every seed and configuration, dataset by dataset.

    Args:
        datasets: Names or paths of npz files; None: those that the TOML files name.
        models: Names, or classes of your own, which processes that train them must be able to
            import; None: those that the TOML files name, or ncgcn.
        seeds: How many, from 0 on, or which; None: that of the TOML file, or 0.
        split: Split family.
        device: Where tensors live.
        config: TOML files, each for the model and the dataset that it names, or for all if it
            names none; several for the same are as many configurations.
        settings: More options, as :func:`ncgnn.training.make_config` takes them.
    """
    check_settings(settings or {})
    numbers = _each(None if seeds is None else seed_list(seeds))
    files = read_config_files(config)
    graphs = _each(
        [datasets] if isinstance(datasets, str) else datasets or _named(files, "dataset")
    )
    if graphs == [None]:
        raise InputError("name a graph, or several: GRAPH on the command line, datasets in Python.")
    graphs = list(dict.fromkeys(locate_dataset(graph) for graph in graphs))
    several = [models] if isinstance(models, str | type) else models
    named = [one if isinstance(one, str) else model_name(one) for one in several or ()]
    chosen = _each(named or _named(files, "model"))
    shared = _shared_split(files)
    check_all_used(files, [(dataset, model) for dataset in graphs for model in chosen])
    return [
        make_config(
            dataset=dataset,
            model=model,
            split=shared.get("split") if file is None and split is None else split,
            device=device,
            seed=seed,
            config=file,
            settings=_with_split_options(settings or {}, shared if file is None else {}),
        )
        for dataset in graphs
        for model in chosen
        for file in [one for one in files if one.fits(dataset, model)] or [None]
        for seed in numbers
    ]


def _each(values: Iterable[Any] | None) -> list[Any]:
    return [None] if values is None else list(dict.fromkeys(values))


def _named(files: Sequence[ConfigFile], attribute: str) -> list[str] | None:
    """Datasets or models that files name."""
    return [name for file in files if (name := getattr(file, attribute)) is not None] or None


def _shared_split(files: Sequence[ConfigFile]) -> dict[str, Any]:
    """The split that all files agree on; cells without a file have it too."""
    found = [file.tables.get("data", {}) for file in files]
    return {
        option: found[0][option]
        for option in ("split", "split_seed", "fractions")
        if found and all(option in data and data[option] == found[0][option] for data in found)
    }


def _with_split_options(settings: Mapping[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    given = {key.rpartition(".")[2] for key in settings}
    extra = {
        f"data.{option}": shared[option]
        for option in ("split_seed", "fractions")
        if option in shared and option not in given
    }
    return {**settings, **extra}


def seed_list(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """The first so many seeds from 0 on, or those of a list.

    Raises:
        InputError: There is none, one twice, or one that is no seed.
    """
    found = tuple(range(seeds) if isinstance(seeds, int) else seeds)
    if not found or len(set(found)) < len(found) or min(found) < 0:
        raise InputError(
            f"seeds must be a number of seeds, or different whole numbers from 0; got {seeds}."
        )
    return found


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that would make all cells alike, or other than they are called."""
    for key in settings:
        for name, option in _SET_ELSEWHERE.items():
            if key in (name, name.partition(".")[2]):
                raise InputError(f"use {option} instead of --set {key} here.")


def read_config_files(
    config: Path | str | Sequence[Path | str] | None,
) -> tuple[ConfigFile, ...]:
    """One file, several or none, each once."""
    files = [config] if isinstance(config, Path | str) else config or ()
    paths = dict.fromkeys(as_path(file).absolute() for file in files)
    return tuple(read_config_file(path) for path in paths)


def file_for(files: Sequence[ConfigFile], dataset: str, model: str) -> ConfigFile | None:
    """The file for a model on a dataset, of which there may be one."""
    fitting = [file for file in files if file.fits(dataset, model)]
    if len(fitting) > 1:
        found = " and ".join(str(file.path) for file in fitting)
        raise InputError(f"{found} are both for {model} on {dataset}; leave one out.")
    return fitting[0] if fitting else None


def check_all_used(
    files: Iterable[ConfigFile], runs: Iterable[tuple[str | None, str | None]]
) -> None:
    """Refuse a file that is for no run; runs are given by dataset and model."""
    known = set(runs)
    for file in files:
        if not any(file.fits(*run) for run in known):
            raise InputError(
                f"{file.path} is for {file.scope}, which is not among the runs; leave the file "
                "out, or name these as GRAPH and with --models."
            )


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
        configs: What to train; equal ones are one run.
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
    refuse_ranks("a sweep")
    if retries < 0:
        raise InputError(f"retries must be at least 0; got {retries}.")
    place = Engine(engine, workers, threads, address)
    place.check_devices({config.training.device for config in configs})
    watcher = Watcher() if watcher is None else watcher
    options: dict[str, Any] = {"threads": threads, "warm_up": warm_up, "retry_failed": retry_failed}
    cells = {cell.name: cell for cell in make_cells(configs, runs, data_dir, **options)}
    wanted = [cell for cell in cells.values() if cell.wanted]
    watcher.on_plan(wanted, finished=sum(cell.state == "finished" for cell in cells.values()))
    if wanted:
        for cell in _run(wanted, watcher, place, retries):
            watcher.on_end(cell)
            cells[cell.name] = cell
    return SweepResult(tuple(cells.values()))


def plan(
    configs: Sequence[RunConfig], runs: Path | str = "runs", *, data_dir: Path | str | None = None
) -> list[Cell]:
    """The present state of every run that :func:`sweep` would train.

    Nothing is downloaded; where a graph is not at hand, runs are not checked against it.
    """
    return make_cells(configs, runs, data_dir, download=False)


def finished_runs(
    configs: Sequence[RunConfig], runs: Path | str, data_dir: Path | str | None = None
) -> list[RunResult]:
    """The finished among some runs, without training any.

    Damaged ones, and those whose graph has changed since, are left out with a warning. Nothing is
    downloaded; where a graph is not at hand, runs are not checked against it.
    """
    cells = make_cells(configs, runs, data_dir, retry_failed=True, download=False)
    for cell in cells:
        if cell.state == "damaged" or (cell.state == "failed" and not cell.wanted):
            warnings.warn(cell.error, NcgnnWarning, stacklevel=2)
    return [cell.run for cell in cells if cell.run is not None]


def _run(cells: Iterable[Cell], watcher: Watcher, engine: Engine, retries: int) -> Iterator[Cell]:
    """Work on cells with the processes of an engine.

    A cell whose process dies is tried again, from its latest checkpoint, up to ``retries`` times.
    """
    deaths: Counter[str] = Counter()
    with engine.open(_work, _needs) as pool:
        for cell in cells:
            pool.add(cell)
        for event in pool.events(watcher.stop):
            cell: Cell = event.task
            if event.kind == "started":
                watcher.on_start(cell)
            elif event.kind == "report":
                watcher.on_progress(cell, event.value)
            elif event.kind == "error":
                yield fail(cell, event.value)
            elif event.kind == "result":
                if event.value.state == "running" and not pool.stopping:
                    pool.add(cell, delay=_PAUSE)
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
    if pool.lost:
        warnings.warn(f"the Ray cluster is lost: {pool.lost}", NcgnnWarning, stacklevel=2)


def _needs(cell: Cell) -> Needs:
    """What a cell needs of a machine."""
    graph = load_graph(cell.config.data.dataset, cell.data_dir)
    return needs_of(cell.config, graph, cell.threads, cell.name)


def _work(cell: Cell, report: Callable[[Any], None], stop: Callable[[], bool]) -> Cell:
    """In a worker: train a cell, and report its progress now and then."""
    latest, best, score = 0.0, 0.0, f"val_{cell.config.training.metric}"

    def on_epoch(record: dict[str, Any]) -> None:
        nonlocal latest, best
        best = max(best, record[score])
        if time.monotonic() - latest >= _REPORT_SECONDS:
            latest = time.monotonic()
            report({"epoch": record["epoch"], "best": best})

    return work(cell, on_epoch, stop)
