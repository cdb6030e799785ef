"""Figures of one run: how it was trained, how its groups came about, where it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ncgnn.report._figures import (
    BLUE,
    STYLE,
    VERMILION,
)
from ncgnn.report._run_axes import (
    GREY,
    SERIES,
    Record,
    epochs,
    legend,
    limit_loss,
    line,
    settled,
    values,
)
from ncgnn.report._run_words import evaluated_part, group_names, measure_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

_PARTS = (("train", "train"), ("validation", "val"), ("test", "test"))
_LIGHT = "#d4d4d4"
DPI = 150


def run_figures(
    config: Mapping[str, Any], history: Sequence[Record], result: Mapping[str, Any]
) -> dict[str, Figure]:
    """All figures of a run by name; a model without groups has no ``interplay``.

    Args:
        config: The tables of ``config.toml``.
        history: One record per epoch.
        result: What ``result.json`` holds.
    """
    best = int(result["best_epoch"])
    figures = {"curves": curves_figure(history, best)}
    if "mean_nc" in result:
        measure = measure_name(config)
        true_mean = result["true_mean_nc"] if measure == "NC" else None
        figures["interplay"] = interplay_figure(history, true_mean, best, measure=measure)
    figures["groups"] = groups_figure(result)
    return figures


def curves_figure(history: Sequence[Record], best_epoch: int) -> Figure:
    """Loss (left) and accuracy (right) after every epoch; a line marks the best one."""
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3.1), dpi=DPI, layout="constrained")
        loss, accuracy = figure.subplots(1, 2)
        shown = [("train", "loss"), ("validation", "val_loss")]
        for (label, key), look in zip(shown, SERIES, strict=False):
            line(loss, history, values(history, key), label, look)
        shown = [(name, f"{key}_accuracy") for name, key in _PARTS]
        for (label, key), look in zip(shown, SERIES, strict=False):
            column = values(history, key)
            if not np.isnan(column).all():  # a split without test nodes
                line(accuracy, history, column, label, look)
        loss.set_ylabel("cross-entropy")
        limit_loss(loss, history)
        accuracy.set_ylabel("accuracy")
        accuracy.set_ylim(0, 1.02)
        for axis in (loss, accuracy):
            epochs(axis, best_epoch)
            legend(axis)
        return settled(figure)


def interplay_figure(
    history: Sequence[Record],
    true_mean_nc: float | None,
    best_epoch: int,
    *,
    measure: str = "NC",
) -> Figure:
    """How estimated confusion and accuracy push each other up, with groups and α below.

    The figure "interplay" of "Clarify Confused Nodes via Separated Learning": the mean of the NC
    in force in every epoch, the mean NC of the true labels (dashed) and validation accuracy.

    Args:
        history: One record per epoch, of a model with groups.
        true_mean_nc: Mean NC of the true labels; None draws no such line.
        best_epoch: The epoch to be marked.
        measure: What the groups follow from, as people call it.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 5.4), dpi=DPI, layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=(1.25, 1))
        top = figure.add_subplot(grid[0, :])
        name = f"mean estimated {measure}"
        line(top, history, values(history, "mean_nc"), name, (BLUE, "-"), width=2.0)
        if true_mean_nc is not None:
            label = f"mean true {measure} ({true_mean_nc:.3f})"
            top.axhline(true_mean_nc, color=BLUE, linestyle="--", linewidth=1.4, label=label)
        top.set_ylabel(f"mean {measure}", color=BLUE)
        top.set_ylim(bottom=0)
        right = top.twinx()
        right.spines.right.set_visible(True)
        accuracy = values(history, "val_accuracy")
        line(right, history, accuracy, "validation accuracy", (VERMILION, "-"), width=0.9)
        right.set_ylabel("validation accuracy", color=VERMILION)
        top.set_zorder(right.get_zorder() + 1)  # its curve is the calmer one
        top.patch.set_visible(False)
        epochs(top, best_epoch)
        legend(top, right)
        sizes, alpha = (figure.add_subplot(grid[1, column]) for column in (0, 1))
        _per_group(sizes, history, "group_sizes", measure)
        sizes.set_ylabel("nodes in the group")
        _per_group(alpha, history, "alpha", measure)
        alpha.set_ylabel("α (message passing)")
        alpha.set_ylim(0, 1.02)
        for axis in (sizes, alpha):
            epochs(axis, best_epoch, marked=False)
            legend(axis)
        return settled(figure)


def groups_figure(result: Mapping[str, Any]) -> Figure:
    """Where the model is right: accuracy by NC of the true labels, and by tenths of NH."""
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3.3), dpi=DPI, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
        part, title = evaluated_part(result)
        overall = float(result["scores"][part]["accuracy"])
        _group_bars(left, result)
        for axis in (left, right):
            label = f"all {title} nodes ({overall:.3f})"
            axis.axhline(overall, color=GREY, linestyle="--", linewidth=1.2, label=label)
            axis.set_ylabel(f"{title} accuracy")
            axis.set_ylim(0, 1.22 if axis is left else 1.03)
            axis.set_yticks(np.linspace(0, 1, 6))
        _homophily_tenths(right, result)
        legend(left)
        return settled(figure)


def _group_bars(axis: Axes, result: Mapping[str, Any]) -> None:
    names = group_names(len(result["thresholds"]) + 1)
    records = result["accuracy_by_true_group"]
    places = [record["part"] for record in records]
    heights = [record["accuracy"] for record in records]
    axis.bar(places, heights, width=0.6, color=BLUE + "55", edgecolor=BLUE, linewidth=1.2)
    for record in records:
        text = f"{record['accuracy']:.3f}\n{record['nodes']:,} nodes"
        height = record["accuracy"] + 0.02
        box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
        axis.text(record["part"], height, text, ha="center", va="bottom", fontsize=8, bbox=box)
    axis.set_xlim(-0.6, len(names) - 0.4)
    axis.set_xticks(range(len(names)), names, rotation=0 if len(names) <= 2 else 30)
    limits = ", ".join(f"{limit:g}" for limit in result["thresholds"])
    axis.set_xlabel(f"groups by true NC, k={result['hops']}, divided at {limits}")


def _homophily_tenths(axis: Axes, result: Mapping[str, Any]) -> None:
    counts, accuracy = np.zeros(10), np.full(10, np.nan)
    for record in result["accuracy_by_nh_decile"]:
        counts[record["part"]] = record["nodes"]
        accuracy[record["part"]] = record["accuracy"]
    middle = np.arange(10) / 10 + 0.05
    behind = axis.twinx()
    behind.spines.right.set_visible(True)
    behind.bar(middle, counts, width=0.09, color=_LIGHT, label="nodes")
    behind.set_ylabel("nodes")
    behind.set_ylim(0, 1.03 * max(float(counts.max()), 1.0))
    behind.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axis.set_zorder(behind.get_zorder() + 1)
    axis.patch.set_visible(False)
    axis.plot(middle, accuracy, color=BLUE, marker="o", markersize=4.5, label="accuracy")
    axis.set_xlim(0, 1)
    axis.set_xticks(np.linspace(0, 1, 11))
    axis.set_xlabel("node homophily NH of the closed neighbourhood")
    legend(axis, behind)


def _per_group(axis: Axes, history: Sequence[Record], key: str, measure: str) -> None:
    table = np.array([record[key] for record in history], dtype=np.float64)
    names = group_names(table.shape[1], measure)
    for group, name in enumerate(names):
        line(axis, history, table[:, group], name, SERIES[group % len(SERIES)])
