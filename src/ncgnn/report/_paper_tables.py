"""The paper's tables with our numbers, and the paper's beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncgnn.experiments._published import printed
from ncgnn.report._grid import Grid, Marked
from ncgnn.report._results_tables import percent

if TYPE_CHECKING:
    from ncgnn.experiments._published import Printed
    from ncgnn.experiments.tables.accuracy import AccuracyTable, Entry
    from ncgnn.experiments.tables.leaderboard import LeaderboardTable

Line = tuple[str | Marked, ...]
#: Said where the paper's numbers are of other graphs than ours.
EARLIER_RELEASE = (
    "The paper's filtered graphs are an earlier release, with 864 (Chameleon) and 2,205 (Squirrel) "
    "nodes, so what stands beside it there is measured on another graph."
)


def accuracy_grid(table: AccuracyTable) -> Grid:
    """Methods by rows, data sets by columns; below each method what the paper prints."""
    lines: list[Line] = [*_graph_lines(table), ()] if table.facts else []
    for row in table.rows:
        lines.append((row.title, *(_cell(table, row.name, name) for name in table.datasets)))
        beside = [table.paper(row.name, name) for name in table.datasets]
        if any(value is not None for value in beside):
            whose = "  published" if table.table == "classic" else "  paper"
            lines.append((whose, *(printed_text(value) for value in beside)))
    lines += [(), _majority_line(table)]
    most = _most_seeds(table)
    notes = [
        "Test accuracy at the best validation epoch, mean ± sample standard deviation over "
        f"{most} seed{'' if most == 1 else 's'}, or as many as stand in brackets, percent. The "
        "best and the second best of a column are marked where all methods have the same seeds; "
        "ablations do not take part."
    ]
    filtered = [name for name in table.datasets if name.endswith("-filtered")]
    beside = any(table.paper(row.name, name) is not None for row in table.rows for name in filtered)
    facts = table.table == "table1" and any(name in table.facts for name in filtered)
    if table.table != "classic" and (beside or facts):
        notes.append(EARLIER_RELEASE)
    return Grid(
        f"{table.table}, {table.split} split", ("", *table.datasets), tuple(lines), tuple(notes)
    )


def macro_f1_grid(table: AccuracyTable) -> Grid:
    """Macro-F1 of the same runs, which the paper does not print."""
    lines = tuple(
        (row.title, *(_macro(table, row.name, name) for name in table.datasets))
        for row in table.rows
    )
    title = f"{table.table}, {table.split} split: macro-F1"
    return Grid(title, ("", *table.datasets), lines)


def _macro(table: AccuracyTable, row: str, dataset: str) -> str:
    entry = table.entries.get((row, dataset))
    return "" if entry is None else f"{percent(entry.macro_f1)}{_fewer(table, entry)}"


def _graph_lines(table: AccuracyTable) -> list[Line]:
    facts = [table.facts.get(name) for name in table.datasets]
    return [
        ("classes", *("" if f is None else str(f.classes) for f in facts)),
        ("nodes", *("" if f is None else f"{f.nodes:,}" for f in facts)),
        ("NH", *("" if f is None else f"{f.nh:.2f}" for f in facts)),
        *_printed_facts(table, "nh"),
        ("NC (k=1)", *("" if f is None else f"{f.nc[0]:.2f}" for f in facts)),
        *_printed_facts(table, "nc-1"),
        ("NC (k=2)", *("" if f is None else f"{f.nc[1]:.2f}" for f in facts)),
        *_printed_facts(table, "nc-2"),
    ]


def _printed_facts(table: AccuracyTable, row: str) -> list[Line]:
    """What the paper prints of the graphs, which do not depend on splits."""
    values = [printed("graphs", row, name) for name in table.datasets]
    shown = table.table == "table1" and any(value is not None for value in values)
    return [("  paper", *(printed_text(value) for value in values))] if shown else []


def _majority_line(table: AccuracyTable) -> Line:
    shares = [table.majority.get(name) for name in table.datasets]
    return ("majority class", *("" if s is None else f"{100 * s:.2f}" for s in shares))


def _cell(table: AccuracyTable, row: str, dataset: str) -> str | Marked:
    entry = table.entries.get((row, dataset))
    if entry is None:
        return ""
    text = f"{percent(entry.test)}{_fewer(table, entry)}"
    best, second = table.leaders(dataset)
    if row in best:
        return Marked(text, "best")
    return Marked(text, "second") if row in second else text


def _fewer(table: AccuracyTable, entry: Entry) -> str:
    """The number of seeds, where some cell has more."""
    return "" if len(entry.seeds) == _most_seeds(table) else f" ({len(entry.seeds)})"


def _counted(table: AccuracyTable, row: str, dataset: str) -> str:
    entry = table.entries.get((row, dataset))
    return "" if entry is None else f"{percent(entry.test)} ({len(entry.seeds)})"


def _most_seeds(table: AccuracyTable) -> int:
    return max((len(entry.seeds) for entry in table.entries.values()), default=0)


def printed_text(value: Printed | None) -> str:
    """A printed number; nothing where there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    mean, deviation = value
    return f"{mean:.2f} ± {deviation:.2f}" if deviation else f"{mean:.2f}"


def leaderboard_grid(table: LeaderboardTable) -> Grid:
    """What others report of their own methods, then our runs and the paper's."""
    from ncgnn.nn._catalog import BY_NAME

    ours = table.ours
    lines: list[Line] = [
        (BY_NAME[name].title, *(printed_text(table.quoted(name, d)) for d in ours.datasets))
        for name in table.others
        if any(table.quoted(name, dataset) is not None for dataset in ours.datasets)
    ]
    lines.append(())
    for row in ours.rows:
        lines.append((f"{row.title}, ours", *(_counted(ours, row.name, d) for d in ours.datasets)))
        lines.append(("  macro-F1", *(_macro(ours, row.name, d) for d in ours.datasets)))
        paper = [printed_text(ours.paper(row.name, d)) for d in ours.datasets]
        lines += [("  paper", *paper)] if any(paper) else []
    lines += [(), _majority_line(ours)]
    notes = (
        "Others as their authors report, with splits of their own, so that nothing is ranked; ours "
        "by runs, with the number of seeds in brackets.",
    )
    return Grid(f"leaderboard, our {ours.split} split", ("", *ours.datasets), tuple(lines), notes)
