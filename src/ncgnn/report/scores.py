"""The scores of one run as tables and figures: in all, per class, and by what is around nodes.

Runs of earlier versions lack some of it; what is missing is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ncgnn.data import shorten
from ncgnn.metrics import KINDS, group_names
from ncgnn.report.auto import share_table
from ncgnn.report.style import (
    BLUE,
    GRAY,
    LIGHT,
    PARTS,
    STYLE,
    freeze_layout,
    legend,
    percent,
    show_percent,
    twin,
)
from ncgnn.report.tables import Marked, Table
from ncgnn.training import FEWEST_NODES, SCORE_NAMES, about_small_groups, measure_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes

    from ncgnn.training import RunConfig

    Record = Mapping[str, Any]
    Places = list[tuple[str, list[tuple[str, Record]]]]

#: Longer names of classes and nodes end in an ellipsis, in tables and in pictures.
LONGEST_NAME, LONGEST_LABEL = 40, 18
ABOUT_INTERVALS = (
    "In brackets: 95 % intervals over nodes; they say nothing of other seeds or splits."
)
_OWN_GROUPS = "Groups of the model"
_DPI = 150


def evaluation_tables(result: Record, config: RunConfig) -> list[Table]:
    """The scores of one run: in all, against another, per class, and by what is around nodes.

    Of a mixture, also how much each expert counts.
    """
    measure = measure_name(config.model.options.get("guidance", "nc"))
    small = small_groups_text(result, config.model.options)
    tables = [
        _scores_table(result, config),
        against_table(result),
        class_table(result),
        pair_table(result),
        _one_table(result, places(result, measure), small),
        share_table(result),
    ]
    return [table for table in tables if table is not None]


def small_groups_text(result: Record, options: Record) -> str:
    """A sentence on groups with hardly any node; empty where it is meant to be so."""
    if not options.get("grouped", True):
        return ""
    rule = options.get("threshold_kind", "value"), options.get("guidance", "nc")
    return about_small_groups(result.get("group_sizes", ()), *rule)


def _scores_table(result: Record, config: RunConfig) -> Table:
    parts, intervals = result["scores"], result.get("intervals", {})
    rows = [
        score_row(
            title,
            name == config.training.metric,
            *(percent(part[name]) for part in parts.values()),
            *([interval_text(intervals.get(name))] if intervals else []),
        )
        for name, title in SCORE_NAMES.items()
        if all(part.get(name) is not None for part in parts.values())
    ]
    head = ("score", *(PARTS[part] for part in parts))
    notes = ["Likelihood and calibration error are the model's own, without temperatures."]
    if intervals:
        head += (f"{PARTS[evaluated_part(result)]}, 95 %",)
        notes.append(
            "In percent. The intervals are over nodes; they say nothing of other seeds or splits."
        )
    if result["majority_baseline"] is not None:
        share = percent(result["majority_baseline"])
        notes.append(f"Always answering the commonest class is right at {share} % of test nodes.")
    return Table(model_on_graph(config), head, tuple(rows), tuple(notes))


def score_row(title: str, selects: bool, *cells: str) -> tuple[str | Marked, ...]:
    """A row of scores, marked if its score selected the best epoch."""
    mark = "best" if selects else ""
    return tuple(Marked(cell, mark) for cell in (title, *cells))


def model_on_graph(config: RunConfig) -> str:
    """Which model was trained on which split of which graph."""
    return f"{config.model.name} on {graph_name(config)}, {config.data.split} split"


def graph_name(config: RunConfig) -> str:
    """The name of a dataset, or of a file without its folders."""
    return config.data.dataset.replace("\\", "/").rsplit("/", 1)[-1]


def against_table(result: Record) -> Table | None:
    """How much better a run is than another one on the same nodes, in points."""
    found = result.get("against")
    if found is None:
        return None
    part, other = PARTS[evaluated_part(result)], str(found.get("run", "the other run"))
    rows = [
        (
            str(record.get("kind", "all")),
            f"{record['nodes']:,}",
            *(_points_of(record, name) for name in ("accuracy", "macro_f1")),
            f"{record['only_first']:,}",
            f"{record['only_second']:,}",
        )
        for record in (found, *found["parts"])
    ]
    head = ("kind", f"{part} nodes", "accuracy", "macro-F1", "only this", "only that")
    notes = (
        f"Points by which this run is better than {other} (worse where negative), with 95 % "
        "intervals of paired resamples of the nodes; then how many nodes only one of them has "
        "right. Kinds are those by the true labels.",
    )
    return Table(f"Against {other}", head, tuple(rows), notes, compact=True, unbroken=(0, 2, 3))


def _points_of(record: Record, name: str) -> str:
    if record["nodes"] < FEWEST_NODES:
        return "too few"
    return points_text(record[name], record[f"{name}_interval"])


def points_text(value: float, interval: Sequence[float] | None) -> str:
    """A difference of shares in points, with its interval."""
    first, *ends = (f"{round(100 * one, 1) + 0.0:+.1f}" for one in (value, *(interval or ())))
    return f"{first} ({' to '.join(ends)})" if ends else first


def class_table(result: Record) -> Table | None:
    """Precision, recall and F1 of every class."""
    if "classes" not in result:
        return None
    rows = [
        (
            shorten(str(row["class"]), LONGEST_NAME),
            f"{row['support']:,}",
            *(_class_text(row, name) for name in ("precision", "recall", "f1")),
        )
        for row in result["classes"]
    ]
    title = f"Per class of {PARTS[evaluated_part(result)]} nodes"
    head = ("class", "nodes", "precision", "recall", "F1")
    notes = (ABOUT_INTERVALS,)
    return Table(title, head, tuple(rows), notes, compact=True, unbroken=(1, 2, 3, 4))


def _class_text(row: Record, name: str) -> str:
    return "–" if row[name] is None else value_text(row[name], row[f"{name}_interval"])


def value_text(value: float, interval: Sequence[float] | None) -> str:
    """A score in percent, with its interval where it has one."""
    return f"{_short(value)} ({interval_text(interval)})" if interval else percent(value)


def interval_text(interval: Sequence[float] | None) -> str:
    """An interval in percent."""
    return "–".join(_short(end) for end in interval) if interval else ""


def _short(share: float) -> str:
    """A share in percent, with one digit behind the point unless it is all."""
    text = f"{100 * share:.1f}"
    return "100" if text == "100.0" else text


def pair_table(result: Record) -> Table | None:
    """The classes that are answered instead of others most often."""
    rows = [
        (
            *(shorten(str(row[key]), LONGEST_NAME) for key in ("true", "answered")),
            f"{row['nodes']:,}",
            f"{100 * row['share']:.1f}",
            ", ".join(shorten(str(one), LONGEST_NAME) for one in row["examples"]),
        )
        for row in result.get("confused_pairs", ())
    ]
    head = ("true class", "answered", "nodes", "% of the class", "for example")
    title = "Most confused classes"
    return Table(title, head, tuple(rows), left=2, text=(4,), compact=True) if rows else None


def place_tables(result: Record, measure: str) -> list[Table]:
    """Accuracy by what is around nodes, a table for each; a run's groups have one of their own."""
    part = PARTS[evaluated_part(result)]
    return [
        Table("", (title, f"{part} nodes", *_columns(records)), tuple(_place_rows(records)))
        for title, records in places(result, measure)
        if title != _OWN_GROUPS
    ]


def _one_table(result: Record, found: Places, small: str) -> Table:
    """Accuracy by what is around nodes, in one table."""
    rows: list[tuple[str, ...]] = []
    every = [row for _, records in found for row in records]
    for title, records in found:
        rows += [(title,), *_place_rows(records)]
    notes = [f"Note: {small}"] if small else []
    if any("accuracy_interval" in record for _, record in every):
        notes.append(ABOUT_INTERVALS)
    if any(record["nodes"] < FEWEST_NODES for _, record in every):
        notes.append(f"Of fewer than {FEWEST_NODES} nodes no accuracy is shown.")
    head = (f"{PARTS[evaluated_part(result)]} nodes", "number", *_columns(every))
    return Table("Where the model is right", head, tuple(rows), tuple(notes))


def _columns(records: Sequence[tuple[str, Record]]) -> tuple[str, ...]:
    macro = any("macro_f1" in record for _, record in records)
    return ("accuracy", "macro-F1") if macro else ("accuracy",)


def _place_rows(records: Sequence[tuple[str, Record]]) -> Iterator[tuple[str, ...]]:
    for name, record in records:
        scores = [score_text(record, key) for key in ("accuracy", "macro_f1") if key in record]
        yield (name, f"{record['nodes']:,}", *scores)


def score_text(record: Record, name: str = "accuracy") -> str:
    """A score of some nodes in percent, unless they are too few to be compared with others."""
    if not record["nodes"]:
        return "–"
    if record["nodes"] < FEWEST_NODES:
        return "too few"
    if (key := f"{name}_interval") in record and record[key] is None:
        return _short(record[name])
    return value_text(record[name], record.get(key))


def places(result: Record, measure: str) -> Places:
    """All that nodes are divided by, with the name and the record of every part.

    What is estimated is known when the model answers; the rest needs the true labels.
    """
    limits = ", ".join(f"{limit:g}" for limit in result["thresholds"])
    true = group_names(len(result["thresholds"]) + 1)
    within, whose = f"k={result['hops']}", _whose_tenths(result)
    own = group_names(len(result.get("group_sizes", ())), measure)
    tenths = [f"{part / 10:.1f} to {(part + 1) / 10:.1f}" for part in range(10)]
    found: Places = []
    for title, key, names in (
        ("Kind, estimated", "estimated_kind", None),
        ("Kind, by the true labels", "kind", None),
        (f"NC, estimated, {whose}", "estimated_nc_decile", range_name),
        (f"NC of the true labels, {whose}", "true_nc_decile", range_name),
        (f"NC of the true labels, {within}, at {limits}{reachable(result)}", "true_group", true),
        (_OWN_GROUPS, "group", own),
        ("Degree", "degree", range_name),
        ("Node homophily NH of the true labels", "nh_decile", tenths),
    ):
        records = result.get(f"accuracy_by_{key}", ())
        if names is None:
            order = sorted(records, key=lambda record: KINDS.index(record["kind"]))
            named = [(str(record["kind"]), record) for record in order]
        elif callable(names):
            named = [(names(record), record) for record in records]
        else:
            named = [(names[int(record["part"])], record) for record in records]
        if named:
            found.append((title, named))
    return found


def _whose_tenths(result: Record) -> str:
    """Which nodes are divided by their NC; earlier results do not say."""
    if (about := result.get("tenths")) is None:
        return "tenths of the nodes"
    return f"k={about['hops']}, tenths of nodes with neighbors"


def range_name(record: Record) -> str:
    """The smallest and the largest value of a part."""
    ends = [f"{end:d}" if isinstance(end, int) else f"{end:.3f}" for end in _ends(record)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _ends(record: Record) -> tuple[float, float]:
    return record["from"], record["to"]


def reachable(result: Record) -> str:
    """What thresholds on NC of the true labels are compared with, as the end of a sentence."""
    kind = result.get("threshold_kind", "value")
    ends = {"attainable": " of what is attainable"}
    return ends.get(kind, ", a quantile of what is attainable" if kind != "value" else "")


def groups_figure(result: Record) -> Figure:
    """Where the model is right: accuracy by kind, by NC of the true labels, and by tenths of NH.

    Parts with fewer than :data:`ncgnn.training.FEWEST_NODES` nodes are not drawn.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 3.3), dpi=_DPI, layout="constrained")
        kinds, groups, tenths = figure.subplots(1, 3, width_ratios=(1.25, 1, 1.5))
        part = evaluated_part(result)
        overall, title = float(result["scores"][part]["accuracy"]), PARTS[part]
        found = {record["kind"]: record for record in result.get("accuracy_by_kind", ())}
        _bars(kinds, KINDS, [found.get(kind) for kind in KINDS])
        kinds.set_xlabel("kind of node, by its neighbors' true labels")
        _group_bars(groups, result)
        for axis in (kinds, groups, tenths):
            label = f"all {title} nodes ({overall:.1%})"
            axis.axhline(overall, color=GRAY, linestyle="--", linewidth=1.2, label=label)
            axis.set_ylabel(f"{title} accuracy")
            axis.set_ylim(0, 1.03 if axis is tenths else 1.22)
            axis.set_yticks(np.linspace(0, 1, 6))
            show_percent(axis.yaxis)
        _homophily_tenths(tenths, result)
        for axis in (kinds, groups):
            legend(axis)
        return freeze_layout(figure)


def _group_bars(axis: Axes, result: Record) -> None:
    names = group_names(len(result["thresholds"]) + 1)
    found = {record["part"]: record for record in result["accuracy_by_true_group"]}
    _bars(axis, names, [found.get(place) for place in range(len(names))])
    limits = ", ".join(f"{limit:g}" for limit in result["thresholds"])
    axis.set_xlabel(f"true NC, k={result['hops']}, divided at {limits}{reachable(result)}")


def _bars(axis: Axes, names: Sequence[str], records: Sequence[Record | None]) -> None:
    """A bar of accuracy for each name, with its number of nodes; none where these are too few."""
    look: dict[str, Any] = {"color": BLUE + "55", "edgecolor": BLUE, "linewidth": 1.2}
    box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
    for place, record in enumerate(records):
        count = 0 if record is None else int(record["nodes"])
        height, text = 0.0, "none" if count == 0 else f"too few\n({count})"
        if record is not None and count >= FEWEST_NODES:
            height = float(record["accuracy"])
            text = f"{height:.1%}\n{count:,} nodes"
            axis.bar(place, height, width=0.6, **look)
        axis.text(place, height + 0.02, text, ha="center", va="bottom", fontsize=8, bbox=box)
    axis.set_xlim(-0.6, len(names) - 0.4)
    axis.set_xticks(range(len(names)), names, rotation=0 if len(names) != 3 else 30)


def _homophily_tenths(axis: Axes, result: Record) -> None:
    counts, accuracy = np.zeros(10), np.full(10, np.nan)
    for record in result["accuracy_by_nh_decile"]:
        counts[record["part"]] = record["nodes"]
        if record["nodes"] >= FEWEST_NODES:
            accuracy[record["part"]] = record["accuracy"]
    middle = np.arange(10) / 10 + 0.05
    behind = twin(axis)
    behind.bar(middle, counts, width=0.09, color=LIGHT, label="nodes")
    behind.set_ylabel("nodes")
    behind.set_ylim(0, 1.03 * max(float(counts.max()), 1.0))
    behind.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axis.plot(middle, accuracy, color=BLUE, marker="o", markersize=4.5, label="accuracy")
    axis.set_xlim(0, 1)
    axis.set_xticks(np.linspace(0, 1, 11))
    axis.set_xlabel("node homophily NH of the closed neighborhood")
    legend(axis, behind)


def places_figure(result: Record) -> Figure | None:
    """Accuracy by estimated NC and by degree, which are known when the model answers."""
    tenths, degrees = (
        result.get(f"accuracy_by_{key}", ()) for key in ("estimated_nc_decile", "degree")
    )
    if not tenths and not degrees:
        return None
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 3.3), dpi=_DPI, layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _points(left, tenths)
        left.set_xlabel(f"estimated NC, {_whose_tenths(result)}; equal ones together")
        _points(right, degrees)
        right.set_xlabel("degree")
        part = evaluated_part(result)
        overall = float(result["scores"][part]["accuracy"])
        for axis in (left, right):
            label = f"all {PARTS[part]} nodes ({overall:.1%})"
            axis.axhline(overall, color=GRAY, linestyle="--", linewidth=1.2, label=label)
            axis.tick_params(labelleft=True)
            axis.set_ylabel(f"{PARTS[part]} accuracy")
            show_percent(axis.yaxis)
            legend(axis)
        return freeze_layout(figure)


def _points(axis: Axes, records: Sequence[Record]) -> None:
    """Accuracy of one part after the other, with intervals, and the numbers of nodes below."""
    shown = [record for record in records if record["nodes"] >= FEWEST_NODES]
    heights = [float(record["accuracy"]) for record in shown]
    ends = [record["accuracy_interval"] for record in shown]
    gaps = [
        [height - low for height, (low, _) in zip(heights, ends, strict=True)],
        [high - height for height, (_, high) in zip(heights, ends, strict=True)],
    ]
    look: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4.5, "capsize": 3}
    axis.errorbar(
        range(len(shown)), heights, yerr=gaps, linewidth=1.2, label="accuracy, 95 %", **look
    )
    names = [f"{_short_range(record)}\n{record['nodes']:,}" for record in shown]
    axis.set_xticks(range(len(shown)), names, fontsize=7.5)
    axis.margins(x=0.04)


def _short_range(record: Record) -> str:
    ends = [f"{end:d}" if isinstance(end, int) else f"{end:.2f}" for end in _ends(record)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def confusion_figure(result: Record) -> Figure | None:
    """What the most confused classes are answered to be, in percent of the true class."""
    found = result.get("most_confused", {})
    names = [shorten(str(name), LONGEST_LABEL) for name in found.get("classes", ())]
    if not names:
        return None
    support = np.maximum(np.array(found["support"], dtype=float), 1)
    share = 100 * np.array(found["counts"], dtype=float) / support[:, None]
    wrong = np.where(np.eye(len(names), dtype=bool), 0.0, share)
    with rc_context(STYLE):
        size = 2.2 + 0.36 * len(names)
        figure = Figure(figsize=(size + 1.2, size), dpi=_DPI, layout="constrained")
        axis = figure.subplots()
        # A few percent stay pale, whatever the largest share is.
        darkest = max(1.15 * float(wrong.max()), 25.0)
        axis.imshow(wrong, cmap="Blues", vmin=0, vmax=darkest)
        for row, column in zip(*np.nonzero(share >= 1), strict=True):
            same, value = row == column, float(share[row, column])
            color = GRAY if same else "white" if value > 0.55 * darkest else "black"
            style: dict[str, Any] = {"fontstyle": "italic"} if same else {}
            axis.text(column, row, f"{value:.0f}", ha="center", va="center", color=color, **style)
        places = range(len(names))
        axis.set_xticks(places, names, rotation=45, ha="right", rotation_mode="anchor")
        axis.set_yticks(places, names)
        axis.set_xlabel("answered")
        axis.set_ylabel("true class")
        return freeze_layout(figure)


def evaluated_part(result: Record) -> str:
    """The part whose groups are scored: validation where there are no test nodes."""
    return result.get("evaluated") or ("test" if "test" in result["scores"] else "val")
