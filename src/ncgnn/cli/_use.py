"""``ncgnn evaluate``, ``ncgnn predict`` and ``ncgnn report``: what to do with a finished run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncgnn.cli._options import (
    DataDirOption,
    DeviceOption,
    ForceOption,
    JsonOption,
    RunsOption,
    TableFormat,
    free_path,
    one_clear_error,
    print_json,
)
from ncgnn.errors import InputError, NcgnnError

if TYPE_CHECKING:
    from ncgnn.training import TrainedModel

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Folder of a finished run, or its name under --runs.")
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Folders of finished runs, or their names under --runs."),
]
MovedOption = Annotated[
    str | None, typer.Option("--dataset", help="Where the run's graph is now, if it has moved.")
]


@one_clear_error
def evaluate(
    run: RunArgument,
    dataset: MovedOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    json: JsonOption = False,
) -> None:
    """Evaluate a finished run again from its weights: scores, and accuracy per group."""
    trained = _loaded(_folder(run, runs), data_dir, device, dataset)
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
        TableFormat | None,
        typer.Option("--format", help="Format of the table; by default as --out ends, or csv."),
    ] = None,
    dataset: MovedOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    force: ForceOption = False,
) -> None:
    """Write class, probabilities, NC and group of every node of the run's graph.

    NC and group are those that the model was run with, estimated from its own predictions; of a
    model without groups they say how its predictions would be grouped.
    """
    from ncgnn.training._folder import RunFolder

    folder = _folder(run, runs)
    RunFolder(folder).check()
    ending = out.suffix[1:] if out is not None else ""
    by_ending = {known.value: known for known in TableFormat}
    chosen = table_format or by_ending.get(ending, TableFormat.csv)
    path = free_path(out or folder / f"predictions.{chosen.value}", force)
    if path.suffix not in ("", f".{chosen.value}"):
        known = " or ".join(f".{name}" for name in by_ending)
        raise InputError(f"--out is {path}; let it end in {known}, and --format agree with it.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it, or name another for --out.")
    from ncgnn.report import write_table

    write_table(_loaded(folder, data_dir, device, dataset).predictions(), path, chosen.value)
    print(path)


@one_clear_error
def report(run: RunsArgument, runs: RunsOption = Path("runs")) -> None:
    """Write report.html and figures into finished runs, or into all of a folder of runs."""
    from ncgnn.report import write_run_report
    from ncgnn.training._folder import DONE, RunFolder

    named = [_folder(name, runs) for name in run]
    inside = [sorted(done.parent for done in path.glob(f"*/{DONE}")) for path in named]
    folders = [
        RunFolder(path)
        for one, others in zip(named, inside, strict=True)
        for path in (others if others and not (one / DONE).is_file() else [one])
    ]
    damaged = False
    for folder in folders:
        try:
            folder.check()
        except NcgnnError as error:
            if len(folders) == 1:
                raise
            print(f"no report: {error}", file=sys.stderr)
            damaged = True
            continue
        print(write_run_report(folder)[0])
    if damaged:
        raise typer.Exit(1)


def _loaded(
    folder: Path, data_dir: Path | None, device: str | None, dataset: str | None
) -> TrainedModel:
    from rich.console import Console

    with Console(file=sys.stderr).status("reading the run"):
        from ncgnn.training import load_run

        return load_run(folder, data_dir, device, dataset)


def _folder(run: str, runs: Path) -> Path:
    named = Path(run).expanduser()
    inside = runs.expanduser() / run
    return inside if not named.exists() and inside.exists() else named
