"""Accuracy of GCN against NH, with the share of high-NC nodes that explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data import Split
from ncgnn.metrics import node_homophily
from ncgnn.paper.figures import parts
from ncgnn.paper.figures.nodes import answers, evaluated_part, graph_of, observed_rule, share
from ncgnn.paper.printed import model_title
from ncgnn.paper.targets import Target
from ncgnn.report import BLUE, GRAY, ORANGE, PARTS, Table, number, percent, show_percent
from ncgnn.training import SPLIT, Spread, deciles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ncgnn.paper.targets import Request, Row, Runs
    from ncgnn.training import RunResult

#: The paper's "standard GCN" in its observations.
STANDARD = {"model.hidden": 64, "model.dropout": 0.5}
#: Of which the paper prints neither; other models learn as their presets say.
RATES = {"training.learning_rate": 0.01, "training.weight_decay": 5e-4}
_PLAIN, _PALE = "#f0f0f0", "#fbe6bd"


def standard_options(request: Request, model: str) -> dict[str, Any]:
    """What a model of the paper's observations is trained with, where the request is silent."""
    return request.leaves_open(model, STANDARD | (RATES if model == "gcn" else {}))


def observed_options(request: Request, dataset: str, model: str) -> dict[str, Any]:
    """The same, and the k and T by which nodes are observed, for models that have them."""
    rule = observed_rule(request, dataset)
    separation = {"model.hops": rule.hops, "model.threshold": rule.threshold}
    return standard_options(request, model) | request.leaves_open(model, separation)


@dataclass(frozen=True)
class Tenth:
    """The evaluated nodes whose NH lies in one tenth of [0, 1], or in one tenth of all nodes.

    Attributes:
        nodes: Their number, a mean over runs.
        accuracy: Over the runs that have such nodes; None if none has.
        high_share: Share of them whose true NC is high, a mean over the same runs.
        homophily: Mean NH of them, likewise.
    """

    nodes: float
    accuracy: Spread | None
    high_share: float | None
    homophily: float | None = None


@dataclass(frozen=True)
class ObservationPanel:
    """One dataset, by NC within ``hops`` (k) and its ``threshold`` (T).

    Attributes:
        part: Whose accuracy is shown, ``test`` or ``val``.
        runs: Number of runs.
        accuracy: Of all evaluated nodes.
        tenths: By NH of the open neighborhood, from [0, 0.1) to [0.9, 1]; a node without
            neighbors is in none.
        deciles: By the deciles of NH among validation nodes; where deciles are equal, as where most
            nodes have an NH of 1, the first of these groups holds all of them.
    """

    dataset: str
    hops: int
    threshold: float
    part: str
    runs: int
    accuracy: Spread
    tenths: tuple[Tenth, ...]
    deciles: tuple[Tenth, ...] = ()


class Observation(Target[parts.ModelPanels[ObservationPanel]]):
    """Fig. "Observational experiment on Coauthor CS" and the one with its further datasets.

    The paper's text divides nodes by deciles of NH and then speaks of groups "with NH of 0.0, 0.1,
    …"; groups of the figure are tenths of [0, 1], and tables show both. NH is Eq. (1), without the
    node itself: a node that counts itself has no NH of 0, and the low tenths, of which the
    observation speaks, are all but empty.
    """

    name = "observation"
    title = "accuracy by NH with the share of high-NC nodes"
    kind = "figure"
    models = ("gcn",)
    ignores_presets = True

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """The one model, with the paper's standard options."""
        row = parts.one_row(self.name, request)
        return [replace(row, options=standard_options(request, row.model))]

    def collect(self, request: Request, runs: Runs) -> parts.ModelPanels[ObservationPanel]:
        """Accuracies from the predictions of the stored models."""
        panels = [
            _panel(request, dataset, found)
            for dataset in request.datasets
            for _, found in self.finished(request, dataset, runs)
        ]
        return parts.ModelPanels(request.models[0], tuple(panels))

    def tables(self, data: parts.ModelPanels[ObservationPanel]) -> list[Table]:
        """Accuracy and the share of high-NC nodes, by tenths and by deciles of NH."""
        return [
            _group_table(panel, groups, model_title(data.model), title)
            for panel in data.panels
            for title, groups in (("tenths of NH", panel.tenths), ("deciles of NH", panel.deciles))
            if groups
        ]

    def draw(self, data: parts.ModelPanels[ObservationPanel]) -> Figure:
        """Accuracy by tenths of NH (lines), and how many nodes of each tenth have high NC."""
        figure, axes, columns = parts.make_panels(len(data.panels), (2.7, 2.2), above=0.5)
        for axis, panel in zip(axes, data.panels, strict=True):
            _draw_panel(axis, panel, model_title(data.model))
        parts.label_outer(axes, columns, "node homophily NH", "accuracy, share of nodes")
        parts.add_legend(figure, axes, columns=2 if columns == 1 else 3)
        words = parts.explain_whiskers(
            tenth.accuracy for panel in data.panels for tenth in panel.tenths
        )
        figure.supxlabel(f"{words}Bars: evaluated nodes of each tenth of NH by NC")
        return figure


def _panel(request: Request, dataset: str, runs: Sequence[RunResult]) -> ObservationPanel:
    graph, rule = graph_of(runs, dataset, request.data_dir), observed_rule(request, dataset)
    homophily, high = node_homophily(graph), rule.high(graph)
    found = [answers(run, request.data_dir) for run in runs]
    by_tenth = [deciles(homophily)] * len(runs)
    by_decile = [_deciles_among(homophily, Split.load(run.folder / SPLIT).val) for run in runs]
    part = evaluated_part(runs)
    return ObservationPanel(
        parts.short_name(request, dataset),
        rule.hops,
        rule.threshold,
        part,
        len(runs),
        Spread.of([run.result["scores"][part]["accuracy"] for run in runs]),
        _groups(found, by_tenth, homophily, high),
        _groups(found, by_decile, homophily, high),
    )


def _deciles_among(homophily: NDArray[np.float64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """In which tenth of some nodes, sorted by NH, each node would be; -1 where it has no NH."""
    edges = np.nanquantile(homophily[nodes], np.arange(1, 10) / 10)
    return np.where(np.isnan(homophily), -1, np.searchsorted(edges, homophily, side="left"))


def _groups(
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]],
    places: Sequence[NDArray[np.int64]],
    homophily: NDArray[np.float64],
    high: NDArray[np.bool_],
) -> tuple[Tenth, ...]:
    """Ten groups, from the answers of every run and the group of every node in it."""
    groups: list[Tenth] = []
    for group in range(10):
        within = [
            (nodes[place[nodes] == group], right[place[nodes] == group])
            for (nodes, right), place in zip(found, places, strict=True)
        ]
        accuracy = parts.spread(share(right) for _, right in within)
        confused = parts.spread(share(high[nodes]) for nodes, _ in within)
        values = [float(homophily[nodes].mean()) for nodes, _ in within if len(nodes)]
        groups.append(
            Tenth(
                float(np.mean([len(nodes) for nodes, _ in within])),
                accuracy,
                None if confused is None else confused.mean,
                float(np.mean(values)) if values else None,
            )
        )
    return tuple(groups)


def _group_table(panel: ObservationPanel, groups: Sequence[Tenth], model: str, title: str) -> Table:
    lines = [
        (
            str(place),
            f"{group.nodes:,.0f}",
            number(group.homophily),
            percent(group.accuracy),
            percent(group.high_share),
        )
        for place, group in enumerate(groups, start=1)
        if group.accuracy is not None
    ]
    head = ("group", "nodes", "mean NH", f"{PARTS[panel.part]} accuracy", "share with high NC")
    notes = [
        f"{model}, {parts.count_runs(panel.runs)}, percent; NC with k = {panel.hops} and "
        f"T = {panel.threshold:g}. All {PARTS[panel.part]} nodes: {percent(panel.accuracy)}."
    ]
    known = [g for g in groups if g.accuracy is not None and g.high_share is not None]
    accuracies = [g.accuracy.mean for g in known if g.accuracy is not None]
    shares = [g.high_share for g in known if g.high_share is not None]
    if len(set(shares)) > 1 and len(set(accuracies)) > 1:
        from scipy.stats import spearmanr

        found: Any = spearmanr(accuracies, shares)
        notes.append(
            f"Rank correlation of accuracy and that share over {len(known)} groups: "
            f"{float(found.statistic):.2f}."
        )
    return Table(f"observation, {panel.dataset}, {title}", head, tuple(lines), tuple(notes))


def _draw_panel(axis: Axes, panel: ObservationPanel, model: str) -> None:
    middle = np.arange(10) / 10 + 0.05
    filled = np.array([tenth.high_share is not None for tenth in panel.tenths])
    high = np.array([tenth.high_share or 0.0 for tenth in panel.tenths])
    look: dict[str, Any] = {"facecolor": _PALE, "edgecolor": ORANGE, "hatch": "////"}
    axis.bar(middle, high, 0.09, linewidth=0.8, label="share with high NC", **look)
    low, look = np.where(filled, 1 - high, 0), {"facecolor": _PLAIN, "edgecolor": "#bbbbbb"}
    axis.bar(middle, low, 0.09, bottom=high, linewidth=0.8, label="share with low NC", **look)
    _draw_accuracy(axis, panel, middle, f"{model}, {PARTS[panel.part]} accuracy")
    label = f"{model}, all {PARTS[panel.part]} nodes"
    axis.axhline(panel.accuracy.mean, color=GRAY, linestyle="--", linewidth=1.1, label=label)
    parts.set_panel_title(axis, f"{panel.dataset}, k = {panel.hops}, T = {panel.threshold:g}")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.02)
    show_percent(axis.yaxis)


def _draw_accuracy(
    axis: Axes, panel: ObservationPanel, middle: NDArray[np.float64], label: str
) -> None:
    spreads = [tenth.accuracy for tenth in panel.tenths]
    mean = np.array([np.nan if s is None else s.mean for s in spreads])
    known = ~np.isnan(mean)  # the line goes on over empty tenths
    look: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 5, "clip_on": False}
    axis.plot(middle[known], mean[known], linewidth=1.6, zorder=4, label=label, **look)
    whisker: dict[str, Any] = {"ecolor": BLUE, "elinewidth": 0.9, "capsize": 2, "zorder": 3}
    axis.errorbar(middle, mean, parts.whiskers(spreads), fmt="none", **whisker)
    few = known & np.array([tenth.nodes < parts.FEW_NODES for tenth in panel.tenths])
    if few.any():
        look |= {"linestyle": "none", "markerfacecolor": "white"}
        axis.plot(
            middle[few], mean[few], zorder=5, label=f"fewer than {parts.FEW_NODES} nodes", **look
        )
