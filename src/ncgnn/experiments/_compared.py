"""Rows of results beside one of them: differences over common seeds, and what makes them uneven."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ncgnn.errors import InputError
from ncgnn.experiments._rows import flat, short
from ncgnn.experiments._significance import Difference, paired_test

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.experiments._records import Record
    from ncgnn.experiments._rows import Row

#: What makes a comparison uneven beside the models themselves.
_EFFORTS = (
    *("data.scaling", "model.hidden", "model.layers"),
    *("training.epochs", "training.patience", "training.class_shares", "training.averaging"),
)
#: What a configuration leaves out where it is so.
_USUAL = {"training.class_shares": "train", "training.averaging": 0.0}


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
