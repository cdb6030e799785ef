"""``ncgnn evaluate`` and ``ncgnn predict``: what to do with a finished run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncgnn.cli._options import (
    DataDirOption,
    ForceOption,
    JsonOption,
    RunsOption,
    TableFormat,
    free_path,
    one_clear_error,
    print_json,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.training import TrainedModel

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Folder of a finished run, or its name under --runs.")
]


@one_clear_error
def evaluate(
    run: RunArgument,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    json: JsonOption = False,
) -> None:
    """Evaluate a finished run again from its weights: scores, and accuracy per group."""
    trained = _loaded(run, runs, data_dir)
    result = trained.evaluate()
    if json:
        print_json(result)
        return
    from rich.console import Console

    from ncgnn.report import evaluation_tables

    console = Console()
    for table in evaluation_tables(result, trained.config):
        console.print(table)


@one_clear_error
def predict(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default predictions.* in the run.")
    ] = None,
    table_format: Annotated[
        TableFormat, typer.Option("--format", help="Format of the per-node table.")
    ] = TableFormat.csv,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    force: ForceOption = False,
) -> None:
    """Write class, probabilities, NC and group of every node of the run's graph."""
    folder = _folder(run, runs)
    path = free_path(out or folder / f"predictions.{table_format.value}", force)
    if path.suffix not in ("", f".{table_format.value}"):
        raise InputError(f"--out is {path}, but --format is {table_format.value}; make them agree.")
    from ncgnn.report import write_table

    write_table(_loaded(run, runs, data_dir).predictions(), path, table_format.value)
    print(path)


def _loaded(run: str, runs: Path, data_dir: Path | None) -> TrainedModel:
    from rich.console import Console

    with Console(file=sys.stderr).status("reading the run"):
        from ncgnn.training import load_run

        return load_run(_folder(run, runs), data_dir)


def _folder(run: str, runs: Path) -> Path:
    named = Path(run).expanduser()
    inside = runs.expanduser() / run
    return inside if not named.exists() and inside.exists() else named
