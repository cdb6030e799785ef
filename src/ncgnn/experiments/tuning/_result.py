"""What a parameter search tells while it goes on, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncgnn.experiments._engine import Watcher

if TYPE_CHECKING:
    from pathlib import Path

    from ncgnn.experiments.tuning._state import SearchState
    from ncgnn.training import RunConfig, RunResult


class TuneWatcher(Watcher):
    """Hears of a search and of the winner's evaluation and may stop both; this one is silent."""

    def searched(self, state: SearchState) -> None:
        """The search is so far."""


@dataclass(frozen=True)
class TuneResult:
    """What came of a parameter search.

    Attributes:
        folder: Folder of the study, with ``best.toml`` and ``trials.csv``.
        parameters: The best values that were found, by ``section.option``.
        config: The best configuration, with the first tuning seed.
        seeds: The tuning seeds.
        value: Its mean validation accuracy over the tuning seeds.
        state: How many trials there were, and how they ended.
        seen: Share of the test nodes of the fresh seeds' splits that were training or validation
            nodes of a tuning seed's split; None without fresh seeds or test nodes.
        fresh: The fresh seeds.
        runs: The winner's runs with fresh seeds.
        failed: The error of every such run that failed, by its folder.
    """

    folder: Path
    parameters: dict[str, Any]
    config: RunConfig
    seeds: tuple[int, ...]
    value: float
    state: SearchState
    seen: float | None
    fresh: tuple[int, ...]
    runs: tuple[RunResult, ...]
    failed: dict[Path, str]
