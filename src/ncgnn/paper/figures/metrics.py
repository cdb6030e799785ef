"""The paper's figures of NH and NC: distributions of nodes, and what GCN makes of them.

How nodes are distributed by 1 - NH and by NC, data set by data set.

What theory says: entropy and error bound against NC.

Accuracy of GCN against NH, with the share of high-NC nodes that explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ncgnn.errors import DataNotFoundError, InputError
from ncgnn.paper.figures.parts import (
    FEW_NODES,
    FigureData,
    answers,
    axes_of,
    common_legend,
    drawing,
    evaluated_part,
    filled,
    graph_of,
    missing_cells,
    multiples,
    observed_rule,
    one_model,
    outer_labels,
    panel_title,
    present,
    preset_rule,
    say_below,
    say_missing,
    share,
    short_name,
    spread,
    whisker_words,
    whiskers,
)
from ncgnn.paper.request import DATASETS, defaults, model_title
from ncgnn.report import BLUE, GREY, LOOKS, ORANGE, PARTS, show_percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ncgnn.paper.figures.parts import ConfusionRule
    from ncgnn.paper.request import Request
    from ncgnn.training import RunConfig, RunResult, Spread

EDGES = tuple(round(edge / 25, 2) for edge in range(26))


@dataclass(frozen=True)
class Histogram:
    """Share of nodes in each bin, and the mean over nodes (None where nothing is defined)."""

    shares: tuple[float, ...]
    mean: float | None


@dataclass(frozen=True)
class DistributionPanel:
    """One data set.

    Attributes:
        dataset: Its name.
        nodes: Number of nodes.
        hops: The k of NC.
        heterophily: Of 1 - NH, closed neighbourhood, as in the paper's table.
        confusion: Of NC.
    """

    dataset: str
    nodes: int
    hops: int
    heterophily: Histogram
    confusion: Histogram


@dataclass(frozen=True)
class DistributionsData(FigureData):
    """Histograms of all data sets, on the same bins."""

    edges: tuple[float, ...]
    panels: tuple[DistributionPanel, ...]


class Distributions:
    """Fig. "Distributions of nodes guided by NH and NC": k as in NCGCN's preset."""

    name = "distributions"
    title = "distributions of nodes by 1 − NH and by NC"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = ()
    options: frozenset[str] = frozenset({"hops"})

    def cells(self, request: Request) -> list[RunConfig]:
        """None: the graphs say it all."""
        return []

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> DistributionsData:
        """Histograms of the data sets that are to be had."""
        panels: list[DistributionPanel] = []
        missing: list[str] = []
        for dataset in filled(self, request).datasets:
            try:
                panels.append(_panel(request, dataset))
            except DataNotFoundError:
                missing.append(dataset)
        if not panels:
            raise InputError(
                f"figure {self.name}: none of its data sets is at hand ({', '.join(missing)}); "
                "put their files into --data-dir."
            )
        return DistributionsData(tuple(missing), EDGES, tuple(panels))


def _panel(request: Request, dataset: str) -> DistributionPanel:
    from ncgnn.data import load
    from ncgnn.metrics import node_homophily

    graph, rule = load(dataset, request.data_dir), preset_rule(request, dataset)
    heterophily = 1 - node_homophily(graph, neighborhood="closed")
    return DistributionPanel(
        short_name(request, dataset),
        graph.num_nodes,
        rule.hops,
        _histogram(heterophily),
        _histogram(rule.confusion(graph)),
    )


def _histogram(values: NDArray[np.float64]) -> Histogram:
    defined = values[~np.isnan(values)]
    counts, _ = np.histogram(defined, bins=np.array(EDGES))
    shares = counts / max(len(defined), 1)
    return Histogram(tuple(shares.tolist()), float(defined.mean()) if len(defined) else None)


CLASSES = (2, 3, 5, 10, 15)
CONFUSION = tuple(round(step / 100, 2) for step in range(101))


@dataclass(frozen=True)
class EntropyCurve:
    """One number of classes: conditional entropy in bits, and Fano's bound of the error rate."""

    classes: int
    entropy: tuple[float, ...]
    bound: tuple[float, ...]


@dataclass(frozen=True)
class EntropyData(FigureData):
    """Curves at the same values of NC."""

    confusion: tuple[float, ...]
    curves: tuple[EntropyCurve, ...]


class Entropy:
    """Fig. "The curve of conditional entropy and classification error bound versus NC"."""

    name = "entropy"
    title = "conditional entropy and error bound against NC"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()

    def cells(self, request: Request) -> list[RunConfig]:
        """None: it is theory."""
        return []

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> EntropyData:
        """Eqs. (6) to (14) of the paper, for several numbers of classes."""
        from ncgnn.metrics import conditional_entropy, error_lower_bound

        places = np.array(CONFUSION)
        curves = tuple(
            EntropyCurve(
                count,
                tuple(conditional_entropy(places, count).tolist()),
                tuple(error_lower_bound(places, count).tolist()),
            )
            for count in CLASSES
        )
        return EntropyData((), CONFUSION, curves)


#: The paper's "standard GCN" in its observations.
STANDARD = {"hidden": 64, "dropout": 0.5}
#: Of which the paper prints neither; other models learn as their presets say.
RATES = {"learning_rate": 0.01, "weight_decay": 5e-4}


def standard_options(request: Request, model: str, **options: Any) -> dict[str, Any]:
    """What a model of the paper's observations is trained with, where the request is silent."""
    rates = RATES if model == "gcn" else {}
    return defaults(request, model, **STANDARD, **rates, **options)


@dataclass(frozen=True)
class Tenth:
    """The evaluated nodes whose NH lies in one tenth of [0, 1].

    Attributes:
        nodes: Their number, a mean over runs.
        accuracy: Over the runs that have such nodes; None if none has.
        high_share: Share of them whose true NC is high, a mean over the same runs.
    """

    nodes: float
    accuracy: Spread | None
    high_share: float | None


@dataclass(frozen=True)
class ObservationPanel:
    """One data set.

    Attributes:
        dataset: Its name.
        hops: The k of NC.
        threshold: The T between low and high.
        part: Whose accuracy is shown, ``test`` or ``val``.
        runs: Number of runs.
        accuracy: Of all evaluated nodes.
        tenths: By NH of the open neighbourhood, from [0, 0.1) to [0.9, 1]; a node without
            neighbours is in none.
    """

    dataset: str
    hops: int
    threshold: float
    part: str
    runs: int
    accuracy: Spread
    tenths: tuple[Tenth, ...]


@dataclass(frozen=True)
class ObservationData(FigureData):
    """One model on all data sets."""

    model: str
    panels: tuple[ObservationPanel, ...]


class Observation:
    """Fig. "Observational experiment on Coauthor CS" and the one with its further data sets.

    The paper's text divides nodes by deciles of NH and then speaks of groups "with NH of 0.0, 0.1,
    …"; groups here are tenths of [0, 1]. NH is Eq. (1), without the node itself: a node that counts
    itself has no NH of 0, and the low tenths, of which the observation speaks, are all but empty.
    """

    name = "observation"
    title = "accuracy by NH with the share of high-NC nodes"
    kind: Literal["table", "figure"] = "figure"
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = ("gcn",)
    sets_options: bool = True

    def cells(self, request: Request) -> list[RunConfig]:
        """One run per data set and seed."""
        request = filled(self, request)
        return [cell for dataset in request.datasets for cell in self._cells(request, dataset)]

    def _cells(self, request: Request, dataset: str) -> list[RunConfig]:
        model = one_model(self, request)
        options = standard_options(request, model)
        return [request.config(dataset, model, seed, **options) for seed in request.seeds]

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> ObservationData:
        """Accuracies from the predictions of the stored models."""
        request = filled(self, request)
        missing = missing_cells(self, self.cells(request), runs)
        panels: list[ObservationPanel] = []
        for dataset in request.datasets:
            found = present(self._cells(request, dataset), runs)
            if found:
                rule = observed_rule(request, dataset)
                panels.append(_panel_observation(request, dataset, found, rule))
        return ObservationData(missing, one_model(self, request), tuple(panels))


def _panel_observation(
    request: Request, dataset: str, runs: Sequence[RunResult], rule: ConfusionRule
) -> ObservationPanel:
    from ncgnn.metrics import node_homophily
    from ncgnn.training import Spread, deciles

    graph = graph_of(runs, dataset, request.data_dir)
    tenth, high = deciles(node_homophily(graph)), rule.high(graph)
    found = [answers(run, request.data_dir) for run in runs]
    tenths: list[Tenth] = []
    for number in range(10):
        within = [tenth[nodes] == number for nodes, _ in found]
        accuracy = spread(
            share(right[some]) for (_, right), some in zip(found, within, strict=True)
        )
        confused = spread(
            share(high[nodes[some]]) for (nodes, _), some in zip(found, within, strict=True)
        )
        count = float(np.mean([np.count_nonzero(some) for some in within]))
        tenths.append(Tenth(count, accuracy, None if confused is None else confused.mean))
    part = evaluated_part(runs)
    overall = Spread.of([run.result["scores"][part]["accuracy"] for run in runs])
    name = short_name(request, dataset)
    return ObservationPanel(
        name, rule.hops, rule.threshold, part, len(runs), overall, tuple(tenths)
    )


_PLAIN, _PALE = "#f0f0f0", "#fbe6bd"


def draw_distributions(data: DistributionsData) -> Figure:
    """Histograms of 1 - NH and NC, a panel per data set; vertical lines are the means."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 1.95))
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            _histogram_paper_metrics(
                axis, data.edges, panel.heterophily, BLUE, "1 − NH, closed", "", "--"
            )
            _histogram_paper_metrics(axis, data.edges, panel.confusion, ORANGE, "NC", "////", "-.")
            means = f"means {_text(panel.heterophily.mean)} and {_text(panel.confusion.mean)}"
            panel_title(axis, f"{panel.dataset}, k = {panel.hops}\n{means}")
            axis.set_xlim(0, 1)
            axis.set_ylim(bottom=0)
        outer_labels(axes, columns, "1 − NH or NC", "share of nodes")
        common_legend(figure, axes, columns=4 if columns > 1 else 2)
        say_missing(figure, data.missing, "data set")
    return figure


def _histogram_paper_metrics(
    axis: Axes,
    edges: tuple[float, ...],
    histogram: Histogram,
    colour: str,
    label: str,
    hatch: str,
    dashes: str,
) -> None:
    axis.stairs(
        histogram.shares,
        edges,
        fill=True,
        facecolor=colour + "55",
        edgecolor=colour,
        linewidth=1.0,
        hatch=hatch,
        label=label,
    )
    if histogram.mean is not None:
        name = f"mean {label.removesuffix(', closed')}"
        axis.axvline(histogram.mean, color=colour, linestyle=dashes, linewidth=1.5, label=name)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def draw_observation(data: ObservationData) -> Figure:
    """Accuracy by tenths of NH (lines), and how many nodes of each tenth have high NC (bars)."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 2.2), above=0.5)
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            _observe(axis, panel, model_title(data.model))
        outer_labels(axes, columns, "node homophily NH", "accuracy, share of nodes")
        common_legend(figure, axes, columns=2 if columns == 1 else 3)
        tenths = [tenth.accuracy for panel in data.panels for tenth in panel.tenths]
        say_below(figure, f"{whisker_words(tenths)}Bars: evaluated nodes of each tenth of NH by NC")
        say_missing(figure, data.missing)
    return figure


def _observe(axis: Axes, panel: ObservationPanel, model: str) -> None:
    middle = np.arange(10) / 10 + 0.05
    filled = np.array([tenth.high_share is not None for tenth in panel.tenths])
    high = np.array([tenth.high_share or 0.0 for tenth in panel.tenths])
    axis.bar(
        middle,
        high,
        width=0.09,
        facecolor=_PALE,
        edgecolor=ORANGE,
        hatch="////",
        linewidth=0.8,
        label="share with high NC",
    )
    low = np.where(filled, 1 - high, 0)
    axis.bar(
        middle,
        low,
        bottom=high,
        width=0.09,
        facecolor=_PLAIN,
        edgecolor="#bbbbbb",
        linewidth=0.8,
        label="share with low NC",
    )
    _accuracy(axis, panel, middle, f"{model}, {PARTS[panel.part]} accuracy")
    label = f"{model}, all {PARTS[panel.part]} nodes"
    axis.axhline(panel.accuracy.mean, color=GREY, linestyle="--", linewidth=1.1, label=label)
    panel_title(axis, f"{panel.dataset}, k = {panel.hops}, T = {panel.threshold:g}")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.02)


def _accuracy(axis: Axes, panel: ObservationPanel, middle: NDArray[np.float64], label: str) -> None:
    spreads = [tenth.accuracy for tenth in panel.tenths]
    mean = np.array([np.nan if s is None else s.mean for s in spreads])
    known = ~np.isnan(mean)  # the line goes on over empty tenths
    look: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 5, "clip_on": False}
    axis.plot(middle[known], mean[known], linewidth=1.6, zorder=4, label=label, **look)
    whisker: dict[str, Any] = {"ecolor": BLUE, "elinewidth": 0.9, "capsize": 2, "zorder": 3}
    axis.errorbar(middle, mean, whiskers(spreads), fmt="none", **whisker)
    few = known & np.array([tenth.nodes < FEW_NODES for tenth in panel.tenths])
    if few.any():
        look |= {"linestyle": "none", "markerfacecolor": "white"}
        axis.plot(middle[few], mean[few], zorder=5, label=f"fewer than {FEW_NODES} nodes", **look)


def draw_entropy(data: EntropyData) -> Figure:
    """Conditional entropy (left) and Fano's bound (right) against NC."""
    with drawing(8, 3.2) as figure:
        left, right = figure.subplots(1, 2)
        for curve, (color, dashes, _) in zip(data.curves, LOOKS, strict=False):
            line: dict[str, Any] = {"color": color, "linestyle": dashes}
            left.plot(data.confusion, curve.entropy, label=f"C = {curve.classes}", **line)
            right.plot(data.confusion, curve.bound, label=f"C = {curve.classes}", **line)
        right.axhline(0, color="grey", linewidth=0.8)
        left.set_ylabel("conditional entropy (bits)")
        right.set_ylabel("lower bound of the error rate")
        show_percent(right.yaxis)
        for axis in (left, right):
            axis.set_xlabel("Neighborhood Confusion")
            axis.set_xlim(0, 1)
        right.legend(frameon=False, loc="lower right")
    return figure
