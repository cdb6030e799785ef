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

from ncgnn.errors import sentence
from ncgnn.experiments.tuning._pruner import step_of
from ncgnn.experiments.tuning._storage import SearchError
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
    try:
        if _ends(study, taken, graph, stop):
            shutil.rmtree(taken.runs, ignore_errors=True)
    except UpdateFinishedTrialError:
        pass  # another machine took this process for dead, and has all that is left of the trial
    finally:
        taken.close()


def _ends(study: TuningStudy, taken: TakenTrial, graph: Graph, stop: Callable[[], bool]) -> bool:
    """Whether the trial has come to an end, and was not handed back."""
    earlier = study.earlier(taken)
    if earlier is not None:
        taken.repeat(earlier)
        return True
    if taken.deaths >= DEATHS:
        taken.fail(f"its process was ended {DEATHS} times; if memory ran out, use fewer --workers.")
        return True
    try:
        scores = _train_seeds(study, taken, graph, stop)
    except KeyboardInterrupt:
        taken.hand_back()
        return False
    except (UpdateFinishedTrialError, SearchError):  # nothing is wrong with the trial
        raise
    except optuna.TrialPruned:
        taken.prune()
    except Exception as error:  # whatever it is, the other trials go on
        taken.fail(sentence(error))
    else:
        taken.complete(statistics.fmean(score["val_accuracy"] for score in scores), scores)
    return True


def _train_seeds(
    study: TuningStudy, taken: TakenTrial, graph: Graph, stop: Callable[[], bool]
) -> list[dict[str, Any]]:
    """What is kept of the runs of all seeds."""
    scores: list[dict[str, Any]] = []
    for place, seed in enumerate(study.plan.seeds):
        config = study.plan.config(taken.params, seed)
        report = _Report(taken, place, study.report_every)
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
    """Tells Optuna every few epochs how good a seed is so far, and gives the trial up if told so.

    Args:
        taken: The trial.
        seed_place: Place of the seed among those of the trial.
        every: Number of epochs from one report to the next, the same for all trials.
    """

    def __init__(self, taken: TakenTrial, seed_place: int, every: int) -> None:
        self._taken, self._seed_place, self._every = taken, seed_place, every
        self._phase: str | None = None
        self._stage, self._epochs, self._best = 0, 0, 0.0

    def __call__(self, record: dict[str, Any]) -> None:
        if record.get("phase") != self._phase:  # every stage of training has a best of its own
            self._stage += self._phase is not None
            self._phase, self._epochs, self._best = record.get("phase"), 0, 0.0
        self._epochs += 1
        self._best = max(self._best, record["val_accuracy"])
        report, rest = divmod(self._epochs, self._every)
        if rest == 0 and self._taken.is_bad(
            self._best, step_of(self._seed_place, self._stage, report)
        ):
            raise optuna.TrialPruned
