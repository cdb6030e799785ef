"""``ncgnn reproduce``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncgnn.cli._options import (
    AddressOption,
    DataDirOption,
    DatasetsOption,
    EngineChoice,
    EngineOption,
    ModelsOption,
    RetryOption,
    RunsOption,
    SeedsOption,
    SettingsOption,
    ThreadsOption,
    WorkersOption,
    chosen_settings,
    names,
    one_clear_error,
    seed_numbers,
    table_console,
)

if TYPE_CHECKING:
    from ncgnn.experiments import Record, Reproduction
    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig


@one_clear_error
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which table or figure; without a name, all are listed.")
    ] = None,
    datasets: DatasetsOption = None,
    models: ModelsOption = None,
    settings: SettingsOption = None,
    seeds: SeedsOption = None,
    split: Annotated[
        str,
        typer.Option(
            help="Split family: paper (the default), stratified, published, planetoid or uniform."
        ),
    ] = "paper",
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    stored: Annotated[
        list[Path] | None,
        typer.Option(
            "--stored",
            help="JSON lines of finished runs (see 'ncgnn results --store'), used for tables where "
            "there is no run; may be repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for what is made.")] = Path("reproduced"),
    train: Annotated[
        bool,
        typer.Option("--train/--no-train", help="Train what is missing, or use what there is."),
    ] = True,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    workers: WorkersOption = None,
    threads: ThreadsOption = 1,
    retry_failed: RetryOption = False,
) -> None:
    """Make a table or figure of the paper again: train what is missing, then show all.

    The same command may be given as often as you like: finished runs are never trained again.
    """
    from ncgnn.experiments import read_stored, request_for, targets

    if name is None:
        _list(targets())
        return
    request, absent = request_for(
        name,
        datasets=None if datasets is None else names(datasets, "--datasets"),
        models=None if models is None else names(models, "--models"),
        seeds=seed_numbers(seeds) or (0,),
        split=split,
        data_dir=data_dir,
        settings=chosen_settings(settings, seeds),
    )
    kept = [record for path in stored or [] for record in read_stored(path.expanduser())]
    options: dict[str, Any] = {
        "data_dir": data_dir,
        "engine": engine.value,
        "address": address,
        "workers": workers,
        "threads": threads,
        "retry_failed": retry_failed,
    }
    made = _made(name, request, absent, kept, runs, options if train else None)
    _show(made, out)


def _made(
    name: str,
    request: Request,
    absent: dict[str, str],
    stored: list[Record],
    runs: Path,
    options: dict[str, Any] | None,
) -> Reproduction:
    """The table or figure, after training what is missing where that is wanted."""
    from ncgnn.cli._sweep import leave_if_stopped, run_cells
    from ncgnn.experiments import finished_runs, target
    from ncgnn.experiments import reproduce as make

    wanted = target(name)
    known = {record.name for record in stored} if wanted.kind == "table" else set[str]()
    cells: list[RunConfig] = [c for c in wanted.cells(request) if c.name not in known]
    if options is None:
        found = finished_runs(cells, runs)
    else:
        outcome = run_cells(cells, runs, **options) if cells else None
        if outcome is not None:
            leave_if_stopped(outcome, runs)
        found = () if outcome is None else outcome.runs
    return make(name, found, request=request, absent=absent, stored=stored)


def _show(made: Reproduction, out: Path) -> None:
    """Print a table; write tables and figures, and say where; list what is missing."""
    from ncgnn.report import as_rich, paper_grids, write_reproduction

    console = table_console()
    for grid in paper_grids(made):
        console.print(as_rich(grid))
    paths = write_reproduction(made, out.expanduser())
    print("Written:", *(f"  {path}" for path in paths), sep="\n", file=sys.stderr)
    for dataset, reason in made.absent.items():
        print(f"left out: {dataset}: {reason}", file=sys.stderr)
    if made.data.missing:
        print(f"{len(made.data.missing)} runs are missing:", file=sys.stderr)
        for run in made.data.missing[:20]:
            print(f"  {run}", file=sys.stderr)


def _list(known: list[str]) -> None:
    from ncgnn.experiments import target
    from ncgnn.report import Grid, as_rich

    rows = tuple((name, target(name).kind, target(name).title) for name in known)
    table_console().print(as_rich(Grid("ncgnn reproduce NAME", ("name", "", ""), rows, left=3)))
