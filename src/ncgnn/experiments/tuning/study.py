"""A study: which trials are done, which are to be done, and whose process has died.

Optuna remembers trials, in a journal of the study's folder or in a database that several machines
share, and proposes parameters. Beside that, the process of a trial keeps a file locked, as Optuna's
journal knows no heartbeat, or gives Optuna's signs of life in a database. A trial whose process has
died fails, and a copy of it is queued that goes on in the same folder; so nothing is lost, and the
search takes the course that it would have taken without the interruption.
"""

from __future__ import annotations

import datetime
import json
import shutil
import statistics
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import BasePruner
from optuna.trial import TrialState

from ncgnn._io import locked, take_lock
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning
from ncgnn.experiments.tuning.space import point, propose, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from filelock import FileLock
    from optuna import Study
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from ncgnn.experiments.tuning.space import Plan


def open_journal(path: Path) -> BaseStorage:
    """Open a journal, and make it if there is none; no two local processes at a time."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    lock: Any = JournalLock(path)
    lock.acquire()
    mend_journal(path)
    lock.release()
    try:
        return JournalStorage(JournalFileBackend(str(path), lock))
    except (ValueError, KeyError, AssertionError) as error:
        raise InputError(
            f"{path} is damaged ({error}); remove the folder {path.parent} to begin anew."
        ) from None


class JournalLock:
    """The lock that Optuna's journal wants, of a kind that cannot outlive its process.

    What a killed process has left of a line is cut off before anything is appended to it.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._handle: FileLock | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._handle = take_lock(self._journal.with_suffix(".lock"))
        if _is_torn(self._journal):
            mend_journal(self._journal)
        return True

    def release(self) -> None:
        """Let go of the lock."""
        if self._handle is not None:
            self._handle.release()
            self._handle = None


def _is_torn(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as stream:
        stream.seek(-1, 2)
        return stream.read(1) != b"\n"


def mend_journal(path: Path) -> None:
    """Cut off last lines that are not whole, as a killed process or a full disk leaves them."""
    if not path.is_file():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    whole = len(lines)
    while whole and not _is_whole(lines[whole - 1]):
        whole -= 1
    cut = lines[whole:]
    if len(cut) > 1 or any(line.endswith(b"\n") for line in cut):  # a kill tears one line
        warnings.warn(
            f"{path} was damaged; what its last {len(cut)} lines told of the search is lost.",
            NcgnnWarning,
            stacklevel=2,
        )
    if whole < len(lines):
        with path.open("rb+") as stream:
            stream.truncate(sum(len(line) for line in lines[:whole]))


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False


@dataclass(frozen=True)
class StudyPlace:
    """Where a study is kept.

    Attributes:
        folder: Folder of the study.
        name: Of the study.
        url: Of a database; None stands for a journal in the folder.
    """

    folder: Path
    name: str
    url: str | None = None

    @property
    def journal(self) -> Path:
        """The file of all that ever happened in the study."""
        return self.folder / "journal.jsonl"

    @property
    def trials(self) -> Path:
        """The folder of all that trials leave behind before they end."""
        return self.folder / "trials"

    def runs_of(self, number: int) -> Path:
        """The folder of the runs of a trial."""
        return self.trials / f"{number:05d}"

    def lock_of(self, number: int) -> Path:
        """The file that the process of a trial keeps locked."""
        return self.folder / "locks" / f"{number:05d}"

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """One process of this machine at a time."""
        with locked(self.folder / "study.lock"):
            yield


@contextmanager
def quiet() -> Generator[None]:
    """Keep Optuna from speaking of its own affairs."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        try:
            yield
        finally:
            optuna.logging.set_verbosity(before)


#: Trials may be pruned once so many different ones are complete.
BEFORE_PRUNING = 5
#: More than any stage of training has reports, and more than any training has stages.
_REPORTS, _STAGES = 100_000, 10


def step_of(seed_place: int, stage: int, report: int) -> int:
    """Optuna's number of a report.

    Args:
        seed_place: Place of the seed among those of the trial.
        stage: Number of the stage of this seed's training.
        report: Number of the report in the stage, from 1.
    """
    return (seed_place * _STAGES + stage) * _REPORTS + report


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

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether the trial is to be given up."""
        step = trial.last_step
        if step is None or step % _REPORTS <= self._warm_up:
            return False
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        others = [
            _value_at(step, other.intermediate_values)
            for other in complete
            if "repeats" not in other.user_attrs
        ]
        known = [value for value in others if value is not None]
        if len(known) < BEFORE_PRUNING:
            return False
        return trial.intermediate_values[step] < statistics.median(known)


def _value_at(step: int, reports: Mapping[int, float]) -> float | None:
    """The latest report up to a step, of the same seed and stage."""
    first = step - step % _REPORTS
    reported = [one for one in reports if first < one <= step]
    return reports[max(reported)] if reported else None


#: So many trials with an error, and none without, end a search.
_ERRORS = 5


@dataclass(frozen=True)
class SearchState:
    """How far a search is.

    Attributes:
        total: Number of different trials that are wanted, at most as many as there can be.
        size: Number of different trials that there can be.
        complete: Trials that were trained to the end.
        pruned: Trials that were given up as worse than the median.
        failed: Trials that ended with an error.
        running: Trials that are being trained.
        best: Highest validation score of complete trials.
        metric: What the score is.
    """

    total: int
    size: int
    complete: int
    pruned: int
    failed: int
    running: int
    best: float | None
    metric: str = "accuracy"

    @property
    def done(self) -> int:
        """Trials that count as done."""
        return self.complete + self.pruned

    @property
    def is_over(self) -> bool:
        """Whether all trials are done, or errors are all that comes of it."""
        return self.done >= self.total or self.is_exhausted or self.is_hopeless

    @property
    def is_exhausted(self) -> bool:
        """Whether every choice that there is has ended, well or with an error."""
        return self.done + self.failed >= self.size

    @property
    def wants_more(self) -> bool:
        """Whether a trial is left that nobody works on."""
        begun = self.done + self.running
        return begun < self.total and begun + self.failed < self.size

    @property
    def is_hopeless(self) -> bool:
        """Whether errors have ended the search."""
        bearable = max(_ERRORS, self.total) if self.complete else _ERRORS
        return self.failed >= bearable or 0 < self.size == self.failed

    @property
    def in_words(self) -> str:
        """How the trials ended."""
        return f"{self.complete} complete, {self.pruned} pruned, {self.failed} failed"


def search_state(
    trials: Sequence[FrozenTrial], total: int, size: int, metric: str = "accuracy"
) -> SearchState:
    """Count trials.

    What is counted are choices of values: one that two machines have begun at once counts once, and
    one that was interrupted, and whose copy goes on, once too.

    Args:
        trials: All of them.
        total: Number of trials that are wanted.
        size: Number of different trials that there can be.
        metric: What they are compared by.
    """
    complete = _choices(trials, TrialState.COMPLETE)
    pruned = _choices(trials, TrialState.PRUNED) - complete
    ended = complete | pruned
    best, failed = best_of(trials), {_choice(trial) for trial in failed_trials(trials)} - ended
    return SearchState(
        total=min(total, size),
        size=size,
        complete=len(complete),
        pruned=len(pruned),
        failed=len(failed),
        running=len(_choices(trials, TrialState.RUNNING) - ended - failed),
        best=None if best is None else best.value,
        metric=metric,
    )


def _choices(trials: Sequence[FrozenTrial], state: TrialState) -> set[object]:
    return {_choice(trial) for trial in trials if trial.state == state}


def _choice(trial: FrozenTrial) -> object:
    """The values of a trial; one that has none yet stands for itself."""
    return tuple(sorted(trial.params.items())) or trial.number


def best_of(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """The first complete trial with the highest validation score."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return max(complete, key=lambda trial: trial.value or 0.0, default=None)


def failed_trials(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that ended with an error, and those that repeat them; none that is tried again."""
    again = {trial.user_attrs.get("continues") for trial in trials}
    return [
        trial
        for trial in trials
        if "error" in trial.user_attrs
        and trial.user_attrs.get("repeats", trial.number) not in again
    ]


#: Seconds between two signs of life of a trial in a database, and after how many it is dead.
HEARTBEAT, GRACE = 15, 90
#: Seconds to wait before a storage that does not answer is asked again.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
_ATTEMPTS = 6

T = TypeVar("T")


class SearchError(NcgnnError):
    """A search cannot go on."""


def patiently(place: StudyPlace, ask: Callable[[], T]) -> T:
    """Ask a storage, several times if it does not answer.

    Raises:
        SearchError: It does not answer at all.
    """
    from optuna.exceptions import StorageInternalError

    for pause in (*PAUSES, None):
        try:
            return ask()
        except (StorageInternalError, OSError) as error:
            if pause is None:
                raise SearchError(_about_storage(place, error)) from error
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _about_storage(place: StudyPlace, error: Exception) -> str:
    if place.url is not None:
        about = about_database(place.url, error.__cause__ or error)
    else:
        about = f"{place.journal} cannot be used: {error}"
    return f"{about}; the same command goes on with the search."


def open_study(
    place: StudyPlace, pruner: BasePruner, when_stale: Callable[[Study, Any], None]
) -> Study:
    """Open a study, and make it if there is none.

    Args:
        place: Where it is kept.
        pruner: Says which trials are given up.
        when_stale: Called with study and trial when a database finds the trial's process dead.
    """
    import optuna

    with place.exclusive():
        if place.url is not None:
            storage = _open_database(place.url, when_stale)
        else:
            storage = open_journal(place.journal)
    try:  # a journal would note even an attempt to make a study again
        return optuna.load_study(study_name=place.name, storage=storage, pruner=pruner)
    except KeyError:
        return optuna.create_study(
            storage=storage,
            study_name=place.name,
            direction="maximize",
            load_if_exists=True,
            pruner=pruner,
        )


def _open_database(url: str, when_stale: Callable[[Study, Any], None]) -> BaseStorage:
    """Connect to a database; machines that make its tables at the same time try again."""
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    # A database of one file makes its writers wait for each other.
    patience = {"timeout": 60} if url.startswith("sqlite") else {}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return RDBStorage(
                url,
                # A connection per question, so that none is kept that has broken meanwhile.
                engine_kwargs={"connect_args": patience, "poolclass": NullPool},
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=when_stale,
            )
        except (ArgumentError, ValueError, ImportError) as error:
            raise InputError(about_database(url, error)) from None
        except SQLAlchemyError as error:
            if attempt == _ATTEMPTS:
                raise InputError(about_database(url, error)) from None
            time.sleep(0.2 * attempt)
    raise AssertionError("the last attempt returns or raises")


def about_database(url: str, error: BaseException) -> str:
    """What is wrong with a database, in a sentence without its password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    shown = url
    with suppress(SQLAlchemyError, ValueError):
        shown = make_url(url).render_as_string(hide_password=True)
    reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return f"--storage {shown} cannot be used: {reason}"


class TakenTrial:
    """The next trial of a study; while it is taken, others see that its process lives.

    What tells the study of the trial raises ``UpdateFinishedTrialError`` if another machine took
    this process for dead, and ``SearchError`` if the study's storage does not answer.

    Args:
        study: Where it is taken from; no other process of this machine does so meanwhile.
        place: Where the study is kept.
    """

    def __init__(self, study: optuna.Study, place: StudyPlace) -> None:
        self._study, self._place = study, place
        self.trial = study.ask()
        self.number = self.trial.number
        self._lock = take_lock(place.lock_of(self.number), wait=False)
        self._ended = threading.Event()
        if place.url is not None:
            self._give_sign()
            threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        while not self._ended.wait(HEARTBEAT):
            # A database that is away for a moment is not the end; one that stays away is noticed
            # where the trial's outcome is told.
            with suppress(Exception):
                self._give_sign()

    def _give_sign(self) -> None:
        storage: Any = self.trial.storage
        storage.record_heartbeat(self.trial._trial_id)  # pyright: ignore[reportPrivateUsage]

    @property
    def params(self) -> dict[str, Any]:
        """The chosen parameters."""
        return self.trial.params

    @property
    def deaths(self) -> int:
        """How many processes have died of it."""
        return int(self.trial.user_attrs.get("deaths", 0))

    @property
    def runs(self) -> Path:
        """The folder of its runs, which a copy of a trial shares with the original."""
        return self._place.runs_of(int(self.trial.user_attrs.get("folder", self.number)))

    def is_bad(self, value: float, step: int) -> bool:
        """Tell how good it is so far, and hear whether it is to be given up."""
        patiently(self._place, lambda: self.trial.report(value, step))
        return patiently(self._place, self.trial.should_prune)

    def complete(self, value: float, scores: list[dict[str, Any]]) -> None:
        """Tell that it was trained to the end."""
        self._note("scores", scores)
        self._tell(TrialState.COMPLETE, value)

    def prune(self) -> None:
        """Tell that it was given up."""
        self._tell(TrialState.PRUNED)

    def fail(self, error: str) -> None:
        """Tell that it ended with an error."""
        self._note("error", error)
        self._tell(TrialState.FAIL)

    def repeat(self, earlier: optuna.trial.FrozenTrial) -> None:
        """Tell that it ended like an earlier one with the same parameters."""
        for step, value in earlier.intermediate_values.items():
            patiently(self._place, partial(self.trial.report, value, step))
        self._note("repeats", earlier.number)
        if earlier.state == TrialState.COMPLETE and earlier.value is not None:
            self.complete(earlier.value, earlier.user_attrs["scores"])
        elif earlier.state == TrialState.PRUNED:
            self.prune()
        else:
            self.fail(str(earlier.user_attrs["error"]))

    def hand_back(self) -> None:
        """Leave it to whoever comes next, who goes on from the state that is saved."""

        def queue() -> None:
            trials = self._study.get_trials(deepcopy=False)
            queue_copy(self._study, trials[self.number], deaths=self.deaths)

        patiently(self._place, queue)
        self._tell(TrialState.FAIL)

    def _note(self, key: str, value: Any) -> None:
        patiently(self._place, lambda: self.trial.set_user_attr(key, value))

    def _tell(self, state: TrialState, value: float | None = None) -> None:
        def tell() -> optuna.trial.FrozenTrial:
            return self._study.tell(self.trial, value, state=state, skip_if_finished=True)

        try:
            if patiently(self._place, tell).state != state:
                raise UpdateFinishedTrialError
        finally:
            self.close()

    def close(self) -> None:
        """Let go of it; an end that was not told makes others see that it is abandoned."""
        self._ended.set()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
            self._place.lock_of(self.number).unlink(missing_ok=True)


def queue_copy(study: optuna.Study, trial: optuna.trial.FrozenTrial, deaths: int) -> None:
    """Put a copy of a trial in the queue, once."""
    copies = (t.user_attrs.get("continues") for t in study.get_trials(deepcopy=False))
    if trial.number not in copies:
        folder = int(trial.user_attrs.get("folder", trial.number))
        about = {"continues": trial.number, "folder": folder, "deaths": deaths}
        study.enqueue_trial(dict(trial.params), user_attrs=about)


#: How often at most a run tells of its progress, so that the journal stays small.
_REPORTS_study = 25


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
        self.report_every = max(1, epochs // _REPORTS_study)
        self._blame = 1
        pruner = MedianAtStep(warm_up=epochs // 5 // self.report_every)
        self._study = open_study(place, pruner, self._pass_on)

    def trials(self) -> list[FrozenTrial]:
        """All trials, in the order in which they were begun."""
        return patiently(self.place, lambda: self._study.get_trials(deepcopy=False))

    def state(self) -> SearchState:
        """How far the search is."""
        size = size_of(self.plan.space.choices)
        return search_state(self.trials(), self.total, size, self.plan.metric)

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
        lock.release()
        self.place.lock_of(trial.number).unlink(missing_ok=True)
        # It may have ended between the two looks; its process tells so before it lets go.
        return self.trials()[trial.number].state == TrialState.RUNNING
