"""One cell of a sweep: a run that is trained wherever there is room, and never twice."""

from __future__ import annotations

import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.errors import InputError, NcgnnError, lacks_memory, sentence
from ncgnn.training._folder import ERROR, OtherRunError, RunFolder, RunInUseError
from ncgnn.training._run import check_same_config, check_same_graph
from ncgnn.training._tensors import DamagedFileError

if TYPE_CHECKING:
    from collections.abc import Callable

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
    from ncgnn._compile import use_threads
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
    from ncgnn.graph._fingerprint import fingerprint

    graph = load(dataset, data_dir)
    return graph, fingerprint(graph)
