"""What the paper's figures have in common: small multiples, one legend, looks of models.

What all figures of the paper rest on: their cells, and what is kept of finished ones.

Which nodes a figure calls confused: one k and one T for all models of a data set.
"""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ncgnn.errors import InputError
from ncgnn.experiments import short_names
from ncgnn.paper.request import DATASETS, chosen_options
from ncgnn.report import GREY, STYLE, freeze_layout

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.paper.request import Request, Target
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
    from ncgnn.training import ENVIRONMENT, RunFolder

    graph = load(dataset, data_dir)
    now = graph.fingerprint
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
    from ncgnn.training import SPLIT

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


@dataclass(frozen=True)
class ConfusionRule:
    """Nodes whose NC within ``hops`` hops is above ``threshold`` are high.

    Attributes:
        hops: The hop count k.
        threshold: The threshold T.
    """

    hops: int
    threshold: float

    def confusion(self, graph: Graph) -> NDArray[np.float64]:
        """NC of the true labels."""
        from ncgnn.metrics import neighborhood_confusion

        return neighborhood_confusion(graph, hops=self.hops)

    def high(self, graph: Graph) -> NDArray[np.bool_]:
        """Whether each node's true NC is high."""
        from ncgnn.metrics import confusion_masks

        return confusion_masks(self.confusion(graph), self.threshold)[1]


#: The paper's observations on Coauthor CS are made with k and T of their own.
OBSERVED = {"coauthor-cs": ConfusionRule(2, 0.4)}


def preset_rule(request: Request, dataset: str) -> ConfusionRule:
    """NCGCN's k and T for a data set, or those that the request sets."""
    from ncgnn.experiments import file_for
    from ncgnn.training import make_config

    given = chosen_options(request)
    settings = {key: given[key] for key in ("hops", "threshold", "dropout") if key in given}
    file = file_for(request.files, dataset, "ncgcn")
    chosen = make_config(dataset=dataset, model="ncgcn", config=file, settings=settings)
    options = chosen.model.options
    if len(options["threshold"]) != 1:
        raise InputError("threshold: the figure divides nodes into low and high; give one number.")
    return ConfusionRule(int(options["hops"]), float(options["threshold"][0]))


def observed_rule(request: Request, dataset: str) -> ConfusionRule:
    """The k and T of the paper's observations where it states them, else NCGCN's."""
    given = chosen_options(request)
    if dataset in OBSERVED and not {"hops", "threshold"} & given.keys():
        return OBSERVED[dataset]
    return preset_rule(request, dataset)


#: Fewer evaluated nodes than these say little.
FEW_NODES = 5
_COLUMNS = 3
_LETTERS_PER_INCH = 19
_FOOTNOTE: ContextVar[str] = ContextVar("_FOOTNOTE", default="")


@contextmanager
def drawing(width: float, height: float) -> Generator[Figure]:
    """A figure in the style of the package, laid out when all is drawn."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        below = ". ".join(filter(None, (figure.get_supxlabel(), _FOOTNOTE.get())))
        if below:
            figure.supxlabel(_wrapped(below, width), x=0.99, ha="right", fontsize=7, color=GREY)
        freeze_layout(figure)


def _wrapped(text: str, width: float) -> str:
    """Lines of small letters that fit a figure of some inches."""
    return "\n".join(textwrap.wrap(text, int(width * _LETTERS_PER_INCH)))


@contextmanager
def footnote(text: str) -> Generator[None]:
    """Put a sentence below every figure that is drawn in the block."""
    before = _FOOTNOTE.set(text)
    try:
        yield
    finally:
        _FOOTNOTE.reset(before)


def multiples(
    count: int, panel: tuple[float, float] = (2.7, 2.1), above: float = 0.4
) -> tuple[float, float, int, int]:
    """Width and height of a figure of small multiples, with its rows and columns.

    Args:
        count: Number of panels.
        panel: Width and height of one.
        above: Height of the legend.
    """
    columns = {1: 1, 2: 2, 4: 2}.get(count, _COLUMNS)
    rows = -(-count // columns)
    wide = panel[0] * (1.6 if columns == 1 else 1.25 if columns == 2 else 1.0)
    tall = panel[1] * (1.3 if columns == 1 else 1.0)
    return wide * columns, tall * rows + above, rows, columns


def axes_of(figure: Figure, count: int, rows: int, columns: int) -> list[Axes]:
    """As many axes as there are panels, row by row."""
    return [figure.add_subplot(rows, columns, place + 1) for place in range(count)]


def outer_labels(axes: Sequence[Axes], columns: int, x: str, y: str) -> None:
    """Label the lowest panel of every column and the first one of every row."""
    for place, axis in enumerate(axes):
        if place + columns >= len(axes):
            axis.set_xlabel(x)
        if place % columns == 0:
            axis.set_ylabel(y)


def common_legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """One legend for all panels, above them, in some columns; every label once."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside upper left",
        frameon=False,
        ncols=min(columns, len(entries)),
        fontsize=8,
        handlelength=2.4,
    )


def panel_title(axis: Axes, text: str) -> None:
    """What a panel shows."""
    axis.set_title(text, fontsize=8.5, loc="left")


def say_missing(figure: Figure, missing: Sequence[str], noun: str = "run") -> None:
    """Say below the panels how much is missing, so that nobody takes them for complete."""
    if missing:
        say_below(figure, f"{len(missing)} {noun}{'' if len(missing) == 1 else 's'} missing")


def say_below(figure: Figure, text: str) -> None:
    """Add a sentence to those below the panels."""
    figure.supxlabel(". ".join(filter(None, (figure.get_supxlabel(), text))))


def whiskers(spreads: Sequence[Spread | None]) -> NDArray[np.float64]:
    """Deviations below and above mean accuracies [2, n]; they end where accuracy does."""
    mean = np.array([np.nan if s is None else s.mean for s in spreads])
    std = np.array([np.nan if s is None or s.std is None else s.std for s in spreads])
    return np.stack([np.minimum(std, mean), np.minimum(std, 1 - mean)])


def whisker_words(spreads: Iterable[Spread | None]) -> str:
    """What whiskers mean, where there are any."""
    several = any(spread is not None and spread.std is not None for spread in spreads)
    return "Whiskers: standard deviation over runs. " if several else ""
