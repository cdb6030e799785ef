"""``auto``: candidates within a time budget, chosen by validation, and their combination.

Every candidate is an ordinary run in the folder of the search, so that an interrupted search
continues with what it had. Labels of test nodes play no part until all is chosen; they are then
what every row of the leaderboard is measured by.

======================  =======================================================================
``search.json``         see :mod:`ncgnn.training.search`
``chosen.json``         the name of the run that it has ended with
``auto.json``           what it has shown, also in that run
``candidates/``         their runs
``folds/``              what experts answer for training nodes that they have not seen
======================  =======================================================================

The run that is chosen, a candidate or a mixture of some, is an ordinary run beside the others, with
all of the search in its ``auto.json``.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.data import keep_folder
from ncgnn.errors import NcgnnError
from ncgnn.training.attempt import AutoWatcher
from ncgnn.training.folder import (
    DATASET,
    DONE,
    ENVIRONMENT,
    SPLIT,
    TRIED,
    WEIGHTS,
    RunFolder,
    environment,
    read_tensors,
    tensors_sha256,
    trained_tensors,
)
from ncgnn.training.ranks import refuse_ranks
from ncgnn.training.refit import REFIT
from ncgnn.training.run import RunResult, finished_run, is_current
from ncgnn.training.search import FOLDS, Search

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.training.candidates import AutoConfig
    from ncgnn.training.search import Found
    from ncgnn.training.trained import TrainedModel
    from ncgnn.training.trainer import Record

#: Folder of all searches, beside the runs; in that of each, the name of the run it ended with.
SEARCHES, CHOSEN = ".auto", "chosen.json"


def auto_run(
    wanted: AutoConfig,
    runs: Path,
    *,
    graph: Graph,
    watcher: AutoWatcher | None = None,
    before_done: Callable[[RunFolder], object] | None = None,
    stop: Callable[[], bool] | None = None,
    controls: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> RunResult:
    """Choose a model for a graph within a time, or find it chosen, and write it as a run.

    Args:
        wanted: What is asked for.
        runs: Folder of all runs.
        graph: The graph.
        watcher: Hears of the search.
        before_done: Called with the run's folder when all is written but the completion marker.
        stop: Asked after every epoch; if it says yes, all is kept and ``KeyboardInterrupt`` raised.
        controls: Whether gates without NC and of NC alone are trained as well, to compare with.
        clock: What the budget is measured by, in seconds; on a machine that others use, too,
            ``time.process_time`` makes searches comparable.
    """
    refuse_ranks("a search")
    place = runs / SEARCHES / wanted.name
    with RunFolder(place).lock():
        if (done := _find_done(wanted, place, runs, graph, before_done)) is not None:
            return done
        options: dict[str, Any] = {"watcher": watcher, "stop": stop, "controls": controls}
        found = Search(wanted, graph, place, clock=clock, **options).run()
        run = write_found(found, runs, before_done)
        said = {"run": run.folder.name, "budget": wanted.options.seconds}
        facts = RunFolder(run.folder).read_json(TRIED)
        RunFolder(place).write_json(TRIED, facts)
        RunFolder(place).write_json(CHOSEN, said | {"graph": graph.fingerprint})
        shutil.rmtree(place / FOLDS, ignore_errors=True)
    return run


def _find_done(
    wanted: AutoConfig,
    place: Path,
    runs: Path,
    graph: Graph,
    before_done: Callable[[RunFolder], object] | None,
) -> RunResult | None:
    """The run that an earlier search has chosen, with as much time and on the same graph.

    Another search may have chosen the same run since, and told of itself there.
    """
    folder = RunFolder(place)
    with suppress(NcgnnError, KeyError, OSError):
        said = folder.read_json(CHOSEN)
        same = said["graph"] == graph.fingerprint
        if same and float(said["budget"]) >= wanted.options.seconds:
            run = RunFolder(runs / said["run"])
            done = finished_run(run)
            if not is_current(done.config.model.model_dump(), done.result):
                return None
            facts = folder.read_json(TRIED)
            if not (run / TRIED).is_file() or run.read_json(TRIED) != facts:
                with run.lock():
                    run.write_json(TRIED, facts)
                    if before_done is not None:
                        before_done(run)
                    run.mark_done()
            return done
    return None


def write_found(
    found: Found, runs: Path, before_done: Callable[[RunFolder], object] | None = None
) -> RunResult:
    """Write a model as a run, which counts when its completion marker is there."""
    trained, config = found.trained, found.trained.config
    folder = RunFolder(runs / config.name)
    with folder.lock():
        if not _is_same(folder, trained):
            (folder / DONE).unlink(missing_ok=True)
            shutil.rmtree(folder / REFIT, ignore_errors=True)
            said = environment() | {"graph_sha256": trained.graph.fingerprint}
            folder.write_json(ENVIRONMENT, said)
            folder.write_config(config)
            trained.split.save(folder / SPLIT)
            if config.data.fingerprint is not None:
                keep_folder(trained.graph, config.data.dataset, folder / DATASET)
            folder.write_history(trained.history)
            trained.write_outcome(folder)
        elif trained.auto is not None:
            folder.write_json(TRIED, dict(trained.auto))
        if before_done is not None:
            before_done(folder)
        folder.mark_done()
    return replace(finished_run(folder), fresh=True)


def _is_same(folder: RunFolder, trained: TrainedModel) -> bool:
    """Whether a run is finished already, with the same weights."""
    with suppress(NcgnnError, OSError):
        folder.check()
        tensors, _ = read_tensors(folder / WEIGHTS)
        mine = trained_tensors(trained.model, trained.grouping)
        return tensors_sha256(tensors) == tensors_sha256(mine)
    return False


def auto_fit(
    wanted: AutoConfig,
    graph: Graph,
    split: Split,
    on_epoch: Callable[[Record], None] | None = None,
) -> TrainedModel:
    """Choose a model for a graph in memory; nothing is left on disk."""

    class _Tell(AutoWatcher):
        def on_epoch(self, title: str, record: Record, spent: float, best: float | None) -> None:
            if on_epoch is not None:
                on_epoch({"candidate": title, **record})

    with tempfile.TemporaryDirectory(prefix="ncgnn-") as place:
        found = Search(wanted, graph, Path(place), split=split, watcher=_Tell()).run()
    return found.trained
