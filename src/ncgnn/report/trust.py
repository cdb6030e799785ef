"""How far answers can be relied on: calibration of probabilities, and coverage of sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ncgnn.metrics import KINDS
from ncgnn.report.style import (
    BLUE,
    GRAY,
    ORANGE,
    PARTS,
    STYLE,
    VERMILION,
    freeze_layout,
    number,
    show_percent,
)
from ncgnn.report.tables import Table
from ncgnn.training import COMPARED, FEWEST_NODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes

    Record = Mapping[str, Any]

#: What people call the rules for sets.
RULES = {"lac": "LAC", "lac_by_nc": "LAC by NC", "aps": "APS", "aps_by_nc": "APS by NC"}
#: What nodes are divided by.
DIVISIONS = {
    "nc": "Estimated NC, in fifths",
    "kind": "Kind, as the model estimates it",
    "degree": "Degree",
    "class": "Class",
}
DPI = 150
# Of more classes a terminal shows those whose sets hold them the least often.
_MOST_CLASSES = 12


def trust_tables(result: Record, *, all_classes: bool = True) -> list[Table]:
    """Calibration and coverage of a run; none of a run that an earlier version has written.

    Args:
        result: What ``result.json`` holds.
        all_classes: Whether every class has a row, or only those with the lowest coverage.
    """
    if "sets" not in result:
        return []
    return [_calibration_table(result), _sets_table(result, all_classes)]


def _calibration_table(result: Record) -> Table:
    found, part = result["calibration"], PARTS[result["evaluated"]]
    rows: list[tuple[str, ...]] = []
    for title, key in (("calibration error", "calibration_error"), ("cross-entropy", "loss")):
        rows.append((title, *(number(found[when][key]) for when in ("before", "after"))))
    counts, by_kind = found["validation_nodes_by_kind"], found["temperature_by_kind"]
    kinds = [f"{k} {by_kind[k]:.2f} ({counts[k]:,})" for k in KINDS if k in by_kind]
    text = "Probabilities are the model's own: calibration is none."
    if kinds:
        text = (
            f"Temperature {found['temperature']:.2f}; by kind, with validation nodes: "
            f"{', '.join(kinds)}."
        )
    head = (f"{part} nodes", "as the model says", "with temperatures")
    return Table("Probabilities, before calibration and after", head, tuple(rows), (text,))


def _sets_table(result: Record, all_classes: bool) -> Table:
    sets, part = result["sets"], PARTS[result["evaluated"]]
    overall = sets["parts"][0]
    rows: list[tuple[str, ...]] = [("all", f"{overall['nodes']:,}", *_cells(overall))]
    notes = [
        "By NC: a limit for each of the groups of validation nodes, "
        f"{', '.join(f'{count:,}' for count in sets['groups']['nodes'])}.",
        "An empty set gets the most probable class; without that, of all nodes "
        + ", ".join(
            f"{title} {100 * overall[key]['limit_coverage']:.1f}" for key, title in RULES.items()
        )
        + ".",
    ]
    for by, title in DIVISIONS.items():
        records = [record for record in sets["parts"] if record["by"] == by]
        if by == "class" and not all_classes and len(records) > _MOST_CLASSES:
            shown = [one for one in records if one["nodes"] >= FEWEST_NODES]
            shown.sort(key=lambda record: record["lac_by_nc"]["coverage"])
            notes.append(f"{len(records)} classes; --json and report.html show all.")
            records, title = shown[:_MOST_CLASSES], f"{title}, those with the lowest LAC by NC"
        rows.append((title,))
        rows += [(one["part"], f"{one['nodes']:,}", *_cells(one)) for one in records]
    if any("too few" in row for row in rows):
        notes.append(f"Of fewer than {FEWEST_NODES} nodes nothing is shown.")
    title = (
        f"Sets that should hold {100 * sets['coverage']:g} %: how many do, and (their mean size)"
    )
    return Table(title, (f"{part} nodes", "number", *RULES.values()), tuple(rows), tuple(notes))


def _cells(record: Record) -> Iterator[str]:
    for rule in COMPARED:
        few = record["nodes"] < FEWEST_NODES
        share, size = record[rule]["coverage"], record[rule]["size"]
        yield "too few" if few else f"{100 * share:.1f} ({size:.2f})"


def trust_figure(result: Record) -> Figure:
    """The reliability curve before and after calibration, and coverage in every fifth of NC."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.5), dpi=DPI, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
        _draw_reliability(left, result["calibration"])
        _draw_coverage(right, result["sets"])
        return freeze_layout(figure)


def _draw_reliability(axis: Axes, found: Record) -> None:
    axis.plot((0, 1), (0, 1), color=GRAY, linestyle="--", linewidth=1.2)
    for when, color, marker in (("before", ORANGE, "s"), ("after", BLUE, "o")):
        points = [one for one in found[when]["reliability"] if one["nodes"] >= FEWEST_NODES]
        error = number(found[when]["calibration_error"])
        axis.plot(
            [one["confidence"] for one in points],
            [one["accuracy"] for one in points],
            color=color,
            marker=marker,
            markersize=4.5,
            label=f"{when} calibration (error {error})",
        )
    axis.set_xlabel("probability of the answer")
    axis.set_ylabel("right answers")
    axis.set_xlim(0, 1.02)
    axis.set_ylim(0, 1.02)
    show_percent(axis.xaxis, axis.yaxis)
    axis.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_coverage(axis: Axes, sets: Record) -> None:
    parts = [one for one in sets["parts"] if one["by"] == "nc" and one["nodes"] >= FEWEST_NODES]
    places = np.arange(len(parts))
    looks = (("lac", VERMILION, "one limit for all nodes"), ("lac_by_nc", BLUE, "a limit by NC"))
    for shift, (rule, color, label) in zip((-0.19, 0.19), looks, strict=True):
        heights = [one[rule]["coverage"] for one in parts]
        sizes = [one[rule]["size"] for one in parts]
        look: dict[str, Any] = {"color": color + "55", "edgecolor": color, "linewidth": 1.2}
        axis.bar(places + shift, heights, width=0.36, label=f"LAC, {label}", **look)
        for place, height, size in zip(places + shift, heights, sizes, strict=True):
            axis.text(place, height + 0.01, f"{size:.2f}", ha="center", fontsize=7.5)
    promised = sets["coverage"]
    axis.axhline(promised, color=GRAY, linestyle="--", linewidth=1.2)
    names = [f"{one['part']}\n{one['nodes']:,} nodes" for one in parts]
    axis.set_xticks(places, names, fontsize=8)
    axis.set_xlabel("estimated NC; above the bars the mean size of the sets")
    axis.set_ylabel(f"sets that hold the class ({100 * promised:g}% promised)")
    lowest = min(
        (one[rule]["coverage"] for one in parts for rule in ("lac", "lac_by_nc")), default=0
    )
    axis.set_ylim(max(0.0, np.floor(10 * lowest - 1) / 10), 1.12)
    axis.set_yticks(np.arange(np.ceil(10 * axis.get_ylim()[0]), 11) / 10)
    show_percent(axis.yaxis)
    axis.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
