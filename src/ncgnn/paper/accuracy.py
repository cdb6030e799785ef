"""Tables of accuracy, ours beside what papers print: the main table, large graphs, leaderboard."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ncgnn.data import load
from ncgnn.errors import DataNotFoundError, UnknownNameError
from ncgnn.metrics import mean, neighborhood_confusion, node_homophily
from ncgnn.nn import model_names
from ncgnn.paper.printed import (
    ABOUT_EARLIER,
    DATASETS,
    EARLIER,
    OTHER_GRAPHS,
    RELATIVES,
    model_title,
    printed,
    printed_split,
    printed_text,
    published,
)
from ncgnn.paper.targets import Row, Target
from ncgnn.report import Marked, Table, percent
from ncgnn.training import Spread, is_current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.graph import Graph
    from ncgnn.paper.printed import Printed
    from ncgnn.paper.targets import Request, Runs
    from ncgnn.report import Cell
    from ncgnn.training import RunResult

    Line = tuple[Cell, ...]

METHODS = (
    *("mlp", "gcn", "sage", "gat", "h2gcn", "gprgnn", "fagcn", "acmgcn", "cpgnn", "wrgat"),
    *("gbksage", "hog", "glognn", "sngnn", "cagnn", "ncgcn", "ncsage"),
)
_ALONE: dict[str, Any] = {"model.grouped": False}
#: A separated model with all its channels and nobody in the high group: what grouping does is the
#: difference to this control, and not to a model without separation, which has fewer channels.
CONTROLS = {
    row.name: row
    for row in (
        Row("ncgcn-nobody-high", "ncgcn", "NCGCN, nobody high", _ALONE),
        Row("ncsage-nobody-high", "ncsage", "NCSAGE, nobody high", _ALONE),
        Row("nctuned-gcn-nobody-high", "nctuned-gcn", "NCTunedGCN, nobody high", _ALONE),
        Row("nctuned-sage-nobody-high", "nctuned-sage", "NCTunedSAGE, nobody high", _ALONE),
    )
}
#: NCGCN with a part taken away or changed.
ABLATIONS = {
    row.name: row
    for row in (
        Row("without-separation", "ncgcn", "w/o Separ.", {"model.separation": "none"}),
        Row(
            "without-message-separation",
            "ncgcn",
            "w/o Mess. Separ.",
            {"model.separation": "target-only"},
        ),
        Row(
            "nh-separation",
            "ncgcn",
            "NH Separ.",
            {"model.guidance": "nh", "model.threshold": 0.5},
        ),
        Row("three-hops", "ncgcn", "NCGCN (k=3)", {"model.hops": 3}),
    )
}
#: Separated models, and what each is built on.
BACKBONES = {"ncgcn": "gcn", "ncsage": "sage"}
#: Rows about the size of a graph.
_SIZES = ("classes", "features", "nodes", "edges")


_CHANGED = CONTROLS | ABLATIONS


def rows_by_name(names: Sequence[str]) -> list[Row]:
    """Rows of models of the registry, of controls and of ablations.

    Raises:
        UnknownNameError: A name is none of them.
    """
    known = [*model_names(), *_CHANGED]
    for name in names:
        if name not in known:
            raise UnknownNameError("model", name, known)
    return [_CHANGED.get(name) or Row(name, name, model_title(name)) for name in names]


@dataclass(frozen=True)
class Entry:
    """One method on one dataset: accuracies, and macro-F1 on test nodes, over seeds.

    Runs of an earlier revision of a model count where there are no others, and are told.

    Attributes:
        by_seed: Test accuracy of every seed.
        earlier: Whether they are runs of an earlier revision.
    """

    test: Spread
    val: Spread
    macro_f1: Spread
    seeds: tuple[int, ...]
    by_seed: dict[int, float]
    earlier: bool = False


@dataclass(frozen=True)
class GraphFacts:
    """What the head of the table says of a dataset: its size, and means over nodes.

    Edges are pairs of joined nodes, whatever their direction. NH is that of closed neighborhoods,
    NC is given for one and for two hops.
    """

    classes: int
    features: int
    nodes: int
    edges: int
    nh: float
    nc: tuple[float, float]


@dataclass(frozen=True)
class AccuracyTable:
    """Numbers of the table.

    Attributes:
        table: Name of the printed table that stands beside it.
        facts: Of every dataset that is at hand.
        entries: By row and dataset; a cell without finished runs is not in it.
        majority: Test accuracy of always answering the commonest class, by dataset: the mean
            over all seeds that some row has there.
    """

    table: str
    split: str
    datasets: tuple[str, ...]
    rows: tuple[Row, ...]
    facts: dict[str, GraphFacts]
    entries: dict[tuple[str, str], Entry]
    majority: dict[str, float]

    @property
    def most_seeds(self) -> int:
        """The number of seeds of the cell that has most."""
        return max((len(entry.seeds) for entry in self.entries.values()), default=0)

    def paper(self, row: str, dataset: str) -> Printed | None:
        """What is printed for a cell, if it was measured with the same split family."""
        if printed_split(self.table, dataset) != self.split:
            return None
        return printed(self.table, row, dataset)

    def leaders(self, dataset: str) -> tuple[frozenset[str], frozenset[str]]:
        """The best methods on a dataset by test accuracy, and the second best.

        Other seeds are other splits, so that nothing is the best where methods have different
        ones, or where some are of an earlier revision. Controls and ablations do not take part;
        what is printed alike is alike.
        """
        there = {
            row.name: self.entries[row.name, dataset]
            for row in self.rows
            if row.name not in _CHANGED and (row.name, dataset) in self.entries
        }
        if len({(entry.seeds, entry.earlier) for entry in there.values()}) > 1:
            return frozenset(), frozenset()
        shown = {name: round(100 * entry.test.mean, 2) for name, entry in there.items()}
        values = [*sorted(set(shown.values()), reverse=True), None, None]
        best, second = (frozenset(n for n, v in shown.items() if v == one) for one in values[:2])
        return best, second


class AccuracyTarget(Target[AccuracyTable]):
    """A table of accuracies; ``printed`` names the printed table that stands beside it."""

    kind = "table"
    models = METHODS
    printed: str

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """Models and ablations as they are."""
        return rows_by_name(request.models)

    def collect(self, request: Request, runs: Runs) -> AccuracyTable:
        """The table from finished runs."""
        entries: dict[tuple[str, str], Entry] = {}
        majority: dict[str, float] = {}
        for dataset in request.datasets:
            shares: dict[int, float] = {}
            for row, found in self.finished(request, dataset, runs):
                if tested := [run for run in found if "test" in run.result["scores"]]:
                    entries[row.name, dataset] = _entry(tested)
                    shares |= {
                        run.config.training.seed: float(run.result["majority_baseline"])
                        for run in tested
                    }
            if shares:
                majority[dataset] = Spread.of(list(shares.values())).mean
        facts = {name: _facts(name, request) for name in request.datasets}
        return AccuracyTable(
            self.printed,
            request.split,
            request.datasets,
            tuple(rows_by_name(request.models)),
            {name: known for name, known in facts.items() if known is not None},
            entries,
            majority,
        )

    def plain(self, data: AccuracyTable) -> dict[str, Any]:
        """Every cell with what is printed for it."""
        return {
            "facts": {name: asdict(facts) for name, facts in data.facts.items()},
            "rows": [
                {"row": row, "dataset": dataset, "paper": data.paper(row, dataset), **asdict(entry)}
                for (row, dataset), entry in data.entries.items()
            ],
            "majority": data.majority,
        }

    def tables(self, data: AccuracyTable) -> list[Table]:
        """Accuracy, the gain over backbones, and macro-F1, which the paper does not print."""
        lines = tuple((row.title, *_macro_f1(data, row)) for row in data.rows)
        title = f"{data.table}, {data.split} split: macro-F1"
        gains = gain_table(data)
        return [
            _accuracy_table(data),
            *([] if gains is None else [gains]),
            Table(title, ("", *data.datasets), lines, (ABOUT_EARLIER,) * _is_marked(lines)),
        ]


class Table1(AccuracyTarget):
    """The paper's main table."""

    name = printed = "table1"
    title = "Test accuracy of all methods, with ablations"
    models = (*METHODS, "ncgcn-nobody-high", "ncsage-nobody-high", *ABLATIONS)


class Table2(AccuracyTarget):
    """The paper's table of large graphs, where models are trained without nodes that they answer.

    HOG has weights for pairs of nodes and cannot be asked about others. GloGNN and SNGNN can, with
    an option that leaves out the weights that they have for every node.
    """

    name = printed = "table2"
    title = "Test accuracy on large graphs, trained on the subgraph of training nodes (inductive)"
    datasets = ("ogbn-arxiv", "flickr")
    models = tuple(name for name in METHODS if name != "hog")

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """Models with the inductive protocol, which no setting changes."""
        return [
            replace(row, options={**row.options, **_INDUCTIVE, **_UNTIED.get(row.model, {})})
            for row in super().rows(request, dataset)
        ]

    def tables(self, data: AccuracyTable) -> list[Table]:
        """Those of all tables of accuracy, which say the protocol."""
        untied = [row.title for row in data.rows if row.model in _UNTIED]
        note = f"{' and '.join(untied)} without weights of their own for every node."
        return [
            replace(
                table,
                title=table.title.replace(" split", " split, inductive", 1),
                notes=(*table.notes, *([note] if untied else [])),
            )
            for table in super().tables(data)
        ]


_INDUCTIVE = {"data.protocol": "inductive"}
_UNTIED: dict[str, dict[str, Any]] = {
    "sngnn": {"model.variant": "plus"},
    "glognn": {"model.delta": 1.0},
}


class ClassicPublished(AccuracyTarget):
    """Tuned classic models on the published masks of the filtered graphs."""

    name, printed, split = "classic-published", "classic", "published"
    title = "Separated learning beside tuned classic models on published masks"
    datasets = ("chameleon-filtered", "squirrel-filtered")
    models = (
        *("tuned-gcn", "tuned-sage", "tuned-gat", "nctuned-gcn", "nctuned-sage"),
        *("mlp", "gcn", "sage", "ncgcn", "ncsage", *CONTROLS),
    )


class ClassicUniform(ClassicPublished):
    """Tuned classic models on the one uniform split of their authors."""

    name, split = "classic-uniform", "uniform"
    title = "Separated learning beside tuned classic models on the uniform split"
    datasets = ("photo", "computers", "coauthor-cs", "coauthor-physics")


class Leaderboard(AccuracyTarget):
    """The appendix' leaderboard: what other papers report of their own methods, and our runs."""

    name, printed = "leaderboard", "table1"
    title = "Our runs beside what other papers report (their splits differ)"
    datasets = (
        *("pubmed", "photo", "computers", "coauthor-cs", "coauthor-physics", "cora-full", "actor"),
    )
    models = ("ncgcn", "ncsage")

    def plain(self, data: AccuracyTable) -> dict[str, Any]:
        """Our cells, and all that others report."""
        return super().plain(data) | {"others": published("leaderboard")}

    def tables(self, data: AccuracyTable) -> list[Table]:
        """What others report of their own methods, then our runs and the paper's."""
        lines: list[Line] = []
        for name in published("leaderboard"):
            quoted = [printed_text(printed("leaderboard", name, d)) for d in data.datasets]
            lines += [(model_title(name), *quoted)] if any(quoted) else []
        lines.append(())
        for row in data.rows:
            ours = [data.entries.get((row.name, dataset)) for dataset in data.datasets]
            cells = ("" if e is None else f"{percent(e.test)} ({len(e.seeds)})" for e in ours)
            lines.append((f"{row.title}, ours", *cells))
            lines.append(("  macro-F1", *_macro_f1(data, row)))
            paper = [printed_text(data.paper(row.name, d)) for d in data.datasets]
            lines += [("  paper", *paper)] if any(paper) else []
        lines += [(), _majority_line(data)]
        note = (
            "Others as their authors report, with splits of their own, so that nothing is ranked; "
            "ours by runs, with the number of seeds in brackets."
        )
        title = f"leaderboard, our {data.split} split"
        return [Table(title, ("", *data.datasets), tuple(lines), (note,))]


def _entry(runs: Sequence[RunResult]) -> Entry:
    def over(part: str, score: str) -> Spread:
        return Spread.of([float(run.result["scores"][part][score]) for run in runs])

    now = [run for run in runs if is_current(run.config.model.model_dump(), run.result)]
    runs, earlier = now or runs, not now
    by_seed = {
        run.config.training.seed: float(run.result["scores"]["test"]["accuracy"]) for run in runs
    }
    scores = over("test", "accuracy"), over("val", "accuracy"), over("test", "macro_f1")
    return Entry(*scores, tuple(sorted(by_seed)), by_seed, earlier)


def _facts(dataset: str, request: Request) -> GraphFacts | None:
    """What is measured on the graph; None where only its scores are at hand."""
    try:
        graph = load(dataset, request.data_dir, download=False)
    except DataNotFoundError:
        return None
    nc = [mean(neighborhood_confusion(graph, hops=hops)) for hops in (1, 2)]
    homophily = mean(node_homophily(graph, neighborhood="closed"))
    sizes = (graph.num_classes, graph.num_features, graph.num_nodes, _count_pairs(graph))
    return GraphFacts(*sizes, homophily, (nc[0], nc[1]))


def _count_pairs(graph: Graph) -> int:
    """Pairs of joined nodes, each counted once whatever its direction; self-loops are none."""
    if not graph.is_directed:
        return (graph.num_entries - graph.num_self_loops) // 2
    adjacency = graph.to_scipy()
    both: Any = adjacency + adjacency.T
    return (int(both.nnz) - graph.num_self_loops) // 2


def _accuracy_table(data: AccuracyTable) -> Table:
    """Methods by rows, datasets by columns; below each method what is printed."""
    lines: list[Line] = [*_graph_lines(data), ()] if data.facts else []
    for row in data.rows:
        lines.append((row.title, *(_accuracy_cell(data, row.name, name) for name in data.datasets)))
        beside = [printed_text(data.paper(row.name, name)) for name in data.datasets]
        whose = "  published" if data.table == "classic" else "  paper"
        lines += [(whose, *beside)] if any(beside) else []
    lines += [(), _majority_line(data)]
    most = data.most_seeds
    notes = [
        "Test accuracy at the best validation epoch, mean ± sample standard deviation over "
        f"{most} seed{'' if most == 1 else 's'}, or as many as stand in brackets, percent. The "
        "best and the second best of a column are marked where all methods have the same seeds; "
        "controls and ablations do not take part."
    ]
    filtered = [name for name in data.datasets if name in RELATIVES]
    beside = any(data.paper(row.name, name) is not None for row in data.rows for name in filtered)
    facts = data.table == "table1" and any(name in data.facts for name in filtered)
    if data.table != "classic" and (beside or facts):
        notes.append(OTHER_GRAPHS)
    if any(entry.earlier for entry in data.entries.values()):
        notes.append(ABOUT_EARLIER)
    title = f"{data.table}, {data.split} split"
    return Table(title, ("", *data.datasets), tuple(lines), tuple(notes))


def _graph_lines(data: AccuracyTable) -> list[Line]:
    """Facts of the graphs, which do not depend on splits, and what the paper prints of them."""
    texts = {
        name: (
            *(f"{one:,}" for one in (f.classes, f.features, f.nodes, f.edges)),
            *(f"{one:.2f}" for one in (f.nh, *f.nc)),
        )
        for name, f in data.facts.items()
    }
    lines: list[Line] = []
    rows = {key: key for key in _SIZES}
    rows |= {"NH": "nh", "NC (k=1)": "nc-1", "NC (k=2)": "nc-2"}
    for place, (title, row) in enumerate(rows.items()):
        lines.append((title, *(texts[n][place] if n in texts else "" for n in data.datasets)))
        paper = [_printed_fact(row, name) for name in data.datasets]
        lines += [("  paper", *paper)] if data.table == "table1" and any(paper) else []
    return lines


def _printed_fact(row: str, dataset: str) -> str:
    """A size or mean of a graph as the paper prints it; nothing where it prints none."""
    value = printed("graphs", row, dataset)
    if row in _SIZES and isinstance(value, tuple):
        return f"{value[0]:,.0f}"
    return printed_text(value)


def gain_table(data: AccuracyTable) -> Table | None:
    """By how many percent separated models are above their backbones, as the paper averages it.

    The gain is relative, so that a point counts for more where accuracy is low. A column without
    numbers counts as no gain in the paper's mean: its 4.54 for GraphSAGE, which ran out of memory
    on one of ten graphs, is the sum of nine gains over ten. None beside other tables than its own.
    """
    lines: list[Line] = []
    if data.table != "table1":
        return None
    for name, backbone in BACKBONES.items():
        title = f"{model_title(name)} over {model_title(backbone)}"
        ours = [_gain(data, name, backbone, dataset) for dataset in data.datasets]
        known = [gain for gain in ours if gain is not None]
        if known:
            pairs = [[data.entries.get((m, d)) for m in (name, backbone)] for d in data.datasets]
            cells = [
                "" if gain is None else f"{gain:+.2f}{_mark(*pair)}"
                for gain, pair in zip(ours, pairs, strict=True)
            ]
            mean = f"{sum(known) / len(known):+.2f} ({len(known)})"
            lines.append((title, *cells, f"{mean}{_mark(*(e for pair in pairs for e in pair))}"))
        theirs = [_printed_gain(data, name, backbone, dataset) for dataset in data.datasets]
        if known and any(gain is not None for gain in theirs):
            cells = ["" if gain is None else f"{gain:+.2f}" for gain in theirs]
            lines.append(("  paper", *cells, f"{_printed_mean(name, backbone):+.2f} (10)"))
    if not lines:
        return None
    note = (
        "Relative gain of mean test accuracy in percent, over the seeds that both have; the mean "
        "with the number of graphs in brackets. The paper's mean is over its ten graphs, where one "
        "that a backbone does not fit on counts as no gain; it prints 8.04 and 4.54."
    )
    title = f"{data.table}, {data.split} split: gain over backbones"
    notes = (note, ABOUT_EARLIER) if _is_marked(lines) else (note,)
    return Table(title, ("", *data.datasets, "mean"), tuple(lines), notes)


def _mark(*entries: Entry | None) -> str:
    """What stands behind a number that is of an earlier revision of a model."""
    return f" {EARLIER}" if any(one is not None and one.earlier for one in entries) else ""


def _is_marked(lines: Sequence[Line]) -> bool:
    return any(isinstance(cell, str) and EARLIER in cell for line in lines for cell in line)


def _gain(data: AccuracyTable, name: str, backbone: str, dataset: str) -> float | None:
    """In percent, over the seeds of both; None without such."""
    mine, theirs = data.entries.get((name, dataset)), data.entries.get((backbone, dataset))
    if mine is None or theirs is None:
        return None
    seeds = mine.by_seed.keys() & theirs.by_seed.keys()
    below = sum(theirs.by_seed[seed] for seed in seeds)
    return 100 * (sum(mine.by_seed[seed] for seed in seeds) / below - 1) if below else None


def _printed_gain(data: AccuracyTable, name: str, backbone: str, dataset: str) -> float | None:
    return _relative(data.paper(name, dataset), data.paper(backbone, dataset))


def _printed_mean(name: str, backbone: str) -> float:
    """The paper's mean over its graphs."""
    pairs = [(printed("table1", name, one), printed("table1", backbone, one)) for one in DATASETS]
    return sum(_relative(*pair) or 0.0 for pair in pairs) / len(pairs)


def _relative(value: Printed | None, base: Printed | None) -> float | None:
    if not isinstance(value, tuple) or not isinstance(base, tuple):
        return None
    return 100 * (value[0] / base[0] - 1)


def _majority_line(data: AccuracyTable) -> Line:
    return ("majority class", *(percent(data.majority.get(name)) for name in data.datasets))


def _accuracy_cell(data: AccuracyTable, row: str, dataset: str) -> Cell:
    entry = data.entries.get((row, dataset))
    if entry is None:
        return ""
    text = f"{percent(entry.test)}{_fewer_seeds(data, entry)}{_mark(entry)}"
    best, second = data.leaders(dataset)
    return Marked(text, "best" if row in best else "second" if row in second else "")


def _macro_f1(data: AccuracyTable, row: Row) -> list[str]:
    """Cells of a row."""
    entries = [data.entries.get((row.name, dataset)) for dataset in data.datasets]
    return [
        "" if one is None else f"{percent(one.macro_f1)}{_fewer_seeds(data, one)}{_mark(one)}"
        for one in entries
    ]


def _fewer_seeds(data: AccuracyTable, entry: Entry) -> str:
    """The number of seeds, where some cell has more."""
    return "" if len(entry.seeds) == data.most_seeds else f" ({len(entry.seeds)})"
