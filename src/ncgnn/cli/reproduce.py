"""``ncgnn reproduce``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncgnn.cli.options import (
    AddressOption,
    ConfigsOption,
    DataDirOption,
    DatasetsOption,
    DeviceOption,
    EngineChoice,
    EngineOption,
    JsonOption,
    ModelsOption,
    RetryOption,
    RunsOption,
    SeedsOption,
    SettingsOption,
    ThreadsOption,
    TrainOption,
    WorkersOption,
    chosen_settings,
    free_folder,
    names,
    one_clear_error,
    print_json,
    seed_numbers,
    table_console,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.experiments import Record
    from ncgnn.paper import Reproduction, Request

#: All tables and figures; known here too, because help must not wait for the experiments.
NAMES = (
    *("table1", "table2", "classic-uniform", "classic-published", "duplication", "leaderboard"),
    *("efficiency", "distributions", "observation", "embeddings", "groups", "interplay"),
    *("sensitivity", "alpha", "time", "entropy"),
)


@one_clear_error
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            help=f"Which table or figure: {', '.join(NAMES)}. Without a name, all are listed with "
            "what they show."
        ),
    ] = None,
    datasets: DatasetsOption = None,
    models: ModelsOption = None,
    config: ConfigsOption = None,
    settings: SettingsOption = None,
    seeds: SeedsOption = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split family: stratified, paper, published, planetoid or uniform; by default "
            "that of the printed numbers."
        ),
    ] = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    stored: Annotated[
        list[Path] | None,
        typer.Option(
            "--stored",
            help="JSON lines of finished runs (see 'ncgnn results --add-to'), for tables where "
            "there is no run; may be repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for what is made.")] = Path("reproduced"),
    train: TrainOption = True,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    workers: WorkersOption = None,
    threads: ThreadsOption = 1,
    retry_failed: RetryOption = False,
    json: JsonOption = False,
) -> None:
    """Make a table or figure of the paper again: train what is missing, then show all.

    The same command may be given as often as you like: finished runs are never trained again.
    """
    from ncgnn.experiments import read_stored
    from ncgnn.paper import is_timed, request_for, targets

    if name is None:
        if any(
            one is not None for one in (datasets, models, config, settings, seeds, split, stored)
        ):
            raise InputError(f"name a table or figure: {', '.join(NAMES)}.")
        _list(targets())
        return
    _check_name(name, stored or [])
    free_folder(out)
    _check_alone(name, workers, address)
    kept = [record for path in stored or [] for record in read_stored(path)]
    request, absent = request_for(
        name,
        datasets=None if datasets is None else names(datasets, "--datasets"),
        models=None if models is None else names(models, "--models"),
        seeds=seed_numbers(seeds) or (0,),
        split=split,
        data_dir=data_dir,
        config=config,
        settings=chosen_settings(settings, seeds) | ({"device": device} if device else {}),
        stored=kept,
        train=train,
    )
    options: dict[str, Any] = {
        "engine": engine.value,
        "address": address,
        "workers": 1 if is_timed(name) else workers,
        "threads": threads,
        "retry_failed": retry_failed,
        "warm_up": is_timed(name),
    }
    made, failed = _made(name, request, absent, kept, runs, options if train else None)
    if json:
        print_json(_plain(made))
    _show(made, out, quiet=json)
    if failed:
        raise typer.Exit(1)


def _check_name(name: str, stored: list[Path]) -> None:
    from ncgnn.paper import takes_stored

    if "," in name:
        raise InputError(f"{name} names several; make one table or figure at a time.")
    if stored and not takes_stored(name):
        raise InputError(f"{name} needs more of its runs than scores; leave --stored out.")


def _check_alone(name: str, workers: int | None, address: str | None) -> None:
    from ncgnn.paper import is_timed

    if is_timed(name) and (workers or 1) > 1:
        raise InputError(f"{name} compares times: --workers must be 1, which is the default here.")
    if is_timed(name) and address is not None:
        raise InputError(f"{name} compares times of one machine: leave --address out.")


def _made(
    name: str,
    request: Request,
    absent: dict[str, str],
    stored: list[Record],
    runs: Path,
    options: dict[str, Any] | None,
) -> tuple[Reproduction, bool]:
    """The table or figure, after training what is missing; and whether any run failed."""
    from ncgnn.cli.sweep import leave_if_stopped, run_cells
    from ncgnn.experiments import finished_runs, of_this_graph
    from ncgnn.paper import is_timed, takes_stored, target
    from ncgnn.paper import reproduce as make
    from ncgnn.training import RunFolder

    wanted = target(name).cells(request)
    if takes_stored(name):
        stored, others = of_this_graph(stored, wanted, request.data_dir)
        for other in others:
            print(f"not used: the stored run {other} is of another graph.", file=sys.stderr)
    kept = {record.name for record in stored} if takes_stored(name) else set[str]()
    cells = [
        config
        for config in wanted
        if RunFolder(runs / config.name).is_done()
        or (config.name not in kept and options is not None)
    ]
    failed = False
    if options is None and wanted and not cells and not kept:
        raise InputError(
            f"none of its {len(wanted)} runs is finished in {runs}; leave --no-train out, or name "
            "another folder with --runs."
        )
    if options is None or not cells:
        found = finished_runs(cells, runs, request.data_dir)
    else:
        outcome = run_cells(cells, runs, data_dir=request.data_dir, **options)
        leave_if_stopped(outcome, runs)
        if is_timed(name) and (old := sum(not run.fresh for run in outcome.runs)):
            print(
                f"note: {old} runs were found finished; their times are of when they were trained, "
                "and compare only if the machine was quiet then. --runs names another folder.",
                file=sys.stderr,
            )
        found, failed = outcome.runs, bool(outcome.failed)
    return make(name, found, request=request, absent=absent, stored=stored), failed


def _plain(made: Reproduction) -> dict[str, Any]:
    """All numbers, for other programs."""
    return {
        "name": made.target.name,
        "split": made.request.split,
        "seeds": list(made.request.seeds),
        "config": {str(file.path): file.tables for file in made.request.files},
        "settings": dict(made.request.settings),
        "absent": made.absent,
        "data": made.data.plain(),
    }


def _show(made: Reproduction, out: Path, *, quiet: bool) -> None:
    """Print a table unless quiet; write tables and figures, and say where; list what is missing."""
    from ncgnn.paper import paper_grids, write_reproduction

    console = table_console()
    for grid in () if quiet else paper_grids(made):
        console.print(grid)
    paths = write_reproduction(made, out.expanduser())
    print("Written:", *(f"  {path}" for path in paths), sep="\n", file=sys.stderr)
    for dataset, reason in made.absent.items():
        print(f"left out: {dataset}: {reason}", file=sys.stderr)
    if made.data.missing:
        print(f"missing runs: {len(made.data.missing)}", file=sys.stderr)
        for run in made.data.missing[:20]:
            print(f"  {run}", file=sys.stderr)
        if len(made.data.missing) > 20:
            print(f"  … and {len(made.data.missing) - 20} more; --json lists all", file=sys.stderr)


def _list(known: list[str]) -> None:
    from ncgnn.paper import target
    from ncgnn.report import Table

    rows = tuple((name, target(name).kind, target(name).title) for name in known)
    table_console().print(
        Table("ncgnn reproduce NAME", ("name", "kind", "what it shows"), rows, left=3)
    )
