"""What grouping does: NCGCN beside the same model with nobody in the high group, and without one.

In mode ``renormalized`` the high channel runs over all nodes, also where nobody is in its group, so
that the model without separation lacks two things: groups, and a second channel. The control has
the channel and no groups: NCGCN minus the control is what groups do, and the control minus the
model without separation what the channel does.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from ncgnn.experiments import adjust_for_many, compare_runs
from ncgnn.paper.plans.modes import GRAPHS, plan_runs
from ncgnn.paper.plans.store import Plan, Store, difference_text, is_now, pick
from ncgnn.report import Table, percent
from ncgnn.training import FEWEST_NODES, Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncgnn.experiments import Difference, Record

    Score = Callable[[Record], float | None]

GROUPED, CONTROL, PLAIN = "ncgcn renormalized", "ncgcn renormalized, nobody high", "ncgcn none"
#: The models, as tables call them.
MODELS = {GROUPED: "NCGCN", CONTROL: "nobody high", PLAIN: "no separation"}
#: What is compared: the first minus the second.
PAIRS = {
    "groups": (GROUPED, CONTROL),
    "second channel": (CONTROL, PLAIN),
    "both": (GROUPED, PLAIN),
}


class Line(NamedTuple):
    """One graph: the runs of every model that are of its present form, by seed, and differences."""

    graph: str
    runs: dict[str, dict[int, Record]]
    differences: dict[str, Difference | None]


class Control(Plan):
    """Kept with the other runs of the paper's models in ``accuracy.jsonl``."""

    name = "control"
    title = "What grouping does, beside its control"
    about = (
        "NCGCN with the paper's parameters on `paper` splits; the same model with nobody in the "
        "high group (`grouped = false`, what a threshold of 1 amounts to), which keeps the second "
        "channel; and the model without separation, which has one channel. Differences are of the "
        "same splits, in points of test accuracy, with the 95 % interval of a paired test that "
        "takes overlapping splits into account (Nadeau and Bengio), and its p after Holm's "
        "correction for all tests of a table; intervals are those of single tests. With "
        "three seeds such an interval is very wide."
    )
    graphs = GRAPHS

    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Train what the store lacks, graph by graph."""
        for graph in GRAPHS if datasets is None else datasets:
            for row in MODELS:
                store.train(plan_runs(row, graph), "accuracy")

    def tables(self, store: Store) -> list[Table]:
        """All test nodes, and those with high NC by true labels alone and the others."""
        titles: dict[str, int | None] = {
            "All test nodes": None,
            "Test nodes with high NC by the true labels": 1,
            "Test nodes with low NC by the true labels": 0,
        }
        made = [_table(title, part, store) for title, part in titles.items()]
        return [table for table in made if table is not None]


def find_lines(store: Store, score: Score) -> list[Line]:
    """The graphs on which two models at least have runs to compare."""
    kept = store.kept("accuracy")
    lines: list[Line] = []
    for graph in GRAPHS:
        runs = {
            row: {
                int(record.config["training"]["seed"]): record
                for record in pick(plan_runs(row, graph), kept)
                if is_now(record)
            }
            for row in MODELS
        }
        found = {
            name: compare_runs(runs[first], runs[second], score)
            for name, (first, second) in PAIRS.items()
        }
        if any(found.values()):
            lines.append(Line(graph, runs, found))
    return lines


def _table(title: str, part: int | None, store: Store) -> Table | None:
    score = partial(_accuracy, part=part)
    lines = find_lines(store, score)
    if not lines:
        return None
    tests = [one for line in lines for one in line.differences.values()]
    adjusted = adjust_for_many([None if one is None else one.p_value for one in tests])
    texts = [difference_text(one, p) for one, p in zip(tests, adjusted, strict=True)]
    rows: list[tuple[str, ...]] = []
    for place, line in enumerate(lines):
        beside = texts[len(PAIRS) * place :][: len(PAIRS)]
        cells = (_cell(line.runs[row], score) for row in MODELS)
        rows.append((line.graph, _count(line.runs, part), *cells, *beside))
    head = ("", "nodes", *MODELS.values(), *PAIRS)
    note = (
        "groups: NCGCN minus nobody high; second channel: nobody high minus no separation; both: "
        "NCGCN minus no separation. In brackets the number of seeds. Splits with fewer than "
        f"{FEWEST_NODES} such nodes do not count."
    )
    return Table(title, head, tuple(rows), (note,))


def _accuracy(record: Record, part: int | None) -> float | None:
    """Test accuracy, of all nodes or of those with low (0) or high NC (1) by true labels."""
    if part is None:
        return float(record.result["scores"]["test"]["accuracy"])
    known = _true_group(record, part)
    return float(known["accuracy"]) if known.get("nodes", 0) >= FEWEST_NODES else None


def _true_group(record: Record, part: int) -> dict[str, Any]:
    groups: list[dict[str, Any]] = record.result["accuracy_by_true_group"]
    return next((one for one in groups if one["part"] == part), {})


def _count(runs: dict[str, dict[int, Record]], part: int | None) -> str:
    """The number of nodes that are compared, the mean over splits."""
    records = next(one for one in runs.values() if one).values()
    counts = [
        record.result["nodes"]["test"]
        if part is None
        else _true_group(record, part).get("nodes", 0)
        for record in records
    ]
    return f"{fmean(counts):.0f}"


def _cell(runs: dict[int, Record], score: Score) -> str:
    values = [value for record in runs.values() if (value := score(record)) is not None]
    return f"{percent(Spread.of(values))} ({len(values)})" if values else ""
