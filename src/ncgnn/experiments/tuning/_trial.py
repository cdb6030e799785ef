"""One trial: the mean validation accuracy over seeds, given up early if it is worse than others.

Nothing here looks at test nodes: what is compared is the best validation accuracy so far, and what
is kept is validation accuracy, epochs and seconds.
"""

from __future__ import annotations

import shutil
import statistics
import time
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError

from ncgnn.errors import NcgnnError
from ncgnn.training import RunFolder, train_run
from ncgnn.training._folder import RunInUseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.experiments.tuning._study import TuningStudy
    from ncgnn.experiments.tuning._taken import TakenTrial
    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig, RunResult

#: A trial is given up as failed when so many processes have died of it.
DEATHS = 3
#: How often at most a run tells of its progress, so that the journal stays small.
_REPORTS = 25
#: Steps between the first epochs of two seeds; more than any run has epochs.
_SEED_STEPS = 1_000_000


def run_trial(
    study: TuningStudy, taken: TakenTrial, graph: Graph, stop: Callable[[], bool]
) -> None:
    """Train a trial and tell the study how it ended.

    Args:
        study: Where it belongs.
        taken: The trial.
        graph: What it is trained on.
        stop: Asked after every epoch; if it says yes, the state is saved and the trial is left to
            whoever comes next.
    """
    earlier = study.earlier(taken)
    if earlier is not None:
        taken.repeat(earlier)
    elif taken.deaths >= DEATHS:
        taken.fail(f"its process was ended {DEATHS} times; if memory ran out, use fewer --workers.")
    else:
        try:
            scores = _train_seeds(study, taken, graph, stop)
        except KeyboardInterrupt:
            taken.hand_back()
            return
        except UpdateFinishedTrialError:  # another machine took this process for dead
            taken.close()
            return
        except optuna.TrialPruned:
            taken.prune()
        except Exception as error:  # whatever it is, the other trials go on
            taken.fail(sentence(error))
        else:
            value = statistics.fmean(score["val_accuracy"] for score in scores)
            taken.complete(value, scores)
    shutil.rmtree(taken.runs, ignore_errors=True)


def sentence(error: BaseException) -> str:
    """An error for people."""
    if isinstance(error, NcgnnError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _train_seeds(
    study: TuningStudy, taken: TakenTrial, graph: Graph, stop: Callable[[], bool]
) -> list[dict[str, Any]]:
    """What is kept of the runs of all seeds."""
    scores: list[dict[str, Any]] = []
    for place, seed in enumerate(study.plan.seeds):
        config = study.plan.config(taken.params, seed)
        before = [score["val_accuracy"] for score in scores]
        report = _Report(taken.trial, place * _SEED_STEPS, study.epochs, before)
        run = _train_when_free(config, taken, graph, report, stop)
        if not run.fresh:
            for record in RunFolder(run.folder).history():
                report(record)
        scores.append(
            {
                "seed": seed,
                "val_accuracy": run.result["scores"]["val"]["accuracy"],
                "epochs": run.result["epochs"],
                "seconds": round(run.seconds, 3),
            }
        )
    return scores


def _train_when_free(
    config: RunConfig,
    taken: TakenTrial,
    graph: Graph,
    report: _Report,
    stop: Callable[[], bool],
) -> RunResult:
    """Train a run; wait while a process that was taken for dead still has its folder."""
    while True:
        try:
            return train_run(config, taken.runs, graph=graph, on_epoch=report, stop=stop)
        except RunInUseError:
            if stop():
                raise KeyboardInterrupt from None
            time.sleep(1.0)


class _Report:
    """Tells Optuna every few epochs how good a trial is so far, and gives it up if told so.

    Args:
        trial: The trial.
        first_step: Step of the first epoch.
        epochs: Usual number of epochs, the same for all trials.
        before: Validation accuracy of the seeds before this one.
    """

    def __init__(
        self, trial: optuna.Trial, first_step: int, epochs: int, before: list[float]
    ) -> None:
        self._trial, self._first_step, self._before = trial, first_step, before
        self._every = max(1, epochs // _REPORTS)
        self._phase, self._best = None, 0.0

    def __call__(self, record: dict[str, Any]) -> None:
        if record.get("phase") != self._phase:  # every stage of training has a best of its own
            self._phase, self._best = record.get("phase"), 0.0
        self._best = max(self._best, record["val_accuracy"])
        epoch = record["epoch"] + 1
        if epoch % self._every == 0:
            value = statistics.fmean([*self._before, self._best])
            self._trial.report(value, self._first_step + epoch)
            if self._trial.should_prune():
                raise optuna.TrialPruned
