"""The paper's tables with our numbers, and the paper's beside them.

The rows of the paper's main table: models, and NCGCN with a part taken away.

Accuracy of all methods on all data sets: the paper's main table, and that of large graphs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.errors import DataNotFoundError, UnknownNameError
from ncgnn.nn import model_names
from ncgnn.paper.request import DATASETS, Request, model_title, printed, printed_split
from ncgnn.report import Marked, Table, percent
from ncgnn.training import Spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncgnn.paper.appendix import LeaderboardTable
    from ncgnn.paper.request import Printed, Request
    from ncgnn.training import RunConfig, RunResult


@dataclass(frozen=True)
class Variant:
    """A row of a table.

    Attributes:
        name: As ``--models`` knows it.
        title: As the paper calls it.
        model: The model that is trained.
        options: How it differs from the model's preset.
    """

    name: str
    title: str
    model: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def config(self, request: Request, dataset: str, seed: int) -> RunConfig:
        """The run of this row on a data set."""
        return request.config(dataset, self.model, seed, **self.options)


ABLATIONS = (
    Variant("without-separation", "w/o Separ.", "ncgcn", {"model.separation": "none"}),
    Variant(
        "without-message-separation",
        "w/o Mess. Separ.",
        "ncgcn",
        {"model.separation": "target-only"},
    ),
    Variant(
        "nh-separation",
        "NH Separ.",
        "ncgcn",
        {"model.guidance": "nh", "model.threshold": 0.5},
    ),
    Variant("three-hops", "NCGCN (k=3)", "ncgcn", {"model.hops": 3}),
)
_BY_NAME = {variant.name: variant for variant in ABLATIONS}


def variants(names: tuple[str, ...]) -> list[Variant]:
    """Rows by name: models of the registry and ablations.

    Raises:
        UnknownNameError: A name is neither.
    """
    known = model_names()
    found: list[Variant] = []
    for name in names:
        if name in _BY_NAME:
            found.append(_BY_NAME[name])
        elif name in known:
            found.append(Variant(name, model_title(name), name))
        else:
            raise UnknownNameError("model", name, [*known, *_BY_NAME])
    return found


METHODS = (
    *("mlp", "gcn", "sage", "gat", "h2gcn", "gprgnn", "fagcn", "acmgcn", "cpgnn", "wrgat"),
    *("gbksage", "hog", "glognn", "sngnn", "cagnn", "ncgcn", "ncsage"),
)


@dataclass(frozen=True)
class Entry:
    """One method on one data set.

    Attributes:
        test: Test accuracy over seeds.
        val: Validation accuracy, by which epochs and parameters were chosen.
        macro_f1: On test nodes.
        seeds: The seeds.
    """

    test: Spread
    val: Spread
    macro_f1: Spread
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class GraphFacts:
    """What the head of the table says of a data set.

    Attributes:
        classes: Number of classes.
        nodes: Number of nodes.
        nh: Mean node homophily of closed neighbourhoods.
        nc: Mean Neighborhood Confusion with one and with two hops.
    """

    classes: int
    nodes: int
    nh: float
    nc: tuple[float, float]


@dataclass(frozen=True)
class AccuracyTable:
    """Numbers of the table.

    Attributes:
        table: Name of the printed table that stands beside it.
        split: The one split family.
        datasets: Columns.
        rows: Methods and ablations.
        facts: Of every data set that is at hand.
        entries: By row and data set; a cell without finished runs is not in it.
        majority: Test accuracy of always answering the commonest class, by data set: the mean
            over all seeds that some row has there.
        missing: Names of runs that are not finished.
    """

    table: str
    split: str
    datasets: tuple[str, ...]
    rows: tuple[Variant, ...]
    facts: dict[str, GraphFacts]
    entries: dict[tuple[str, str], Entry]
    majority: dict[str, float]
    missing: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Everything as numbers and texts, for JSON."""
        return {
            "facts": {name: asdict(facts) for name, facts in self.facts.items()},
            "rows": [
                {"row": row, "dataset": dataset, "paper": self.paper(row, dataset), **asdict(entry)}
                for (row, dataset), entry in self.entries.items()
            ],
            "majority": self.majority,
            "missing": list(self.missing),
        }

    def paper(self, row: str, dataset: str) -> Printed | None:
        """What is printed for a cell, if it was measured with the same split family."""
        if printed_split(self.table, dataset) != self.split:
            return None
        return printed(self.table, row, dataset)

    def leaders(self, dataset: str) -> tuple[frozenset[str], frozenset[str]]:
        """The best methods on a data set by test accuracy, and the second best.

        Other seeds are other splits, so that nothing is the best where methods have different
        ones. Ablations do not take part; what is printed alike is alike.
        """
        out = {variant.name for variant in ABLATIONS}
        there = {
            row.name: self.entries[row.name, dataset]
            for row in self.rows
            if row.name not in out and (row.name, dataset) in self.entries
        }
        if len({entry.seeds for entry in there.values()}) > 1:
            return frozenset(), frozenset()
        shown = {name: round(100 * entry.test.mean, 2) for name, entry in there.items()}
        values = [*sorted(set(shown.values()), reverse=True), None, None]
        best, second = (frozenset(n for n, v in shown.items() if v == one) for one in values[:2])
        return best, second


@dataclass(frozen=True)
class AccuracyTarget:
    """A table of accuracies; satisfies :class:`ncgnn.experiments._request.Target`."""

    name: str
    title: str
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    kind: Literal["table", "figure"] = "table"
    split: str = "paper"
    printed: str | None = None

    def cells(self, request: Request) -> list[RunConfig]:
        """Every row on every data set with every seed."""
        return [
            row.config(request, dataset, seed)
            for dataset in request.datasets
            for row in variants(request.models)
            for seed in request.seeds
        ]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> AccuracyTable:
        """The table from finished runs."""
        rows = tuple(variants(request.models))
        entries: dict[tuple[str, str], Entry] = {}
        majority: dict[str, float] = {}
        missing: list[str] = []
        for dataset in request.datasets:
            shares: dict[int, float] = {}
            for row in rows:
                names = [row.config(request, dataset, seed).name for seed in request.seeds]
                found = [runs[name] for name in names if name in runs]
                missing += [name for name in names if name not in runs]
                found = [run for run in found if "test" in run.result["scores"]]
                if found:
                    entries[row.name, dataset] = _entry(found)
                    shares |= {
                        run.config.training.seed: float(run.result["majority_baseline"])
                        for run in found
                    }
            if shares:
                majority[dataset] = Spread.of(list(shares.values())).mean
        return AccuracyTable(
            self.printed or self.name,
            request.split,
            request.datasets,
            rows,
            {
                name: facts
                for name in request.datasets
                if (facts := _facts(name, request)) is not None
            },
            entries,
            majority,
            tuple(missing),
        )


def _entry(runs: Sequence[RunResult]) -> Entry:
    def over(part: str, score: str) -> Spread:
        return Spread.of([float(run.result["scores"][part][score]) for run in runs])

    seeds = tuple(sorted(run.config.training.seed for run in runs))
    return Entry(over("test", "accuracy"), over("val", "accuracy"), over("test", "macro_f1"), seeds)


def _facts(dataset: str, request: Request) -> GraphFacts | None:
    """What is measured on the graph; None where only its scores are at hand."""
    from ncgnn.data import load
    from ncgnn.metrics import mean, neighborhood_confusion, node_homophily

    try:
        graph = load(dataset, request.data_dir, download=False)
    except DataNotFoundError:
        return None
    nc = [mean(neighborhood_confusion(graph, hops=hops)) for hops in (1, 2)]
    homophily = mean(node_homophily(graph, neighborhood="closed"))
    return GraphFacts(graph.num_classes, graph.num_nodes, homophily, (nc[0], nc[1]))


TABLE1 = AccuracyTarget(
    "table1",
    "Test accuracy of all methods, with ablations",
    DATASETS,
    (*METHODS, *(variant.name for variant in ABLATIONS)),
)
TABLE2 = AccuracyTarget(
    "table2",
    "Test accuracy on large graphs (here transductive; the paper's protocol is inductive)",
    ("ogbn-arxiv", "flickr"),
    METHODS,
)
_CLASSIC = (
    *("tuned-gcn", "tuned-sage", "tuned-gat", "nctuned-gcn", "nctuned-sage"),
    *("mlp", "gcn", "sage", "ncgcn", "ncsage"),
)
CLASSIC_UNIFORM = AccuracyTarget(
    "classic-uniform",
    "Separated learning beside tuned classic models on the uniform split",
    ("photo", "computers", "coauthor-cs", "coauthor-physics"),
    _CLASSIC,
    split="uniform",
    printed="classic",
)
CLASSIC_PUBLISHED = AccuracyTarget(
    "classic-published",
    "Separated learning beside tuned classic models on published masks",
    ("chameleon-filtered", "squirrel-filtered"),
    _CLASSIC,
    split="published",
    printed="classic",
)


Line = tuple[str | Marked, ...]
#: Said where the paper's numbers are of other graphs than ours.
EARLIER_RELEASE = (
    "The paper's filtered graphs are an earlier release, with 864 (Chameleon) and 2,205 (Squirrel) "
    "nodes, so what stands beside it there is measured on another graph."
)


def accuracy_grid(table: AccuracyTable) -> Table:
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
    return Table(
        f"{table.table}, {table.split} split", ("", *table.datasets), tuple(lines), tuple(notes)
    )


def macro_f1_grid(table: AccuracyTable) -> Table:
    """Macro-F1 of the same runs, which the paper does not print."""
    lines = tuple(
        (row.title, *(_macro(table, row.name, name) for name in table.datasets))
        for row in table.rows
    )
    title = f"{table.table}, {table.split} split: macro-F1"
    return Table(title, ("", *table.datasets), lines)


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


def leaderboard_grid(table: LeaderboardTable) -> Table:
    """What others report of their own methods, then our runs and the paper's."""
    ours = table.ours
    lines: list[Line] = [
        (model_title(name), *(printed_text(table.quoted(name, d)) for d in ours.datasets))
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
    return Table(f"leaderboard, our {ours.split} split", ("", *ours.datasets), tuple(lines), notes)
