"""A trial that this process works on, from the moment it is taken until it is told how it ended."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from ncgnn._locks import take_lock
from ncgnn.experiments.tuning._storage import HEARTBEAT, patiently

if TYPE_CHECKING:
    from pathlib import Path

    import optuna

    from ncgnn.experiments.tuning._place import StudyPlace


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
            self._lock.close()
            self._lock = None
            self._place.lock_of(self.number).unlink(missing_ok=True)


def queue_copy(study: optuna.Study, trial: optuna.trial.FrozenTrial, deaths: int) -> None:
    """Put a copy of a trial in the queue, once."""
    copies = (t.user_attrs.get("continues") for t in study.get_trials(deepcopy=False))
    if trial.number not in copies:
        folder = int(trial.user_attrs.get("folder", trial.number))
        about = {"continues": trial.number, "folder": folder, "deaths": deaths}
        study.enqueue_trial(dict(trial.params), user_attrs=about)
