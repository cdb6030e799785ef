"""How far a parameter search is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optuna.trial import TrialState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.trial import FrozenTrial

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
        best: Highest validation accuracy of complete trials.
    """

    total: int
    size: int
    complete: int
    pruned: int
    failed: int
    running: int
    best: float | None

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


def search_state(trials: Sequence[FrozenTrial], total: int, size: int) -> SearchState:
    """Count trials.

    What is counted are choices of values: one that two machines have begun at once counts once, and
    one that was interrupted, and whose copy goes on, once too.

    Args:
        trials: All of them.
        total: Number of trials that are wanted.
        size: Number of different trials that there can be.
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
    )


def _choices(trials: Sequence[FrozenTrial], state: TrialState) -> set[object]:
    return {_choice(trial) for trial in trials if trial.state == state}


def _choice(trial: FrozenTrial) -> object:
    """The values of a trial; one that has none yet stands for itself."""
    return tuple(sorted(trial.params.items())) or trial.number


def best_of(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """The first complete trial with the highest validation accuracy."""
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
