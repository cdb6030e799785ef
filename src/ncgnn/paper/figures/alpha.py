"""How much each group relies on message passing: densities of α over runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from scipy.stats import gaussian_kde, norm

from ncgnn.metrics import group_names
from ncgnn.paper.figures import parts
from ncgnn.report import BLUE, GRAY, GREEN, ORANGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ncgnn.paper.targets import Request, Runs

GRID = tuple(round(step / 200, 3) for step in range(201))
#: The narrowest kernel: runs that agree would otherwise make a needle.
LEAST_BANDWIDTH = 0.01
#: Color, line, filling and mark of a group.
_LOOKS = ((BLUE, "-", "", "|"), (ORANGE, "--", "////", "x"), (GREEN, "-.", "....", "+"))


@dataclass(frozen=True)
class AlphaGroup:
    """One group of nodes, the least confused first.

    Attributes:
        values: α of message passing in the best epoch, one per run; 1 - α is that of raw features.
        density: Kernel density estimate on the grid.
    """

    values: tuple[float, ...]
    density: tuple[float, ...]


@dataclass(frozen=True)
class AlphaPanel:
    """One dataset."""

    dataset: str
    groups: tuple[AlphaGroup, ...]


@dataclass(frozen=True)
class AlphaData:
    """One model on all datasets; ``grid`` is where densities are given."""

    model: str
    grid: tuple[float, ...]
    panels: tuple[AlphaPanel, ...]


class Alpha(parts.SeparatedFigure[AlphaData]):
    """Fig. "The kernel density estimates of weights α".

    The paper takes the density "across ten runs": here over the seeds of a dataset, one α per run
    and group, that of the epoch which counts.
    """

    name = "alpha"
    title = "densities of α in the low- and the high-NC group"

    def collect(self, request: Request, runs: Runs) -> AlphaData:
        """α as the runs keep it, and its densities."""
        panels: list[AlphaPanel] = []
        for dataset in request.datasets:
            for _, found in self.finished(request, dataset, runs):
                columns = zip(*(run.result["alpha"] for run in found), strict=True)
                groups = tuple(AlphaGroup(tuple(c), kernel_density(c, GRID)) for c in columns)
                panels.append(AlphaPanel(parts.short_name(request, dataset), groups))
        return AlphaData(request.models[0], GRID, tuple(panels))

    def draw(self, data: AlphaData) -> Figure:
        """Densities of α over runs, a curve per group; ticks at the bottom are the runs."""
        figure, axes, columns = parts.make_panels(len(data.panels), (2.7, 1.9))
        for axis, panel in zip(axes, data.panels, strict=True):
            _draw_panel(axis, data.grid, panel)
        runs = max((len(panel.groups[0].values) for panel in data.panels), default=0)
        density = "density" if runs > 1 else ""
        parts.label_outer(axes, columns, "α: weight of message passing", density)
        parts.add_legend(figure, axes, columns=2)
        marks = "Marks below the curves: one per run. " if runs > 1 else ""
        figure.supxlabel(f"{marks}α = 1: messages alone count")
        return figure


def kernel_density(values: Sequence[float], grid: Sequence[float]) -> tuple[float, ...]:
    r"""Density of values at the places of a grid, from Gaussian kernels.

    .. math:: \hat f(x) = \frac{1}{n h} \sum_i \varphi\left(\frac{x - x_i}{h}\right),
        \qquad h = \max(σ \, n^{-1/5},\; h_{least})

    with Scott's bandwidth ("Multivariate Density Estimation", 1992) and σ the sample standard
    deviation, 0 for one value.
    """
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    if deviation == 0.0:  # which scipy's estimate refuses
        return tuple(norm.pdf(grid, values[0], LEAST_BANDWIDTH).tolist())
    width = max(len(values) ** -0.2, LEAST_BANDWIDTH / deviation)
    return tuple(gaussian_kde(values, width)(grid).tolist())


def _draw_panel(axis: Axes, grid: Sequence[float], panel: AlphaPanel) -> None:
    names, runs = group_names(len(panel.groups)), len(panel.groups[0].values)
    parts.set_panel_title(axis, f"{panel.dataset}, {parts.count_runs(runs)}")
    if runs == 1:  # one number has no density
        for place, (name, group) in enumerate(zip(names, panel.groups, strict=True)):
            color, dashes, _, _ = _LOOKS[place % len(_LOOKS)]
            axis.axvline(group.values[0], color=color, linestyle=dashes, linewidth=1.8, label=name)
        axis.set_xlim(0.0, 1.0)
        axis.set_yticks([])
        return
    places, highest = np.array(grid), max(max(group.density) for group in panel.groups)
    for place, (name, group) in enumerate(zip(names, panel.groups, strict=True)):
        color, dashes, hatch, marker = _LOOKS[place % len(_LOOKS)]
        axis.plot(places, group.density, color=color, linestyle=dashes, linewidth=1.5, label=name)
        look: dict[str, Any] = {"facecolor": color + "33", "edgecolor": color, "hatch": hatch}
        axis.fill_between(places, 0, np.array(group.density), linewidth=0, **look)
        level = np.full(len(group.values), -highest * (0.05 + 0.07 * place))
        axis.plot(group.values, level, linestyle="none", marker=marker, markersize=5, color=color)
    seen = places[np.max([group.density for group in panel.groups], axis=0) > 0.01 * highest]
    axis.set_xlim(max(0.0, seen[0] - 0.02), min(1.0, seen[-1] + 0.02))
    axis.set_ylim(-highest * (0.05 + 0.07 * len(names)), 1.05 * highest)
    axis.axhline(0, color=GRAY, linewidth=0.6)
    axis.yaxis.set_major_locator(MaxNLocator(4, prune=None))
    axis.set_yticks([tick for tick in axis.get_yticks() if 0 <= tick <= highest])
