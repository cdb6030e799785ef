"""One candidate of a search: its training, how long that may take, and what has become of it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ncgnn.errors import NcgnnWarning
from ncgnn.training.run import RunResult, train_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.training.candidates import Candidate
    from ncgnn.training.config import RunConfig
    from ncgnn.training.search import Search
    from ncgnn.training.trainer import Record

#: Folder of the runs of candidates, in that of a search.
CANDIDATES = "candidates"

# A candidate's time is known after this many epochs.
_TIMED = 3
# A candidate with fewer epochs than this share of the usual number is not worth beginning.
_LEAST_SHARE = 0.4
# Epochs at which a candidate with other rates is compared with the model's earlier ones, and by how
# much it may be behind them.
_CHECKS, _BEHIND = (20, 40, 80), 0.02

#: Why a candidate is not begun that was never looked at.
NO_TIME = "no time was left"
State = Literal["finished", "stopped", "skipped", "failed"]


#: The number of the rule by which combinations are judged; earlier searches do not name one.
COMBINATION_RULE = 3


@dataclass
class Row:
    """A candidate on the leaderboard.

    Attributes:
        title: What people call it.
        model: The model's name.
        name: The name of its run.
        state: What has become of it.
        val: Validation score.
        val_loss: Cross-entropy of validation nodes.
        test: Score of test nodes, by the same metric; measured when everything is chosen.
        seconds: How long it took.
        epochs: How many were trained.
        best_epoch: The best of them.
        train_accuracy: Of the best epoch, without dropout.
        val_accuracy: Of the best epoch.
        why: Why it was skipped or stopped, or what is wrong.
    """

    title: str
    model: str
    name: str
    state: State = "skipped"
    val: float | None = None
    val_loss: float | None = None
    test: float | None = None
    seconds: float = 0.0
    epochs: int = 0
    best_epoch: int | None = None
    train_accuracy: float | None = None
    val_accuracy: float | None = None
    why: str = ""


class AutoWatcher:
    """Hears of a search; does nothing."""

    def on_plan(
        self,
        candidates: Sequence[Candidate],
        seconds: float,
        spent: float,
        expected: float | None,
    ) -> None:
        """What will be tried, and how long it may take; how long it took before, and probably will.

        ``expected`` is for those that are left to try, None where it is not known.
        """

    def on_epoch(self, title: str, record: Record, spent: float, best: float | None) -> None:
        """An epoch of a candidate; ``best`` is the highest validation score of those before."""

    def on_row(self, row: Row) -> None:
        """What has become of a candidate."""

    def on_stage(self, text: str) -> None:
        """What happens next."""


@dataclass
class Attempt:
    """The training of one candidate, under the eyes of a search.

    Attributes:
        search: The search.
        candidate: The candidate.
        records: One per epoch so far.
        why: Why it was ended before its end.
        shorter: With how many epochs it would fit into the time, if not with all.
        seconds: How long it took, of all trainings.
        resumed: How many of the epochs an earlier search had done.
    """

    search: Search
    candidate: Candidate
    records: list[Record] = field(default_factory=list["Record"])
    why: str = ""
    shorter: int | None = None
    seconds: float = 0.0
    resumed: int = 0

    def train(self, config: RunConfig) -> RunResult | None:
        """Train; None where it was ended before."""
        search = self.search
        self.records, self.why, is_again = [], "", self.shorter is not None
        allowed = search.available
        began = search.clock()
        times: list[float] = []
        self.resumed = 0

        def on_resume(epochs: int) -> None:
            self.resumed = epochs

        def on_epoch(record: Record) -> None:
            self.records.append(record)
            if len(self.records) > self.resumed:
                times.append(search.clock())
            best = [row.val for row in search.rows.values() if row.val is not None]
            search.watcher.on_epoch(
                self.candidate.title, record, search.spent, max(best, default=None)
            )

        def stop() -> bool:
            if search.stop():
                return True
            if self.candidate.fits_at_once:
                return False
            if len(times) == _TIMED and not is_again:
                self._plan((times[-1] - times[0]) / (_TIMED - 1), allowed, config)
            elif search.clock() - began > allowed:
                self.why = "the time was up"
            elif self._is_behind():
                self.why = f"behind {self.candidate.model} with other rates"
            return bool(self.why)

        try:
            with warnings.catch_warnings():  # what is wrong with one candidate, others make good
                warnings.simplefilter("ignore", NcgnnWarning)
                return train_run(
                    config,
                    search.folder / CANDIDATES,
                    graph=search.graph,
                    split=search.given,
                    on_epoch=on_epoch,
                    on_resume=on_resume,
                    stop=stop,
                    copies=False,
                )
        except KeyboardInterrupt:
            if not self.why:
                search.keep()
                raise
            return None
        finally:
            self.seconds += search.clock() - began

    def _plan(self, epoch: float, allowed: float, config: RunConfig) -> None:
        """End a candidate that would take too long, or find out how many epochs it may have."""
        usual = self.search.usual_epochs(config)
        if epoch * (usual - self.resumed) <= allowed:
            return
        fits = int(0.9 * allowed / epoch)  # a shorter training begins anew
        if fits >= max(_TIMED, _LEAST_SHARE * usual):
            self.shorter, self.why = fits, "fewer epochs fit into the time"
        else:
            self.records = []
            self.why = f"would take about {about(epoch * usual)}, {about(allowed)} are left"

    def _is_behind(self) -> bool:
        """Whether the same model with other rates was clearly better after as many epochs."""
        done, search = len(self.records), self.search
        if done not in _CHECKS:
            return False
        mine = max(record[f"val_{search.metric}"] for record in self.records)
        same = {row.name for row in search.rows.values() if row.model == self.candidate.model}
        return any(
            mine < max(curve[:done]) - _BEHIND
            for name, curve in search.curves.items()
            if name in same and len(curve) >= done
        )


def about(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min"
