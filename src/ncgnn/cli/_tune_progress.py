"""Progress of a parameter search on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.cli._sweep_progress import SweepProgress
from ncgnn.experiments.tuning._result import TuneWatcher

if TYPE_CHECKING:
    from ncgnn.experiments.tuning._state import SearchState


class TuneProgress(SweepProgress, TuneWatcher):
    """A bar for the trials on a terminal, a line per trial elsewhere; then the winner's runs."""

    _trials: Any = None
    _said = ""

    def searched(self, state: SearchState) -> None:
        """Show how far the search is."""
        best = "none complete yet" if state.best is None else f"best val {state.best:.2%}"
        failed = f", {state.failed} failed" if state.failed else ""
        words = f"{best}, {state.pruned} pruned{failed}"
        if self._trials is None:
            self._trials = self._bars.add_task("trials", total=state.total, state=words)
        self._bars.update(self._trials, completed=state.done, state=words)
        line = f"[{state.done}/{state.total}] trials: {words}"
        if not self._console.is_terminal and line != self._said:
            self._note(line)
            self._said = line
