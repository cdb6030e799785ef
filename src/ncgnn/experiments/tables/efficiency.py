"""Time per epoch and per run of all methods: the appendix' table of efficiency."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.experiments._published import printed
from ncgnn.experiments._request import chosen_options, defaults
from ncgnn.experiments.tables._variants import Variant, variants
from ncgnn.experiments.tables.accuracy import METHODS
from ncgnn.training import Spread
from ncgnn.training._folder import TIMING, RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig, RunResult

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
