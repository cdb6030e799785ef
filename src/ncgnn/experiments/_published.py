"""Numbers that others print, to be shown beside ours."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

#: A mean with its standard deviation (or 0 where none is printed), or ``OOM``.
Printed = tuple[float, float] | str


@cache
def published(table: str) -> dict[str, dict[str, Any]]:
    """A printed table by row and column."""
    path = files("ncgnn.experiments") / "published" / f"{table}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def printed(table: str, row: str, column: str) -> Printed | None:
    """One cell of a printed table; None where it has none."""
    value = published(table).get(row, {}).get(column)
    if value is None or isinstance(value, str):
        return value
    mean, std = value
    return float(mean), float(std)


def printed_split(table: str, dataset: str) -> str:
    """The split family that a table's numbers on a data set were measured with."""
    return str(published(table).get("split", {}).get(dataset, "paper"))
