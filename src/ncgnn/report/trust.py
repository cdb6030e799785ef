"""How far answers can be relied on: calibration of probabilities, and coverage of sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ncgnn.metrics import KINDS, lowest_share
from ncgnn.report.style import (
    BLUE,
    GRAY,
    ORANGE,
    PARTS,
    STYLE,
    VERMILION,
    freeze_layout,
    number,
    percent,
    show_percent,
)
from ncgnn.report.tables import Table
from ncgnn.training import COMPARED, FEWEST_NODES, about_few_validation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Record = Mapping[str, Any]

#: What people call the rules for sets.
RULES = {
    "lac": "LAC",
    "lac_by_nc": "LAC by NC",
    "aps": "APS",
    "aps_by_nc": "APS by NC",
    "aps_random_by_nc": "random APS by NC",
}
#: What nodes are divided by.
DIVISIONS = {
    "group": "Groups that have a limit each",
    "nc": "Fifths of NC",
    "kind": "Kinds",
    "degree": "Degrees",
    "class": "Classes",
}
DPI = 150
# Of more classes a terminal shows those whose sets hold them the least often.
_MOST_CLASSES = 12
_MOST_TELLING = ("lac", "lac_by_nc", "aps_by_nc")


def trust_tables(result: Record, *, all_classes: bool = True) -> list[Table]:
    """Calibration and coverage of a run; none of a run that an earlier version has written.

    Args:
        result: What ``result.json`` holds.
        all_classes: Whether every class has a row, or only those with the lowest coverage.
    """
    if "sets" not in result:
        return []
    return [_calibration_table(result), _sets_table(result, all_classes)]


def _rules(record: Record, everything: bool) -> list[str]:
    """The rules to show: a terminal is too narrow for all, and earlier runs know fewer."""
    return [rule for rule in COMPARED if rule in record and (everything or rule in _MOST_TELLING)]


def _calibration_table(result: Record) -> Table:
    found, part = result["calibration"], PARTS[result["evaluated"]]
    both = found["before"], found["after"]
    rows = [
        ("calibration error, %", *(_error(one) for one in both)),
        ("cross-entropy", *(number(one["loss"]) for one in both)),
    ]
    counts, by_kind = found["validation_nodes_by_kind"], found["temperature_by_kind"]
    kinds = [f"{k} {by_kind[k]:.2f} ({counts[k]:,})" for k in KINDS if k in by_kind]
    text = "Probabilities are the model's own: calibration is none."
    if kinds:
        text = (
            f"Temperature {found['temperature']:.2f}; by kind, with validation nodes: "
            f"{', '.join(kinds)}."
        )
    head = (f"{part} nodes", "as the model says", "with temperatures")
    notes = (text, *_about_change(found, part), *_about_own_nodes(result))
    return Table("Probabilities, before calibration and after", head, tuple(rows), notes)


def _error(found: Record) -> str:
    """An error of calibration in percent, as other scores are."""
    return percent(found["calibration_error"]) or "–"


def _about_change(found: Record, part: str) -> list[str]:
    """A sentence on what temperatures did to these nodes."""
    if not found["temperature_by_kind"] or found.get("change") is None:
        return []
    value, low, high = (f"{one:+.3f}".replace("-", "−") for one in found["change"])
    text = f"They change the cross-entropy of {part} nodes by {value} (95 %: {low} to {high})"
    if found["change"][1] > 0:
        return [f"{text}: here they do harm, although validation nodes have chosen them."]
    if found["change"][2] < 0:
        return [f"{text}."]
    return [f"{text}, which cannot be told from no change."]


def _about_own_nodes(result: Record) -> list[str]:
    """A sentence where nothing is left to judge by but the nodes that calibrated."""
    if result["evaluated"] == "test":
        return []
    return [
        "Note: the split has no test nodes, so that these are the nodes that temperatures and "
        "limits were chosen by; they prove nothing."
    ]


def _sets_table(result: Record, all_classes: bool) -> Table:
    sets, part = result["sets"], PARTS[result["evaluated"]]
    overall = sets["parts"][0]
    rules = {rule: RULES[rule] for rule in _rules(overall, all_classes)}
    rows: list[tuple[str, ...]] = [("all", f"{overall['nodes']:,}", *_cells(overall, rules))]
    limits = [f"{name} {100 * overall[key]['limit_coverage']:.1f}" for key, name in rules.items()]
    notes = [
        *_about_limits(sets["groups"]),
        "An empty set gets the most probable class; without that, all nodes would have "
        f"{', '.join(limits)}.",
    ]
    if remark := sets["groups"].get("remark"):
        notes.append(remark)
    notes.append(
        "Nothing is promised within a kind, a degree or a class. In brackets 95 % intervals of the "
        "shares beside them, for limits as they are: other validation nodes would give others."
    )
    notes += _about_own_nodes(result)
    if few := about_few_validation(sets["coverage"], result["nodes"]["val"]):
        notes.append(f"Note: {few}")
    for by, heading in DIVISIONS.items():
        records = [record for record in sets["parts"] if record["by"] == by]
        if by == "class" and not all_classes and len(records) > _MOST_CLASSES:
            notes.append(
                f"Of {len(records)} classes those whose sets by NC hold them the least often; "
                "report.html and --json show all."
            )
            records = _lowest(records)
        if records:
            rows.append((heading,))
        rows += [(one["part"], f"{one['nodes']:,}", *_cells(one, rules)) for one in records]
    if any("too few" in row for row in rows):
        notes.append(f"Of fewer than {FEWEST_NODES} nodes nothing is shown.")
    promised = f"{100 * sets['coverage']:g} %"
    return Table(
        f"Sets that should hold the class of {promised} of the nodes: how many do, and mean size",
        (f"{part} nodes", "number", *rules.values()),
        tuple(rows),
        tuple(notes),
        compact=True,
    )


def _lowest(records: list[Record]) -> list[Record]:
    """The classes with the lowest coverage, of those with nodes enough."""
    shown = [record for record in records if record["nodes"] >= FEWEST_NODES]
    return sorted(shown, key=lambda record: record["lac_by_nc"]["coverage"])[:_MOST_CLASSES]


def _cells(record: Record, rules: Iterable[str]) -> Iterator[str]:
    for rule in rules:
        few = record["nodes"] < FEWEST_NODES
        share, size = record[rule]["coverage"], record[rule]["size"]
        around = _brackets(share, record["nodes"])
        yield "too few" if few else f"{100 * share:.1f} {around} · {size:.2f}"


def _brackets(share: float, nodes: int) -> str:
    """The interval of a share of some nodes."""
    ((below,), (above,)) = _interval(np.array([share]), np.array([nodes]))
    return f"({100 * (share - below):.1f}–{100 * (share + above):.1f})"


def _about_limits(groups: Record) -> list[str]:
    """Which validation nodes the limits by NC are from."""
    if len(groups["nodes"]) < 2:  # the remark says so
        return []
    sizes = ", ".join(f"{count:,}" for count in groups["nodes"])
    apart = f", and for {groups['alone']:,} that are alone" if groups.get("apart") else ""
    return [
        "By NC: a limit of its own for each group of validation nodes with similar NC, of "
        f"{sizes} nodes{apart}."
    ]


def trust_figure(result: Record) -> Figure:
    """The reliability curve before and after calibration, and coverage in every fifth of NC."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9.5, 3.4), dpi=DPI, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
        _draw_reliability(left, result["calibration"])
        _draw_coverage(right, result["sets"])
        return freeze_layout(figure)


def _draw_reliability(axis: Axes, found: Record) -> None:
    axis.plot((0, 1), (0, 1), color=GRAY, linestyle="--", linewidth=1.2)
    curves = {when: _join_bins(found[when]["reliability"]) for when in ("before", "after")}
    for when, color, marker in (("before", ORANGE, "s"), ("after", BLUE, "o")):
        error = _error(found[when])
        axis.plot(
            [one["confidence"] for one in curves[when]],
            [one["accuracy"] for one in curves[when]],
            color=color,
            marker=marker,
            markersize=4.5,
            label=f"{when}: error {error} %",
        )
    if not curves["after"]:
        axis.text(0.5, 0.25, f"fewer than {FEWEST_NODES} nodes", ha="center", fontsize=8)
    axis.set_xlabel("probability of the answer, before calibration and after")
    axis.set_ylabel("right answers")
    axis.set_xlim(0, 1.02)
    axis.set_ylim(0, 1.02)
    show_percent(axis.xaxis, axis.yaxis)
    _legend_above(axis)


def _join_bins(bins: Sequence[Record]) -> list[Record]:
    """Bins of the reliability curve, those of few nodes joined with the next ones."""
    found: list[list[Record]] = [[]]
    for one in bins:
        if _count(found[-1]) >= FEWEST_NODES:
            found.append([])
        found[-1].append(one)
    if _count(found[-1]) < FEWEST_NODES and len(found) > 1:
        last = found.pop()
        found[-1] += last
    return [
        {
            name: sum(one[name] * one["nodes"] for one in part) / _count(part)
            for name in ("confidence", "accuracy")
        }
        for part in found
        if _count(part) >= FEWEST_NODES
    ]


def _count(records: Sequence[Record]) -> int:
    return sum(one["nodes"] for one in records)


def _draw_coverage(axis: Axes, sets: Record) -> None:
    every = [one for one in sets["parts"] if one["by"] == "nc"]
    parts = [one for one in every if one["nodes"] >= FEWEST_NODES]
    axis.axhline(sets["coverage"], color=GRAY, linestyle="--", linewidth=1.2)
    looks = (("lac", VERMILION, "s", "one limit"), ("lac_by_nc", BLUE, "o", "a limit by NC"))
    for shift, (rule, color, marker, label) in zip((-0.1, 0.1), looks, strict=True):
        places = np.arange(len(parts)) + shift
        shares = np.array([one[rule]["coverage"] for one in parts])
        look: dict[str, Any] = {"color": color, "fmt": marker, "markersize": 5, "capsize": 2}
        around = _interval(shares, np.array([one["nodes"] for one in parts]))
        axis.errorbar(places, shares, yerr=around, label=f"LAC, {label}", **look)
    names = [
        f"{one['part']}\n{one['nodes']:,} nodes\n{one['lac']['size']:.2f} → "
        f"{one['lac_by_nc']['size']:.2f}"
        for one in parts
    ]
    axis.set_xticks(range(len(parts)), names, fontsize=8)
    axis.set_xlim(-0.6, len(parts) - 0.4)
    about = "estimated NC; mean size of sets, one limit → by NC"
    if few := len(every) - len(parts):
        hidden = "one part" if few == 1 else f"{few} parts"
        about += f"\nnot shown: {hidden} of fewer than {FEWEST_NODES} nodes"
    axis.set_xlabel(about)
    axis.set_ylabel("sets that hold the class")
    show_percent(axis.yaxis)
    _legend_above(axis)


def _interval(shares: NDArray[np.float64], nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """How far Wilson's 95 % intervals reach below and above shares of some nodes."""
    low = lowest_share(shares * nodes, nodes)
    high = 1 - lowest_share((1 - shares) * nodes, nodes)
    return np.stack([shares - low, high - shares])


def _legend_above(axis: Axes) -> None:
    """A legend where no curve can be."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axis.legend(frameon=False, fontsize=8, ncols=2, handlelength=1.7, **place)
