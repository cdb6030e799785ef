"""What ``ncgnn tune`` prints.

``ncgnn tune``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncgnn.cli.options import (
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
    from collections.abc import Iterator

    from rich.table import Table

    from ncgnn.experiments import TuneResult


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
    from ncgnn.cli.progress import TuneProgress, stop_requests
    from ncgnn.experiments import tune as search

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


def tune_table(result: TuneResult) -> Table:
    """What was found, for people."""
    from rich.markup import escape
    from rich.table import Table

    from ncgnn.report import percent
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
        table.add_row(f"validation, {fresh}", percent(over.val_accuracy))
        if "accuracy" in over.test:
            table.add_row(f"test, {fresh}", percent(over.test["accuracy"]), style="bold")
        if "macro_f1" in over.test:
            table.add_row(f"test macro-F1, {fresh}", percent(over.test["macro_f1"]))
        if over.majority_baseline is not None:
            table.add_row(f"majority class, {fresh}", percent(over.majority_baseline))
    table.add_row("trials", result.state.in_words)
    return table


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(seed) for seed in seeds)}"


def tune_tree(result: TuneResult) -> dict[str, Any]:
    """What was found, for programs."""
    from dataclasses import asdict

    from ncgnn.training import summary

    over = summary(result.runs) if result.runs else None
    test = {} if over is None else {name: asdict(one) for name, one in over.test.items()}
    majority = None if over is None else over.majority_baseline
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
            "test_accuracy": test.get("accuracy"),
            "test_macro_f1": test.get("macro_f1"),
            "majority_baseline": None if majority is None else asdict(majority),
            "test_nodes_seen_in_search": result.seen,
            "runs": [str(run.folder) for run in result.runs],
        },
        "failed": {str(path): error for path, error in result.failed.items()},
    }


def tune_notes(result: TuneResult, data_dir: Path | None) -> Iterator[str]:
    """What a person should know beside the table."""
    from ncgnn.training import ERROR

    command = f"ncgnn train --config {result.folder / 'best.toml'} --runs {result.folder.parent}"
    fresh = list(result.fresh)
    if fresh:  # those of the search were lucky
        command += f" --seeds {','.join(map(str, fresh))}{',' if len(fresh) == 1 else ''}"
    if data_dir is not None:
        command += f" --data-dir {data_dir}"
    yield f"The study is in {result.folder}; '{command}' trains the best parameters."
    if result.seen and result.runs:
        yield (
            f"note: {result.seen:.0%} of the test nodes of the fresh splits were training or "
            "validation nodes in the search, so the parameters (not the weights) were chosen with "
            "their labels, as in the paper's own protocol."
        )
    state = result.state
    left = state.total - state.done
    if state.is_exhausted:
        again = f"; {state.failed} failed, --retry-failed tries again" if state.failed else ""
        yield f"Every choice of the search space was tried, {state.size} in all{again}."
    elif left > 0 and state.is_hopeless:
        yield f"{left} trials are left, but errors have ended the search; --retry-failed goes on."
    elif left > 0:
        yield f"{left} trials are left; the same command goes on."
    for path, error in result.failed.items():
        yield f"failed: {path}: {error}"
    if any((path / ERROR).is_file() for path in result.failed):
        yield "--retry-failed tries failed runs once more."
