"""What all figures of the paper rest on: their cells, and what is kept of finished ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.errors import InputError
from ncgnn.experiments._names import short_names
from ncgnn.experiments._request import DATASETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from ncgnn.experiments._request import Request, Target
    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig, RunResult, Spread


@dataclass(frozen=True)
class FigureData:
    """The numbers of a figure.

    Attributes:
        missing: Names of runs (or data sets, where a figure needs no runs) that it lacks.
    """

    missing: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Everything as numbers, texts, tuples and dictionaries, for JSON."""
        return asdict(self)


def filled(target: Target, request: Request) -> Request:
    """The request with the target's own data sets and models where it names none."""
    return replace(
        request,
        datasets=tuple(dict.fromkeys(request.datasets or target.datasets)),
        models=tuple(dict.fromkeys(request.models or target.models)),
        seeds=tuple(dict.fromkeys(request.seeds)),
    )


class OneModelFigure(ABC):
    """A figure of one separated model on several data sets; satisfies ``Target`` with a name."""

    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = ("ncgcn",)
    name: str
    title: str

    def cells(self, request: Request) -> list[RunConfig]:
        """One run per data set and seed."""
        request = filled(self, request)
        model = separated_model(self, request)
        return [
            request.config(dataset, model, seed)
            for dataset in request.datasets
            for seed in request.seeds
        ]

    @abstractmethod
    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> Any:
        """Its numbers; each figure has its own."""

    def found(
        self, request: Request, runs: Mapping[str, RunResult]
    ) -> tuple[tuple[str, ...], str, dict[str, list[RunResult]]]:
        """Names of missing runs, the model, and the finished runs of every data set with some."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        # A cell knows a file by its whole path, which need not be how the request names it.
        by_dataset = {
            dataset: present(self.cells(replace(request, datasets=(dataset,))), runs)
            for dataset in request.datasets
        }
        return missing, request.models[0], {d: found for d, found in by_dataset.items() if found}


def one_model(target: Target, request: Request) -> str:
    """The only model of a figure that shows one."""
    if len(request.models) != 1:
        raise InputError(
            f"figure {target.name} shows one model, but {len(request.models)} were named "
            f"({', '.join(request.models)}); name one."
        )
    return request.models[0]


def separated_model(target: Target, request: Request) -> str:
    """The only model of a figure that shows how nodes are separated by NC."""
    from ncgnn.nn import model_class

    model = one_model(target, request)
    if "hops" not in model_class(model).Options.model_fields:
        raise InputError(
            f"figure {target.name} shows how NC separates nodes, which {model} does not do; "
            "name a separated model, such as ncgcn."
        )
    if request.config(request.datasets[0], model, 0).model.options["guidance"] != "nc":
        raise InputError(f"figure {target.name} shows NC; leave model.guidance at nc.")
    return model


def present(cells: Iterable[RunConfig], runs: Mapping[str, RunResult]) -> list[RunResult]:
    """The finished ones of some cells."""
    return [runs[cell.name] for cell in cells if cell.name in runs]


def missing_cells(
    target: Target, cells: Sequence[RunConfig], runs: Mapping[str, RunResult]
) -> tuple[str, ...]:
    """Names of the cells that are not finished; complains if none is."""
    missing = tuple(cell.name for cell in cells if cell.name not in runs)
    if len(missing) == len(cells):
        raise InputError(
            f"figure {target.name}: none of its {len(cells)} runs is finished; train them first."
        )
    return missing


def short_name(request: Request, dataset: str) -> str:
    """What a figure calls a data set: its name, or as much of its path as tells it from others."""
    names = short_names((*request.datasets, dataset))
    short = names[dataset].removesuffix(".npz")
    return names[dataset] if short in names.values() else short


def spread(values: Iterable[float | None]) -> Spread | None:
    """Mean and deviation of the values that there are; None where there are none."""
    from ncgnn.training import Spread

    known = [value for value in values if value is not None]
    return Spread.of(known) if known else None


def graph_of(runs: Sequence[RunResult], dataset: str, data_dir: Path | None) -> Graph:
    """The graph that runs were trained on.

    Raises:
        InputError: It is another one now.
    """
    from ncgnn.data import load
    from ncgnn.graph._fingerprint import fingerprint
    from ncgnn.training._folder import ENVIRONMENT, RunFolder

    graph = load(dataset, data_dir)
    now = fingerprint(graph)
    for run in runs:
        if RunFolder(run.folder).read_json(ENVIRONMENT).get("graph_sha256") != now:
            raise InputError(f"{dataset} has changed since {run.folder} was trained on it.")
    return graph


def evaluated_part(runs: Sequence[RunResult]) -> str:
    """Which nodes the accuracies of runs speak of: ``val`` where a split has no test nodes."""
    return "test" if all("test" in run.result["scores"] for run in runs) else "val"


def evaluated_nodes(run: RunResult) -> NDArray[np.int64]:
    """The nodes that the accuracies of a run speak of."""
    from ncgnn.data import Split
    from ncgnn.training._folder import SPLIT

    split = Split.load(run.folder / SPLIT)
    return split.test if len(split.test) else split.val


def answers(run: RunResult, data_dir: Path | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The nodes that the accuracies of a run speak of, and whether its model is right there."""
    from ncgnn.training import load_run

    trained, nodes = load_run(run.folder, data_dir), evaluated_nodes(run)
    predicted = trained.probabilities().argmax(1)
    return nodes, predicted[nodes] == trained.graph.labels[nodes]


def share(members: NDArray[np.bool_]) -> float | None:
    """The share of True; None of nothing."""
    return float(members.mean()) if len(members) else None
