"""Numbers that papers print, to be shown beside ours."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from ncgnn.nn import model_class, model_names

#: A mean with its standard deviation (or 0 where none is printed), or ``OOM``.
Printed = tuple[float, float] | str
#: The paper's datasets, in the order of its main table.
DATASETS = (
    *("pubmed", "photo", "computers", "coauthor-cs", "coauthor-physics", "cora-full", "actor"),
    *("penn94", "chameleon-filtered-864", "squirrel-filtered-2205"),
)
#: Graphs that the paper does not have, and the ones in it beside whose numbers they may stand.
RELATIVES = {
    "chameleon-filtered": "chameleon-filtered-864",
    "squirrel-filtered": "squirrel-filtered-2205",
}
#: Said where they do.
OTHER_GRAPHS = (
    "The paper's filtered graphs are chameleon-filtered-864 and squirrel-filtered-2205; its "
    "numbers beside chameleon-filtered (890 nodes) and squirrel-filtered (2,223) are of those."
)


#: Marks cells of runs that were trained before a model began otherwise.
EARLIER = "†"
ABOUT_EARLIER = (
    "† trained when the weights by which separated models mix in raw features began at 0.5; they "
    "now begin at 0, as in the authors' code."
)


@cache
def published(table: str) -> dict[str, dict[str, Any]]:
    """A printed table by row and column."""
    path = files("ncgnn.paper") / "published" / f"{table}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def printed(table: str, row: str, column: str) -> Printed | None:
    """One cell of a printed table; None where it has none, nor one of a relative."""
    cells = published(table).get(row, {})
    value = cells.get(column, cells.get(RELATIVES.get(column, "")))
    if value is None or isinstance(value, str):
        return value
    mean, std = value
    return float(mean), float(std)


def printed_split(table: str, dataset: str) -> str:
    """The split family that a table's numbers on a dataset were measured with."""
    return str(published(table).get("split", {}).get(dataset, "paper"))


def printed_text(value: Printed | None) -> str:
    """A printed number as it is shown; nothing where there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    mean, deviation = value
    return f"{mean:.2f} ± {deviation:.2f}" if deviation else f"{mean:.2f}"


def model_title(name: str) -> str:
    """What papers call a model, also one that is not implemented here."""
    if name in published("listed"):
        return published("listed")[name]["title"]
    return model_class(name).title if name in model_names() else name
