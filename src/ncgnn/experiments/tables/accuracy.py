"""Accuracy of all methods on all data sets: the paper's main table, and that of large graphs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.errors import DataNotFoundError
from ncgnn.experiments._published import Printed, printed, printed_split
from ncgnn.experiments._request import DATASETS, Request
from ncgnn.experiments.tables._variants import ABLATIONS, Variant, variants
from ncgnn.training import Spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncgnn.training import RunConfig, RunResult

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
