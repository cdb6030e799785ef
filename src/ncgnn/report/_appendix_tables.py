"""The smaller tables of the paper's appendix, ours beside the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncgnn.report._grid import Grid
from ncgnn.report._paper_tables import EARLIER_RELEASE, Line, printed_text

if TYPE_CHECKING:
    from ncgnn.experiments.tables.duplication import DuplicationTable
    from ncgnn.experiments.tables.efficiency import EfficiencyTable


def duplication_grid(table: DuplicationTable) -> Grid:
    """Shares of twins, ours and the paper's."""
    titles = {"neighbours": "same neighbours and label", "features": "same features and label"}
    lines: list[Line] = []
    for kind, title in titles.items():
        rates = [table.rates[kind, name] for name in table.datasets]
        lines.append((title, *("" if r != r else f"{100 * r:.2f}" for r in rates)))
        paper = [printed_text(table.paper(kind, d)) for d in table.datasets]
        lines += [("  paper", *paper)] if any(paper) else []
    notes = ["Nodes beyond the first of each kind, in percent of all."]
    if any(name.endswith("-filtered") for name in table.datasets):
        notes.append(EARLIER_RELEASE)
    return Grid("duplication", ("", *table.datasets), tuple(lines), tuple(notes))


def efficiency_grid(table: EfficiencyTable) -> Grid:
    """Time per epoch and per run, and multiples of GCN beside the paper's."""
    lines: list[Line] = []
    for dataset in table.datasets:
        for row in table.rows:
            cost = table.costs.get((row.name, dataset))
            if cost is None:
                continue
            ours, paper = table.multiple(row.name, dataset), table.paper_multiple(row.name, dataset)
            lines.append(
                (
                    dataset,
                    row.title,
                    f"{1000 * cost.epoch.mean:.1f}",
                    f"{cost.run.mean:.1f}",
                    "" if ours is None else f"{ours:.2f}",
                    "" if paper is None else f"{paper:.2f}",
                )
            )
    head = ("data set", "method", "ms per epoch", "s per run", "× GCN", "× GCN, paper")
    notes = (
        "Per epoch: the median of each run. Per run: all of its training; runs that 'ncgnn "
        "reproduce' trains for this come after two epochs that do not count. Times hold for this "
        "machine and load; multiples of GCN compare better.",
    )
    return Grid(f"efficiency, {table.size}", head, tuple(lines), notes, left=2)
