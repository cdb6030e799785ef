"""How nodes are distributed by 1 - NH and by NC, dataset by dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncgnn.data import load
from ncgnn.metrics import node_homophily
from ncgnn.paper.figures import parts
from ncgnn.paper.figures.nodes import preset_rule
from ncgnn.paper.targets import Target
from ncgnn.report import BLUE, ORANGE, number, show_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ncgnn.paper.targets import Request, Runs

EDGES = tuple(round(edge / 25, 2) for edge in range(26))


@dataclass(frozen=True)
class Histogram:
    """Share of nodes in each bin, and the mean over nodes (None where nothing is defined)."""

    shares: tuple[float, ...]
    mean: float | None


@dataclass(frozen=True)
class DistributionPanel:
    """One dataset: 1 - NH of closed neighborhoods, as in the paper's table, and NC within hops."""

    dataset: str
    nodes: int
    hops: int
    heterophily: Histogram
    confusion: Histogram


@dataclass(frozen=True)
class DistributionsData:
    """Histograms of all datasets, on the same bins."""

    edges: tuple[float, ...]
    panels: tuple[DistributionPanel, ...]


class Distributions(Target[DistributionsData]):
    """Fig. "Distributions of nodes guided by NH and NC": k as in NCGCN's preset, no runs."""

    name = "distributions"
    title = "distributions of nodes by 1 − NH and by NC"
    kind = "figure"
    settings = frozenset({"hops"})

    def collect(self, request: Request, runs: Runs) -> DistributionsData:
        """Histograms of the graphs."""
        panels: list[DistributionPanel] = []
        for dataset in request.datasets:
            graph, rule = load(dataset, request.data_dir), preset_rule(request, dataset)
            heterophily = _histogram(1 - node_homophily(graph, neighborhood="closed"))
            confusion = _histogram(rule.confusion(graph))
            name = parts.short_name(request, dataset)
            panels.append(
                DistributionPanel(name, graph.num_nodes, rule.hops, heterophily, confusion)
            )
        return DistributionsData(EDGES, tuple(panels))

    def draw(self, data: DistributionsData) -> Figure:
        """Histograms of 1 - NH and NC, a panel per dataset; vertical lines are the means."""
        figure, axes, columns = parts.make_panels(len(data.panels), (2.7, 1.95))
        for axis, panel in zip(axes, data.panels, strict=True):
            heterophily, confusion = panel.heterophily, panel.confusion
            _draw_histogram(axis, data.edges, heterophily, "1 − NH, closed", (BLUE, "", "--"))
            _draw_histogram(axis, data.edges, confusion, "NC", (ORANGE, "////", "-."))
            means = f"means {number(heterophily.mean)} and {number(confusion.mean)}"
            parts.set_panel_title(axis, f"{panel.dataset}, k = {panel.hops}\n{means}")
            axis.set_xlim(0, 1)
            axis.set_ylim(bottom=0)
            show_percent(axis.yaxis)
        parts.label_outer(axes, columns, "1 − NH or NC", "share of nodes")
        parts.add_legend(figure, axes, columns=4 if columns > 1 else 2)
        return figure


def _histogram(values: NDArray[np.float64]) -> Histogram:
    defined = values[~np.isnan(values)]
    counts, _ = np.histogram(defined, bins=np.array(EDGES))
    shares = counts / max(len(defined), 1)
    return Histogram(tuple(shares.tolist()), float(defined.mean()) if len(defined) else None)


def _draw_histogram(
    axis: Axes,
    edges: Sequence[float],
    histogram: Histogram,
    label: str,
    look: tuple[str, str, str],
) -> None:
    color, hatch, dashes = look
    axis.stairs(
        histogram.shares,
        edges,
        fill=True,
        facecolor=color + "55",
        edgecolor=color,
        linewidth=1.0,
        hatch=hatch,
        label=label,
    )
    if histogram.mean is not None:
        name = f"mean {label.removesuffix(', closed')}"
        axis.axvline(histogram.mean, color=color, linestyle=dashes, linewidth=1.5, label=name)
