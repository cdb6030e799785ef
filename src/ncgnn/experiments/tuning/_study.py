"""A study: which trials are done, which are to be done, and whose process has died.

Optuna remembers trials and proposes parameters. Beside that, the process of a trial keeps a file
locked, or, in a database, gives signs of life. A trial whose process has died fails, and a copy of
it is put in the queue that goes on in the same folder; so nothing is lost, and the search takes the
course that it would have taken without the interruption.
"""

from __future__ import annotations

import datetime
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from ncgnn.experiments.tuning._place import take_lock
from ncgnn.experiments.tuning._state import SearchState, search_state
from ncgnn.experiments.tuning._storage import GRACE, open_storage
from ncgnn.experiments.tuning._taken import TakenTrial, queue_copy

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from ncgnn.experiments.tuning._place import StudyPlace
    from ncgnn.experiments.tuning._plan import Plan

#: Trials may be pruned once so many are complete, and compared with so many at the same epoch.
_BEFORE_PRUNING, _TO_COMPARE = 5, 3


class TuningStudy:
    """A study as one process sees it.

    Args:
        plan: What is searched.
        place: Where it is kept.
        total: Number of trials that are wanted.
    """

    def __init__(self, plan: Plan, place: StudyPlace, total: int) -> None:
        self.plan, self.place, self.total = plan, place, total
        self.epochs = plan.first.training.epochs
        self._study = _open(
            open_storage(place, _pass_on),
            place.name,
            optuna.pruners.MedianPruner(
                n_startup_trials=_BEFORE_PRUNING,
                n_warmup_steps=self.epochs // 5,
                n_min_trials=_TO_COMPARE,
            ),
        )

    def agree(self, key: str, value: str) -> bool:
        """Whether the study knows this value by this key; a new study learns it."""
        known = self._study.user_attrs.get(key)
        if known is None:
            self._study.set_user_attr(key, value)
        return known in (None, value)

    def trials(self) -> list[FrozenTrial]:
        """All trials, in the order in which they were begun."""
        return self._study.get_trials(deepcopy=False)

    def state(self) -> SearchState:
        """How far the search is."""
        return search_state(self.trials(), self.total)

    def take(self) -> TakenTrial | None:
        """Take the next trial; None if all are done, or others are at work on the last ones."""
        with self.place.exclusive():
            self._find_dead()
            state = self.state()
            if state.is_over or state.done + state.running >= state.total:
                return None
            taken = TakenTrial(self._study, self.place)
            try:
                if self._is_one_too_many(taken.number):
                    taken.hand_back()
                    return None
                self._choose(taken)
            except UpdateFinishedTrialError:  # another machine took this process for dead
                taken.close()
                return None
            return taken

    def earlier(self, taken: TakenTrial) -> FrozenTrial | None:
        """The first trial that has ended with the same parameters."""
        for trial in self.trials():
            ended = trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
            if (ended or "error" in trial.user_attrs) and trial.params == taken.params:
                return trial
        return None

    def tidy(self) -> None:
        """Remove what ended trials have left; a process may die before it does so itself."""
        with self.place.exclusive():
            # Folders first: one that another machine makes after this look is not seen.
            folders = list(self.place.trials.glob("*"))
            needed = {
                self.place.runs_of(int(trial.user_attrs.get("folder", trial.number)))
                for trial in self.trials()
                if trial.state in (TrialState.WAITING, TrialState.RUNNING)
            }
            for folder in folders:
                if folder not in needed:
                    shutil.rmtree(folder, ignore_errors=True)

    def _choose(self, taken: TakenTrial) -> None:
        """Choose parameters; what is random depends on the seed and on the trial's place alone."""
        before = [t for t in self.trials() if t.number < taken.number]
        place = sum("continues" not in trial.user_attrs for trial in before)
        seed = np.random.SeedSequence([self.plan.seeds[0], place]).generate_state(1)[0]
        self._study.sampler = optuna.samplers.TPESampler(seed=int(seed))
        for name, values in self.plan.space.choices.items():
            taken.trial.suggest_categorical(name, values)

    def _is_one_too_many(self, number: int) -> bool:
        """Whether machines have taken the last trials at the same time, and this is one more."""
        state = self.state()
        running = sorted(t.number for t in self.trials() if t.state == TrialState.RUNNING)
        excess = state.done + state.running - state.total
        return excess > 0 and number in running[-excess:]

    def adopt(self) -> None:
        """Queue the trials of a command that was killed; it is not they that it died of."""
        with self.place.exclusive():
            self._find_dead(blame=0)

    def _find_dead(self, blame: int = 1) -> None:
        if self.place.url is not None:
            optuna.storages.fail_stale_trials(self._study)
        for trial in self.trials():
            if trial.state == TrialState.RUNNING and self._is_dead(trial):
                _pass_on(self._study, trial, blame)
                self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    def _is_dead(self, trial: FrozenTrial) -> bool:
        if self.place.url is not None:
            # Without parameters it has died before its first sign of life.
            begun = trial.datetime_start
            limit = datetime.timedelta(seconds=10 * GRACE)
            return (
                not trial.params and begun is not None and datetime.datetime.now() - begun > limit
            )
        lock = take_lock(self.place.lock_of(trial.number), wait=False)
        if lock is None:
            return False
        lock.close()
        self.place.lock_of(trial.number).unlink(missing_ok=True)
        # It may have ended between the two looks; its process tells so before it lets go.
        return self.trials()[trial.number].state == TrialState.RUNNING


def _open(
    storage: optuna.storages.BaseStorage, name: str, pruner: optuna.pruners.BasePruner
) -> optuna.Study:
    """Open a study, or make it; a journal would note even an attempt to make it again."""
    try:
        return optuna.load_study(study_name=name, storage=storage, pruner=pruner)
    except KeyError:
        return optuna.create_study(
            storage=storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            pruner=pruner,
        )


def _pass_on(study: optuna.Study, trial: Any, blame: int = 1) -> None:
    """Put a copy of a trial in the queue whose process has died."""
    queue_copy(study, trial, deaths=int(trial.user_attrs.get("deaths", 0)) + blame)
