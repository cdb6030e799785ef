"""The paper's figures of separated models: interplay, sensitivity, and α."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from ncgnn.report._figures import BLUE, GREEN, ORANGE, VERMILION
from ncgnn.report._paper_axes import (
    LOOKS,
    axes_of,
    common_legend,
    drawing,
    model_title,
    multiples,
    outer_labels,
    panel_title,
    say_below,
    say_missing,
    whiskers,
)
from ncgnn.report._run_axes import GREY
from ncgnn.report._run_words import group_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ncgnn.experiments.figures._alpha import AlphaData, AlphaPanel
    from ncgnn.experiments.figures._interplay import Curve, InterplayData, InterplayPanel
    from ncgnn.experiments.figures._sensitivity import (
        HopCurve,
        SensitivityData,
        SensitivityPanel,
    )


#: By how much curves of one threshold stand apart.
_SHIFT = 0.008


def draw_interplay(data: InterplayData) -> Figure:
    """Mean NC (left scales) and accuracy (right scales) over the epochs; bands are deviations."""
    width, height, rows, columns = multiples(len(data.panels), (2.9, 2.1), above=0.55)
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        others: list[Axes] = []
        for place, (axis, panel) in enumerate(zip(axes, data.panels, strict=True)):
            other = axis.twinx()
            _interplay(axis, other, panel)
            if place % columns == columns - 1 or place == len(axes) - 1:
                other.set_ylabel("accuracy")
            others.append(other)
        outer_labels(axes, columns, "epoch", "mean NC")
        for axis in axes:
            axis.yaxis.label.set_color(BLUE)
        common_legend(figure, [*axes, *others], columns=2 if columns < 3 else 4)
        say_missing(figure, data.missing)
    return figure


def _interplay(axis: Axes, other: Axes, panel: InterplayPanel) -> None:
    other.spines.right.set_visible(True)
    axis.set_zorder(other.get_zorder() + 1)
    axis.patch.set_visible(False)
    _band(axis, panel.estimated_nc, "estimated NC", BLUE, "-", 1.8)
    if panel.true_nc is not None:
        axis.axhline(panel.true_nc, color=BLUE, linestyle="--", linewidth=1.2, label="true NC")
    val = replace(panel.val_accuracy, std=None)  # three bands would hide each other
    _band(other, val, "validation accuracy", VERMILION, "-", 0.8)
    if panel.test_accuracy is not None:
        name = "test accuracy of the best epoch so far"
        _band(other, panel.test_accuracy, name, GREEN, "-.", 1.4)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.margins(x=0.02)
    runs = "1 run" if panel.runs == 1 else f"{panel.runs} runs"
    panel_title(axis, f"{panel.dataset}, k = {panel.hops}, {runs}")


def _band(axis: Axes, curve: Curve, label: str, colour: str, dashes: str, width: float) -> None:
    mean, places = np.array(curve.mean), np.arange(len(curve.mean))
    axis.plot(places, mean, color=colour, linestyle=dashes, linewidth=width, label=label)
    if curve.std is not None:
        std = np.array(curve.std)
        axis.fill_between(places, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)


def draw_sensitivity(data: SensitivityData) -> Figure:
    """Test accuracy against T, a curve per k, side by side where they would hide each other."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 2.1))
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            middle = (len(panel.curves) - 1) / 2
            for place, (curve, look) in enumerate(zip(panel.curves, LOOKS, strict=False)):
                shift = _SHIFT * (place - middle)
                _hop_curve(axis, curve, look, shift)
                _preset(axis, panel, curve, shift)
            axis.set_xticks([point.threshold for point in panel.curves[0].points])
            axis.margins(x=0.06)
            panel_title(axis, panel.dataset)
        outer_labels(axes, columns, "threshold T", f"test accuracy of {model_title(data.model)}")
        common_legend(figure, axes, columns=4 if columns > 1 else 2)
        say_missing(figure, data.missing)
    return figure


def _hop_curve(axis: Axes, curve: HopCurve, look: tuple[str, Any, str], shift: float) -> None:
    colour, dashes, marker = look
    known = [(point.threshold, point.test) for point in curve.points if point.test is not None]
    if not known:
        return
    places = [threshold + shift for threshold, _ in known]
    spreads = [spread for _, spread in known]
    error = None if any(spread.std is None for spread in spreads) else whiskers(spreads)
    style: dict[str, Any] = {"linestyle": dashes, "marker": marker, "markersize": 4.5}
    style |= {"color": colour, "linewidth": 1.4, "elinewidth": 0.8, "capsize": 2}
    several = "" if error is None else " ± std"
    label = f"k = {curve.hops}{several}"
    axis.errorbar(places, [spread.mean for spread in spreads], error, label=label, **style)


def _preset(axis: Axes, panel: SensitivityPanel, curve: HopCurve, shift: float) -> None:
    """A ring around the pair that the paper found best."""
    for point in curve.points:
        chosen = (panel.preset_hops, panel.preset_threshold)
        if (curve.hops, point.threshold) == chosen and point.test is not None:
            ring: dict[str, Any] = {"marker": "o", "markersize": 11, "linestyle": "none"}
            ring |= {"markerfacecolor": "none", "markeredgecolor": "black", "clip_on": False}
            axis.plot([point.threshold + shift], [point.test.mean], label="the preset", **ring)


#: Colour, line, filling and mark of a group.
_ALPHA_LOOKS = ((BLUE, "-", "", "|"), (ORANGE, "--", "////", "x"), (GREEN, "-.", "....", "+"))


def draw_alpha(data: AlphaData) -> Figure:
    """Densities of α over runs, a curve per group; ticks at the bottom are the runs."""
    width, height, rows, columns = multiples(len(data.panels), (2.7, 1.9))
    with drawing(width, height) as figure:
        axes = axes_of(figure, len(data.panels), rows, columns)
        for axis, panel in zip(axes, data.panels, strict=True):
            _densities(axis, data.grid, panel)
        runs = max((len(panel.groups[0].values) for panel in data.panels), default=0)
        density = "density" if runs > 1 else ""
        outer_labels(axes, columns, "α: weight of message passing", density)
        common_legend(figure, axes, columns=2)
        marks = "Marks below the curves: one per run. " if runs > 1 else ""
        say_below(figure, f"{marks}α = 1: messages alone count")
        say_missing(figure, data.missing)
    return figure


def _densities(axis: Axes, grid: tuple[float, ...], panel: AlphaPanel) -> None:
    names, runs = group_names(len(panel.groups)), len(panel.groups[0].values)
    panel_title(axis, f"{panel.dataset}, {'1 run' if runs == 1 else f'{runs} runs'}")
    if runs == 1:  # one number has no density
        _single_values(axis, names, panel)
        return
    places, highest = np.array(grid), max(max(group.density) for group in panel.groups)
    for place, (name, group) in enumerate(zip(names, panel.groups, strict=True)):
        colour, dashes, hatch, marker = _ALPHA_LOOKS[place % len(_ALPHA_LOOKS)]
        axis.plot(places, group.density, color=colour, linestyle=dashes, linewidth=1.5, label=name)
        look: dict[str, Any] = {"facecolor": colour + "33", "edgecolor": colour, "hatch": hatch}
        axis.fill_between(places, 0, np.array(group.density), linewidth=0, **look)
        level = np.full(len(group.values), -highest * (0.05 + 0.07 * place))
        axis.plot(group.values, level, linestyle="none", marker=marker, markersize=5, color=colour)
    seen = places[np.max([group.density for group in panel.groups], axis=0) > 0.01 * highest]
    axis.set_xlim(max(0.0, seen[0] - 0.02), min(1.0, seen[-1] + 0.02))
    axis.set_ylim(-highest * (0.05 + 0.07 * len(names)), 1.05 * highest)
    axis.axhline(0, color=GREY, linewidth=0.6)
    axis.yaxis.set_major_locator(MaxNLocator(4, prune=None))
    axis.set_yticks([tick for tick in axis.get_yticks() if 0 <= tick <= highest])


def _single_values(axis: Axes, names: Sequence[str], panel: AlphaPanel) -> None:
    for place, (name, group) in enumerate(zip(names, panel.groups, strict=True)):
        colour, dashes, _, _ = _ALPHA_LOOKS[place % len(_ALPHA_LOOKS)]
        axis.axvline(group.values[0], color=colour, linestyle=dashes, linewidth=1.8, label=name)
    axis.set_xlim(0.0, 1.0)
    axis.set_yticks([])
