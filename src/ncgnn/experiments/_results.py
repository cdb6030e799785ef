"""Finished runs as rows: one per model, options, data set and split family."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError
from ncgnn.experiments._significance import Difference, paired_test
from ncgnn.training import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.experiments._records import Record

#: What makes a comparison uneven beside the models themselves.
_EFFORTS = (
    *("data.scaling", "model.hidden", "model.layers"),
    *("training.epochs", "training.patience", "training.class_shares", "training.averaging"),
)
#: What a configuration leaves out where it is so.
_USUAL = {"training.class_shares": "train", "training.averaging": 0.0}
#: What does not make two runs different models.
_SEEDED = ("training.seed",)


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


def results_table(records: Iterable[Record], against: str | None = None) -> list[Row]:
    """Group runs by all of their configuration but the seed.

    Args:
        records: Finished runs.
        against: Label of a row (model, and options if there are several rows of it) with which the
            others of the same data set and split family are compared, seed by seed.

    Returns:
        Rows by data set, split family, model and options. Split families are never put together.
    """
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[_key(record)].append(record)
    families: dict[tuple[str, str, str], list[list[Record]]] = defaultdict(list)
    for group in groups.values():
        families[_place(group[0])].append(group)
    rows = [
        Row(*place, _options(group[0], siblings), _by_seed(group))
        for place, siblings in sorted(families.items())
        for group in siblings
    ]
    rows.sort(key=lambda row: (row.dataset, row.split, row.model, row.options))
    return rows if against is None else _compared(rows, against)


def _place(record: Record) -> tuple[str, str, str]:
    data = record.config["data"]
    return data["dataset"], data["split"], record.config["model"]["name"]


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """The tables of a configuration by ``section.option``."""
    return {
        f"{section}.{option}": value
        for section, options in config.items()
        for option, value in options.items()
    }


def _key(record: Record) -> str:
    options = {k: v for k, v in flat(record.config).items() if k not in _SEEDED}
    return json.dumps(options, sort_keys=True)


def _options(record: Record, siblings: Sequence[Sequence[Record]]) -> str:
    """The options in which a row differs from most runs of this model on this data set.

    Where no value of an option is commoner than all others, every row says its own.
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
    return " ".join(f"{name.partition('.')[2]}={_short(v)}" for name, v in unusual.items())


def _commonest(counts: Counter[str]) -> str | None:
    first, *others = counts.most_common(2)
    return None if others and others[0][1] == first[1] else first[0]


def _short(value: object) -> str:
    return json.dumps(value).replace('"', "").replace(" ", "") if value is not None else "–"


def _by_seed(group: Sequence[Record]) -> dict[int, Record]:
    found = {int(record.config["training"]["seed"]): record for record in group}
    return dict(sorted(found.items()))


def _compared(rows: list[Row], against: str) -> list[Row]:
    others = [row for row in rows if against in (row.label, row.model)]
    if not others:
        known = ", ".join(sorted({row.label for row in rows}))
        raise InputError(f"--against is '{against}', of which there are no runs; known: {known}.")
    reference: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in others:
        reference[row.dataset, row.split].append(row)
    chosen = {place: _the_one(found, against) for place, found in reference.items()}
    return [_against(row, chosen.get((row.dataset, row.split))) for row in rows]


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
    """Whether both were tested, and, as far as is known, on the same nodes."""
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
            f"{name.partition('.')[2]} ({_short(mine[name])} and {_short(theirs[name])})"
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
