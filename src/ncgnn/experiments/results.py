"""Tables of finished runs: one row per model, options, data set and split family.

Rows hold runs that differ in nothing but their seed, and are compared seed by seed.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.errors import InputError
from ncgnn.training import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.experiments.records import Record


@dataclass(frozen=True)
class Row:
    """Runs that differ in nothing but their seed.

    Attributes:
        dataset: Name or path of the graph.
        split: Split family.
        model: Name.
        options: What distinguishes the row from others of this model on this data set.
        records: The runs, by seed.
        difference: To the row it was compared with.
    """

    dataset: str
    split: str
    model: str
    options: str
    records: dict[int, Record]
    difference: Difference | None = None

    @property
    def label(self) -> str:
        """The model with its options."""
        return f"{self.model} {self.options}".strip()

    @property
    def metric(self) -> str:
        """The validation score that selected the best epochs."""
        return next(iter(self.records.values())).config["training"].get("metric", "accuracy")

    def spread(self, part: str, score: str = "accuracy") -> Spread | None:
        """Mean and deviation of a score over seeds; None where a run has none."""
        parts = [record.result["scores"].get(part) for record in self.records.values()]
        values = [None if one is None else one.get(score) for one in parts]
        return None if None in values else Spread.of([float(v) for v in values if v is not None])

    def mean_of(self, key: str) -> Spread | None:
        """Mean and deviation of another number of ``result.json`` over seeds."""
        values = [record.result.get(key) for record in self.records.values()]
        return None if None in values else Spread.of([float(v) for v in values if v is not None])

    @property
    def codes(self) -> set[str]:
        """The versions of this package's source that trained the runs, as far as is known."""
        return {code for run in self.records.values() for code in run.code.split("+")} - {""}

    @property
    def seconds(self) -> Spread:
        """Training time."""
        return Spread.of([record.seconds for record in self.records.values()])


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """The tables of a configuration by ``section.option``."""
    return {
        f"{section}.{option}": value
        for section, options in config.items()
        for option, value in options.items()
    }


def short(value: object) -> str:
    """A value of an option, as a label shows it."""
    return json.dumps(value).replace('"', "").replace(" ", "") if value is not None else "–"


#: Variance of differences that are equal but for rounding; accuracies differ by whole nodes.
_NO_VARIANCE = 1e-24


@dataclass(frozen=True)
class Difference:
    """How two models differ over the same seeds.

    Attributes:
        mean: Mean of the differences, first minus second.
        std: Their sample standard deviation.
        p_value: Of a two-sided paired test; None with fewer than two seeds or without variance, and
            where nothing is known of the splits.
        seeds: Number of pairs.
        over: What the test speaks of: other ``splits`` of the graph, or other ``initialisations``
            on the one split that all seeds share.
        against: Label of the second model.
    """

    mean: float
    std: float | None
    p_value: float | None
    seeds: int
    over: Literal["splits", "initialisations"] | None = None
    against: str = ""


def paired_test(
    first: Sequence[float], second: Sequence[float], test_to_train: float = 0.0
) -> Difference:
    r"""Compare scores that two models reach with the same seeds.

    Student's test on the differences :math:`d_i` with mean :math:`\bar d` and variance
    :math:`s^2`, corrected for splits that overlap because all are drawn from one graph:

    .. math:: t = \bar d / \sqrt{(1/n + n_{test}/n_{train})\, s^2}

    (Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003), with
    :math:`n - 1` degrees of freedom. Without the correction differences look surer than they are.

    Args:
        first: Scores of one model.
        second: Scores of the other, in the same order of seeds.
        test_to_train: Number of test nodes per training node; 0 leaves the correction out.
    """
    if len(first) != len(second) or not first:
        raise InputError("a paired test needs the same seeds, at least one, of both models.")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean, count = statistics.fmean(differences), len(differences)
    if count < 2:
        return Difference(mean, None, None, count)
    variance = statistics.variance(differences)
    if variance < _NO_VARIANCE:
        return Difference(mean, 0.0, None, count)
    from scipy.stats import t

    statistic = mean / math.sqrt((1 / count + test_to_train) * variance)
    p_value = float(2 * t.sf(abs(statistic), count - 1))
    return Difference(mean, math.sqrt(variance), p_value, count)


#: What makes a comparison uneven beside the models themselves.
_EFFORTS = (
    *("data.scaling", "model.hidden", "model.layers"),
    *("training.epochs", "training.patience", "training.metric", "training.class_shares"),
    "training.averaging",
)
#: What a configuration leaves out where it is so.
_USUAL = {
    "training.metric": "accuracy",
    "training.class_shares": "train",
    "training.averaging": 0.0,
}


def compared(rows: list[Row], against: str) -> list[Row]:
    """Rows with their differences to the one of that label, on the same data set and splits."""
    references = _references(rows, against)
    if not references:
        known = ", ".join(sorted({row.label for row in rows}))
        raise InputError(f"--against is '{against}', of which there are no runs; known: {known}.")
    return [_against(row, references.get((row.dataset, row.split))) for row in rows]


def _references(rows: Iterable[Row], against: str) -> dict[tuple[str, str], Row]:
    """By data set and split family, the row that others stand against."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if against in (row.label, row.model):
            found[row.dataset, row.split].append(row)
    return {place: _the_one(several, against) for place, several in found.items()}


def _the_one(rows: list[Row], against: str) -> Row:
    """The row with exactly that label, or the only one of that model."""
    exact = [row for row in rows if row.label == against]
    if not exact and len(rows) > 1:
        known = "; ".join(row.label for row in rows)
        raise InputError(f"--against {against} means several rows; name one of them: {known}.")
    return (exact or rows)[0]


def _against(row: Row, other: Row | None) -> Row:
    """A row with its difference in test accuracy over the seeds and splits that both have."""
    if other is None or other is row:
        return row
    pairs = [
        (record, other.records[seed])
        for seed, record in row.records.items()
        if seed in other.records and _same_split(record, other.records[seed])
    ]
    if not pairs:
        return row
    return replace(row, difference=replace(_difference(pairs), against=other.label))


def _same_split(first: Record, second: Record) -> bool:
    """Whether both were tested, and, as far as is known, on the same nodes of the same graph."""
    if first.graph and second.graph and first.graph != second.graph:
        return False
    tested = "test" in first.result["scores"] and "test" in second.result["scores"]
    one, other = first.result.get("split_sha256"), second.result.get("split_sha256")
    return tested and one is not None and one == other


def _difference(pairs: list[tuple[Record, Record]]) -> Difference:
    """A paired test, where it is known what the pairs are drawn from."""
    mine, theirs = ([_test(record) for record in column] for column in zip(*pairs, strict=True))
    splits = {first.result.get("split_sha256") for first, _ in pairs}
    nodes = pairs[0][0].result.get("nodes") or {}
    if len(splits) == 1 < len(pairs):  # all seeds share one split: weights alone were drawn anew
        return replace(paired_test(mine, theirs), over="initialisations")
    if len(splits) == len(pairs) and nodes.get("train"):
        ratio = nodes["test"] / nodes["train"]
        return replace(paired_test(mine, theirs, ratio), over="splits")
    return replace(paired_test(mine, theirs), p_value=None)


def without_pairs(rows: Iterable[Row], against: str) -> list[str]:
    """Which rows share no tested split and seed with the row that they stand against."""
    every = list(rows)
    references = _references(every, against)
    return [
        f"{row.label} on {row.dataset} has no tested split and seed in common with {other.label}, "
        f"so there is no difference; it has seed {', '.join(map(str, row.records))}"
        for row in every
        if row.difference is None
        and (other := references.get((row.dataset, row.split))) is not None
        and other is not row
    ]


def uneven_efforts(rows: Iterable[Row]) -> list[str]:
    """Where rows that are compared had other widths, depths, epochs or features, in sentences."""
    every = list(rows)
    by_label = {(row.dataset, row.split, row.label): row for row in every}
    said: dict[str, None] = {}
    for row in every:
        if row.difference is None:
            continue
        other = by_label[row.dataset, row.split, row.difference.against]
        mine, theirs = (
            _USUAL | flat(next(iter(one.records.values())).config) for one in (row, other)
        )
        differ = [
            f"{name.partition('.')[2]} ({short(mine[name])} and {short(theirs[name])})"
            for name in _EFFORTS
            # A model may have no such option at all.
            if name in mine.keys() & theirs.keys() and mine[name] != theirs[name]
        ]
        if differ:
            pair = f"{row.label} and {other.label} on {row.dataset}"
            said[f"{pair} differ in {', '.join(differ)}"] = None
    return list(said)


def _test(record: Record) -> float:
    return float(record.result["scores"]["test"]["accuracy"])


#: What does not make two runs different models.
_SEEDED = ("training.seed",)


def results_table(records: Iterable[Record], against: str | None = None) -> list[Row]:
    """Group runs by all of their configuration but the seed.

    Args:
        records: Finished runs.
        against: Label of a row (model, and options if there are several rows of it) with which the
            others of the same data set and split family are compared, seed by seed.

    Returns:
        Rows by data set, split family, model and options. Split families are never put together.
    """
    known = list(records)
    mixed = _mixed(known)
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in known:
        graph = record.graph if record.config["data"]["dataset"] in mixed else ""
        groups[_key(record), graph].append(record)
    families: dict[tuple[str, str, str], list[list[Record]]] = defaultdict(list)
    for group in groups.values():
        families[_place(group[0])].append(group)
    rows = [
        Row(*place, _options(group[0], siblings, mixed), _by_seed(group))
        for place, siblings in sorted(families.items())
        for group in siblings
    ]
    rows.sort(key=lambda row: (row.dataset, row.split, row.model, row.options))
    return rows if against is None else compared(rows, against)


def _mixed(records: Iterable[Record]) -> set[str]:
    """Data sets that were another graph in some runs than in others: a file may have changed."""
    graphs: dict[str, set[str]] = defaultdict(set)
    for record in records:
        graphs[record.config["data"]["dataset"]] |= {record.graph} - {""}
    return {dataset for dataset, found in graphs.items() if len(found) > 1}


def _place(record: Record) -> tuple[str, str, str]:
    data = record.config["data"]
    return data["dataset"], data["split"], record.config["model"]["name"]


def _key(record: Record) -> str:
    options = {k: v for k, v in flat(record.config).items() if k not in _SEEDED}
    return json.dumps(options, sort_keys=True)


def _options(record: Record, siblings: Sequence[Sequence[Record]], mixed: set[str]) -> str:
    """The options in which a row differs from most runs of this model on this data set.

    Where no value of an option is commoner than all others, every row says its own; and so it does
    of the graph where a data set was several.
    """
    own = flat(record.config)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    configs = [flat(group[0].config) for group in siblings]
    for name in dict.fromkeys(name for config in configs for name in config):
        for config, group in zip(configs, siblings, strict=True):
            counts[name][json.dumps(config.get(name))] += len(group)
    unusual = {
        name: own.get(name)
        for name, found in sorted(counts.items())
        if name not in _SEEDED and json.dumps(own.get(name)) != _commonest(found)
    }
    said = [f"{name.partition('.')[2]}={short(v)}" for name, v in unusual.items()]
    if record.config["data"]["dataset"] in mixed:
        said.append(f"graph={record.graph or 'unknown'}")
    return " ".join(said)


def _commonest(counts: Counter[str]) -> str | None:
    first, *others = counts.most_common(2)
    return None if others and others[0][1] == first[1] else first[0]


def _by_seed(group: Sequence[Record]) -> dict[int, Record]:
    found = {int(record.config["training"]["seed"]): record for record in group}
    return dict(sorted(found.items()))
