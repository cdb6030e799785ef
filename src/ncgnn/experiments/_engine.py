"""What an engine is: it works on cells, wherever, and says what came of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.experiments._cell import Cell, Outcome

EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = ("local", "ray")


class Watcher:
    """Hears of a sweep's progress and may stop it; this one is silent and never does."""

    def planned(self, cells: Iterable[Cell], finished: int) -> None:
        """So many cells are to be done, and so many were done before."""

    def started(self, cell: Cell) -> None:
        """A cell was begun."""

    def progress(self, cell: Cell, state: dict[str, Any]) -> None:
        """A cell has come to an ``epoch``, with a ``best`` validation accuracy."""

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        """A cell was left."""

    def stop(self) -> bool:
        """Whether the sweep shall stop."""
        return False


def default_workers(threads: int) -> int:
    """As many processes as keep every core busy with one thread each."""
    return max(1, available_cores() // threads)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work_on(
    cells: list[Cell],
    watcher: Watcher,
    *,
    engine: EngineName,
    workers: int,
    retries: int,
    address: str | None,
) -> Iterable[Outcome]:
    """Work on cells with one of the engines."""
    if engine == "local":
        from ncgnn.experiments._local import run_local

        return run_local(cells, watcher, workers=workers, retries=retries)
    if engine == "ray":
        from ncgnn.experiments._ray import run_ray

        return run_ray(cells, watcher, workers=workers, retries=retries, address=address)
    raise InputError(f"engine is '{engine}'; choose {' or '.join(ENGINES)}.")
