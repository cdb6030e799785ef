"""Accuracy of several models where nodes are confused and where not, by the same NC for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from ncgnn.errors import InputError
from ncgnn.metrics import confusion_masks
from ncgnn.paper.figures import parts
from ncgnn.paper.figures.nodes import (
    answers,
    evaluated_nodes,
    evaluated_part,
    graph_of,
    preset_rule,
    share,
)
from ncgnn.paper.printed import model_title
from ncgnn.paper.targets import Target
from ncgnn.report import GRAY, LOOKS, PARTS, show_percent
from ncgnn.training import deciles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.paper.targets import Request, Row, Runs
    from ncgnn.training import RunResult, Spread

#: As many curves can be told apart.
MOST_MODELS = len(LOOKS)


@dataclass(frozen=True)
class ModelCurve:
    """Accuracy of one model; None where no run has evaluated nodes.

    Attributes:
        runs: Number of runs.
        low: Of nodes with low NC.
        high: Of nodes with high NC.
        tenths: By tenths of NC, from [0, 0.1) to [0.9, 1].
    """

    model: str
    runs: int
    low: Spread | None
    high: Spread | None
    tenths: tuple[Spread | None, ...]


@dataclass(frozen=True)
class GroupsPanel:
    """One dataset, by NC within ``hops`` (k) and its ``threshold`` (T).

    Attributes:
        part: Whose accuracy is shown, ``test`` or ``val``.
        low_nodes: Number of evaluated nodes with low NC, a mean over runs.
        high_nodes: Number of evaluated nodes with high NC.
        tenth_nodes: Number of evaluated nodes in each tenth of NC.
        curves: One per model.
    """

    dataset: str
    hops: int
    threshold: float
    part: str
    low_nodes: float
    high_nodes: float
    tenth_nodes: tuple[float, ...]
    curves: tuple[ModelCurve, ...]


class Groups(Target[parts.Panels[GroupsPanel]]):
    """Fig. "Test accuracies of different models under different NC groups".

    NC is that of the true labels, with k and T of NCGCN's preset, or of what stands in its
    place, for every model, whatever the model itself is run with.
    """

    name = "groups"
    title = "accuracy of several models by NC"
    kind = "figure"
    models = ("mlp", "gcn", "h2gcn", "gprgnn", "acmgcn", "ncgcn")

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """The models as they are, of which not too many."""
        if len(request.models) > MOST_MODELS:
            raise InputError(
                f"groups draws at most {MOST_MODELS} models; got {len(request.models)}; "
                "name fewer with --models."
            )
        preset_rule(request, dataset)  # complains before anything is trained
        return super().rows(request, dataset)

    def collect(self, request: Request, runs: Runs) -> parts.Panels[GroupsPanel]:
        """Accuracies from the predictions of the stored models."""
        found = {name: self.finished(request, name, runs) for name in request.datasets}
        panels = [_panel(request, dataset, rows) for dataset, rows in found.items() if rows]
        return parts.Panels(tuple(panels))

    def draw(self, data: parts.Panels[GroupsPanel]) -> Figure:
        """Accuracy of models by tenths of true NC (left of each pair), and of low and high NC."""
        models = list(dict.fromkeys(c.model for panel in data.panels for c in panel.curves))
        looks = dict(zip(models, LOOKS, strict=False))
        count = len(data.panels)
        columns = 1 if count == 1 else 2
        rows = -(-count // columns)
        figure = Figure(figsize=(4.4 * columns, 2.3 * rows + 0.5), layout="constrained")
        grid = figure.add_gridspec(rows, 2 * columns, width_ratios=[1.7, 1] * columns)
        axes: list[Axes] = []
        for place, panel in enumerate(data.panels):
            row, column = divmod(place, columns)
            curves = figure.add_subplot(grid[row, 2 * column])
            pair = figure.add_subplot(grid[row, 2 * column + 1], sharey=curves)
            _draw_tenths(curves, panel, looks)
            _draw_groups(pair, panel, looks)
            axes.append(curves)
            if place + columns >= count:
                curves.set_xlabel("NC of the true labels")
        parts.add_legend(figure, axes, columns=2 + columns)
        spreads = [s for panel in data.panels for c in panel.curves for s in (c.low, c.high)]
        words = parts.explain_whiskers(spreads)
        few = f"Where fewer than {parts.FEW_NODES} nodes are evaluated, nothing is drawn"
        figure.supxlabel(words + few)
        return figure


def _panel(
    request: Request, dataset: str, found: Sequence[tuple[Row, Sequence[RunResult]]]
) -> GroupsPanel:
    everything = [run for _, runs in found for run in runs]
    graph, rule = graph_of(everything, dataset, request.data_dir), preset_rule(request, dataset)
    confusion = rule.confusion(graph)
    high, tenth = confusion_masks(confusion, rule.threshold)[1], deciles(confusion)
    curves = tuple(
        _curve(row.model, [answers(run, request.data_dir) for run in runs], high, tenth)
        for row, runs in found
    )
    evaluated = [evaluated_nodes(run) for run in everything]
    counts = np.mean([np.bincount(tenth[nodes], minlength=10) for nodes in evaluated], axis=0)
    confused = float(np.mean([np.count_nonzero(high[nodes]) for nodes in evaluated]))
    return GroupsPanel(
        parts.short_name(request, dataset),
        rule.hops,
        rule.threshold,
        evaluated_part(everything),
        float(counts.sum()) - confused,
        confused,
        tuple(counts.tolist()),
        curves,
    )


def _curve(
    model: str,
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]],
    high: NDArray[np.bool_],
    tenth: NDArray[np.int64],
) -> ModelCurve:
    def within(members: NDArray[np.bool_]) -> Spread | None:
        return parts.spread(share(right[members[nodes]]) for nodes, right in found)

    tenths = tuple(within(tenth == number) for number in range(10))
    return ModelCurve(model, len(found), within(~high), within(high), tenths)


def _draw_tenths(axis: Axes, panel: GroupsPanel, looks: Mapping[str, Any]) -> None:
    middle = np.arange(10) / 10 + 0.05
    # Of a handful of nodes accuracy is chance.
    enough = np.array(panel.tenth_nodes) >= parts.FEW_NODES
    for curve in panel.curves:
        color, dashes, marker = looks[curve.model]
        mean = np.array([np.nan if s is None else s.mean for s in curve.tenths])
        shown = enough & ~np.isnan(mean)
        axis.plot(
            middle[shown],
            mean[shown],
            color=color,
            linestyle=dashes,
            marker=marker,
            markersize=4,
            linewidth=1.3,
            label=model_title(curve.model),
        )
    axis.axvline(panel.threshold, color=GRAY, linestyle=":", linewidth=1.2, label="threshold T")
    axis.set_xlim(0, 1)
    axis.set_ylabel(f"{PARTS[panel.part]} accuracy")
    show_percent(axis.yaxis)
    parts.set_panel_title(axis, f"{panel.dataset}, k = {panel.hops}, T = {panel.threshold:g}")


def _draw_groups(axis: Axes, panel: GroupsPanel, looks: Mapping[str, Any]) -> None:
    offsets = np.linspace(-0.3, 0.3, len(panel.curves)) if len(panel.curves) > 1 else [0.0]
    counts = (panel.low_nodes, panel.high_nodes)
    for curve, offset in zip(panel.curves, offsets, strict=True):
        color, _, marker = looks[curve.model]
        for place, value in enumerate((curve.low, curve.high)):
            if value is not None and counts[place] >= parts.FEW_NODES:
                look: dict[str, Any] = {"color": color, "marker": marker, "markersize": 4.5}
                error = None if value.std is None else parts.whiskers([value])
                axis.errorbar([place + offset], [value.mean], error, capsize=2, lw=1, **look)
    for place, count in enumerate(counts):
        if count < parts.FEW_NODES:
            look = {"ha": "center", "va": "center", "fontsize": 7.5, "color": GRAY}
            axis.text(place, 0.5, "few\nnodes", transform=axis.get_xaxis_transform(), **look)
    axis.axvline(0.5, color="#cccccc", linewidth=0.8)
    names = zip(("low", "high"), counts, strict=True)
    axis.set_xticks([0, 1], [f"{name}\n{_count(count)}" for name, count in names])
    axis.set_xlim(-0.5, 1.5)
    axis.tick_params(labelleft=False)
    axis.set_title("by group (nodes)", fontsize=8.5, loc="left")


def _count(nodes: float) -> str:
    return f"{nodes:,.0f}" if nodes >= 10 or nodes == round(nodes) else f"{nodes:.1f}"
