"""The smaller tables of the paper's appendix, ours beside the paper's.

How many nodes have a twin: the appendix' table of duplicates.

Time per epoch and per run of all methods: the appendix' table of efficiency.

Our runs beside what other papers report of their own methods: the appendix' leaderboard.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.paper.accuracy import (
    EARLIER_RELEASE,
    METHODS,
    AccuracyTable,
    AccuracyTarget,
    Line,
    Variant,
    printed_text,
    variants,
)
from ncgnn.paper.request import (
    DATASETS,
    Printed,
    Request,
    chosen_options,
    defaults,
    printed,
    published,
)
from ncgnn.report import Table
from ncgnn.training import TIMING, RunFolder, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.paper.request import Request
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


HIDDEN, LAYERS = 64, 2
REFERENCE = "gcn"
#: The data set of the paper's numbers.
PRINTED = "pubmed"


@dataclass(frozen=True)
class Cost:
    """What a method costs on a data set.

    Attributes:
        epoch: Seconds per epoch, with its evaluations: the median of a run, so that what the first
            run of a process takes longer does not count.
        run: Seconds per run.
    """

    epoch: Spread
    run: Spread


@dataclass(frozen=True)
class EfficiencyTable:
    """Costs of methods on one data set or several.

    Attributes:
        datasets: Data sets.
        rows: Methods.
        costs: By method and data set.
        missing: Names of runs that are not finished.
        size: Width and depth, in words.
    """

    datasets: tuple[str, ...]
    rows: tuple[Variant, ...]
    costs: dict[tuple[str, str], Cost]
    missing: tuple[str, ...]
    size: str

    def plain(self) -> dict[str, Any]:
        """Everything as numbers and texts, for JSON."""
        return {
            "rows": [
                {
                    "row": row,
                    "dataset": dataset,
                    "multiple": self.multiple(row, dataset),
                    "paper_multiple": self.paper_multiple(row, dataset),
                    **asdict(cost),
                }
                for (row, dataset), cost in self.costs.items()
            ],
            "missing": list(self.missing),
        }

    def multiple(self, method: str, dataset: str) -> float | None:
        """Time per epoch as a multiple of GCN's."""
        own, reference = (self.costs.get((name, dataset)) for name in (method, REFERENCE))
        return None if own is None or reference is None else own.epoch.mean / reference.epoch.mean

    def paper_multiple(self, method: str, dataset: str) -> float | None:
        """The same in the paper, which measured on Pubmed alone, on a GPU."""
        if dataset != PRINTED:
            return None
        own, reference = (printed("efficiency", name, "epoch") for name in (method, REFERENCE))
        if isinstance(own, tuple) and isinstance(reference, tuple):
            return own[0] / reference[0]
        return None


@dataclass(frozen=True)
class EfficiencyTarget:
    """Satisfies :class:`ncgnn.experiments._request.Target`."""

    name: str = "efficiency"
    title: str = "Time per epoch and per run, 64 hidden units, 2 layers"
    datasets: tuple[str, ...] = (PRINTED,)
    models: tuple[str, ...] = METHODS
    sets_options: bool = True
    kind: Literal["table", "figure"] = "table"

    def cells(self, request: Request) -> list[RunConfig]:
        """Every method at the same width and depth."""
        return [
            row.config(request, dataset, seed)
            for dataset in request.datasets
            for row in _rows(request)
            for seed in request.seeds
        ]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> EfficiencyTable:
        """Times from finished runs."""
        rows = _rows(request)
        costs: dict[tuple[str, str], Cost] = {}
        missing: list[str] = []
        for dataset in request.datasets:
            for row in rows:
                names = [row.config(request, dataset, seed).name for seed in request.seeds]
                found = [runs[name] for name in names if name in runs]
                missing += [name for name in names if name not in runs]
                if found:
                    costs[row.name, dataset] = Cost(
                        Spread.of([epoch_seconds(run) for run in found]),
                        Spread.of([run.seconds for run in found]),
                    )
        given = {"hidden": HIDDEN, "layers": LAYERS} | chosen_options(request)
        size = f"{given['hidden']} hidden units, {given['layers']} layers"
        return EfficiencyTable(request.datasets, tuple(rows), costs, tuple(missing), size)


def _rows(request: Request) -> list[Variant]:
    return [
        replace(row, options=row.options | sized(request, row.model))
        for row in variants(request.models)
    ]


def epoch_seconds(run: RunResult) -> float:
    """Seconds of a usual epoch of a run."""
    return float(RunFolder(run.folder).read_json(TIMING)["seconds_per_epoch"])


def sized(request: Request, model: str) -> dict[str, Any]:
    """Width and depth of the paper's comparison, where the model has them."""
    return defaults(request, model, hidden=HIDDEN, layers=LAYERS)


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


def duplication_grid(table: DuplicationTable) -> Table:
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
    return Table("duplication", ("", *table.datasets), tuple(lines), tuple(notes))


def efficiency_grid(table: EfficiencyTable) -> Table:
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
    return Table(f"efficiency, {table.size}", head, tuple(lines), notes, left=2)
