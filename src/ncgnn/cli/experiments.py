"""The commands that train many runs: sweep, and reproduce, which makes the paper's results."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ncgnn
from ncgnn.cli import options as opt
from ncgnn.cli.terminal import (
    command,
    free_folder,
    note,
    print_json,
    print_tables,
    read_list,
    read_paths,
    read_seeds,
    read_settings,
)
from ncgnn.cli.train import run_facts
from ncgnn.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.experiments import Cell, Record, SweepResult
    from ncgnn.paper import Reproduction, Request, Target
    from ncgnn.report import Table
    from ncgnn.training import RunConfig, RunResult

#: All tables and figures, repeated here because help must not import ncgnn.paper.
NAMES = (
    *("table1", "table2", "classic-uniform", "classic-published", "duplication", "leaderboard"),
    *("efficiency", "distributions", "stability", "observation", "clarified", "embeddings"),
    *("groups", "interplay", "sensitivity", "alpha", "time", "entropy"),
)
#: Plans whose runs a checkout keeps in its folder ``results``.
PLAN_NAMES = ("control", "modes", "competitors", "stratified", "classic", "combined")
#: At most so many missing runs are named.
MOST_MISSING = 20


_OUT = Path("reproduced")


@command
def sweep(
    graphs: opt.Graphs = None,
    models: opt.Models = None,
    config: opt.Configs = None,
    settings: opt.Settings = None,
    seeds: opt.Seeds = None,
    split: opt.Split = None,
    fractions: opt.Fractions = None,
    metric: opt.Metric = None,
    device: opt.Device = None,
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    train: opt.Train = True,
    engine: opt.Engine = "local",
    address: opt.Address = None,
    workers: opt.Workers = None,
    threads: opt.Threads = 1,
    retry_failed: opt.Retry = False,
    json: opt.Json = False,
) -> None:
    """Train every model (default: ncgcn) on every graph with every seed, several at a time.

    Finished runs are never trained again and interrupted ones continue where they stopped, so the
    same command can be repeated at any time. Failed runs keep their error and are listed.
    """
    configs = ncgnn.experiments.grid(
        read_list(graphs, "GRAPH"),
        read_list(models, "--models"),
        seeds=read_seeds(seeds),
        split=split,
        device=device,
        config=read_paths(config, "--config"),
        settings=read_settings(
            settings, seed=seeds, device=device, metric=metric, fractions=fractions
        ),
    )
    if not train:
        _show_plan(ncgnn.experiments.plan(configs, runs, data_dir=data_dir), json=json)
        return
    outcome = _run_cells(
        configs,
        runs,
        data_dir=data_dir,
        engine=engine,
        address=address,
        workers=workers,
        threads=threads,
        retry_failed=retry_failed,
    )
    if json:
        print_json(
            {
                "runs": [run_facts(run) for run in outcome.runs],
                "failed": {str(path): error for path, error in outcome.failed.items()},
                "left": [str(path) for path in outcome.left],
            }
        )
    elif outcome.runs:
        rows = ncgnn.experiments.results_table(ncgnn.experiments.as_records(outcome.runs))
        print_tables(*ncgnn.report.results_tables(rows))
    _leave_if_stopped(outcome, runs)
    if outcome.failed:
        raise typer.Exit(1)


def _show_plan(planned: list[Cell], *, json: bool) -> None:
    """Show how many runs of every model and graph are finished, failed or missing."""
    if not json:
        print_tables(ncgnn.report.plan_table(planned))
        note(*(f"{run.folder.path}: {run.error}" for run in planned if run.error))
        return
    found = [
        {
            "folder": str(run.folder.path),
            "dataset": run.config.data.dataset,
            "split": run.config.data.split,
            "model": run.config.model.name,
            "seed": run.config.training.seed,
            "state": run.state,
            "error": run.error,
        }
        for run in planned
    ]
    print_json({"runs": found})


def _run_cells(configs: Sequence[RunConfig], runs: Path, **options: Any) -> SweepResult:
    """Train what is missing, with progress on standard error; Ctrl-C loses nothing."""
    from ncgnn.cli.progress import SweepProgress, stop_requests

    with stop_requests() as stop, SweepProgress(stop) as progress:
        return ncgnn.experiments.sweep(configs, runs, watcher=progress, **options)


def _leave_if_stopped(outcome: SweepResult, runs: Path) -> None:
    """Say where results are and what failed; exit if the user stopped the sweep."""
    note(f"finished runs in {runs}: {len(outcome.runs)}")
    if outcome.failed:
        # A changed graph leaves no error in the folder, and trying again does not help.
        again = any((path / ncgnn.training.ERROR).is_file() for path in outcome.failed)
        note(f"failed runs{' (--retry-failed tries them again)' if again else ''}:")
        note(*(f"  {path}: {error}" for path, error in outcome.failed.items()))
    if outcome.left:
        note(f"{len(outcome.left)} are left; the same command continues.")
        raise typer.Exit(130)


@command
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help=f"Which table or figure: {', '.join(NAMES)}. Without a name, all are listed with "
            f"what they show. In a checkout also the plans {', '.join(PLAN_NAMES)}, whose runs are "
            "kept in the folder results, and results, which makes the pages of all of them.",
            autocompletion=opt.complete_from(lambda: (*NAMES, *PLAN_NAMES, "results")),
        ),
    ] = None,
    graphs: opt.Graphs = None,
    models: opt.Models = None,
    config: opt.Configs = None,
    settings: opt.Settings = None,
    seeds: opt.Seeds = None,
    split: opt.PaperSplit = None,
    device: opt.Device = None,
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    stored: opt.Stored = None,
    out: Annotated[Path, typer.Option(help="Folder for what is made.")] = _OUT,
    train: opt.Train = True,
    engine: opt.Engine = "local",
    address: opt.Address = None,
    workers: opt.Workers = None,
    threads: opt.Threads = 1,
    retry_failed: opt.Retry = False,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0, help="With a plan: begin no run after so many hours; cheaper ones come first."
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="With results: write the pages of this checkout.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Make a table or figure of the paper again: train what is missing, then show all.

    The same command may be given as often as you like: finished runs are never trained again.
    """
    if name is None:
        if any((graphs, models, config, settings, seeds, split, stored)):
            raise InputError(f"name a table or figure: {', '.join(NAMES)}.")
        _list_targets(json)
        return
    if write and name != "results":
        raise InputError("--write is for 'ncgnn reproduce results'; --out names a folder here.")
    if name == "results" or name in PLAN_NAMES:
        if any((models, config, settings, seeds, split, stored, device)):
            raise InputError(f"{name} has fixed runs; only graphs and folders can be named.")
        if out != _OUT:
            raise InputError(f"--out is for tables and figures; {name} is printed here.")
        if name == "results":
            _show_results(write=write, json=json)
            return
        shared: dict[str, Any] = {"workers": workers, "retry_failed": retry_failed}
        shared |= {"engine": engine, "address": address, "threads": threads}
        some = read_list(graphs, "GRAPH")
        _run_plan(name, some, data_dir, runs, shared if train else None, hours=hours, json=json)
        return
    if hours is not None:
        raise InputError(f"--hours is for plans ({', '.join(PLAN_NAMES)}); leave it out here.")
    stores = read_paths(stored, "--stored")
    target = _find_target(name, stores, workers, address)
    out = free_folder(out)
    kept = [record for path in stores for record in ncgnn.experiments.read_stored(path)]
    request, absent = ncgnn.paper.request_for(
        name,
        datasets=read_list(graphs, "GRAPH"),
        models=read_list(models, "--models"),
        seeds=read_seeds(seeds) or (0,),
        split=split,
        data_dir=data_dir,
        config=read_paths(config, "--config"),
        settings=read_settings(settings, seed=seeds, device=device)
        | ({"device": device} if device else {}),
        stored=kept,
        train=train,
    )
    options: dict[str, Any] = {
        "engine": engine,
        "address": address,
        "workers": 1 if target.is_timed else workers,
        "threads": threads,
        "retry_failed": retry_failed,
        "warm_up": target.is_timed,
    }
    found, kept, failed = _find_runs(target, request, kept, runs, options if train else None)
    made = ncgnn.paper.reproduce(name, found, request=request, absent=absent, stored=kept)
    if json:
        print_json(made.plain())
    _show(made, out, quiet=json)
    if failed:
        raise typer.Exit(1)


def _show_results(*, write: bool, json: bool) -> None:
    """Write the generated pages of a checkout, or print their tables."""
    if write:
        paths = [str(path) for path in ncgnn.paper.write_results()]
        if json:
            print_json({"written": paths})
        note("Written:", *(f"  {path}" for path in paths))
        return
    store = ncgnn.paper.Store(Path("results"))
    tables = [table for name in PLAN_NAMES for table in ncgnn.paper.plan(name).tables(store)]
    if not tables:
        raise InputError("there are no stored runs in ./results; go to a checkout of ncgnn.")
    _print_plan(tables, json=json)


def _print_plan(tables: Sequence[Table], *, json: bool) -> None:
    if json:
        print_json([table.plain() for table in tables])
    else:
        print_tables(*tables)


def _run_plan(
    name: str,
    datasets: Sequence[str] | None,
    data_dir: Path | None,
    runs: Path,
    options: dict[str, Any] | None,
    *,
    hours: float | None,
    json: bool,
) -> None:
    """Train what the stored results lack of a plan, unless options are None; print its tables."""
    plan, store = ncgnn.paper.plan(name), ncgnn.paper.Store(Path("results"), data_dir=data_dir)
    for dataset in datasets or ():
        if dataset not in plan.graphs:
            raise UnknownNameError(f"graph of {name}", dataset, list(plan.graphs))
    if options is not None:

        def run(cells: Sequence[RunConfig]) -> Sequence[RunResult]:
            outcome = _run_cells(cells, runs, data_dir=data_dir, **options)
            _leave_if_stopped(outcome, runs)
            return outcome.runs

        store.run = run
        store.deadline = None if hours is None else monotonic() + 3600 * hours
        store.search = partial(ncgnn.experiments.tune, data_dir=data_dir, runs=runs, **options)
        plan.train(store, datasets)
        if store.is_late:
            note("The hours are over; the same command continues.")
    tables = plan.tables(store)
    if not tables:
        remedy = "go to a checkout of ncgnn" if options else "leave --no-train out"
        raise InputError(f"./results holds no runs of {name}; {remedy}.")
    _print_plan(tables, json=json)


def _find_target(
    name: str, stored: list[Path], workers: int | None, address: str | None
) -> Target[Any]:
    """The table or figure; complains of options that it cannot take."""
    if "," in name:
        raise InputError(f"{name} names several; make one table or figure at a time.")
    target = ncgnn.paper.target(name)
    if stored and not target.takes_stored:
        raise InputError(f"{name} needs more of its runs than scores; leave --stored out.")
    if target.is_timed and (workers or 1) > 1:
        raise InputError(f"{name} compares times: --workers must be 1, which is the default here.")
    if target.is_timed and address is not None:
        raise InputError(f"{name} compares times of one machine: leave --address out.")
    return target


def _find_runs(
    target: Target[Any],
    request: Request,
    stored: list[Record],
    runs: Path,
    options: dict[str, Any] | None,
) -> tuple[Sequence[RunResult], list[Record], bool]:
    """Finished runs, after training what is missing; stored ones of use; whether any run failed."""
    wanted = target.cells(request)
    if target.takes_stored:
        stored, others = ncgnn.experiments.of_this_graph(stored, wanted, request.data_dir)
        note(*(f"not used: the stored run {other} is of another graph." for other in others))
    kept = {record.name for record in stored}
    cells = [
        config
        for config in wanted
        if ncgnn.training.RunFolder(runs / config.name).is_done()
        or (config.name not in kept and options is not None)
    ]
    if options is None and wanted and not cells and not kept:
        raise InputError(
            f"none of its {len(wanted)} runs is finished in {runs}; leave --no-train out, or name "
            "another folder with --runs."
        )
    if options is None or not cells:
        return ncgnn.experiments.finished_runs(cells, runs, request.data_dir), stored, False
    outcome = _run_cells(cells, runs, data_dir=request.data_dir, **options)
    _leave_if_stopped(outcome, runs)
    if target.is_timed and (old := sum(not run.fresh for run in outcome.runs)):
        note(
            f"note: {old} runs were found finished; their times are of when they were trained, "
            "and compare only if the machine was quiet then. --runs names another folder."
        )
    return outcome.runs, stored, bool(outcome.failed)


def _show(made: Reproduction, out: Path, *, quiet: bool) -> None:
    """Print a table unless quiet; write tables and figures, and say where; list what is missing."""
    if not quiet:
        print_tables(*made.tables())
    note("Written:", *(f"  {path}" for path in made.write(out)))
    note(*(f"left out: {dataset}: {reason}" for dataset, reason in made.absent.items()))
    missing = made.missing
    if missing:
        note(f"missing runs: {len(missing)}", *(f"  {run}" for run in missing[:MOST_MISSING]))
    if len(missing) > MOST_MISSING:
        note(f"  … and {len(missing) - MOST_MISSING} more; --json lists all")


def _list_targets(json: bool) -> None:
    known = [ncgnn.paper.target(name) for name in ncgnn.paper.target_names()]
    rows = tuple((target.name, target.kind, target.title) for target in known)
    if json:
        keys = ("name", "kind", "title")
        print_json({"targets": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    head = ("name", "kind", "what it shows")
    print_tables(ncgnn.report.Table("ncgnn reproduce NAME", head, rows, left=3))
