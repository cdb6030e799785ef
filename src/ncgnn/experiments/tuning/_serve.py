"""A process that works on the trials of a study."""

from __future__ import annotations

import threading
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncgnn.experiments._processes import ignore_signals
from ncgnn.experiments.tuning._place import quiet
from ncgnn.experiments.tuning._storage import SearchError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from ncgnn.experiments.tuning._place import StudyPlace
    from ncgnn.experiments.tuning._plan import Plan

#: Seconds after which a process without a trial looks for one again.
PATIENCE = 0.5


@dataclass(frozen=True)
class SearchJob:
    """What a process must know to work on trials.

    Attributes:
        plan: What is searched.
        place: Where the study is kept.
        total: Number of trials that are wanted.
        data_dir: Folder with npz files.
        threads: Number of threads of each process.
    """

    plan: Plan
    place: StudyPlace
    total: int
    data_dir: Path | None
    threads: int


def serve(pipe: Connection, job: SearchJob) -> None:
    """Work on trials until there are no more."""
    from ncgnn._compile import use_threads
    from ncgnn._memory import keep_freed_memory

    ignore_signals()
    with suppress(OSError):
        pipe.send("ready")
    warnings.simplefilter("ignore")
    keep_freed_memory()
    use_threads(job.threads)
    stopped = threading.Event()
    threading.Thread(target=_listen, args=(pipe, stopped), daemon=True).start()
    try:
        with quiet():
            _work(pipe, job, stopped)
        last: object = "done"
    except Exception as error:
        from ncgnn.errors import sentence

        last = SearchError(sentence(error))
    with suppress(OSError):
        pipe.send(last)


def _work(pipe: Connection, job: SearchJob, stopped: threading.Event) -> None:
    from ncgnn.data import load
    from ncgnn.experiments.tuning._study import TuningStudy
    from ncgnn.experiments.tuning._trial import run_trial

    graph = load(job.plan.first.data.dataset, job.data_dir)
    study = TuningStudy(job.plan, job.place, job.total)
    while not stopped.is_set():
        taken = study.take()
        if taken is not None:
            run_trial(study, taken, graph, stopped.is_set)
            with suppress(OSError):
                pipe.send("trial")
        elif study.state().is_over:
            return
        else:  # the last trials are in other hands, whose processes may die
            time.sleep(PATIENCE)


def _listen(pipe: Connection, stopped: threading.Event) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    stopped.set()  # asked to, or the parent is gone: save the state and leave
