"""``ncgnn sweep``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    MaybeSplitOption,
    ModelsOption,
    RetryOption,
    RunsOption,
    SeedsOption,
    SettingsOption,
    ThreadsOption,
    TrainOption,
    WorkersOption,
    chosen_settings,
    names,
    one_clear_error,
    print_json,
    seed_numbers,
    table_console,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.experiments import Cell, SweepResult
    from ncgnn.training import RunConfig


@one_clear_error
def sweep(
    datasets: DatasetsOption = None,
    models: ModelsOption = None,
    config: ConfigsOption = None,
    settings: SettingsOption = None,
    seeds: SeedsOption = None,
    split: MaybeSplitOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    train: TrainOption = True,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    workers: WorkersOption = None,
    threads: ThreadsOption = 1,
    retry_failed: RetryOption = False,
    json: JsonOption = False,
) -> None:
    """Train every model (ncgcn by default) on every data set with every seed, several at a time.

    Finished runs are never trained again and interrupted ones go on where they stopped, so the
    same command may be given as often as you like. Runs that fail keep their error and are listed.
    """
    from ncgnn.experiments import grid, plan

    configs = grid(
        None if datasets is None else names(datasets, "--datasets"),
        None if models is None else names(models, "--models"),
        seeds=seed_numbers(seeds),
        split=split,
        device=device,
        config=config or None,
        settings=chosen_settings(settings, seeds),
    )
    if not train:
        _show_plan(plan(configs, runs, data_dir=data_dir), json=json)
        return
    outcome = run_cells(
        configs,
        runs,
        data_dir=data_dir,
        engine=engine.value,
        address=address,
        workers=workers,
        threads=threads,
        retry_failed=retry_failed,
    )
    if json:
        print_json(_plain(outcome))
    elif outcome.runs:
        from ncgnn.experiments import as_records, results_table
        from ncgnn.report import results_tables

        console = table_console()
        for table in results_tables(results_table(as_records(outcome.runs))):
            console.print(table)
    leave_if_incomplete(outcome, runs)


def _show_plan(planned: list[Cell], *, json: bool) -> None:
    """How many runs of every model and data set are finished, and what became of the others."""
    from ncgnn.report import plan_table

    if json:
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
        return
    table_console().print(plan_table(planned))
    for run in planned:
        if run.error:
            print(f"{run.folder.path}: {run.error}", file=sys.stderr)


def run_cells(configs: Sequence[RunConfig], runs: Path, **options: Any) -> SweepResult:
    """Train what is missing, with progress on standard error; Ctrl-C loses nothing."""
    from ncgnn.cli.progress import SweepProgress, stop_requests
    from ncgnn.experiments import sweep as train_all

    with stop_requests() as stop, SweepProgress(stop) as progress:
        return train_all(configs, runs, watcher=progress, **options)


def leave_if_incomplete(outcome: SweepResult, runs: Path) -> None:
    """Say where results are and what failed; end with an error if anything is missing."""
    leave_if_stopped(outcome, runs)
    if outcome.failed:
        raise typer.Exit(1)


def leave_if_stopped(outcome: SweepResult, runs: Path) -> None:
    """Say where results are and what failed; end with an error if the user stopped the sweep."""
    from ncgnn.training import ERROR

    finished = len(outcome.runs)
    many = "1 finished run is" if finished == 1 else f"{finished} finished runs are"
    print(f"{many} in {runs}", file=sys.stderr)
    if outcome.failed:
        # A changed graph has left no error in the folder, and trying again is no remedy for it.
        again = any((path / ERROR).is_file() for path in outcome.failed)
        remedy = " (--retry-failed tries again)" if again else ""
        print(f"{len(outcome.failed)} failed{remedy}:", file=sys.stderr)
        for path, error in outcome.failed.items():
            print(f"  {path}: {error}", file=sys.stderr)
    if outcome.left:
        print(f"{len(outcome.left)} are left; the same command goes on.", file=sys.stderr)
        raise typer.Exit(130)


def _plain(outcome: SweepResult) -> dict[str, Any]:
    return {
        "runs": [
            {"folder": str(run.folder), "seconds": run.seconds, **run.result}
            for run in outcome.runs
        ],
        "failed": {str(path): error for path, error in outcome.failed.items()},
        "left": [str(path) for path in outcome.left],
    }
