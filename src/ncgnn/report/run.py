"""A run's history as events for TensorBoard.

What a run's files say, as rows of text.

Figures of one run: how it was trained, how its groups came about, where it is right.

A report of one run as a single HTML file that needs nothing else.

Writing a run's report into its folder.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ncgnn._io import atomic_write, write_text
from ncgnn.errors import InputError
from ncgnn.report.analysis import BLUE, STYLE, VERMILION, number, picture
from ncgnn.report.style import (
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
from ncgnn.report.tables import image, page, table
from ncgnn.training import CONFIG, ENVIRONMENT, RESULT, SPLIT, TIMING, RunFolder, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from ncgnn.training import RunFolder

Row = tuple[str, ...]

PARTS = {"train": "train", "val": "validation", "test": "test"}
_SCORES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "auroc": "AUROC",
    "calibration_error": "calibration error",
    "loss": "cross-entropy",
}


@dataclass(frozen=True)
class RunFacts:
    """What the files of a run hold, but for weights and the completion marker.

    Attributes:
        config: The tables of ``config.toml``.
        environment: Of ``environment.json``.
        split: Of ``split.json``.
        history: One record per epoch.
        result: Of ``result.json``.
        timing: Of ``timing.json``.
    """

    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    split: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    result: Mapping[str, Any]
    timing: Mapping[str, Any]

    @classmethod
    def read(cls, folder: RunFolder) -> RunFacts:
        """Read a run whose result is written, marked as done or not."""
        return cls(
            read_toml(folder / CONFIG),
            folder.read_json(ENVIRONMENT),
            folder.read_json(SPLIT),
            folder.history(),
            folder.read_json(RESULT),
            folder.read_json(TIMING),
        )


def group_names(count: int, measure: str = "NC") -> list[str]:
    """What the groups are called, the least confused first."""
    if count == 1:
        return ["all nodes"]
    if count == 2:
        return [f"low {measure}", f"high {measure}"]
    return [f"{measure} group {group}" for group in range(count)]


def measure_name(config: Mapping[str, Any]) -> str:
    """What a model's groups follow from: NC, or 1 − NH in the ablation."""
    return "1 − NH" if config.get("model", {}).get("guidance") == "nh" else "NC"


def evaluated_part(result: Mapping[str, Any]) -> tuple[str, str]:
    """Key and name of the part whose groups are scored: validation where test is empty."""
    key = "test" if "test" in result["scores"] else "val"
    return key, PARTS[key]


def about_rows(run: RunFacts) -> list[Row]:
    """What was run."""
    result = run.result
    graph, dataset = str(result["graph"]), str(result["dataset"])
    return [
        ("Data set", dataset if graph == dataset else f"{dataset} ({graph})"),
        ("Model", str(result["model"])),
        ("Split family", f"{result['split']} ({run.split['origin']})"),
        ("Seed", str(result["seed"])),
        ("Split, SHA-256", str(result["split_sha256"])),
        ("Best epoch", f"{result['best_epoch']} (from 0; {result['epochs']} were trained)"),
    ]


def score_table(run: RunFacts) -> tuple[Row, list[Row]]:
    """Titles and rows of the scores, with the majority baseline as the last row."""
    scores = run.result["scores"]
    columns = [
        key
        for key in _SCORES
        if key != "auroc" or any(row["auroc"] is not None for row in scores.values())
    ]
    head = ("part", "nodes", *(_SCORES[key] for key in columns))
    rows = [
        (name, f"{len(run.split[key]):,}", *(number(scores[key][column]) for column in columns))
        for key, name in PARTS.items()
        if key in scores
    ]
    if run.result["majority_baseline"] is not None:
        baseline = number(run.result["majority_baseline"])
        size = f"{len(run.split['test']):,}"
        rows.append(("majority class of test", size, baseline, *[""] * (len(head) - 3)))
    return head, rows


def unseen_classes(result: Mapping[str, Any]) -> str:
    """A sentence about the classes that no score speaks of."""
    unseen = [str(number) for number in result["never_evaluated"]]
    if not unseen:
        return "Every class of the graph occurs among the validation or test nodes."
    noun = "class" if len(unseen) == 1 else "classes"
    return f"Never evaluated, for no validation or test node has it: {noun} {', '.join(unseen)}."


def corrected_shares(run: RunFacts) -> str:
    """A sentence about answers that are meant for other class shares than the training nodes'."""
    if run.config.get("training", {}).get("class_shares", "train") == "train":
        return ""
    return (
        "Answers are corrected for the class shares of validation nodes, whose labels therefore "
        "had a part in them: of the scores, those of test nodes are the unbiased ones."
    )


def group_table(run: RunFacts) -> tuple[Row, list[Row]]:
    """The groups that were in force in the best epoch, with α and accuracy."""
    result = run.result
    _, part = evaluated_part(result)
    sizes, alpha = result["group_sizes"], result.get("alpha") or [None]
    by_group = {record["part"]: record for record in result["accuracy_by_group"]}
    rows: list[Row] = []
    for group, name in enumerate(group_names(len(sizes), measure_name(run.config))):
        record = by_group.get(group, {"nodes": 0, "accuracy": None})
        # A model without separate channels has one α for all groups.
        weight = alpha[group] if len(alpha) == len(sizes) else alpha[0]
        shown = (f"{sizes[group]:,}", number(weight), f"{record['nodes']:,}")
        rows.append((name, *shown, number(record["accuracy"])))
    return ("estimated group", "nodes", "α", f"{part} nodes", f"{part} accuracy"), rows


def true_group_table(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """Accuracy by NC of the true labels."""
    _, part = evaluated_part(result)
    names = group_names(len(result["thresholds"]) + 1)
    rows = [
        (names[record["part"]], f"{record['nodes']:,}", number(record["accuracy"]))
        for record in result["accuracy_by_true_group"]
    ]
    return ("group by true NC", f"{part} nodes", f"{part} accuracy"), rows


def config_rows(config: Mapping[str, Any]) -> list[Row]:
    """Every option as section, name and value."""
    return [
        (section, name, _plain(value))
        for section, options in config.items()
        for name, value in options.items()
    ]


def environment_rows(environment: Mapping[str, Any]) -> list[Row]:
    """Versions, machine, threads and the hash of the graph."""
    flat = {key: value for key, value in environment.items() if key != "packages"}
    flat |= environment.get("packages", {})
    return [(key, "–" if value is None else str(value)) for key, value in flat.items()]


def time_rows(timing: Mapping[str, Any]) -> list[Row]:
    """How long training took."""
    return [
        ("Training", f"{timing['seconds']:.2f} s"),
        ("One epoch", f"{1000 * timing['seconds_per_epoch']:.2f} ms"),
    ]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


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


_STYLE = """
.texts td { text-align: left; overflow-wrap: anywhere; }
.numbers th + th, .numbers td + td { text-align: right; padding: .25rem 0 .25rem 1.5rem; }
.lead { font-size: 1.15rem; }
"""


def run_report(folder: RunFolder) -> str:
    """The report of a run whose result is written, as HTML with its pictures."""
    run = RunFacts.read(folder)
    figures = run_figures(run.config, run.history, run.result)
    return run_page(run, {name: picture(figure, "png", DPI) for name, figure in figures.items()})


def run_page(run: RunFacts, pictures: Mapping[str, bytes]) -> str:
    """The report from what was read, and the PNG pictures by name of the figure."""
    result = run.result
    name = f"{result['model']} on {result['graph']}"
    parts = [
        f"<h1>{escape(name)}</h1>",
        f'<p class="lead">{escape(_headline(run))}</p>',
        _texts(table((), about_rows(run))),
        "<h2>Scores</h2>",
        _numbers(table(*score_table(run))),
        f"<p>{escape(unseen_classes(result))} {escape(corrected_shares(run))}</p>",
        "<h2>Training</h2>",
        image(pictures["curves"], "Loss and accuracy per epoch"),
        "<p>Training loss and accuracy are those of the step, with dropout; all else is measured "
        "without. The best epoch is the first with the highest validation accuracy.</p>",
        *(_groups(run, pictures["interplay"]) if "interplay" in pictures else ()),
        "<h2>Where is the model right?</h2>",
        image(pictures["groups"], "Accuracy by true Neighborhood Confusion and by homophily"),
        _numbers(table(*true_group_table(result))),
        "<p>Neighborhood Confusion (NC) and Node Homophily (NH) are those of the true labels here; "
        "no such label of a test node enters training.</p>",
        "<h2>Configuration</h2>",
        _texts(table(("section", "option", "value"), config_rows(run.config))),
        "<h2>Environment and time</h2>",
        _texts(table((), [*time_rows(run.timing), *environment_rows(run.environment)])),
    ]
    return page(name, parts, _STYLE)


def _headline(run: RunFacts) -> str:
    result = run.result
    key, name = evaluated_part(result)
    text = f"{name.capitalize()} accuracy {number(result['scores'][key]['accuracy'])}"
    if result["majority_baseline"] is None:
        return f"{text}; the split has no test nodes."
    return f"{text}; always answering the commonest class: {number(result['majority_baseline'])}."


def _groups(run: RunFacts, png: bytes) -> list[str]:
    """Groups and α; of models that have them."""
    result, measure = run.result, measure_name(run.config)
    text = f"In the best epoch the mean estimated {measure} was {number(result['mean_nc'])}"
    if measure == "NC":
        text += f"; with the true labels the mean NC (k={result['hops']}) is "
        text += number(result["true_mean_nc"])
    about = (
        f"{text}. A group's weight α is that of message passing; 1 − α is that of the node's own "
        "features. Groups change when validation accuracy reaches a new high."
    )
    return [
        "<h2>Groups</h2>",
        image(png, "Estimated confusion, validation accuracy, group sizes and α per epoch"),
        _numbers(table(*group_table(run))),
        f"<p>{escape(about)}</p>",
    ]


def _texts(html: str) -> str:
    """A table of names and values, all beginning at the left."""
    return f'<div class="texts">{html}</div>'


def _numbers(html: str) -> str:
    """A table whose columns but the first hold numbers, titles above them."""
    return f'<div class="numbers">{html}</div>'


REPORT, FIGURES = "report.html", "figures"


def write_run_report(folder: RunFolder) -> list[Path]:
    """Write ``report.html`` and the figures as PNG and SVG; returns the paths, report first.

    The run's result must be written already; whether the run is marked as done does not matter.
    Every picture is drawn once: the report holds the bytes of the PNG files.
    """
    run = RunFacts.read(folder)
    pictures: dict[str, bytes] = {}
    paths: list[Path] = []
    for name, figure in run_figures(run.config, run.history, run.result).items():
        pictures[name] = picture(figure, "png", DPI)
        files = {"png": pictures[name], "svg": picture(figure, "svg")}
        for suffix, content in files.items():
            path = folder / FIGURES / f"{name}.{suffix}"
            with atomic_write(path) as stream:
                stream.write(content)
            paths.append(path)
    report = folder / REPORT
    write_text(report, run_page(run, pictures))
    return [report, *paths]


_SCALARS = {
    "loss": "loss/train",
    "val_loss": "loss/val",
    "train_accuracy": "accuracy/train",
    "val_accuracy": "accuracy/val",
    "test_accuracy": "accuracy/test",
    "mean_nc": "nc/estimated",
}
_PER_GROUP = {"group_sizes": "groups", "alpha": "alpha"}


class EventWriter:
    """Writes the records of a run, one after the other.

    What earlier writers wrote about ``first_epoch`` and later epochs is void: TensorBoard shows one
    curve, also for a run that was interrupted.

    Args:
        folder: Where the event files go.
        first_epoch: The first epoch that is written; records of earlier ones are passed over,
            because an earlier writer has written them.

    Raises:
        InputError: The package tensorboard is not installed.
    """

    def __init__(self, folder: Path, first_epoch: int = 0) -> None:
        self._first = first_epoch
        self._writer = _summary_writer()(log_dir=str(folder), purge_step=first_epoch)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the record of one epoch; what it lacks or holds as null is left out."""
        epoch = int(record["epoch"])
        if epoch >= self._first:
            for name, value in _named(record):
                self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_events(folder: RunFolder) -> None:
    """Write the whole history of a run into its folder; earlier events of it become void."""
    with EventWriter(folder.path) as writer:
        for record in folder.history():
            writer.write(record)


def _named(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, name in _SCALARS.items():
        if record.get(key) is not None:
            yield name, float(record[key])
    for key, name in _PER_GROUP.items():
        for group, value in enumerate(record.get(key) or ()):
            yield f"{name}/{group}", float(value)


def _summary_writer() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensorboard and protobuf about themselves
            from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "events need the package tensorboard, which is not installed; "
            "pip install 'ncgnn[tensorboard]' brings it."
        ) from None
    return SummaryWriter
