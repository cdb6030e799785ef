"""Runs whose scores are kept as JSON lines beside the code, trained by a sweep."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn.experiments import Record, Watcher, as_records, read_stored, sweep, write_stored
from ncgnn.experiments.records import origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.experiments import Cell
    from ncgnn.training import RunConfig


class Keeper(Watcher):
    """Adds every finished run to a file, and prints a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ended(self, cell: Cell) -> None:
        config = cell.config
        title = f"{config.data.dataset:20} {config.model.name:12} seed {config.training.seed:<3}"
        if cell.run is None:
            print(f"{title} {cell.state} {cell.error}", flush=True)
            return
        result, seconds = cell.run.result, round(cell.run.seconds, 1)
        tables = config.model_dump(mode="json")
        write_stored(
            [Record(config.name, tables, result, seconds, *origin(cell.folder))], self.path
        )
        val, test = (100 * result["scores"][p]["accuracy"] for p in ("val", "test"))
        print(
            f"{title} {config.name[-10:]} val {val:.2f}  test {test:.2f}  {seconds:.0f} s, "
            f"{result['epochs']} epochs",
            flush=True,
        )


def keep(configs: Sequence[RunConfig], path: Path, given: argparse.Namespace) -> dict[str, Record]:
    """Train what the file does not hold yet; returns what it holds then, by name."""
    warnings.simplefilter("ignore")
    known = {record.name for record in read_stored(path)} if path.is_file() else set[str]()
    left = [config for config in configs if config.name not in known]
    print(f"{len(configs) - len(left)} runs are in {path.name}, {len(left)} are to be trained")
    done = sweep(
        left,
        given.runs,
        data_dir=given.data_dir,
        workers=given.workers,
        retry_failed=given.retry_failed,
        watcher=Keeper(path),
    )
    for folder, error in done.failed.items():
        print(f"not trained: {folder}: {error}", flush=True)
    write_stored(as_records(done.runs), path)  # also what an earlier process could not add
    return {record.name: record for record in read_stored(path)} if path.is_file() else {}


def arguments(description: str | None, runs: str) -> argparse.ArgumentParser:
    """The options of such a script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--workers", type=int, help="runs at a time; by default one per core")
    parser.add_argument("--retry-failed", action="store_true", help="what failed before, too")
    return parser
