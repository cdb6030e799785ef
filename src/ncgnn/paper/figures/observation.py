"""Accuracy of GCN against NH, with the share of high-NC nodes that explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.metrics import node_homophily
from ncgnn.paper.figures import parts
from ncgnn.paper.figures.nodes import answers, evaluated_part, graph_of, observed_rule, share
from ncgnn.paper.printed import model_title
from ncgnn.paper.targets import Target
from ncgnn.report import BLUE, GRAY, ORANGE, PARTS, show_percent
from ncgnn.training import Spread, deciles

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
    """One dataset, by NC within ``hops`` (k) and its ``threshold`` (T).

    Attributes:
        part: Whose accuracy is shown, ``test`` or ``val``.
        runs: Number of runs.
        accuracy: Of all evaluated nodes.
        tenths: By NH of the open neighborhood, from [0, 0.1) to [0.9, 1]; a node without
            neighbors is in none.
    """

    dataset: str
    hops: int
    threshold: float
    part: str
    runs: int
    accuracy: Spread
    tenths: tuple[Tenth, ...]


class Observation(Target[parts.ModelPanels[ObservationPanel]]):
    """Fig. "Observational experiment on Coauthor CS" and the one with its further datasets.

    The paper's text divides nodes by deciles of NH and then speaks of groups "with NH of 0.0, 0.1,
    …"; groups here are tenths of [0, 1]. NH is Eq. (1), without the node itself: a node that counts
    itself has no NH of 0, and the low tenths, of which the observation speaks, are all but empty.
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
    tenth, high = deciles(node_homophily(graph)), rule.high(graph)
    found = [answers(run, request.data_dir) for run in runs]
    tenths: list[Tenth] = []
    for place in range(10):
        within = [(nodes, right, tenth[nodes] == place) for nodes, right in found]
        accuracy = parts.spread(share(right[some]) for _, right, some in within)
        confused = parts.spread(share(high[nodes[some]]) for nodes, _, some in within)
        count = float(np.mean([np.count_nonzero(some) for _, _, some in within]))
        tenths.append(Tenth(count, accuracy, None if confused is None else confused.mean))
    part = evaluated_part(runs)
    return ObservationPanel(
        parts.short_name(request, dataset),
        rule.hops,
        rule.threshold,
        part,
        len(runs),
        Spread.of([run.result["scores"][part]["accuracy"] for run in runs]),
        tuple(tenths),
    )


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
