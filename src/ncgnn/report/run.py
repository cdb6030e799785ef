"""A finished run as figures, as a report in one HTML file, and as events for TensorBoard."""

from __future__ import annotations

import warnings
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import TemplateError
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ncgnn._io import atomic_write, write_text
from ncgnn.errors import InputError, NcgnnError
from ncgnn.metrics import group_names
from ncgnn.report.auto import leaderboard, share_table
from ncgnn.report.scores import (
    ABOUT_INTERVALS,
    class_table,
    confusion_figure,
    evaluated_part,
    groups_figure,
    interval_text,
    pair_table,
    place_tables,
    places_figure,
    score_text,
    small_groups_text,
)
from ncgnn.report.style import (
    BLUE,
    GRAY,
    LOOKS,
    PARTS,
    STYLE,
    VERMILION,
    freeze_layout,
    legend,
    number,
    percent,
    picture,
    show_percent,
    twin,
)
from ncgnn.report.tables import Table, render
from ncgnn.report.trust import trust_figure, trust_tables
from ncgnn.training import (
    CONFIG,
    ENVIRONMENT,
    FEWEST_NODES,
    METRICS,
    RESULT,
    SCORE_NAMES,
    SPLIT,
    TIMING,
    TRIED,
    DamagedFileError,
    measure_name,
    read_config_file,
    refit_facts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.training import RunFolder

    Record = Mapping[str, Any]

REPORT, FIGURES, DPI = "report.html", "figures", 150


def write_run_report(folder: RunFolder) -> list[Path]:
    """Write ``report.html`` and the figures as PNG and SVG; returns the paths, report first.

    The run's result must be written; it need not be marked as done.

    Raises:
        DamagedFileError: The result lacks what a report shows.
    """
    try:
        return _write_run_report(folder)
    except NcgnnError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, TemplateError) as error:
        raise DamagedFileError(
            f"{folder / RESULT} cannot be shown ({type(error).__name__}: {error}); train the run "
            "again."
        ) from error


def _write_run_report(folder: RunFolder) -> list[Path]:
    run = RunFacts.read(folder)
    pictures: dict[str, bytes] = {}
    paths: list[Path] = []
    place = folder.folder_inside(FIGURES)
    for name, figure in run_figures(run.config, run.history, run.result).items():
        pictures[name] = picture(figure, "png", DPI)
        files = {"png": pictures[name], "svg": picture(figure, "svg")}
        for suffix, content in files.items():
            path = place / f"{name}.{suffix}"
            with atomic_write(path) as stream:
                stream.write(content)
            paths.append(path)
    report = folder / REPORT
    write_text(report, run_page(run, pictures))
    return [report, *paths]


@dataclass(frozen=True)
class RunFacts:
    """What the files of a run hold, except for its weights."""

    config: Record
    environment: Record
    split: Record
    history: Sequence[Record]
    result: Record
    timing: Record
    refit: Record | None
    auto: Record | None

    @classmethod
    def read(cls, folder: RunFolder) -> RunFacts:
        """Read a run whose result is written, marked as done or not."""
        return cls(
            read_config_file(folder / CONFIG).tables,
            folder.read_json(ENVIRONMENT),
            folder.read_json(SPLIT),
            folder.history(),
            folder.read_result(),
            folder.read_json(TIMING),
            refit_facts(folder),
            folder.read_json(TRIED) if (folder / TRIED).is_file() else None,
        )


def run_page(run: RunFacts, pictures: Mapping[str, bytes]) -> str:
    """The report as HTML; ``pictures`` are PNG files by the names of the figures."""
    result = run.result
    return render(
        "run.html",
        title=f"{result['model']} on {result['graph']}",
        headline=_headline(result),
        refit=_about_refit(run.refit),
        auto=run.auto,
        leaderboard=None if run.auto is None else leaderboard(run.auto),
        shares=share_table(result),
        selected_by=f"validation {SCORE_NAMES[result['metric']]}",
        about=_about(run),
        scores=_score_table(run),
        intervals=ABOUT_INTERVALS if "intervals" in result else "",
        classes=class_table(result),
        pairs=pair_table(result),
        remarks=f"{_unseen_classes(result)} {_corrected_shares(run)}",
        groups=_group_table(run) if "mean_nc" in result else None,
        about_groups=_about_groups(run) if "mean_nc" in result else "",
        small_groups=_about_small_groups(run),
        places=place_tables(result, _measure(run.config)),
        fewest=FEWEST_NODES,
        trust=trust_tables(result),
        config=_config_table(run.config),
        environment=_environment_table(run),
        pictures={name: b64encode(png).decode() for name, png in pictures.items()},
    )


def _headline(result: Record) -> str:
    part, metric, baseline = evaluated_part(result), result["metric"], result["majority_baseline"]
    scores = result["scores"][part]
    shown = [name for name in dict.fromkeys((metric, "accuracy")) if scores[name] is not None]
    intervals = result.get("intervals", {})
    ends = {name: f" ({interval_text(intervals[name])})" for name in shown if intervals.get(name)}
    text = ", ".join(
        f"{SCORE_NAMES[name]} {percent(scores[name])} %{ends.get(name, '')}" for name in shown
    )
    end = "the split has no test nodes"
    if baseline is not None:
        end = f"always answering the majority class: {percent(baseline)} %"
    return f"{PARTS[part].capitalize()} {text}; {end}."


def _about_refit(refit: Record | None) -> str:
    """A sentence about the weights that have learned from all labels; empty if there are none."""
    if refit is None:
        return ""
    return (
        f"The model was then refitted on all {refit['nodes']:,} labels ({refit['epochs']} epochs), "
        "to answer for nodes without a label; the scores here are those of the run before, whose "
        "test nodes it had not seen."
    )


def _about(run: RunFacts) -> Table:
    result = run.result
    graph, dataset = str(result["graph"]), str(result["dataset"])
    best = ("Best epoch", f"{result['best_epoch']} (from 0; {result['epochs']} were trained)")
    if _is_combined(result, run.config):
        best = ("Experts", f"{len(result['mixture']['experts'])}, each trained on its own")
    rows = (
        ("Dataset", dataset if graph == dataset else f"{dataset} ({graph})"),
        ("Model", str(result["model"])),
        ("Split family", f"{result['split']} ({run.split['origin']})"),
        ("Seed", str(result["seed"])),
        ("Split, SHA-256", str(result["split_sha256"])),
        best,
        ("Selected by", f"validation {SCORE_NAMES[result['metric']]}"),
    )
    return Table("", (), rows, left=2)


def _is_combined(result: Record, config: Record) -> bool:
    """Whether experts were trained on their own and then combined."""
    return "mixture" in result and config["model"].get("trained") == "apart"


def _score_table(run: RunFacts) -> Table:
    """All scores that some part has, with the majority baseline as the last row."""
    scores, intervals = run.result["scores"], run.result.get("intervals")
    parts = scores.values()
    shown = [key for key in SCORE_NAMES if any(part.get(key) is not None for part in parts)]
    rows = [
        (
            PARTS[part],
            f"{len(run.split[part]):,}",
            *(percent(scores[part][key]) or "–" for key in shown),
            number(scores[part]["loss"]),
        )
        for part in PARTS
        if part in scores
    ]
    if intervals is not None:
        ends = [interval_text(intervals.get(key)) for key in shown]
        place = 1 + [*scores].index(evaluated_part(run.result))
        rows.insert(place, ("95 % interval", "", *ends, ""))
    if run.result["majority_baseline"] is not None:
        size, share = f"{len(run.split['test']):,}", percent(run.result["majority_baseline"])
        rows.append(("majority class of test", size, share, *[""] * len(shown)))
    head = ("part", "nodes", *(SCORE_NAMES[key] for key in shown), "cross-entropy")
    return Table("", head, tuple(rows))


def _unseen_classes(result: Record) -> str:
    """A sentence about the classes that no score covers."""
    named = [str(row["class"]) for row in result.get("classes", ())]
    unseen = [named[one] if one < len(named) else str(one) for one in result["never_evaluated"]]
    if not unseen:
        return "Every class of the graph occurs among the validation or test nodes."
    noun = "class" if len(unseen) == 1 else "classes"
    return f"Without a validation or test node, and so never evaluated: {noun} {', '.join(unseen)}."


def _corrected_shares(run: RunFacts) -> str:
    """A sentence about predictions that are corrected for other class shares."""
    if run.config.get("training", {}).get("class_shares", "train") == "train":
        return ""
    return (
        "Predictions are corrected for the class shares of the validation nodes and so use their "
        "labels: only the scores of test nodes are unbiased."
    )


def _group_table(run: RunFacts) -> Table:
    """The groups that were in force in the best epoch, with α and accuracy."""
    result, part = run.result, PARTS[evaluated_part(run.result)]
    sizes, alpha = result["group_sizes"], result.get("alpha") or [None]
    by_group = {record["part"]: record for record in result["accuracy_by_group"]}
    rows: list[tuple[str, ...]] = []
    for group, name in enumerate(group_names(len(sizes), _measure(run.config))):
        record = by_group.get(group, {"nodes": 0, "accuracy": None})
        # A model without separate channels has one α for all groups.
        weight = alpha[group] if len(alpha) == len(sizes) else alpha[0]
        shown = (f"{sizes[group]:,}", number(weight), f"{record['nodes']:,}")
        rows.append((name, *shown, score_text(record)))
    head = ("estimated group", "nodes", "α", f"{part} nodes", f"{part} accuracy")
    return Table("", head, tuple(rows))


def _measure(config: Record) -> str:
    """The measure that a model's groups follow."""
    return measure_name(config.get("model", {}).get("guidance", "nc"))


def _about_groups(run: RunFacts) -> str:
    result, measure = run.result, _measure(run.config)
    where = "At the chosen weights" if _is_combined(result, run.config) else "In the best epoch"
    text = f"{where} the mean estimated {measure} was {number(result['mean_nc'])}"
    if measure == "NC":
        true = number(result["true_mean_nc"])
        text += f"; with the true labels the mean NC (k={result['hops']}) is {true}"
    text += ". A group's α is the weight of message passing; 1 − α is that of the own features."
    if "mixture" in result:
        text += " Groups and α are those of the one expert that has any."
    if not _is_combined(result, run.config):
        selected = SCORE_NAMES[result["metric"]]
        text += f" Groups change when validation {selected} reaches a new high."
    return text


def _about_small_groups(run: RunFacts) -> str:
    text = small_groups_text(run.result, run.config.get("model", {}))
    return text[:1].upper() + text[1:]


#: Options of training that hold for models that were trained apart and combined.
_OF_COMBINED = ("seed", "metric", "device", "precision", "class_shares", "calibration")


def _config_table(config: Record) -> Table:
    def text(value: Any) -> str:
        if isinstance(value, list):
            joint = "; " if any(isinstance(item, dict) for item in value) else ", "
            return joint.join(text(item) for item in value)
        if isinstance(value, dict):  # an expert of a mixture
            return ", ".join(f"{name} {text(one)}" for name, one in value.items())
        return str(value).lower() if isinstance(value, bool) else str(value)

    # How experts that were combined have been trained is in the runs that they come from.
    combined = config["model"].get("trained") == "apart"
    rows = [
        (section, name, text(value))
        for section, options in config.items()
        for name, value in options.items()
        if not (combined and section == "training" and name not in _OF_COMBINED)
    ]
    return Table("", ("section", "option", "value"), tuple(rows), left=3)


def _environment_table(run: RunFacts) -> Table:
    """How long training took, versions, machine, threads and the hash of the graph."""
    flat = {key: value for key, value in run.environment.items() if key != "packages"}
    flat |= run.environment.get("packages", {})
    rows = [("Training", f"{run.timing['seconds']:.2f} s")]
    if run.result["epochs"] > 1:
        rows.append(("One epoch", f"{1000 * run.timing['seconds_per_epoch']:.2f} ms"))
    rows += [
        *((key, "–" if value is None else str(value)) for key, value in flat.items()),
    ]
    return Table("", (), tuple(rows), left=2)


def run_figures(config: Record, history: Sequence[Record], result: Record) -> dict[str, Figure]:
    """All figures of a run by name.

    A model without groups has no ``interplay``, a run of one epoch neither that nor ``curves``, one
    of an earlier version no ``places``, and one that is always right no ``confusion``.
    """
    best, metric = int(result["best_epoch"]), str(result["metric"])
    figures = {"curves": curves_figure(history, best, metric)} if len(history) > 1 else {}
    if "mean_nc" in result and len(history) > 1:
        measure = _measure(config)
        true = result["true_mean_nc"] if measure == "NC" else None
        figures["interplay"] = interplay_figure(history, true, best, measure, metric)
    figures["groups"] = groups_figure(result)
    more = {"places": places_figure(result), "confusion": confusion_figure(result)}
    more["trust"] = trust_figure(result) if "sets" in result else None
    return figures | {name: figure for name, figure in more.items() if figure is not None}


def curves_figure(history: Sequence[Record], best_epoch: int, metric: str = "accuracy") -> Figure:
    """Loss (left) and the metric (right) after every epoch; a line marks the best one."""
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3.1), dpi=DPI, layout="constrained")
        loss, score = figure.subplots(1, 2)
        for (part, label), look in zip(PARTS.items(), LOOKS, strict=False):
            if part != "test":
                key = "loss" if part == "train" else "val_loss"
                _line(loss, history, _values(history, key), label, look)
            # There may be no test nodes; of training nodes only accuracy is known.
            column = _values(history, f"{part}_{metric}")
            if not np.isnan(column).all():
                _line(score, history, column, label, look)
        loss.set_ylabel("cross-entropy")
        _limit_loss(loss, history)
        score.set_ylabel(SCORE_NAMES[metric])
        show_percent(score.yaxis)
        score.set_ylim(0, 1.02)
        for axis in (loss, score):
            _epochs(axis, best_epoch)
            legend(axis)
        return freeze_layout(figure)


def interplay_figure(
    history: Sequence[Record],
    true_mean_nc: float | None,
    best_epoch: int,
    measure: str = "NC",
    metric: str = "accuracy",
) -> Figure:
    """How estimated confusion and validation score push each other up, with groups and α below.

    The figure "interplay" of "Clarify Confused Nodes via Separated Learning": the mean NC in use
    in every epoch, the mean NC of the true labels (dashed, unless None) and the validation score.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 5.4), dpi=DPI, layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=(1.25, 1))
        top = figure.add_subplot(grid[0, :])
        name = f"mean estimated {measure}"
        _line(top, history, _values(history, "mean_nc"), name, (BLUE, "-"), width=2.0)
        if true_mean_nc is not None:
            label = f"mean true {measure} ({true_mean_nc:.3f})"
            top.axhline(true_mean_nc, color=BLUE, linestyle="--", linewidth=1.4, label=label)
        top.set_ylabel(f"mean {measure}", color=BLUE)
        top.set_ylim(bottom=0)
        right = twin(top)  # the smoother curve is in front
        name = f"validation {SCORE_NAMES[metric]}"
        _line(right, history, _values(history, f"val_{metric}"), name, (VERMILION, "-"), width=0.9)
        right.set_ylabel(name, color=VERMILION)
        show_percent(right.yaxis)
        _epochs(top, best_epoch)
        legend(top, right)
        sizes, alpha = (figure.add_subplot(grid[1, column]) for column in (0, 1))
        _per_group(sizes, history, "group_sizes", measure)
        sizes.set_ylabel("nodes in the group")
        _per_group(alpha, history, "alpha", measure)
        alpha.set_ylabel("α (message passing)")
        alpha.set_ylim(0, 1.02)
        for axis in (sizes, alpha):
            _epochs(axis, best_epoch, marked=False)
            legend(axis)
        return freeze_layout(figure)


def _per_group(axis: Axes, history: Sequence[Record], key: str, measure: str) -> None:
    table = np.array([record[key] for record in history], dtype=np.float64)
    names = group_names(table.shape[1], measure)
    for group, name in enumerate(names):
        _line(axis, history, table[:, group], name, LOOKS[group % len(LOOKS)])


def _line(
    axis: Axes,
    history: Sequence[Record],
    column: NDArray[np.float64],
    label: str,
    look: tuple[Any, ...],
    width: float = 1.2,
) -> None:
    """Draw one curve over the epochs."""
    places = [record["epoch"] for record in history]
    # A point between two gaps makes no line.
    dotted = len(places) <= 12 or bool(np.isnan(column).any())
    marker: dict[str, Any] = {"marker": "o", "markersize": 3} if dotted else {}
    axis.plot(
        places, column, color=look[0], linestyle=look[1], linewidth=width, label=label, **marker
    )


def _values(history: Sequence[Record], key: str) -> NDArray[np.float64]:
    """A column of the history; NaN for null."""
    return np.array([record.get(key) for record in history], dtype=np.float64)


def _limit_loss(axis: Axes, history: Sequence[Record]) -> None:
    """Keep a high first loss from flattening the rest: cut it off above, and say so."""
    column = np.concatenate([_values(history, "loss"), _values(history, "val_loss")])
    usual, highest = 1.5 * float(np.quantile(column, 0.97)), float(column.max())
    axis.set_ylim(bottom=0)
    if highest > 2 * usual > 0:
        axis.set_ylim(0, usual)
        text = f"↑ up to {highest:.3g}"
        axis.text(0.98, 0.97, text, ha="right", va="top", transform=axis.transAxes, fontsize=8)


def _epochs(axis: Axes, best_epoch: int, *, marked: bool = True) -> None:
    """Make the horizontal axis one of epochs; a dotted line stands at the best one."""
    label: dict[str, Any] = {"label": f"best epoch ({best_epoch})"} if marked else {}
    axis.axvline(best_epoch, color=GRAY, linestyle=":", linewidth=1.3, zorder=1, **label)
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.margins(x=0.02)


_SCALARS = {
    "loss": "loss/train",
    "val_loss": "loss/val",
    **{f"{part}_{metric}": f"{metric}/{part}" for metric in METRICS for part in PARTS},
    "mean_nc": "nc/estimated",
}
_PER_GROUP = {"group_sizes": "groups", "alpha": "alpha"}


class EventWriter:
    """Writes the records of a run for TensorBoard, one after the other.

    Events that earlier writers wrote about ``first_epoch`` and later become void, and records of
    earlier epochs are skipped: TensorBoard shows one curve, also for an interrupted run.

    Raises:
        InputError: The package tensorboard is not installed.
    """

    def __init__(self, folder: Path, first_epoch: int = 0) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # tensorboard's and protobuf's, about themselves
                from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "events need the package tensorboard, which is not installed; "
                "pip install 'ncgnn[tensorboard]' brings it."
            ) from None
        self._first = first_epoch
        self._writer: Any = SummaryWriter(log_dir=str(folder), purge_step=first_epoch)

    def write(self, record: Record) -> None:
        """Write the record of one epoch; what it lacks or holds as null is left out."""
        epoch = int(record["epoch"])
        if epoch < self._first:
            return
        values = {name: record.get(key) for key, name in _SCALARS.items()}
        for key, name in _PER_GROUP.items():
            values |= {f"{name}/{group}": one for group, one in enumerate(record.get(key) or ())}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, float(value), epoch)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
