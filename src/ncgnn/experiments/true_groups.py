"""Finished runs on truly confused nodes: accuracy by NC of the true labels, over seeds.

Every run holds its test accuracy on nodes of low and of high NC by the true labels. Models with
thresholds of their own divide nodes at these, so two models are compared where they divide alike.
A run that has tested hardly any node of a group says nothing of it, and does not count there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ncgnn.experiments.results import compare_row, find_references
from ncgnn.training import FEWEST_NODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.experiments.results import Record, Row

Group = Literal["low", "high"]


@dataclass(frozen=True)
class TrueGroupRow:
    """Runs that differ in nothing but their seed, on nodes that are truly low or high in NC.

    Attributes:
        row: The runs on all test nodes.
        division: What NC was divided at, in words.
        low: The runs as if nodes of the lowest group were all that was tested; None where no run
            has tested :data:`ncgnn.training.FEWEST_NODES` or more.
        high: Likewise for the highest group, with the difference to the row compared with.
        low_nodes: Mean number of test nodes of the lowest group.
        high_nodes: Mean number of test nodes of the highest group.
    """

    row: Row
    division: str
    low: Row | None
    high: Row | None
    low_nodes: float
    high_nodes: float


def by_true_group(rows: Sequence[Row], against: str | None = None) -> list[TrueGroupRow]:
    """Divide the results of runs by NC of the true labels.

    Args:
        rows: What :func:`ncgnn.experiments.results_table` gives.
        against: As there: the row that others are compared with on nodes of high NC.

    Returns:
        A row for each that has runs with test nodes.
    """
    references = {} if against is None else find_references(rows, against)
    high = {id(row): _in_group(row, "high") for row in rows}
    found: list[TrueGroupRow] = []
    for row in rows:
        low, mine = _in_group(row, "low"), high[id(row)]
        if mine is not None and (other := references.get((row.dataset, row.split))) is not None:
            mine = compare_row(mine, None if other is row else high[id(other)])
        if low is not None or mine is not None:
            nodes = _nodes(row, "low"), _nodes(row, "high")
            found.append(TrueGroupRow(row, _division(row), low, mine, *nodes))
    return found


def _in_group(row: Row, group: Group) -> Row | None:
    """A row as if the nodes of one group were all that was tested."""
    found = {seed: _tested_on(record, group) for seed, record in row.records.items()}
    kept = {seed: record for seed, record in found.items() if record is not None}
    return replace(row, records=kept, difference=None) if kept else None


def _tested_on(record: Record, group: Group) -> Record | None:
    part = _part(record, group)
    if part is None or part["nodes"] < FEWEST_NODES:
        return None
    result = record.result
    scores = {"val": result["scores"]["val"], "test": {"accuracy": part["accuracy"]}}
    # Two runs are paired if they were tested on the same nodes; so the division is part of it.
    nodes = f"{result.get('split_sha256')} {group} NC, {_words(record)}"
    return replace(record, result=result | {"scores": scores, "split_sha256": nodes})


def _part(record: Record, group: Group) -> dict[str, Any] | None:
    """What a run holds of the test nodes of a group; None where there are none."""
    result = record.result
    if "test" not in result["scores"] or "thresholds" not in result:
        return None
    number = 0 if group == "low" else len(result["thresholds"])
    parts: list[dict[str, Any]] = result.get("accuracy_by_true_group", [])
    return next((part for part in parts if part["part"] == number), None)


def _nodes(row: Row, group: Group) -> float:
    parts = [_part(record, group) for record in row.records.values()]
    return sum(0 if part is None else part["nodes"] for part in parts) / len(parts)


def _division(row: Row) -> str:
    return _words(next(iter(row.records.values())))


def _words(record: Record) -> str:
    """What NC is divided at."""
    result = record.result
    limits = ", ".join(f"{limit:g}" for limit in result.get("thresholds", ()))
    kind, hops = result.get("threshold_kind", "value"), result.get("hops", 1)
    words = limits if kind == "value" else f"{limits} {kind}"
    return words if hops == 1 else f"{words}, k={hops}"


def other_divisions(rows: Iterable[TrueGroupRow], against: str) -> list[str]:
    """Sentences about rows that divide nodes otherwise than the row they are compared with."""
    every = list(rows)
    said: list[str] = []
    for place, reference in find_references([one.row for one in every], against).items():
        mine = _division(reference)
        others = [
            one.row.label
            for one in every
            if (one.row.dataset, one.row.split) == place and one.division != mine
        ]
        if others:
            said.append(
                f"{reference.label} on {place[0]} divides NC at {mine}; without a difference, as "
                f"they divide it otherwise and so speak of other nodes: {'; '.join(others)}"
            )
    return said
