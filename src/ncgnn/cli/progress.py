"""Progress of runs, sweeps and searches on standard error; stopping them loses no work."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from ncgnn._launch import stop_signals
from ncgnn.cli.terminal import Verbosity, note
from ncgnn.errors import visible
from ncgnn.experiments import Watcher, flatten, format_value
from ncgnn.nn import model_class
from ncgnn.training import NO_TIME, SCORE_NAMES, AutoWatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from pathlib import Path
    from types import FrameType

    from ncgnn.experiments import Cell, SearchState
    from ncgnn.training import AutoConfig, Candidate, Row, RunConfig, RunResult

#: Seconds between two lines about one run where there is no terminal.
PAUSE = 60.0


class _Bars:
    """Bars on a terminal, with lines above them that are printed everywhere."""

    def __init__(self) -> None:
        self._console, self._last_note = Console(stderr=True), time.monotonic()
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            console=self._console,
            transient=True,
            disable=Verbosity.quiet or not self._console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        """Print a line above the bars, unwrapped."""
        self._last_note = time.monotonic()
        if not Verbosity.quiet:
            self._console.print(visible(text), highlight=False, soft_wrap=True, markup=False)


class RunProgress(_Bars):
    """A bar for the run in training, and a line per finished one."""

    @contextmanager
    def run(self, config: RunConfig, events: Path | None) -> Generator[Callable[[Any], None]]:
        """Show one run; yields the function to call with every epoch's record.

        ``events`` is the folder for TensorBoard's events, if they are wanted.
        """
        writer = None
        metric, best = config.training.metric, 0.0
        bar = self._bars.add_task(_title(config), total=_epochs(config), state="starting")

        def on_epoch(record: dict[str, Any]) -> None:
            nonlocal best, writer
            score = record[f"val_{metric}"]
            best = max(best, score)
            state = f"{_val(metric)} {score:.2%}, best {best:.2%}"
            self._bars.update(bar, completed=record["epoch"] + 1, state=state)
            silent = time.monotonic() - self._last_note
            if Verbosity.verbose or (not self._console.is_terminal and silent >= PAUSE):
                self.note(f"{_title(config)}: epoch {record['epoch']}, {state}")
            if events is not None:
                if writer is None:
                    from ncgnn.report import EventWriter

                    writer = EventWriter(events, first_epoch=record["epoch"])
                writer.write(record)

        try:
            yield on_epoch
        finally:
            if writer is not None:
                writer.close()
            self._bars.remove_task(bar)

    @contextmanager
    def search(self, wanted: AutoConfig) -> Generator[SearchProgress]:
        """Show a search for a model; yields what hears of it."""
        graph = wanted.base.data.dataset.rsplit("/", 1)[-1]
        title = visible(f"auto on {graph}, seed {wanted.base.training.seed}")
        bar = self._bars.add_task(title, total=wanted.options.seconds, state="starting")
        try:
            yield SearchProgress(self._bars, bar, self.note)
        finally:
            self._bars.remove_task(bar)

    def resumed(self, epoch: int) -> None:
        """Say that a run was begun before."""
        self.note(f"continues after epoch {epoch - 1}, where it was interrupted")

    def finished(self, result: RunResult) -> None:
        """Say how a run ended."""
        how = f"{result.seconds:.0f} s" if result.fresh else "found finished"
        epochs = f"best epoch {result.result['best_epoch']}, {result.result['epochs']} trained"
        if model_class(result.config.model.name).fits_at_once:
            epochs = "fitted at once"
        self.note(f"{_title(result.config)}: {_scores(result)} ({epochs}, {how})")


class SearchProgress(AutoWatcher):
    """A bar of the time that a search may take, and a line per candidate.

    Args:
        bars: Where the bar is.
        bar: The bar.
        note: Prints a line above it.
    """

    def __init__(self, bars: Progress, bar: TaskID, note: Callable[[str], None]) -> None:
        self._bars, self._bar, self._note = bars, bar, note
        self._left_out = 0

    def on_plan(
        self,
        candidates: Sequence[Candidate],
        seconds: float,
        spent: float,
        expected: float | None,
    ) -> None:
        """Say what there is to do, and about how long it will take."""
        models = list(dict.fromkeys(candidate.model for candidate in candidates))
        before = f", {_duration(spent)} of it before" if spent > 1 else ""
        limit = f"at most {_duration(seconds)}{before}"
        count = f"{len(candidates)} candidates"
        if expected is None:
            how_long = limit
        elif expected <= seconds - spent:
            how_long = f"about {_duration(expected)}, {limit}"
        else:
            how_long = (
                f"{limit}; all would take about {_duration(expected)}, so that some have fewer "
                "epochs or are left out"
            )
        self._note(f"{count} of {len(models)} models ({', '.join(models)}): {how_long}")

    def on_epoch(self, title: str, record: dict[str, Any], spent: float, best: Any) -> None:
        """Show which candidate is in training."""
        state = f"{title}, epoch {record['epoch']}"
        state += "" if best is None else f"; best so far {best:.2%}"
        self._bars.update(self._bar, completed=spent, state=state)

    def on_row(self, row: Row) -> None:
        """Say how a candidate ended; of those that there is no time for, the first one."""
        if row.why == NO_TIME:
            self._left_out += 1
            if self._left_out > 1:
                return
        score = "" if row.val is None else f" val {row.val:.2%}, {row.seconds:.0f} s"
        how = "" if row.state == "finished" else f" {row.state}: {row.why}"
        self._note(f"  {row.title}:{score}{how}")

    def on_stage(self, text: str) -> None:
        """Show what happens next."""
        self._bars.update(self._bar, state=text)


class FoldProgress(_Bars):
    """A bar for the folds of a search, and after the first one how long the rest will take.

    Args:
        folds: How many there are.
    """

    def __init__(self, folds: int) -> None:
        super().__init__()
        self._started = time.monotonic()
        self._bar = self._bars.add_task("folds", total=folds, state="training without the first")

    def done(self, count: int, folds: int) -> None:
        """Say that some folds are done."""
        passed = time.monotonic() - self._started
        left = passed / count * (folds - count)
        self._bars.update(self._bar, completed=count, state=f"about {_duration(left)} left")
        if count == 1 and left > 5:
            self.note(f"a fold took {_duration(passed)}: about {_duration(left)} left")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _epochs(config: RunConfig) -> int:
    """The most epochs that a run may take."""
    return 1 if model_class(config.model.name).fits_at_once else config.training.epochs


def _title(config: RunConfig) -> str:
    graph = config.data.dataset.rsplit("/", 1)[-1]
    return visible(f"{config.model.name} on {graph}, seed {config.training.seed}")


def _val(metric: str) -> str:
    return "val" if metric == "accuracy" else f"val {SCORE_NAMES[metric]}"


def _scores(run: RunResult) -> str:
    """Validation and test score of a run, by its metric."""
    metric, scores = run.config.training.metric, run.result["scores"]
    test = scores.get("test", {}).get(metric)  # some are not defined where one class is tested
    text = f"{_val(metric)} {scores['val'][metric]:.2%}"
    return text if test is None else f"{text}, test {test:.2%}"


def _leave_terminal() -> None:
    """Print to nowhere from now on: writing to a terminal that is gone would end the program."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # some have no number
            if stat.S_ISCHR(os.fstat(stream.fileno()).st_mode):  # it says that it is none by now
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def stop_requests(*, together: bool = False) -> Generator[Callable[[], bool]]:
    """Yield whether Ctrl-C was pressed, which is asked after every epoch; twice stops at once.

    Processes that work ``together`` may be sent a signal more than once; none stops before all do,
    and each is left the time to say why it ends.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        closed = number == getattr(signal, "SIGHUP", None)
        if closed:
            _leave_terminal()
        elif asked and not together:
            raise KeyboardInterrupt
        elif not together:
            note("stopping after this epoch; once more stops at once")
        asked = True

    before = {number: signal.signal(number, ask) for number in stop_signals()}
    try:
        yield lambda: asked
    finally:
        if not together:
            for number, handler in before.items():
                signal.signal(number, handler)


class SweepProgress(_Bars, Watcher):
    """A bar for the sweep and one per running cell, and a line per ended cell.

    Args:
        stop: Whether the user has asked to stop.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        super().__init__()
        self._stop = stop
        self._total: TaskID | None = None
        self._done = self._planned = 0
        self._bar_of: dict[str, TaskID] = {}
        self._titles: dict[str, str] = {}

    def on_plan(self, cells: Iterable[Cell], finished: int) -> None:
        """Say how much there is to do."""
        configs = {cell.name: cell.config for cell in cells}
        self._planned, self._titles = len(configs), titles(configs)
        found = f", {finished} found finished" if finished else ""
        self.note(f"runs to train: {self._planned}{found}")
        self._total = self._bars.add_task("all runs", total=self._planned, state="")

    def on_start(self, cell: Cell) -> None:
        """Show a cell."""
        if cell.name not in self._bar_of:
            self._bar_of[cell.name] = self._bars.add_task(
                self._titles[cell.name], total=_epochs(cell.config), state="waiting"
            )

    def on_progress(self, cell: Cell, state: dict[str, Any]) -> None:
        """Show how far a cell is."""
        self._bars.update(
            self._bar_of[cell.name],
            completed=state["epoch"] + 1,
            state=f"best {_val(cell.config.training.metric)} {state['best']:.2%}",
        )

    def on_end(self, cell: Cell) -> None:
        """Say how a cell ended."""
        if (bar := self._bar_of.pop(cell.name, None)) is not None:
            self._bars.remove_task(bar)
        self._done += 1
        if self._total is not None:
            self._bars.update(self._total, completed=self._done)
        for text in cell.warnings:
            self.note(f"warning: {text}")
        if cell.state == "failed":
            how = f"failed: {cell.error}"
        elif cell.run is None:
            how = "stopped; the same command continues"
        else:
            how = f"{_scores(cell.run)}, {cell.run.seconds:.0f} s"
        which = f"{self._titles[cell.name]} ({cell.name[-10:]})"
        self.note(f"[{self._done}/{self._planned}] {which}: {how}")

    def stop(self) -> bool:
        """Whether the user has asked to stop."""
        return self._stop()


def titles(configs: dict[str, RunConfig]) -> dict[str, str]:
    """What every run is called: its title, and the options by which others of that title differ."""
    by_title: dict[str, dict[str, dict[str, Any]]] = {}
    for name, config in configs.items():
        by_title.setdefault(_title(config), {})[name] = flatten(config.model_dump(mode="json"))
    called: dict[str, str] = {}
    for text, alike in by_title.items():
        values: dict[str, set[str]] = {}
        for options in alike.values():
            for option, value in options.items():
                values.setdefault(option, set()).add(format_value(value))
        for name, options in alike.items():
            own = [
                f"{o.partition('.')[2]}={format_value(v)}"
                for o, v in options.items()
                if len(values[o]) > 1
            ]
            called[name] = ", ".join([text, *own])
    return called


class TuneProgress(SweepProgress):
    """A bar for the trials on a terminal, a line per trial elsewhere; then the winner's runs."""

    _trials: TaskID | None = None
    _last_line = ""

    def on_trial(self, state: SearchState) -> None:
        """Show how far the search is."""
        best = "none complete yet"
        if state.best is not None:
            best = f"best {_val(state.metric)} {state.best:.2%}"
        failed = f", {state.failed} failed" if state.failed else ""
        words = f"{best}, {state.pruned} pruned{failed}"
        if self._trials is None:
            self._trials = self._bars.add_task("trials", total=state.total, state=words)
        self._bars.update(self._trials, completed=state.done, state=words)
        line = f"[{state.done}/{state.total}] trials: {words}"
        if not self._console.is_terminal and line != self._last_line:
            self.note(line)
            self._last_line = line
