"""The paper's figures that compare models: accuracy by NC, and running time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ncgnn.report._figures import BLUE, ORANGE
from ncgnn.report._paper_axes import (
    FEW_NODES,
    LOOKS,
    PARTS,
    common_legend,
    drawing,
    model_title,
    panel_title,
    say_below,
    say_missing,
    whisker_words,
    whiskers,
)
from ncgnn.report._run_axes import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ncgnn.experiments.figures._groups import GroupsData, GroupsPanel
    from ncgnn.experiments.figures._time import TimeData, TimePanel
    from ncgnn.training import Spread


def draw_groups(data: GroupsData) -> Figure:
    """Accuracy of models by tenths of true NC (left of each pair), and of low and high NC."""
    models = list(dict.fromkeys(c.model for panel in data.panels for c in panel.curves))
    looks = dict(zip(models, LOOKS, strict=False))
    count = len(data.panels)
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    with drawing(4.4 * columns, 2.3 * rows + 0.5) as figure:
        grid = figure.add_gridspec(rows, 2 * columns, width_ratios=[1.7, 1] * columns)
        axes: list[Axes] = []
        for place, panel in enumerate(data.panels):
            row, column = divmod(place, columns)
            curves = figure.add_subplot(grid[row, 2 * column])
            pair = figure.add_subplot(grid[row, 2 * column + 1], sharey=curves)
            _by_tenth(curves, panel, looks)
            _by_group(pair, panel, looks)
            axes.append(curves)
            if place + columns >= count:
                curves.set_xlabel("NC of the true labels")
        common_legend(figure, axes, columns=2 + columns)
        say_below(
            figure,
            f"{whisker_words(_group_spreads(data))}Where fewer than {FEW_NODES} nodes are "
            "evaluated, nothing is drawn",
        )
        say_missing(figure, data.missing)
    return figure


def _group_spreads(data: GroupsData) -> list[Spread | None]:
    return [s for panel in data.panels for c in panel.curves for s in (c.low, c.high)]


def _by_tenth(axis: Axes, panel: GroupsPanel, looks: dict[str, Any]) -> None:
    middle = np.arange(10) / 10 + 0.05
    # Of a handful of nodes accuracy is chance.
    enough = np.array(panel.tenth_nodes) >= FEW_NODES
    for curve in panel.curves:
        colour, dashes, marker = looks[curve.model]
        mean = np.array([np.nan if s is None else s.mean for s in curve.tenths])
        shown = enough & ~np.isnan(mean)
        axis.plot(
            middle[shown],
            mean[shown],
            color=colour,
            linestyle=dashes,
            marker=marker,
            markersize=4,
            linewidth=1.3,
            label=model_title(curve.model),
        )
    axis.axvline(panel.threshold, color=GREY, linestyle=":", linewidth=1.2, label="threshold T")
    axis.set_xlim(0, 1)
    axis.set_ylabel(f"{PARTS[panel.part]} accuracy")
    panel_title(axis, f"{panel.dataset}, k = {panel.hops}, T = {panel.threshold:g}")


def _by_group(axis: Axes, panel: GroupsPanel, looks: dict[str, Any]) -> None:
    offsets = np.linspace(-0.3, 0.3, len(panel.curves)) if len(panel.curves) > 1 else [0.0]
    counts = (panel.low_nodes, panel.high_nodes)
    for curve, offset in zip(panel.curves, offsets, strict=True):
        colour, _, marker = looks[curve.model]
        for place, spread in enumerate((curve.low, curve.high)):
            if spread is not None and counts[place] >= FEW_NODES:
                look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5}
                error = None if spread.std is None else whiskers([spread])
                axis.errorbar([place + offset], [spread.mean], error, capsize=2, lw=1, **look)
    for place, count in enumerate(counts):
        if count < FEW_NODES:
            look = {"ha": "center", "va": "center", "fontsize": 7.5, "color": GREY}
            axis.text(place, 0.5, "few\nnodes", transform=axis.get_xaxis_transform(), **look)
    axis.axvline(0.5, color="#cccccc", linewidth=0.8)
    axis.set_xticks(
        [0, 1], [f"{n}\n{_count(c)}" for n, c in zip(("low", "high"), counts, strict=True)]
    )
    axis.set_xlim(-0.5, 1.5)
    axis.tick_params(labelleft=False)
    axis.set_title("by group (nodes)", fontsize=8.5, loc="left")


def _count(nodes: float) -> str:
    return f"{nodes:,.0f}" if nodes >= 10 or nodes == round(nodes) else f"{nodes:.1f}"


def draw_time(data: TimeData) -> Figure:
    """Milliseconds per epoch (left) and seconds per run (right), on logarithmic axes."""
    most = [len(panel.times) for panel in data.panels]
    with drawing(8, sum(0.26 * count + 0.75 for count in most) + 0.3) as figure:
        grid = figure.add_gridspec(len(most), 2, height_ratios=[count + 2 for count in most])
        axes: list[Axes] = []
        for row, panel in enumerate(data.panels):
            left, right = (figure.add_subplot(grid[row, column]) for column in (0, 1))
            _dots(left, panel, [time.per_epoch for time in panel.times])
            _dots(right, panel, [time.per_run for time in panel.times])
            right.tick_params(labelleft=False)
            panel_title(left, f"{panel.dataset}: time per epoch, ms, logarithmic")
            panel_title(right, f"{panel.dataset}: time per run, s, logarithmic")
            axes.append(left)
        common_legend(figure, axes, columns=3)
        say_missing(figure, data.missing)
    return figure


def _dots(axis: Axes, panel: TimePanel, spreads: list[Spread]) -> None:
    from ncgnn.nn._catalog import BY_NAME

    means = [spread.mean for spread in spreads]
    lowest, highest = 0.6 * min(means), 1.15 * max(s.mean + (s.std or 0.0) for s in spreads)
    for place, (time, spread) in enumerate(zip(panel.times, spreads, strict=True)):
        known = BY_NAME.get(time.model)
        separated = known is None or known.family == "separated"
        colour, marker = (ORANGE, "D") if separated else (BLUE, "o")
        name = "separated models" if separated else "other models"
        several = f"{name}, mean ± deviation over runs" if spread.std is not None else name
        # The whisker ends within the axis, which is logarithmic.
        error = [[min(spread.std or 0.0, spread.mean - lowest)], [spread.std or 0.0]]
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5}
        axis.errorbar(
            [spread.mean], [place], xerr=error, lw=1, capsize=2, ls="none", label=several, **look
        )
        axis.annotate(
            _number(spread.mean),
            (spread.mean + (spread.std or 0.0), place),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if highest < 50 * lowest else (1,)))
    axis.xaxis.set_major_formatter(FuncFormatter(_plain))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlim(lowest, highest * (highest / lowest) ** 0.14)
    axis.grid(axis="y", color="#eeeeee")
    axis.set_axisbelow(True)
    axis.set_yticks(range(len(means)), [model_title(time.model) for time in panel.times])
    axis.set_ylim(len(means) - 0.4, -0.6)  # the first model above


def _plain(value: float, _: object) -> str:
    return f"{value:,g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
