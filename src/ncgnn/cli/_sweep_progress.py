"""Progress of a sweep on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.cli._progress import title
from ncgnn.experiments import Watcher
from ncgnn.experiments._rows import flat, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ncgnn.experiments._cell import Cell, Outcome
    from ncgnn.training import RunConfig


class SweepProgress(Watcher):
    """A bar for the sweep and one per running cell on a terminal; a line per ended cell everywhere.

    Args:
        stop: Whether the user has asked to stop.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._stop = stop
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._total, self._done, self._planned = None, 0, 0
        self._bar_of: dict[str, Any] = {}
        self._titles: dict[str, str] = {}

    def __enter__(self) -> SweepProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def planned(self, cells: Iterable[Cell], finished: int) -> None:
        """Say how much there is to do."""
        configs = {cell.name: cell.config for cell in cells}
        self._planned, self._titles = len(configs), titles(configs)
        found = f", {finished} found finished" if finished else ""
        self._note(f"runs to train: {self._planned}{found}")
        self._total = self._bars.add_task("all runs", total=self._planned, state="")

    def started(self, cell: Cell) -> None:
        """Show a cell."""
        if cell.name not in self._bar_of:
            total = cell.config.training.epochs
            self._bar_of[cell.name] = self._bars.add_task(
                self._titles[cell.name], total=total, state="waiting"
            )

    def progress(self, cell: Cell, state: dict[str, Any]) -> None:
        """Show how far a cell is."""
        self._bars.update(
            self._bar_of[cell.name],
            completed=state["epoch"] + 1,
            state=f"best val {state['best']:.2%}",
        )

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        """Say how a cell ended."""
        bar = self._bar_of.pop(cell.name, None)
        if bar is not None:
            self._bars.remove_task(bar)
        self._done += 1
        if self._total is not None:
            self._bars.update(self._total, completed=self._done)
        for text in outcome.warnings:
            self._note(f"warning: {text}")
        which = f"{self._titles[cell.name]} ({cell.name[-10:]})"
        self._note(f"[{self._done}/{self._planned}] {which}: {_how(outcome)}")

    def stop(self) -> bool:
        """Whether the user has asked to stop."""
        return self._stop()

    def _note(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


def titles(configs: dict[str, RunConfig]) -> dict[str, str]:
    """What every run is called: its title, and the options by which others of that title differ."""
    by_title: dict[str, dict[str, dict[str, Any]]] = {}
    for name, config in configs.items():
        by_title.setdefault(title(config), {})[name] = flat(config.model_dump(mode="json"))
    called: dict[str, str] = {}
    for text, alike in by_title.items():
        values: dict[str, set[str]] = {}
        for options in alike.values():
            for option, value in options.items():
                values.setdefault(option, set()).add(short(value))
        for name, options in alike.items():
            own = [
                f"{o.partition('.')[2]}={short(v)}"
                for o, v in options.items()
                if len(values[o]) > 1
            ]
            called[name] = ", ".join([text, *own])
    return called


def _how(outcome: Outcome) -> str:
    if outcome.state == "failed":
        return f"failed: {outcome.error}"
    if outcome.state != "finished":
        return "stopped; the same command goes on"
    scores = outcome.result["scores"]
    test = f", test {scores['test']['accuracy']:.2%}" if "test" in scores else ""
    return f"val {scores['val']['accuracy']:.2%}{test}, {outcome.seconds:.0f} s"
