"""One cell of a sweep: a run that is trained wherever there is room, and never twice."""

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

from ncgnn._numba import use_threads
from ncgnn.data import load, make_split
from ncgnn.errors import DataNotFoundError, InputError, NcgnnWarning, lacks_memory, sentence
from ncgnn.nn import model_class, register_model
from ncgnn.training import (
    CONFIG,
    ERROR,
    DamagedFileError,
    OtherRunError,
    RunFolder,
    RunInUseError,
    check_same_config,
    check_same_graph,
    checked_device,
    finished_run,
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
    """A run of a sweep: what is asked for, and where it stands.

    Attributes:
        config: Its configuration, all options filled in.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
        threads: Number of threads that train it.
        graph_sha256: Hash of the graph that it is trained on; "" if that is not at hand.
        split_sha256: Hash of its split.
        warm_up: Whether two epochs that are thrown away come first, so that its time is without
            what a process does once.
        state: ``finished``; ``running`` in another process; ``interrupted``; ``damaged`` since it
            was finished; ``failed``; or ``missing``.
        wanted: Whether a sweep has work to do on it.
        run: The finished run.
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
    """One cell per configuration, as it stands, after a look at what would make every one fail.

    Without ``download``, nothing will be trained: cells whose graph is not at hand know no hashes
    of it, and any device will do.
    """
    place = None if data_dir is None else Path(data_dir).expanduser().resolve()
    root = Path(runs).expanduser().resolve()
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
        for split in {_split_of(config) for config in configs if config.data.dataset == dataset}:
            splits[split] = trainable_split(graph, *split).sha256
    for device in {config.training.device for config in configs} if download else ():
        checked_device(device)
    cells = {
        config.name: Cell(
            *(config, root, place, threads, hashes.get(config.data.dataset, "")),
            splits.get(_split_of(config), ""),
            warm_up,
            model=_own_class(config.model.name),
        )
        for config in configs
    }
    return [inspect(cell, retry_failed=retry_failed) for cell in cells.values()]


def _own_class(name: str) -> type[Model] | None:
    """The class of a model that is not of this package, if other processes may import it."""
    kind = model_class(name)
    if kind.__module__.startswith("ncgnn."):
        return None
    try:
        pickle.dumps(kind)
    except (pickle.PicklingError, AttributeError):  # it is local to a function
        return None
    return kind


def inspect(cell: Cell, *, retry_failed: bool = False) -> Cell:
    """Fill in where a cell stands; it is finished only if every file is as it was written.

    Args:
        cell: The cell.
        retry_failed: Whether a run that failed is wanted. One that refused its input always is,
            as that may have been put right since.
    """
    folder = cell.folder
    try:
        check_same_config(folder, cell.config)
        if folder.is_done():
            run = finished_run(folder)
            if cell.graph_sha256:
                check_same_graph(folder, cell.config, cell.graph_sha256, cell.split_sha256)
            return replace(cell, state="finished", wanted=False, run=run)
    except DamagedFileError as damage:
        in_use = folder.is_in_use()
        return replace(
            cell, state="running" if in_use else "damaged", error="" if in_use else str(damage)
        )
    except (InputError, OSError) as problem:  # another run, a changed graph, an unreadable folder
        return replace(cell, state="failed", wanted=False, error=str(problem))
    if folder.is_in_use():
        return replace(cell, state="running")
    if (folder / ERROR).is_file():
        kept = _read_error(folder)
        wanted = retry_failed or bool(kept.get("input"))
        return replace(cell, state="failed", wanted=wanted, error=kept_error(folder))
    begun = (folder / CONFIG).is_file()
    return replace(cell, state="interrupted" if begun else "missing")


def work(
    cell: Cell,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Cell:
    """Train a cell, go on with it, or find it finished; an error is kept in its folder.

    Returns:
        The cell, ``finished``, ``failed``, ``interrupted`` on request, or ``running`` because
        another process trains it.
    """
    use_threads(cell.threads)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if cell.model is not None:
                register_model(cell.model, cell.config.model.name, replace=True)
            graph = _checked_graph(cell)
            if cell.warm_up and not cell.folder.is_done() and not cell.folder.is_in_use():
                _warm_up(cell.config, graph, stop)
            run = train_run(cell.config, cell.runs, graph=graph, on_epoch=on_epoch, stop=stop)
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


def kept_error(folder: RunFolder) -> str:
    """The error that a run ended with."""
    return str(_read_error(folder).get("error", "unknown error"))


def _read_error(folder: RunFolder) -> dict[str, Any]:
    try:
        return folder.read_json(ERROR)
    except DamagedFileError:
        return {}


def _split_of(config: RunConfig) -> tuple[str, str, int]:
    return config.data.dataset, config.data.split, config.split_seed


def _checked_graph(cell: Cell) -> Graph:
    """The graph of a cell; an error if it is not the one that the sweep was planned with."""
    config = cell.config
    graph, graph_sha256 = _load(config.data.dataset, cell.data_dir)
    if cell.graph_sha256:
        split = make_split(graph, config.data.split, config.split_seed, warn=False)
        if (graph_sha256, split.sha256) != (cell.graph_sha256, cell.split_sha256):
            raise InputError(
                f"{config.data.dataset} is another graph here than where the sweep was begun, or "
                "has changed since; make the files the same."
            )
    return graph


@lru_cache(maxsize=2)
def _load(dataset: str, data_dir: Path | None) -> tuple[Graph, str]:
    graph = load(dataset, data_dir)
    return graph, graph.fingerprint


def _warm_up(config: RunConfig, graph: Graph, stop: Callable[[], bool] | None) -> None:
    few = config.training.model_copy(update={"epochs": 2})
    # What goes wrong here does so in the run itself, which keeps its error.
    with TemporaryDirectory() as folder, suppress(Exception):
        train_run(config.model_copy(update={"training": few}), Path(folder), graph=graph, stop=stop)
