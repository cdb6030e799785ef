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

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from ncgnn._locks import take_lock
from ncgnn.experiments.tuning._proposal import point, propose, size_of
from ncgnn.experiments.tuning._pruner import MedianAtStep
from ncgnn.experiments.tuning._state import SearchState, failed_trials, search_state
from ncgnn.experiments.tuning._storage import GRACE, open_study, patiently
from ncgnn.experiments.tuning._taken import TakenTrial, queue_copy

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from ncgnn.experiments.tuning._place import StudyPlace
    from ncgnn.experiments.tuning._plan import Plan

#: How often at most a run tells of its progress, so that the journal stays small.
_REPORTS = 25


class TuningStudy:
    """A study as one process sees it.

    Args:
        plan: What is searched.
        place: Where it is kept.
        total: Number of trials that are wanted.
    """

    def __init__(self, plan: Plan, place: StudyPlace, total: int) -> None:
        self.plan, self.place, self.total = plan, place, total
        epochs = plan.first.training.epochs
        #: Epochs from one report of a run to the next.
        self.report_every = max(1, epochs // _REPORTS)
        self._blame = 1
        pruner = MedianAtStep(warm_up=epochs // 5 // self.report_every)
        self._study = open_study(place, pruner, self._pass_on)

    def trials(self) -> list[FrozenTrial]:
        """All trials, in the order in which they were begun."""
        return patiently(self.place, lambda: self._study.get_trials(deepcopy=False))

    def state(self) -> SearchState:
        """How far the search is."""
        return search_state(self.trials(), self.total, size_of(self.plan.space.choices))

    def take(self) -> TakenTrial | None:
        """Take the next trial; None if all are done, or others are at work on the last ones."""
        return patiently(self.place, self._take)

    def _take(self) -> TakenTrial | None:
        with self.place.exclusive():
            self._find_dead()
            state = self.state()
            if state.is_over or not state.wants_more:
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
            except BaseException:
                taken.close()
                raise
            return taken

    def earlier(self, taken: TakenTrial) -> FrozenTrial | None:
        """The first trial that has ended with the same parameters."""
        trials = self.trials()
        failed = {trial.number for trial in failed_trials(trials)}
        for trial in trials:
            ended = trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
            if (ended or trial.number in failed) and trial.params == taken.params:
                return trial
        return None

    def forget_failed(self) -> None:
        """Queue the trials that ended with an error, as if they had been interrupted."""

        def queue() -> None:
            with self.place.exclusive():
                for trial in failed_trials(self.trials()):
                    if "repeats" not in trial.user_attrs:
                        queue_copy(self._study, trial, deaths=0)

        patiently(self.place, queue)

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
        trials, choices = self.trials(), self.plan.space.choices
        original = int(trials[taken.number].user_attrs.get("folder", taken.number))
        place = sum("continues" not in t.user_attrs for t in trials if t.number < original)
        chosen: dict[str, Any] = trials[taken.number].system_attrs.get("fixed_params", {})
        if not chosen.keys() >= choices.keys():  # it is no copy of one that was interrupted
            tried = {
                point(trial.params, choices)
                for trial in trials
                if trial.number != taken.number and trial.params.keys() >= choices.keys()
            }
            seed = (self.plan.seeds[0], place)
            chosen = propose(self._study, trials[taken.number], choices, tried, seed)
            if not tried:  # what is known to be good is worth the first trial
                chosen |= self.plan.usual
        samplers = optuna.samplers
        self._study.sampler = samplers.PartialFixedSampler(chosen, samplers.RandomSampler())
        for name, values in choices.items():
            taken.trial.suggest_categorical(name, values)

    def _is_one_too_many(self, number: int) -> bool:
        """Whether machines have taken the last trials at the same time, and this is one more."""
        state = self.state()
        running = sorted(t.number for t in self.trials() if t.state == TrialState.RUNNING)
        excess = state.done + state.running - state.total
        return excess > 0 and number in running[-excess:]

    def adopt(self) -> None:
        """Queue the trials of a command that was killed; it is not they that it died of."""

        def queue() -> None:
            with self.place.exclusive():
                self._find_dead()

        self._blame = 0
        try:
            patiently(self.place, queue)
        finally:
            self._blame = 1

    def _find_dead(self) -> None:
        if self.place.url is not None:
            optuna.storages.fail_stale_trials(self._study)
        for trial in self.trials():
            if trial.state == TrialState.RUNNING and self._is_dead(trial):
                self._pass_on(self._study, trial)
                self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    def _pass_on(self, study: optuna.Study, trial: Any) -> None:
        """Put a copy of a trial in the queue whose process has died."""
        deaths = int(trial.user_attrs.get("deaths", 0)) + self._blame
        queue_copy(study, trial, deaths=deaths)

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
