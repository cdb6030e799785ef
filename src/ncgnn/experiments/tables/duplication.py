"""How many nodes have a twin: the appendix' table of duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.experiments._published import Printed, printed
from ncgnn.experiments._request import DATASETS, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.training import RunConfig, RunResult

KINDS = ("neighbours", "features")


@dataclass(frozen=True)
class DuplicationTable:
    """Shares of nodes with a twin.

    Attributes:
        datasets: Columns.
        rates: By kind (same neighbours, same features; same label in both) and data set.
        missing: Nothing, as no run is needed.
    """

    datasets: tuple[str, ...]
    rates: dict[tuple[str, str], float]
    missing: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Everything as numbers and texts, for JSON; an unknown rate is null."""
        return {
            "rows": [
                {
                    "kind": kind,
                    "dataset": dataset,
                    "rate": None if rate != rate else rate,
                    "paper": self.paper(kind, dataset),
                }
                for (kind, dataset), rate in self.rates.items()
            ]
        }

    def paper(self, kind: str, dataset: str) -> Printed | None:
        """What the paper prints, in percent."""
        return printed("duplication", kind, dataset)


@dataclass(frozen=True)
class DuplicationTarget:
    """Satisfies :class:`ncgnn.experiments._request.Target`; needs no runs."""

    name: str = "duplication"
    title: str = "Share of nodes that share neighbours or features with another of their label"
    datasets: tuple[str, ...] = (*DATASETS, "chameleon", "squirrel")
    models: tuple[str, ...] = ()
    kind: Literal["table", "figure"] = "table"
    options: frozenset[str] = frozenset()

    def cells(self, request: Request) -> list[RunConfig]:
        """No runs are needed."""
        del request
        return []

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> DuplicationTable:
        """Count twins in every graph."""
        from ncgnn.data import load
        from ncgnn.metrics import duplication_rates

        del runs
        rates: dict[tuple[str, str], float] = {}
        for dataset in request.datasets:
            found = duplication_rates(load(dataset, request.data_dir))
            rates["neighbours", dataset] = found.neighbors
            rates["features", dataset] = found.features
        return DuplicationTable(request.datasets, rates)
