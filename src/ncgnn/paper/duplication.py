"""How many nodes have a twin: the appendix' table of duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncgnn.data import load
from ncgnn.metrics import duplication_rates
from ncgnn.paper.printed import DATASETS, OTHER_GRAPHS, RELATIVES, printed, printed_text
from ncgnn.paper.targets import Target
from ncgnn.report import Table

if TYPE_CHECKING:
    from ncgnn.paper.targets import Request, Runs

#: What is shared, and how the table calls it.
KINDS = {"neighbors": "same neighbors and label", "features": "same features and label"}


@dataclass(frozen=True)
class DuplicationTable:
    """Shares of nodes with a twin, by kind (see :data:`KINDS`) and dataset."""

    datasets: tuple[str, ...]
    rates: dict[tuple[str, str], float]


class Duplication(Target[DuplicationTable]):
    """Needs no runs."""

    name = "duplication"
    title = "Share of nodes that share neighbors or features with another of their label"
    kind = "table"
    datasets = (*DATASETS, "chameleon", "squirrel")

    def collect(self, request: Request, runs: Runs) -> DuplicationTable:
        """Count twins in every graph."""
        rates: dict[tuple[str, str], float] = {}
        for dataset in request.datasets:
            found = duplication_rates(load(dataset, request.data_dir))
            rates["neighbors", dataset] = found.neighbors
            rates["features", dataset] = found.features
        return DuplicationTable(request.datasets, rates)

    def plain(self, data: DuplicationTable) -> dict[str, Any]:
        """Every rate with the paper's, in percent; an unknown rate is null."""
        return {
            "rows": [
                {
                    "kind": kind,
                    "dataset": dataset,
                    "rate": None if rate != rate else rate,
                    "paper": printed("duplication", kind, dataset),
                }
                for (kind, dataset), rate in data.rates.items()
            ]
        }

    def tables(self, data: DuplicationTable) -> list[Table]:
        """Shares of twins, ours and the paper's."""
        lines: list[tuple[str, ...]] = []
        for kind, title in KINDS.items():
            rates = [data.rates[kind, name] for name in data.datasets]
            lines.append((title, *("" if rate != rate else f"{100 * rate:.2f}" for rate in rates)))
            paper = [printed_text(printed("duplication", kind, name)) for name in data.datasets]
            lines += [("  paper", *paper)] if any(paper) else []
        notes = ["Nodes beyond the first of each kind, in percent of all."]
        if any(name in RELATIVES for name in data.datasets):
            notes.append(OTHER_GRAPHS)
        return [Table(self.name, ("", *data.datasets), tuple(lines), tuple(notes))]
