"""Progress of training on standard error, and stopping it without losing work."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path
    from types import FrameType

    from ncgnn.training import RunConfig, RunResult


#: Seconds between two lines where there is no terminal.
SIGN_OF_LIFE = 60.0


class RunProgress:
    """A bar per seed on a terminal; one line per finished seed everywhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console, self._spoke = Console(stderr=True), time.monotonic()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> RunProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def run(self, config: RunConfig, events: Path | None) -> Generator[Callable[[Any], None]]:
        """Show one run; yields what is to be called with every epoch's record."""
        writer = None
        bar = self._bars.add_task(title(config), total=config.training.epochs, state="starting")
        best = 0.0

        def on_epoch(record: dict[str, Any]) -> None:
            nonlocal best, writer
            best = max(best, record["val_accuracy"])
            state = f"val {record['val_accuracy']:.2%}, best {best:.2%}"
            self._bars.update(bar, completed=record["epoch"] + 1, state=state)
            self._sign_of_life(f"{title(config)}: epoch {record['epoch']}, {state}")
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

    def resumed(self, epoch: int) -> None:
        """Say that a run was begun before."""
        self.note(f"goes on after epoch {epoch - 1}, where it was interrupted")

    def finished(self, result: RunResult) -> None:
        """Say how a run ended."""
        scores = result.result["scores"]
        how = f"{result.seconds:.0f} s" if result.fresh else "found finished"
        test = f", test {scores['test']['accuracy']:.2%}" if "test" in scores else ""
        self.note(
            f"{title(result.config)}: val {scores['val']['accuracy']:.2%}{test} "
            f"(best epoch {result.result['best_epoch']}, {result.result['epochs']} trained, {how})"
        )

    def _sign_of_life(self, text: str) -> None:
        """Where there are no bars, say now and then that the work goes on."""
        now = time.monotonic()
        if not self._console.is_terminal and now - self._spoke >= SIGN_OF_LIFE:
            self.note(text)

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._spoke = time.monotonic()
        self._console.print(text, highlight=False, soft_wrap=True)


def title(config: RunConfig) -> str:
    """A run as people call it."""
    graph = config.data.dataset.rsplit("/", 1)[-1]
    return f"{config.model.name} on {graph}, seed {config.training.seed}"


@contextmanager
def stop_requests() -> Generator[Callable[[], bool]]:
    """Whether the user has asked to stop; a second request stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        print("stopping after this epoch; once more stops at once", file=sys.stderr)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
