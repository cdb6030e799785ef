"""How nodes are distributed by 1 - NH and by NC, data set by data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ncgnn.errors import DataNotFoundError, InputError
from ncgnn.experiments._request import DATASETS
from ncgnn.experiments.figures._parts import FigureData, filled, short_name
from ncgnn.experiments.figures._rule import preset_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig, RunResult

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
