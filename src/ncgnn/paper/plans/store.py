"""Runs that are planned in advance, the store that keeps them, and cells of tables made of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ncgnn.experiments import Record, as_records, read_stored, write_stored
from ncgnn.paper.printed import ABOUT_EARLIER, EARLIER
from ncgnn.report import Cell, Table, percent
from ncgnn.training import Spread, is_current, make_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ncgnn.experiments import Difference, TuneResult
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

        What an earlier revision of a model left is trained again. With a deadline runs are trained
        one by one in their order, and each is kept at once.
        """
        known = self.kept(name, *others)
        missing = [c for c in configs if c.name not in known or not is_now(known[c.name])]
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


def is_now(record: Record) -> bool:
    """Whether a run is of what its model is now."""
    return is_current(record.config["model"], record.result)


def pick(configs: Iterable[RunConfig], kept: Kept) -> list[Record]:
    """The records of planned runs that are there, in the order of the plan."""
    return [kept[config.name] for config in configs if config.name in kept]


def score_cell(records: Sequence[Record], part: str = "test", score: str = "accuracy") -> str:
    """Mean ± sample standard deviation (number of seeds), in percent; empty without runs.

    Runs of an earlier revision of a model count where there are no others, and are marked.
    """
    if not records:
        return ""
    counted = current(records)
    values = [float(record.result["scores"][part][score]) for record in counted]
    mark = "" if all(map(is_now, counted)) else f" {EARLIER}"
    return f"{percent(Spread.of(values))} ({len(values)}){mark}"


def current(records: Sequence[Record]) -> Sequence[Record]:
    """The runs of what their models are now; all if there is none."""
    return [record for record in records if is_now(record)] or records


def test_cell(records: Sequence[Record]) -> str:
    """A cell of test accuracy; runs of several versions of the package are marked with ‡."""
    versions = {version for record in current(records) for version in record.code.split("+")} - {""}
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


def difference_text(found: Difference | None, p_value: float | None = None) -> str:
    """A difference in points, with its interval and p, by default as it was tested."""
    if found is None:
        return ""
    mean = _signed(found.mean)
    p_value = found.p_value if p_value is None else p_value
    if found.margin is None or p_value is None:
        return mean
    low, high = (_signed(found.mean + sign * found.margin) for sign in (-1, 1))
    return f"{mean} ({low} to {high}), p {'< 0.01' if p_value < 0.01 else f'{p_value:.2f}'}"


def _signed(share: float) -> str:
    return f"{100 * share:+.2f}".replace("-", "−")


def graph_table(
    title: str, graphs: Sequence[str], rows: Mapping[str, Sequence[Cell]], *notes: str
) -> Table:
    """A table with one column per graph."""
    lines = tuple((name, *cells) for name, cells in rows.items())
    marked = any(isinstance(cell, str) and EARLIER in cell for line in lines for cell in line)
    return Table(title, ("", *graphs), lines, (*notes, ABOUT_EARLIER) if marked else notes)


def configs_for(
    dataset: str, model: str, split: str, seeds: Iterable[int], settings: Mapping[str, Any]
) -> list[RunConfig]:
    """Runs that differ in their seed."""
    return [
        make_config(dataset=dataset, model=model, split=split, seed=seed, settings=dict(settings))
        for seed in seeds
    ]
