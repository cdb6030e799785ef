"""Our runs beside what other papers report of their own methods: the appendix' leaderboard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.experiments._published import Printed, printed, published
from ncgnn.experiments.tables.accuracy import AccuracyTable, AccuracyTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig, RunResult

OURS = ("ncgcn", "ncsage")


@dataclass(frozen=True)
class LeaderboardTable:
    """Accuracies that others report, and ours.

    Attributes:
        ours: Our own runs.
        others: Names of the methods that are quoted.
    """

    ours: AccuracyTable
    others: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Everything as numbers and texts, for JSON."""
        return self.ours.plain() | {"others": published("leaderboard")}

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of runs that are not finished."""
        return self.ours.missing

    def quoted(self, method: str, dataset: str) -> Printed | None:
        """What a method's own authors report, in percent."""
        return printed("leaderboard", method, dataset)


@dataclass(frozen=True)
class LeaderboardTarget:
    """Satisfies :class:`ncgnn.experiments._request.Target`."""

    name: str = "leaderboard"
    title: str = "Our runs beside what other papers report (their splits differ)"
    datasets: tuple[str, ...] = (
        *("pubmed", "photo", "computers", "coauthor-cs", "coauthor-physics", "cora-full", "actor"),
    )
    models: tuple[str, ...] = OURS
    kind: Literal["table", "figure"] = "table"

    def cells(self, request: Request) -> list[RunConfig]:
        """Our methods on every data set."""
        return self._ours().cells(request)

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> LeaderboardTable:
        """Our numbers from finished runs, and the others' from their papers."""
        table = replace(self._ours().collect(request, runs), table="table1")
        return LeaderboardTable(table, tuple(published("leaderboard")))

    def _ours(self) -> AccuracyTarget:
        return AccuracyTarget(self.name, self.title, self.datasets, self.models)
