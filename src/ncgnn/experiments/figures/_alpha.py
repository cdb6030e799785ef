"""How much each group relies on message passing: densities of α over runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncgnn.experiments.figures._parts import FigureData, OneModelFigure, short_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunResult

GRID = tuple(round(step / 200, 3) for step in range(201))
#: The narrowest kernel: runs that agree would otherwise make a needle.
LEAST_BANDWIDTH = 0.01


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
    """One data set."""

    dataset: str
    groups: tuple[AlphaGroup, ...]


@dataclass(frozen=True)
class AlphaData(FigureData):
    """One model on all data sets; ``grid`` is where densities are given."""

    model: str
    grid: tuple[float, ...]
    panels: tuple[AlphaPanel, ...]


class Alpha(OneModelFigure):
    """Fig. "The kernel density estimates of weights α".

    The paper takes the density "across ten runs": here over the seeds of a data set, one α per run
    and group, that of the epoch which counts.
    """

    name = "alpha"
    title = "densities of α in the low- and the high-NC group"

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> AlphaData:
        """α as the runs keep it, and its densities."""
        missing, model, by_dataset = self.found(request, runs)
        panels: list[AlphaPanel] = []
        for dataset, found in by_dataset.items():
            columns = zip(*(run.result["alpha"] for run in found), strict=True)
            groups = tuple(AlphaGroup(tuple(c), kernel_density(c, GRID)) for c in columns)
            panels.append(AlphaPanel(short_name(request, dataset), groups))
        return AlphaData(missing, model, GRID, tuple(panels))


def kernel_density(values: Sequence[float], grid: Sequence[float]) -> tuple[float, ...]:
    r"""Density of values at the places of a grid, from Gaussian kernels.

    .. math:: \hat f(x) = \frac{1}{n h} \sum_i \varphi\left(\frac{x - x_i}{h}\right),
        \qquad h = \max(σ \, n^{-1/5},\; h_{least})

    with Scott's bandwidth ("Multivariate Density Estimation", 1992) and σ the sample standard
    deviation, 0 for one value.
    """
    places = np.asarray(values, dtype=np.float64)
    deviation = float(places.std(ddof=1)) if len(places) > 1 else 0.0
    width = max(deviation * len(places) ** -0.2, LEAST_BANDWIDTH)
    distance = (np.asarray(grid)[:, None] - places) / width
    kernels = np.exp(-0.5 * distance**2) / np.sqrt(2 * np.pi)
    return tuple((kernels.mean(axis=1) / width).tolist())
