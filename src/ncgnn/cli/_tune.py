"""``ncgnn tune``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncgnn.cli._options import (
    ConfigOption,
    DataDirOption,
    DeviceOption,
    JsonOption,
    MaybeSplitOption,
    RetryOption,
    RunsOption,
    SeedsOption,
    SettingsOption,
    ThreadsOption,
    WorkersOption,
    chosen_settings,
    one_clear_error,
    only,
    print_json,
    seed_numbers,
    table_console,
    whole_numbers,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.experiments.tuning._result import TuneResult


@one_clear_error
def tune(
    dataset: Annotated[
        str | None,
        typer.Option(help="A name that 'ncgnn datasets' lists, or the path of an npz file."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A name that 'ncgnn models' lists; ncgcn by default.")
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="How many trials in all, those of earlier calls included.")
    ] = 100,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop the search then, and evaluate the best so far."),
    ] = None,
    config: ConfigOption = None,
    settings: SettingsOption = None,
    seeds: SeedsOption = None,
    evaluate_seeds: Annotated[
        str,
        typer.Option(
            help="With how many fresh seeds the best parameters are trained at the end; or a list."
        ),
    ] = "3",
    split: MaybeSplitOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    workers: WorkersOption = None,
    threads: ThreadsOption = 1,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A database, like postgresql://…, for several machines on one study.",
        ),
    ] = None,
    retry_failed: RetryOption = False,
    json: JsonOption = False,
) -> None:
    """Search the parameters of a model by validation accuracy, then train the best ones anew.

    The shipped spaces are the paper's; a TOML file with sections search.training, search.model and
    search.data changes them. The same command goes on with a search that was interrupted.
    """
    from ncgnn.cli._tune_output import tune_notes, tune_table, tune_tree

    if model is not None and "," in model:
        raise InputError(f"--model is {model}; a search is about one model.")
    result = _search(
        dataset=dataset,
        model=model,
        trials=trials,
        timeout=timeout,
        seeds=seed_numbers(seeds),
        evaluate_seeds=_fresh(evaluate_seeds),
        split=split,
        device=device,
        config=only(config),
        settings=chosen_settings(settings, seeds),
        data_dir=data_dir,
        runs=runs,
        workers=workers,
        threads=threads,
        storage=storage,
        retry_failed=retry_failed,
    )
    if json:
        print_json(tune_tree(result))
    else:
        table_console().print(tune_table(result))
    for line in tune_notes(result, data_dir):
        print(line, file=sys.stderr)
    if result.failed:
        raise typer.Exit(1)


def _search(**options: Any) -> TuneResult:
    """Search, with progress on standard error and without a trace of an interruption."""
    from ncgnn.cli._progress import stop_requests
    from ncgnn.cli._tune_progress import TuneProgress
    from ncgnn.experiments.tuning._tune import tune as search

    with stop_requests() as stop, (progress := TuneProgress(stop)):
        try:
            return search(**options, watcher=progress)
        except KeyboardInterrupt:
            print("interrupted; the same command continues the search", file=sys.stderr)
            raise typer.Exit(130) from None


def _fresh(text: str) -> int | tuple[int, ...]:
    """Read how many seeds, or a list of them."""
    if text.isdecimal():
        return int(text)
    return whole_numbers(text.strip(","), "--evaluate-seeds", least=0)
