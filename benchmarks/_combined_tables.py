"""Tables from the stored results of benchmarks/combined.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _tables import cell, head, majority
from combined import FAMILIES, candidates, chosen, complete, stored

from ncgnn.experiments._published import printed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from combined import Candidate

    from ncgnn.experiments import Record

#: What is printed for a family: the table, and its rows.
PRINTED = {
    "paper": ("table1", ("ncgcn", "ncsage")),
    "published": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
    "uniform": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
}
TITLES = {
    "paper": "`paper` split; printed: the better of the paper's NCGCN and NCSAGE",
    "published": "published masks; printed: the best tuned classic model",
    "uniform": "one published uniform split, seeds are initialisations; printed: the best tuned "
    "classic model",
}


def tables() -> str:
    """Test and validation accuracy of every family."""
    kept = stored()
    return "\n\n".join(text for split in FAMILIES if (text := table(split, kept)))


def table(split: str, kept: dict[str, Record]) -> str:
    """One family's table; empty if nothing of it is complete."""
    graphs = [g for g in FAMILIES[split][0] if chosen(g, split, kept)]
    if not graphs:
        return ""
    best = {graph: chosen(graph, split, kept) for graph in graphs}
    rows = [c for c in candidates(split) if any(complete(c, g, split, kept) for g in graphs)]

    def runs(candidate: Candidate, graph: str) -> list[dict[str, object]]:
        return [record.result for record in complete(candidate, graph, split, kept)]

    def shown(candidate: Candidate, graph: str, score: str) -> str:
        text = cell(runs(candidate, graph), score=score)
        return f"**{text}**" if text and candidate == best[graph] else text

    def part(title: str, score: str) -> list[str]:
        body = [_row(c.row, [shown(c, graph, score) for graph in graphs]) for c in rows]
        return [title, "", *head(graphs), *body]

    everyone = [[result for c in rows for result in runs(c, graph)] for graph in graphs]
    validated = [_row(c.row, [cell(runs(c, g), part="val") for g in graphs]) for c in rows]
    return "\n".join(
        [
            *part(
                f"Test accuracy, {TITLES[split]}. Bold: chosen by validation among models with "
                "groups.",
                "accuracy",
            ),
            _row("printed", [_best_printed(split, graph) for graph in graphs]),
            majority(everyone),
            *("", *part("Test macro-F1.", "macro_f1")),
            *("", "Validation accuracy, by which rows are chosen.", "", *head(graphs), *validated),
        ]
    )


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _best_printed(split: str, graph: str) -> str:
    source, rows = PRINTED[split]
    values = [value for row in rows if isinstance(value := printed(source, row, graph), tuple)]
    mean, deviation = max(values)
    return f"{mean:.2f} ± {deviation:.2f}"
