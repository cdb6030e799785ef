"""What a run's files say, as rows of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncgnn.report._words import number
from ncgnn.training._folder import CONFIG, ENVIRONMENT, RESULT, SPLIT, TIMING, RunFolder
from ncgnn.training._toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
