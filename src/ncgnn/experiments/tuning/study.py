"""A study: the trials of a search, and the processes that work on them.

Optuna keeps the trials, in a journal of the study's folder or in a database that several machines
share. The process of a trial shows that it is alive by a locked file beside a journal, which has no
heartbeat, or by Optuna's heartbeat in a database. When it dies, its trial fails, and Optuna's retry
queues it once more with the same values, to continue in the same folder. So nothing is lost, and
the search takes the course that it would have taken without the interruption.
"""

from __future__ import annotations

import copy
import datetime
import shutil
import statistics
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import BasePruner
from optuna.samplers import PartialFixedSampler, RandomSampler
from optuna.storages import RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import TrialState

from ncgnn._io import locked, take_lock
from ncgnn.experiments.tuning import storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from optuna.trial import FrozenTrial

    from ncgnn.experiments.tuning.space import Search

#: Number of different trials that must be complete before others are pruned.
BEFORE_PRUNING = 5
#: How often at most a run reports its progress, so that the journal stays small.
_REPORTS = 25
#: More than any stage of training has reports, and more than any training has stages.
_STEPS, _STAGES = 100_000, 10
#: A search in which no trial is complete ends after so many errors.
_ERRORS = 5

T = TypeVar("T")


@dataclass(frozen=True)
class SearchState:
    """How far a search is, counted in different choices of values.

    A choice that two machines have begun at once counts once, and so does one that was retried.

    Attributes:
        total: Number of trials that are wanted, at most ``size``.
        size: Number of different choices.
        pruned: Trials that were given up as worse than the median.
        best: Highest validation score of complete trials.
        metric: The score.
    """

    total: int
    size: int
    complete: int
    pruned: int
    failed: int
    running: int
    best: float | None
    metric: str

    @property
    def done(self) -> int:
        """Trials that count as done."""
        return self.complete + self.pruned

    @property
    def is_over(self) -> bool:
        """Whether all trials are done, or errors have ended the search."""
        return self.done >= self.total or self.is_exhausted or self.is_hopeless

    @property
    def is_exhausted(self) -> bool:
        """Whether every choice has ended, well or with an error."""
        return self.done + self.failed >= self.size

    @property
    def wants_more(self) -> bool:
        """Whether a trial is left that nobody works on."""
        begun = self.done + self.running
        return begun < self.total and begun + self.failed < self.size

    @property
    def is_hopeless(self) -> bool:
        """Whether errors have ended the search."""
        limit = max(_ERRORS, self.total) if self.complete else _ERRORS
        return self.failed >= limit or 0 < self.size == self.failed

    @property
    def summary(self) -> str:
        """How the trials ended, in words."""
        return f"{self.complete} complete, {self.pruned} pruned, {self.failed} failed"


class Study:
    """The trials of a search as one process sees them.

    Args:
        search: What is searched.
        folder: Folder of the study, whose name is that of the study.
        total: Number of trials that are wanted.
        url: Of a database; None stands for a journal in the folder.
    """

    def __init__(self, search: Search, folder: Path, total: int, url: str | None = None) -> None:
        self.search, self.folder, self.total, self.url = search, folder, total, url
        epochs = search.base.training.epochs
        #: Epochs from one report of a run to the next, the same for all trials.
        self.report_every = max(1, epochs // _REPORTS)
        self._blames_trials = True
        pruner = MedianAtStep(warm_up=epochs // 5 // self.report_every)
        opened = storage.open_storage(self.journal, url, self._retry_dead)
        name = folder.name
        try:  # a journal would note even an attempt to create a study again
            self.optuna = optuna.load_study(study_name=name, storage=opened, pruner=pruner)
        except KeyError:
            self.optuna = optuna.create_study(
                storage=opened,
                study_name=name,
                direction="maximize",
                load_if_exists=True,
                pruner=pruner,
            )

    @property
    def journal(self) -> Path:
        """The file of all that ever happened in the study."""
        return self.folder / "journal.jsonl"

    def runs_of(self, number: int) -> Path:
        """The folder of the runs of a trial until it ends."""
        return self.folder / "trials" / f"{number:05d}"

    def lock_of(self, number: int) -> Path:
        """The file that the process of a trial keeps locked."""
        return self.folder / "locks" / f"{number:05d}"

    def trials(self) -> list[FrozenTrial]:
        """All trials, in the order in which they were begun."""
        return self.call(lambda: self.optuna.get_trials(deepcopy=False))

    def state(self) -> SearchState:
        """How far the search is."""
        trials = self.trials()

        def choices(state: TrialState) -> set[object]:
            return {_choice(trial) for trial in trials if trial.state == state}

        complete = choices(TrialState.COMPLETE)
        pruned = choices(TrialState.PRUNED) - complete
        failed = {_choice(trial) for trial in failed_trials(trials)} - complete - pruned
        best, size = best_trial(trials), self.search.size
        return SearchState(
            total=min(self.total, size),
            size=size,
            complete=len(complete),
            pruned=len(pruned),
            failed=len(failed),
            running=len(choices(TrialState.RUNNING) - complete - pruned - failed),
            best=None if best is None else best.value,
            metric=self.search.metric,
        )

    def take(self) -> Trial | None:
        """Take the next trial; None if all are done, or others work on the last ones."""
        return self._call_alone(self._take)

    def _take(self) -> Trial | None:
        self._requeue_dead()
        state = self.state()
        if state.is_over or not state.wants_more:
            return None
        trial = Trial(self)
        try:
            if self._exceeds_total(trial.number):
                trial.requeue()
                return None
            self.choose(trial)
        except BaseException as error:
            trial.release()
            if isinstance(error, UpdateFinishedTrialError):  # others took this process for dead
                return None
            raise
        return trial

    def choose(self, trial: Trial) -> None:
        """Choose the values of a trial; chance depends on the seed and the trial's place alone."""
        trials, choices = self.trials(), self.search.choices
        mine = trials[trial.number]
        if mine.params.keys() >= choices.keys():  # a retried one
            return
        original = _original(mine)
        place = sum(_original(t) == t.number for t in trials if t.number < original)
        chosen = self.search.propose(self.optuna, trials, trial.number, place)
        self.optuna.sampler = PartialFixedSampler(chosen, RandomSampler())
        for name, values in choices.items():
            trial.optuna.suggest_categorical(name, values)

    def _exceeds_total(self, number: int) -> bool:
        """Whether machines have taken the last trials at the same time, and this is one more."""
        state = self.state()
        running = sorted(t.number for t in self.trials() if t.state == TrialState.RUNNING)
        excess = state.done + state.running - state.total
        return excess > 0 and number in running[-excess:]

    def earlier(self, trial: Trial) -> FrozenTrial | None:
        """The first trial that has ended with the same values."""
        trials = self.trials()
        failed = {one.number for one in failed_trials(trials)}
        for one in trials:
            ended = one.state in (TrialState.COMPLETE, TrialState.PRUNED) or one.number in failed
            if ended and one.params == trial.params:
                return one
        return None

    def retry_failed(self) -> None:
        """Queue the trials that ended with an error once more."""

        def queue() -> None:
            for trial in failed_trials(self.trials()):
                if "repeats" not in trial.user_attrs:
                    self.retry(self.optuna, trial, deaths=0)

        self._call_alone(queue)

    def recover(self) -> None:
        """Queue the trials of a command that was killed, without blaming them for its end."""
        self._blames_trials = False
        try:
            self._call_alone(self._requeue_dead)
        finally:
            self._blames_trials = True

    def retry(self, study: optuna.Study, trial: FrozenTrial, deaths: int) -> None:
        """Queue a trial once more, unless that was done before."""
        if trial.number not in _retried(study.get_trials(deepcopy=False)):
            again = copy.deepcopy(trial)
            again.user_attrs = {"deaths": deaths}
            RetryHeartbeatStaleTrialCallback()(study, again)

    def _requeue_dead(self) -> None:
        if self.url is not None:
            fail_stale_trials(self.optuna)  # which calls _retry_dead
        for trial in self.trials():
            if trial.state == TrialState.RUNNING and self.is_dead(trial):
                self._retry_dead(self.optuna, trial)
                self.optuna.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    def _retry_dead(self, study: optuna.Study, trial: FrozenTrial) -> None:
        deaths = int(trial.user_attrs.get("deaths", 0)) + self._blames_trials
        self.retry(study, trial, deaths)

    def is_dead(self, trial: FrozenTrial) -> bool:
        """Whether the process of a running trial has died unnoticed by Optuna."""
        if self.url is not None:  # before the first heartbeat
            begun = trial.datetime_start
            limit = datetime.timedelta(seconds=10 * storage.GRACE)
            never_beat = "beats" not in trial.user_attrs
            return never_beat and begun is not None and datetime.datetime.now() - begun > limit
        lock = take_lock(self.lock_of(trial.number), wait=False)
        if lock is None:
            return False
        lock.release()
        self.lock_of(trial.number).unlink(missing_ok=True)
        # It may have ended between the two looks; its process tells so before it lets go.
        return self.trials()[trial.number].state == TrialState.RUNNING

    def tidy(self) -> None:
        """Remove what ended trials have left; a process may die before it does so itself."""

        def remove() -> None:
            # Folders first: one that another machine makes after this look is not seen.
            folders = list((self.folder / "trials").glob("*"))
            needed = {
                self.runs_of(_original(trial))
                for trial in self.trials()
                if trial.state in (TrialState.WAITING, TrialState.RUNNING)
            }
            for folder in folders:
                if folder not in needed:
                    shutil.rmtree(folder, ignore_errors=True)

        self._call_alone(remove)

    def call(self, ask: Callable[[], T]) -> T:
        """Ask the storage, again after a pause if it does not answer."""
        return storage.call(ask, self.journal, self.url)

    def _call_alone(self, ask: Callable[[], T]) -> T:
        """Ask the storage while no other process of this machine does so."""

        def ask_alone() -> T:
            with locked(self.folder / "study.lock"):
                return ask()

        return self.call(ask_alone)


class Trial:
    """The next trial of a study; while it is taken, others see that its process is alive.

    Its reports raise ``UpdateFinishedTrialError`` if another machine took this process for dead,
    and ``SearchError`` if the study's storage does not answer.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self.optuna = study.optuna.ask()
        self.number = self.optuna.number
        self._lock = take_lock(study.lock_of(self.number), wait=False)
        self._released = threading.Event()
        if study.url is not None:
            self._beat()
            self.optuna.set_user_attr("beats", True)  # Optuna itself cannot be asked for it
            threading.Thread(target=self._keep_beating, daemon=True).start()
        #: The folder of its runs, which a retried trial shares with the original.
        self.runs = study.runs_of(_original(study.trials()[self.number]))

    def _keep_beating(self) -> None:
        while not self._released.wait(storage.HEARTBEAT):
            # A database that is away for a moment is not the end; one that stays away is noticed
            # where the trial's outcome is reported.
            with suppress(Exception):
                self._beat()

    def _beat(self) -> None:
        database: Any = self.optuna.storage
        database.record_heartbeat(self.optuna._trial_id)  # pyright: ignore[reportPrivateUsage]

    @property
    def params(self) -> dict[str, Any]:
        """The chosen values, by parameter."""
        return self.optuna.params

    @property
    def deaths(self) -> int:
        """How many processes have died of it."""
        return int(self.optuna.user_attrs.get("deaths", 0))

    def should_prune(self, value: float, step: int) -> bool:
        """Report how good it is so far; returns whether to give it up."""
        self._study.call(lambda: self.optuna.report(value, step))
        return self._study.call(self.optuna.should_prune)

    def complete(self, value: float, scores: list[dict[str, Any]]) -> None:
        """Report that it was trained to the end."""
        self._note("scores", scores)
        self._tell(TrialState.COMPLETE, value)

    def prune(self) -> None:
        """Report that it was given up."""
        self._tell(TrialState.PRUNED)

    def fail(self, error: str) -> None:
        """Report that it ended with an error."""
        self._note("error", error)
        self._tell(TrialState.FAIL)

    def repeat(self, earlier: FrozenTrial) -> None:
        """Report that it ended like an earlier one with the same values."""
        for step, value in earlier.intermediate_values.items():
            self._study.call(partial(self.optuna.report, value, step))
        self._note("repeats", earlier.number)
        if earlier.state == TrialState.COMPLETE and earlier.value is not None:
            self.complete(earlier.value, earlier.user_attrs["scores"])
        elif earlier.state == TrialState.PRUNED:
            self.prune()
        else:
            self.fail(str(earlier.user_attrs["error"]))

    def requeue(self) -> None:
        """Leave it to the next process, which continues from the saved state."""
        trial = self._study.trials()[self.number]
        self._study.call(lambda: self._study.retry(self._study.optuna, trial, self.deaths))
        self._tell(TrialState.FAIL)

    def _note(self, key: str, value: Any) -> None:
        self._study.call(lambda: self.optuna.set_user_attr(key, value))

    def _tell(self, state: TrialState, value: float | None = None) -> None:
        def tell() -> FrozenTrial:
            return self._study.optuna.tell(self.optuna, value, state=state, skip_if_finished=True)

        try:
            if self._study.call(tell).state != state:
                raise UpdateFinishedTrialError
        finally:
            self.release()

    def release(self) -> None:
        """Let go of it; others see that it is abandoned unless its end was reported."""
        self._released.set()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
            self._study.lock_of(self.number).unlink(missing_ok=True)


def best_trial(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """The first complete trial with the highest validation score."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return max(complete, key=lambda trial: trial.value or 0.0, default=None)


def failed_trials(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that ended with an error, and those that repeat them; none that is retried."""
    retried = _retried(trials)
    return [
        trial
        for trial in trials
        if "error" in trial.user_attrs
        and trial.user_attrs.get("repeats", trial.number) not in retried
    ]


def _retried(trials: Sequence[FrozenTrial]) -> set[int]:
    """The numbers of trials that later ones retry, by what Optuna's retry notes."""
    return {number for trial in trials for number in trial.system_attrs.get("retry_history", ())}


def _original(trial: FrozenTrial) -> int:
    """The number of the trial that this one retries, or its own."""
    return trial.system_attrs.get("failed_trial", trial.number)


def _choice(trial: FrozenTrial) -> object:
    """The values of a trial; one that has none yet stands for itself."""
    return tuple(sorted(trial.params.items())) or trial.number


def step_of(seed_place: int, stage: int, report: int) -> int:
    """Optuna's number of a report, from 1 in every stage of every seed's training."""
    return (seed_place * _STAGES + stage) * _STEPS + report


class MedianAtStep(BasePruner):
    r"""Prunes a trial whose latest report is below the median of complete trials at that step.

    The median rule of Golovin et al., "Google Vizier: A Service for Black-Box Optimization",
    https://doi.org/10.1145/3097983.3098043, section 3.2.2. Let :math:`v_t(s)` be the best
    validation score of trial :math:`t` up to step :math:`s`, within the seed and the stage of
    training that the step belongs to. Trial :math:`t` is pruned at step :math:`s` if

    .. math:: v_t(s) < \operatorname{median}_{u \text{ complete}} v_u(s).

    A trial that has ended the stage before step :math:`s` takes part with its last report. Trials
    that repeat an earlier one do not count. Optuna's ``MedianPruner`` compares the maximum over all
    steps of a trial instead, so that a good first seed or stage would save it for ever.

    Args:
        warm_up: Number of reports that are not judged, at the beginning of every seed and stage.
    """

    def __init__(self, warm_up: int) -> None:
        self._warm_up = warm_up

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether to give the trial up."""
        step = trial.last_step
        if step is None or step % _STEPS <= self._warm_up:
            return False
        others = [
            _value_at(step, other.intermediate_values)
            for other in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if "repeats" not in other.user_attrs
        ]
        known = [value for value in others if value is not None]
        if len(known) < BEFORE_PRUNING:
            return False
        return trial.intermediate_values[step] < statistics.median(known)


def _value_at(step: int, reports: Mapping[int, float]) -> float | None:
    """The latest report up to a step, of the same seed and stage."""
    first = step - step % _STEPS
    reported = [one for one in reports if first < one <= step]
    return reports[max(reported)] if reported else None
