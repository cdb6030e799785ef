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
    RunsOption,
    SeedsOption,
    SettingsOption,
    ThreadsOption,
    WorkersOption,
    chosen_settings,
    one_clear_error,
    print_json,
    seed_numbers,
    table_console,
    whole_numbers,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ncgnn.experiments.tuning._result import TuneResult
    from ncgnn.training import Spread


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
    split: Annotated[
        str | None,
        typer.Option(
            help="Split family: stratified (the default), paper, published, planetoid or uniform."
        ),
    ] = None,
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
    json: JsonOption = False,
) -> None:
    """Search the parameters of a model by validation accuracy, then train the best ones anew.

    The shipped spaces are the paper's; a TOML file with sections search.training, search.model and
    search.data changes them. The same command goes on with a search that was interrupted.
    """
    from ncgnn.cli._progress import stop_requests
    from ncgnn.cli._tune_progress import TuneProgress
    from ncgnn.experiments.tuning._tune import tune as search

    with stop_requests() as stop, (progress := TuneProgress(stop)):
        try:
            result = search(
                dataset,
                model,
                trials=trials,
                timeout=timeout,
                seeds=seed_numbers(seeds) or (0,),
                evaluate_seeds=_fresh(evaluate_seeds),
                split=split,
                device=device,
                config=config,
                settings=chosen_settings(settings, seeds),
                data_dir=data_dir,
                runs=runs,
                workers=workers,
                threads=threads,
                storage=storage,
                watcher=progress,
            )
        except KeyboardInterrupt:
            print("interrupted; the same command continues the search", file=sys.stderr)
            raise typer.Exit(130) from None
    if json:
        print_json(_plain(result))
    else:
        table_console().print(_table(result))
    print(
        f"The study is in {result.folder}; "
        f"'ncgnn train --config {result.folder / 'best.toml'}' trains the best parameters.",
        file=sys.stderr,
    )
    if result.state.done < result.state.total:
        left = result.state.total - result.state.done
        print(f"{left} trials are left; the same command goes on.", file=sys.stderr)
    for path, error in result.failed.items():
        print(f"failed: {path}: {error}", file=sys.stderr)
    if result.failed:
        raise typer.Exit(1)


def _fresh(text: str) -> int | tuple[int, ...]:
    """Read how many seeds, or a list of them."""
    if text.isdigit():
        return int(text)
    return whole_numbers(text.strip(","), "--evaluate-seeds", least=0)


def _table(result: TuneResult) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from ncgnn.training import summary

    config = result.config
    title = f"{config.model.name} on {config.data.dataset}, {config.data.split} split"
    table = Table("", "", title=escape(title), title_justify="left", show_header=False)
    for option, value in result.parameters.items():
        table.add_row(option, escape(str(value)))
    table.add_section()
    table.add_row(f"validation in the search, {_seeds(result.seeds)}", f"{100 * result.value:.2f}")
    if result.runs:
        over = summary(result.runs)
        fresh = f"fresh {_seeds(over.seeds)}"
        table.add_row(f"validation, {fresh}", _percent(over.val_accuracy))
        if "accuracy" in over.test:
            table.add_row(f"test, {fresh}", _percent(over.test["accuracy"]), style="bold")
    table.add_row("trials", result.state.in_words)
    return table


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(seed) for seed in seeds)}"


def _percent(spread: Spread) -> str:
    deviation = "" if spread.std is None else f" ± {100 * spread.std:.2f}"
    return f"{100 * spread.mean:.2f}{deviation}"


def _plain(result: TuneResult) -> dict[str, Any]:
    from dataclasses import asdict

    from ncgnn.training import summary

    over = summary(result.runs) if result.runs else None
    test = None if over is None else over.test.get("accuracy")
    return {
        "study": str(result.folder),
        "dataset": result.config.data.dataset,
        "model": result.config.model.name,
        "split": result.config.data.split,
        "parameters": result.parameters,
        "search": {
            "seeds": list(result.seeds),
            "val_accuracy": result.value,
            "complete": result.state.complete,
            "pruned": result.state.pruned,
            "failed": result.state.failed,
        },
        "evaluation": None
        if over is None
        else {
            "seeds": list(over.seeds),
            "val_accuracy": asdict(over.val_accuracy),
            "test_accuracy": None if test is None else asdict(test),
            "runs": [str(run.folder) for run in result.runs],
        },
        "failed": {str(path): error for path, error in result.failed.items()},
    }
