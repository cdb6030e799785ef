"""One cell of a sweep: a run that any process may train, and that is never trained twice."""

from __future__ import annotations

import pickle
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from ncgnn._io import as_path
from ncgnn._numba import use_threads
from ncgnn.data import load
from ncgnn.errors import DataNotFoundError, InputError, NcgnnWarning, lacks_memory, sentence
from ncgnn.experiments.workers import IMPORT_REMEDY
from ncgnn.nn import model_class, model_names, register_model
from ncgnn.nn.registry import BUILT_IN
from ncgnn.training import (
    CONFIG,
    ERROR,
    DamagedFileError,
    OtherRunError,
    RunFolder,
    RunInUseError,
    check_same_config,
    check_same_graph,
    finished_run,
    is_current,
    train_run,
    trainable_split,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncgnn.graph import Graph
    from ncgnn.nn import Model
    from ncgnn.training import RunConfig, RunResult

State = Literal["finished", "running", "interrupted", "damaged", "failed", "missing"]


@dataclass(frozen=True)
class Cell:
    """A run of a sweep: its configuration and its state.

    Attributes:
        graph_sha256: Hash of its graph; "" if that is not at hand.
        warm_up: Whether two epochs that are thrown away come first, so that its time is without
            what a process does once.
        state: ``running`` means in another process, ``damaged`` since it was finished.
        wanted: Whether a sweep has work to do on it.
        error: Why it failed or cannot be trained, or what is damaged.
        warnings: What a person should know of its training.
        model: The class of a model of one's own, for processes that do not know it yet.
    """

    config: RunConfig
    runs: Path
    data_dir: Path | None = None
    threads: int = 1
    graph_sha256: str = ""
    split_sha256: str = ""
    warm_up: bool = False
    state: State = "missing"
    wanted: bool = True
    run: RunResult | None = None
    error: str = ""
    warnings: tuple[str, ...] = ()
    model: type[Model] | None = None

    @property
    def name(self) -> str:
        """The name of its run."""
        return self.config.name

    @property
    def folder(self) -> RunFolder:
        """The folder of its run."""
        return RunFolder(self.runs / self.name)


def make_cells(
    configs: Sequence[RunConfig],
    runs: Path | str,
    data_dir: Path | str | None,
    *,
    threads: int = 1,
    warm_up: bool = False,
    retry_failed: bool = False,
    download: bool = True,
) -> list[Cell]:
    """One cell per configuration, in its present state; input that would fail every one is refused.

    Without ``download``, nothing will be trained: graphs that are not at hand have no hashes.
    """
    place = None if data_dir is None else as_path(data_dir).resolve()
    root = as_path(runs).resolve()
    if root.exists() and not root.is_dir():
        raise InputError(f"--runs must be a folder; got {root}, which is a file.")
    hashes: dict[str, str] = {}
    splits: dict[tuple[Any, ...], str] = {}
    for dataset in dict.fromkeys(config.data.dataset for config in configs):
        try:
            graph = load(dataset, place, download=download)
        except DataNotFoundError:
            if download:
                raise
            continue
        hashes[dataset] = graph.fingerprint
        here = {_split_of(config): config for config in configs if config.data.dataset == dataset}
        splits |= {key: trainable_split(graph, config).sha256 for key, config in here.items()}
    cells = {
        config.name: Cell(
            *(config, root, place, threads, hashes.get(config.data.dataset, "")),
            splits.get(_split_of(config), ""),
            warm_up,
            model=importable_class(config.model.name),
        )
        for config in configs
    }
    return [inspect(cell, retry_failed=retry_failed) for cell in cells.values()]


def _split_of(config: RunConfig) -> tuple[Any, ...]:
    """What the split depends on."""
    return config.data.dataset, config.data.split, config.split_seed, config.data.fractions


def importable_class(name: str) -> type[Model] | None:
    """The class of a model that is not of this package, if other processes may import it.

    Raises:
        InputError: They may not, and would train the built-in model of this name instead.
    """
    kind = model_class(name)
    if kind.__module__.startswith("ncgnn."):
        return None
    try:
        pickle.dumps(kind)
    except (pickle.PicklingError, AttributeError):  # it is local to a function
        if name in BUILT_IN:
            raise InputError(
                f"worker processes would take the built-in {name} for yours; {IMPORT_REMEDY}"
            ) from None
        return None
    return kind


def use_class(name: str, kind: type[Model] | None) -> None:
    """In a worker: register a class of one's own; an unknown model without one is an error."""
    if kind is not None:
        register_model(kind, name, replace=True)
    elif name not in model_names():
        raise InputError(f"a worker process does not know the model {name}; {IMPORT_REMEDY}")


def inspect(cell: Cell, *, retry_failed: bool = False) -> Cell:
    """A cell in its present state; it is finished only if every file is as it was written.

    A run that failed is wanted with ``retry_failed`` only, but one that refused its input always,
    as that may have been put right since.
    """
    folder = cell.folder
    try:
        check_same_config(folder, cell.config)
        if folder.is_done():
            run = finished_run(folder)
            if not is_current(cell.config.model.model_dump(), run.result):
                return replace(cell, state="missing")  # train_run sets it aside
            if cell.graph_sha256:
                check_same_graph(folder, cell.config, cell.graph_sha256, cell.split_sha256)
            return replace(cell, state="finished", wanted=False, run=run)
    except DamagedFileError as damage:
        if folder.is_in_use():
            return replace(cell, state="running")
        return replace(cell, state="damaged", error=str(damage))
    except (InputError, OSError) as problem:  # another run, a changed graph, an unreadable folder
        return replace(cell, state="failed", wanted=False, error=str(problem))
    if folder.is_in_use():
        return replace(cell, state="running")
    if (folder / ERROR).is_file():
        error, is_input = read_error(folder)
        return replace(cell, state="failed", wanted=retry_failed or is_input, error=error)
    begun = (folder / CONFIG).is_file()
    return replace(cell, state="interrupted" if begun else "missing")


def read_error(folder: RunFolder) -> tuple[str, bool]:
    """The error that a run ended with, and whether it was one of its input."""
    kept: dict[str, Any] = {}
    with suppress(DamagedFileError):
        kept = folder.read_json(ERROR)
    return str(kept.get("error", "unknown error")), bool(kept.get("input"))


def work(
    cell: Cell,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Cell:
    """Train a cell, from its latest checkpoint if there is one; an error is kept in its folder.

    Returns:
        The cell, ``finished``, ``failed``, ``interrupted`` on request, or ``running`` because
        another process trains it.
    """
    use_threads(cell.threads)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            use_class(cell.config.model.name, cell.model)
            graph = _graph_of(cell)
            if cell.warm_up and not cell.folder.is_done() and not cell.folder.is_in_use():
                _warm_up(cell.config, graph, stop)
            more: dict[str, Any] = {"on_epoch": on_epoch, "stop": stop, "copies": False}
            run = train_run(cell.config, cell.runs, graph=graph, **more)
        except RunInUseError:
            return replace(cell, state="running")
        except KeyboardInterrupt:
            return replace(cell, state="interrupted")
        except OtherRunError as error:  # whose folder is left as it is
            return replace(cell, state="failed", wanted=False, error=sentence(error))
        except Exception as error:  # whatever it is, the other cells go on
            if lacks_memory(error):
                error = InputError("this does not fit into memory; ask for less.")
            wrong_input = isinstance(error, InputError)
            return fail(cell, sentence(error), traceback.format_exc(), wrong_input=wrong_input)
    told = [str(one.message) for one in caught if issubclass(one.category, NcgnnWarning)]
    return replace(
        cell, state="finished", wanted=False, run=run, error="", warnings=(*dict.fromkeys(told),)
    )


def fail(cell: Cell, error: str, trace: str = "", *, wrong_input: bool = False) -> Cell:
    """Keep a cell's error in its folder, so that it is listed and not tried for ever."""
    # The folder itself may be what is wrong, or another process at work on it since.
    with suppress(OSError, RunInUseError), cell.folder.lock():
        cell.folder.write_error(error, wrong_input=wrong_input, trace=trace)
    return replace(cell, state="failed", wanted=False, error=error)


def _graph_of(cell: Cell) -> Graph:
    """The graph of a cell, which must be the one that the sweep was planned with."""
    config = cell.config
    graph = load_graph(config.data.dataset, cell.data_dir)
    if cell.graph_sha256:
        split = config.make_split(graph)
        if (graph.fingerprint, split.sha256) != (cell.graph_sha256, cell.split_sha256):
            raise InputError(
                f"{config.data.dataset} is another graph here than where the sweep was begun, or "
                "has changed since; make the files the same."
            )
    return graph


@lru_cache(maxsize=2)
def load_graph(dataset: str, data_dir: Path | None) -> Graph:
    """A graph; a process that works on many cells of it loads it once."""
    return load(dataset, data_dir)


def _warm_up(config: RunConfig, graph: Graph, stop: Callable[[], bool] | None) -> None:
    few = config.training.model_copy(update={"epochs": 2})
    # What goes wrong here does so in the run itself, which keeps its error.
    with TemporaryDirectory() as folder, suppress(Exception):
        train_run(config.model_copy(update={"training": few}), Path(folder), graph=graph, stop=stop)
