"""How much NC and NH change when labels are wrong: the paper's third proposition, measured.

The proposition says that NC "tends to be more stable when label perturbations occur in the
neighborhood, whereas NH is more susceptible to uncontrollable effect, particularly when the label
of the target node is disturbed", given enough neighbors. Here labels are flipped to another class,
and both metrics are computed again for every node. Both lie between 0 and 1, so that their absolute
changes are compared as they are; as NC uses less of that range on most graphs, the same is also
told in standard deviations of each metric over the nodes of the unchanged graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ncgnn.data import load
from ncgnn.metrics import label_counts, label_graph
from ncgnn.paper.figures import parts
from ncgnn.paper.printed import DATASETS
from ncgnn.paper.targets import Target
from ncgnn.report import BLUE, GRAY, ORANGE, Table, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.metrics import LabeledGraph
    from ncgnn.paper.targets import Request, Runs

    Values = NDArray[np.float64]

#: Shares of labeled nodes that are flipped.
LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
#: The level that tables show where they show one.
SHOWN = 0.1
DRAWS = 5
#: Nodes with as many neighbors have "a sufficiently large number" of them here.
MANY = 20
#: Whose changes are told: what the figure calls them.
GROUPS = {
    "all": "all nodes",
    "flipped": "own label flipped",
    "neighbors": "neighbors flipped,\nnot the node itself",
    "many": f"the same, of nodes with\n{MANY} neighbors or more",
}
_RANGE, _TICKS = (0.05, 6.0), (0.1, 0.2, 0.5, 1, 2, 5)
METRICS = {"nc": "NC", "nh_open": "NH, Eq. (1)", "nh_closed": "NH, closed"}


@dataclass(frozen=True)
class Change:
    """How much the metrics change in a group of nodes; means over draws.

    Attributes:
        nodes: Number of nodes.
        absolute: Mean absolute change by metric (:data:`METRICS`); None without nodes.
        relative: The same in standard deviations of the metric over all nodes; None where it is the
            same for all of them.
    """

    nodes: float
    absolute: dict[str, float | None]
    relative: dict[str, float | None]

    def ratio(self, other: str, *, relative: bool = False) -> float | None:
        """The change of NC over that of NH: below 1 NC is the more stable one."""
        values = self.relative if relative else self.absolute
        nc, nh = values["nc"], values[other]
        return None if nc is None or not nh else nc / nh


@dataclass(frozen=True)
class StabilityPanel:
    """One dataset.

    Attributes:
        nodes: Number of labeled nodes with a labeled neighbor, for which all metrics are defined.
        changes: By level and group.
    """

    dataset: str
    nodes: int
    changes: dict[float, dict[str, Change]]


class Stability(Target[parts.Panels[StabilityPanel]]):
    """The third proposition, which the paper states without an experiment; needs no runs.

    NC is Eq. (3) with k = 1 and NH is Eq. (1). NH with the node itself counted, which the paper's
    table prints, stands beside it.
    """

    name = "stability"
    title = "change of NC and NH when labels are flipped"
    kind = "figure"
    datasets = (
        *DATASETS,
        *("chameleon", "squirrel", "actor-undirected", "cora", "citeseer", "cora-ml", "dblp"),
        *("texas", "cornell", "wisconsin", "minesweeper", "tolokers"),
        *("fb100-cornell5", "fb100-amherst41", "fb100-reed98"),
    )

    def collect(self, request: Request, runs: Runs) -> parts.Panels[StabilityPanel]:
        """Flip labels of every graph, several times at each level."""
        panels: list[StabilityPanel] = []
        for dataset in request.datasets:
            given = label_graph(load(dataset, request.data_dir))
            panels.append(measure_stability(given, parts.short_name(request, dataset)))
        return parts.Panels(tuple(panels))

    def tables(self, data: parts.Panels[StabilityPanel]) -> list[Table]:
        """Every group at one level, and all nodes at every level."""
        groups = [_group_table(data, group) for group in GROUPS]
        return [*groups, _level_table(data)]

    def draw(self, data: parts.Panels[StabilityPanel]) -> Figure:
        """The change of NC over that of NH, a row per graph, a panel per group."""
        height = 0.19 * len(data.panels) + 1.35
        figure = Figure(figsize=(8.6, max(height, 2.0)), layout="constrained")
        axes = [figure.add_subplot(1, len(GROUPS), n + 1) for n in range(len(GROUPS))]
        for axis, (group, title) in zip(axes, GROUPS.items(), strict=True):
            _draw_group(axis, data, group)
            parts.set_panel_title(axis, title)
            axis.set_xlabel("NC over NH", fontsize=8)
        names = [panel.dataset for panel in data.panels]
        axes[0].set_yticks(range(len(names)), names, fontsize=7.5)
        axes[0].set_ylabel(" ")  # names are longer than the layout thinks
        parts.add_legend(figure, axes, columns=3)
        figure.supxlabel(
            f"Mean absolute changes, {DRAWS} draws. Marks: {SHOWN:.0%} of the labels flipped; "
            f"lines: from {LEVELS[0]:.0%} to {LEVELS[-1]:.0%}. Left of 1 NC is the more stable one"
        )
        return figure


class _Metrics(NamedTuple):
    """The metrics of every node, NaN where it has no label or no labeled neighbor."""

    nc: Values
    nh_open: Values
    nh_closed: Values


def measure_stability(given: LabeledGraph, name: str = "") -> StabilityPanel:
    """Flip labels at every level, and compare the metrics before and after."""
    before = _measure(given, given.labels)
    spreads = {key: float(np.nanstd(getattr(before, key))) for key in METRICS}
    defined = ~np.isnan(before.nc)
    changes: dict[float, dict[str, Change]] = {}
    for level in LEVELS:
        draws = [_draw_changes(given, before, level, seed) for seed in range(DRAWS)]
        changes[level] = {
            group: _average([one[group] for one in draws], spreads) for group in GROUPS
        }
    return StabilityPanel(name, int(defined.sum()), changes)


def _measure(given: LabeledGraph, labels: NDArray[np.int64]) -> _Metrics:
    counts = label_counts(given, labels)
    size, same = counts.size.astype(np.float64), counts.same
    defined = (labels >= 0) & (size > 1)
    size[~defined] = np.nan
    nc = np.log(size / np.maximum(counts.top, 1)) / np.log(max(given.num_classes, 2))
    return _Metrics(nc, (same - 1) / (size - 1), same / size)


def _draw_changes(
    given: LabeledGraph, before: _Metrics, level: float, seed: int
) -> dict[str, tuple[int, dict[str, float]]]:
    """Of one draw: the number of nodes of every group, and their summed absolute changes."""
    labels, flipped = flip_labels(given.labels, given.num_classes, level, seed)
    after = _measure(given, labels)
    around = label_counts(given, flipped.astype(np.int64), 2)
    # Of an unflipped node all that are not like it are flipped.
    touched = ~flipped & (around.size > around.same)
    defined = ~np.isnan(before.nc)
    many = given.graph.degrees - given.graph.self_loops >= MANY
    members = {
        "all": defined,
        "flipped": defined & flipped,
        "neighbors": defined & touched,
        "many": defined & touched & many,
    }
    moved = {key: np.abs(getattr(after, key) - getattr(before, key)) for key in METRICS}
    return {
        group: (int(some.sum()), {key: float(moved[key][some].sum()) for key in METRICS})
        for group, some in members.items()
    }


def flip_labels(
    labels: NDArray[np.int64], num_classes: int, level: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Give a share of the labeled nodes another class, each of the others being equally likely.

    Returns:
        The new labels, and which of them are new.
    """
    rng = np.random.default_rng(seed)
    labeled = np.flatnonzero(labels >= 0)
    chosen = rng.choice(labeled, max(1, round(level * len(labeled))), replace=False)
    new, flipped = labels.copy(), np.zeros(len(labels), dtype=bool)
    steps = rng.integers(1, max(num_classes, 2), len(chosen))
    new[chosen] = (labels[chosen] + steps) % num_classes
    flipped[chosen] = True
    return new, flipped


def _average(draws: list[tuple[int, dict[str, float]]], spreads: dict[str, float]) -> Change:
    total = sum(count for count, _ in draws)
    absolute: dict[str, float | None] = dict.fromkeys(METRICS)
    relative: dict[str, float | None] = dict.fromkeys(METRICS)
    if total:
        for key, spread in spreads.items():
            change = sum(sums[key] for _, sums in draws) / total
            absolute[key] = change
            relative[key] = change / spread if spread > 0 else None
    return Change(total / len(draws), absolute, relative)


def _group_table(data: parts.Panels[StabilityPanel], group: str) -> Table:
    lines: list[tuple[str, ...]] = []
    for panel in data.panels:
        change = panel.changes[SHOWN][group]
        absolute = [number(change.absolute[key]) for key in METRICS]
        ratios = [number(change.ratio(key), 2) for key in ("nh_open", "nh_closed")]
        spread = number(change.ratio("nh_open", relative=True), 2)
        lines.append((panel.dataset, f"{change.nodes:,.0f}", *absolute, *ratios, spread))
    head = ("", "nodes", *METRICS.values(), "NC / NH", "NC / closed", "NC / NH, in deviations")
    held = [one.changes[SHOWN][group].ratio("nh_open") for one in data.panels]
    known = [one for one in held if one is not None]
    note = (
        f"Mean absolute change with {SHOWN:.0%} of the labels flipped, {DRAWS} draws. NC changes "
        f"less than NH on {sum(one < 1 for one in known)} of {len(known)} graphs."
    )
    title = f"stability, {GROUPS[group]}".replace("\n", " ")
    return Table(title, head, tuple(lines), (note,))


def _level_table(data: parts.Panels[StabilityPanel]) -> Table:
    lines = [
        (
            panel.dataset,
            *(number(by["all"].ratio("nh_open"), 2) for by in panel.changes.values()),
        )
        for panel in data.panels
    ]
    head = ("", *(f"{level:.0%}" for level in LEVELS))
    note = "The change of NC over that of NH (Eq. 1), by the share of labels flipped."
    return Table("stability, all nodes, NC / NH by level", head, tuple(lines), (note,))


def _draw_group(axis: Axes, data: parts.Panels[StabilityPanel], group: str) -> None:
    looks: dict[str, tuple[str, str, float]] = {
        "nh_open": (BLUE, "o", -0.14),
        "nh_closed": (ORANGE, "D", 0.14),
    }
    for other, (color, marker, shift) in looks.items():
        for place, panel in enumerate(data.panels):
            ratios = [panel.changes[level][group].ratio(other) for level in panel.changes]
            known = [ratio for ratio in ratios if ratio is not None]
            if known:
                line: dict[str, Any] = {"color": color, "linewidth": 1.3, "solid_capstyle": "butt"}
                axis.plot([min(known), max(known)], [place + shift] * 2, **line)
            shown = panel.changes[SHOWN][group].ratio(other)
            if shown is not None:
                label = f"over {METRICS[other]}"
                look: dict[str, Any] = {"color": color, "marker": marker, "markersize": 3.6}
                axis.plot([shown], [place + shift], linestyle="none", label=label, **look)
    axis.axvline(1, color=GRAY, linewidth=0.9, linestyle="--")
    axis.set_yticks(range(len(data.panels)), [""] * len(data.panels))
    axis.set_ylim(len(data.panels) - 0.4, -0.6)
    axis.set_xscale("log")
    axis.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS], fontsize=7.5)
    axis.minorticks_off()
    axis.set_xlim(*_RANGE)
