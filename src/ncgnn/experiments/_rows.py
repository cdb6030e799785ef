"""A row of results: runs that differ in nothing but their seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncgnn.training import Spread

if TYPE_CHECKING:
    from ncgnn.experiments._records import Record
    from ncgnn.experiments._significance import Difference


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
