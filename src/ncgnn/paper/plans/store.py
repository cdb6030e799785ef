"""Runs that are planned in advance, the store that keeps them, and cells of tables made of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ncgnn.experiments import Record, as_records, read_stored, write_stored
from ncgnn.report import Cell, Table, percent
from ncgnn.training import Spread, make_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ncgnn.experiments import TuneResult
    from ncgnn.training import RunConfig, RunResult

Kept = dict[str, Record]


@dataclass
class Store:
    """A folder of stored results, to which missing runs are added.

    Attributes:
        folder: Holds ``*.jsonl``.
        run: Trains configurations and returns the finished runs.
        search: Calls :func:`ncgnn.experiments.tune` with the folders and workers of ``run``.
        data_dir: Folder with npz files.
        deadline: When, by ``time.monotonic()``, no further run is begun; None for never.
    """

    folder: Path
    run: Callable[[Sequence[RunConfig]], Sequence[RunResult]] | None = None
    search: Callable[..., TuneResult] | None = None
    data_dir: Path | None = None
    deadline: float | None = None
    _read: dict[str, Kept] = field(default_factory=dict[str, Kept])

    def kept(self, *names: str) -> Kept:
        """The runs of some files by name; those of later files win."""
        for name in names:
            path = self.folder / f"{name}.jsonl"
            if name not in self._read:
                found = read_stored(path) if path.is_file() else []
                self._read[name] = {record.name: record for record in found}
        return {key: record for name in names for key, record in self._read[name].items()}

    @property
    def is_late(self) -> bool:
        """Whether no further run may begin."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def train(self, configs: Iterable[RunConfig], name: str, *others: str) -> None:
        """Train what neither a file nor the others hold yet, and add it to the first.

        With a deadline runs are trained one by one in their order, and each is kept at once.
        """
        known = self.kept(name, *others)
        missing = [config for config in configs if config.name not in known]
        batches = [missing] if self.deadline is None else [[config] for config in missing]
        for batch in batches:
            if batch and self.run is not None and not self.is_late:
                write_stored(as_records(self.run(batch)), self.folder / f"{name}.jsonl")
                self._read.pop(name, None)


class Plan(ABC):
    """Runs that are planned in advance, kept in a store, and shown in tables.

    Attributes:
        name: As the command line knows it.
        title: What it is about.
        about: Sentences above its tables.
        graphs: The datasets that it trains on.
    """

    name: str
    title: str
    about: str
    graphs: tuple[str, ...]

    @abstractmethod
    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Train what the store lacks, on all datasets or some."""

    @abstractmethod
    def tables(self, store: Store) -> list[Table]:
        """Tables of what the store holds; none if it holds nothing of the plan."""


def pick(configs: Iterable[RunConfig], kept: Kept) -> list[Record]:
    """The records of planned runs that are there, in the order of the plan."""
    return [kept[config.name] for config in configs if config.name in kept]


def score_cell(records: Sequence[Record], part: str = "test", score: str = "accuracy") -> str:
    """Mean ± sample standard deviation (number of seeds), in percent; empty without runs."""
    if not records:
        return ""
    values = [float(record.result["scores"][part][score]) for record in records]
    return f"{percent(Spread.of(values))} ({len(values)})"


def test_cell(records: Sequence[Record]) -> str:
    """A cell of test accuracy; runs of several versions of the package are marked with ‡."""
    versions = {version for record in records for version in record.code.split("+")} - {""}
    return score_cell(records) + (" ‡" if len(versions) > 1 else "")


def score_rows(
    runs: Mapping[str, Sequence[Sequence[Record]]], part: str = "test", score: str = "accuracy"
) -> dict[str, list[str]]:
    """Cells of rows, whose records are given graph by graph."""
    return {row: [score_cell(one, part, score) for one in by] for row, by in runs.items()}


def majority_row(runs: Iterable[Sequence[Sequence[Record]]]) -> dict[str, list[str]]:
    """The accuracy of always answering the commonest class, over all seeds of each graph."""
    cells: list[str] = []
    for by_row in zip(*runs, strict=True):
        results = [record.result for records in by_row for record in records]
        shares = {result["seed"]: result["majority_baseline"] for result in results}
        cells.append(percent(Spread.of([*shares.values()]).mean) if shares else "")
    return {"majority class": cells}


def graph_table(
    title: str, graphs: Sequence[str], rows: Mapping[str, Sequence[Cell]], *notes: str
) -> Table:
    """A table with one column per graph."""
    lines = tuple((name, *cells) for name, cells in rows.items())
    return Table(title, ("", *graphs), lines, notes)


def configs_for(
    dataset: str, model: str, split: str, seeds: Iterable[int], settings: Mapping[str, Any]
) -> list[RunConfig]:
    """Runs that differ in their seed."""
    return [
        make_config(dataset=dataset, model=model, split=split, seed=seed, settings=dict(settings))
        for seed in seeds
    ]
