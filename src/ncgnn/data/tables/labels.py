"""Which class a row has, and which part of a split it is in."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.tables.reading import shorten
from ncgnn.data.tables.schema import MISSING, parse_dates
from ncgnn.errors import InputError
from ncgnn.graph import is_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncgnn.data.tables.reading import SourceTable

# More different labels than this share of the labeled rows are no classes.
_MOST_CLASSES = 0.5
# Classes with fewer rows can hardly be learned, and may be misspelt.
_FEW_ROWS = 5
_PARTS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
_FRACTIONS = (0.6, 0.8)


def read_labels(table: SourceTable, column: str | None) -> tuple[NDArray[np.int64], list[str]]:
    """Class number per row, and class names."""
    if column is None:
        return np.full(len(table), -1, dtype=np.int64), []
    texts = label_texts(table, column)
    known = Counter(text for text in texts if text)
    if not known:
        raise InputError(f"{table.where}: column {column} (label) is empty; give some labels.")
    labeled = sum(known.values())
    if len(known) > max(100, _MOST_CLASSES * labeled):
        raise InputError(
            f"{table.where}: column {column} (label) has {len(known):,} different values in "
            f"{labeled:,} rows, which are no classes; name another column."
        )
    whole = all(is_whole(text) for text in known)
    names = sorted(known, key=int) if whole else sorted(known)
    number = {name: place for place, name in enumerate(names)}
    return np.array([number.get(text, -1) for text in texts], dtype=np.int64), names


def remark_on_classes(counts: Mapping[str, int]) -> list[str]:
    """What looks like a mistake among the names of classes."""
    said: list[str] = []
    alike: dict[str, list[str]] = {}
    for name in counts:
        alike.setdefault(name.casefold(), []).append(name)
    for names in [names for names in alike.values() if len(names) > 1][:3]:
        said.append(f"Classes that differ in capitals only: {' and '.join(names)}.")
    doubtful = [name for name in counts if name.lower() in {*MISSING, "unknown"}]
    if doubtful:
        listed = ", ".join(f"{name} {counts[name]:,}" for name in doubtful[:5])
        said.append(f"Classes that look like no label (leave it empty if so): {listed}.")
    rare = [name for name, count in counts.items() if count < _FEW_ROWS]
    if rare:
        listed = ", ".join(rare[:5]) + (", …" if len(rare) > 5 else "")
        said.append(f"{len(rare):,} of {len(counts):,} classes have under five rows: {listed}.")
    return said


def label_texts(table: SourceTable, column: str) -> list[str]:
    """Labels as texts, empty where there is none; whole numbers are written as such."""
    import pyarrow as pa

    values = table.column(column, "label")
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
        raise InputError(
            f"{table.where}: column {column} (label) must hold names or whole numbers; got "
            f"{values.type}."
        )
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        broken = ~np.isnan(numbers) & ~(np.isfinite(numbers) & (numbers == np.floor(numbers)))
        if broken.any():
            row = int(np.argmax(broken))
            raise InputError(
                f"{table.at(row, column)}: {numbers[row]} is no class; labels are names or whole "
                "numbers."
            )
        return ["" if np.isnan(value) else str(int(value)) for value in numbers]
    plain = [(value or "").strip() for value in values.cast(pa.string()).to_pylist()]
    texts = ["" if text.lower() in ("nan", "<na>") else text for text in plain]
    known = [text for text in texts if text]
    if known and all(text.endswith(".0") and is_whole(text[:-2]) for text in known):
        return [text.removesuffix(".0") for text in texts]
    return texts


def read_split(
    table: SourceTable, column: str | None, labels: NDArray[np.int64], notes: list[str]
) -> dict[str, NDArray[np.bool_]]:
    """Masks of the rows that a column puts into train, val and test."""
    if column is None:
        return {}
    part = {word: name for name, words in _PARTS.items() for word in words}
    texts: list[Any] = table.column(column, "split").cast("string").to_pylist()
    masks = {name: np.zeros(len(table), dtype=bool) for name in _PARTS}
    for row, text in enumerate(texts):
        word = (text or "").strip().lower()
        if word and word not in part:
            raise InputError(
                f"{table.at(row, column)}: {shorten(str(text))!r} is no part of a split; write "
                "train, val, test, "
                "or nothing."
            )
        if word:
            masks[part[word]][row] = True
    unlabeled = sum(int((mask & (labels < 0)).sum()) for mask in masks.values())
    if unlabeled:
        notes.append(f"{unlabeled:,} rows have a part of the split and no label; they are in none.")
    return {f"{name}_masks": (mask & (labels >= 0))[None] for name, mask in masks.items()}


def read_time(
    table: SourceTable, column: str | None, labels: NDArray[np.int64], notes: list[str]
) -> dict[str, NDArray[np.int64]]:
    """The earliest nodes to train on, later ones to validate, the latest to test."""
    if column is None:
        return {}
    times = parse_dates(table, column, table.column(column, "time"))
    known = np.flatnonzero((labels >= 0) & ~np.isnan(times))
    lost = int((labels >= 0).sum()) - len(known)
    if lost:
        notes.append(f"{lost:,} labeled rows have no {column}; they are in no part of the split.")
    if len(known) < 3:
        raise InputError(f"{table.where}: column {column} (time) has too few values for a split.")
    order = known[np.argsort(times[known], kind="stable")]
    # Nodes of one moment stay together.
    limits = [times[order[min(int(share * len(order)), len(order) - 1)]] for share in _FRACTIONS]
    moments = times[order]
    first, second = np.searchsorted(moments, limits, side="left").tolist()
    parts = (order[:first], order[first:second], order[second:])
    if not all(len(part) for part in parts):
        raise InputError(
            f"{table.where}: column {column} (time) has too few different values for a split."
        )
    return {f"time_{name}": np.sort(part) for name, part in zip(_PARTS, parts, strict=True)}
