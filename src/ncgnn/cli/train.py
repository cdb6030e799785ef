"""``ncgnn train`` and ``ncgnn tune``."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ncgnn
from ncgnn._memory import keep_freed_memory
from ncgnn.cli.options import (
    ConfigOption,
    DataDirOption,
    DeviceOption,
    JsonOption,
    MaybeGraphArgument,
    MetricOption,
    ModelOption,
    ModelsOption,
    RetryOption,
    RunsOption,
    SeedsOption,
    SettingsOption,
    SplitOption,
    ThreadsOption,
    WorkersOption,
    command,
    note,
    print_json,
    read_list,
    read_numbers,
    read_path,
    read_seeds,
    read_settings,
    table_console,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.table import Table

    from ncgnn.experiments import TuneResult
    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig, RunResult


@command
def train(
    graph: MaybeGraphArgument = None,
    models: ModelsOption = None,
    config: ConfigOption = None,
    settings: SettingsOption = None,
    seeds: SeedsOption = None,
    split: SplitOption = None,
    metric: MetricOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events while training.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the whole configuration, as TOML or JSON; train nothing."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Train a model, or several to compare, once per seed; interrupted runs go on.

    Where no configuration says otherwise, a model uses the parameters that the paper found best
    on a data set, or, on its splits, those that a search of ours chose; and what its preset says of
    all graphs on any other.
    """
    chosen = read_settings(
        settings,
        {
            "data.dataset": ("GRAPH", graph),
            "model.name": ("--models", models),
            "data.split": ("--split", split),
            "training.device": ("--device", device),
            "training.seed": ("--seeds", seeds),
        },
        metric,
    )
    numbers = read_seeds(seeds) or (None,)
    configs = [
        ncgnn.training.make_config(
            dataset=graph,
            model=name,
            split=split,
            device=device,
            seed=number,
            config=read_path(config, "--config"),
            settings=chosen,
        )
        for name in read_list(models, "--models") or (None,)
        for number in numbers
    ]
    if dry_run:
        _print_configs(configs, json)
        return
    results = _train_all(configs, runs, data_dir, tensorboard)
    if json:
        print_json({"runs": [_plain(result) for result in results]})
    else:
        per_model = [
            results[first : first + len(numbers)] for first in range(0, len(results), len(numbers))
        ]
        table_console().print(
            ncgnn.report.summary_table(results)
            if len(per_model) == 1
            else ncgnn.report.comparison_table(per_model)
        )
        # A file may say other rates.
        if not config and (remark := about_parameters(configs, chosen)) is not None:
            note(remark)
    note("Results are in", *(f"  {result.folder}" for result in results))


def _print_configs(configs: list[RunConfig], json: bool) -> None:
    """What would be trained; as TOML one configuration per model, which all its seeds share."""
    if json:
        print_json({"configs": [config.model_dump(mode="json") for config in configs]})
        return
    by_model: dict[str, list[RunConfig]] = {}
    for config in configs:
        by_model.setdefault(config.model.name, []).append(config)
    texts: list[str] = []
    for first, *others in by_model.values():
        more = ", ".join(str(config.training.seed) for config in others)
        head = f"# and the same with seed {more}\n" if others else ""
        texts.append(head + ncgnn.training.to_toml(first.model_dump(mode="json")))
    print("\n".join(texts), end="")


def _train_all(
    configs: list[RunConfig], runs: Path, data_dir: Path | None, tensorboard: bool
) -> list[RunResult]:
    from ncgnn.cli.progress import RunProgress, stop_requests

    keep_freed_memory()
    results: list[RunResult] = []
    with RunProgress() as progress, stop_requests() as stop:
        graph = ncgnn.load(configs[0].data.dataset, data_dir)
        if (remark := about_edges(graph, [config.model.name for config in configs])) is not None:
            progress.note(remark)
        for config in configs:
            folder = runs / config.name
            if stop():
                progress.note("interrupted; the same command continues")
                raise typer.Exit(130)
            with progress.run(config, folder if tensorboard else None) as on_epoch:
                try:
                    result = ncgnn.training.train_run(
                        config,
                        runs,
                        graph=graph,
                        on_epoch=on_epoch,
                        on_resume=progress.resumed,
                        before_done=ncgnn.report.write_run_report,
                        stop=stop,
                    )
                except KeyboardInterrupt:
                    progress.note(f"interrupted; the same command continues {folder}")
                    raise typer.Exit(130) from None
            progress.finished(result)
            if tensorboard and not result.fresh:
                progress.note(f"no events are written for a run that is finished: {result.folder}")
            results.append(result)
    return results


def about_parameters(configs: list[RunConfig], settings: dict[str, Any]) -> str | None:
    """Which of several models start from parameters for this graph, if some do and some do not."""
    has_own_values, placed = ncgnn.training.has_own_values, ncgnn.training.placed
    data = configs[0].data
    own = {c.model.name: has_own_values(c.model.name, data.dataset, data.split) for c in configs}
    plain = [name for name, has in own.items() if not has]
    if ("training", "learning_rate") in map(placed, settings) or len(plain) in (0, len(own)):
        return None
    tuned = [name for name, has in own.items() if has]
    return (
        f"{', '.join(tuned)} had parameters found for {data.dataset}, {', '.join(plain)} those of "
        "any graph; for an even comparison search them too ('ncgnn tune')."
    )


def about_edges(graph: Graph, models: Iterable[str]) -> str | None:
    """What a person should know of the edges of a graph of their own, with these models."""
    if not graph.num_edges:
        return f"{graph.name} has no edges: every node is on its own."
    if not graph.is_directed or graph.name in {entry.name for entry in ncgnn.data.list_datasets()}:
        return None
    known = dict.fromkeys(models)
    listening = [name for name in known if ncgnn.nn.model_class(name).edges == "incoming"]
    if not listening:
        return None
    return (
        f"{graph.name} is directed: with {', '.join(listening)} a node hears from the sources of "
        "its incoming edges alone. If its edges mean both directions, store both, for example by "
        "PyG's to_undirected."
    )


def _plain(result: RunResult) -> dict[str, Any]:
    return {"folder": str(result.folder), "seconds": result.seconds, **result.result}


@command
def tune(
    graph: MaybeGraphArgument = None,
    model: ModelOption = None,
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
        list[str],
        typer.Option(
            help="With how many fresh seeds the best parameters are trained at the end; or a list."
        ),
    ] = ["3"],  # noqa: B006
    split: SplitOption = None,
    metric: MetricOption = None,
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
    """Search the parameters of a model by its validation score, then train the best ones anew.

    The shipped spaces are the paper's; a TOML file with sections search.training, search.model and
    search.data changes them. The same command goes on with a search that was interrupted.
    """
    if model is not None and "," in model:
        raise InputError(f"--model must be one model; got {model}; search one at a time.")
    result = _search(
        dataset=graph,
        model=model,
        trials=trials,
        timeout=timeout,
        seeds=read_seeds(seeds),
        evaluate_seeds=_fresh_seeds(evaluate_seeds),
        split=split,
        device=device,
        config=read_path(config, "--config"),
        settings=read_settings(settings, {"training.seed": ("--seeds", seeds)}, metric),
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
    note(*tune_notes(result, data_dir))
    if result.failed:
        raise typer.Exit(1)


def _search(**options: Any) -> TuneResult:
    """Search, with progress on standard error and without a trace of an interruption."""
    from ncgnn.cli.progress import TuneProgress, stop_requests

    with stop_requests() as stop, (progress := TuneProgress(stop)):
        try:
            return ncgnn.experiments.tune(**options, watcher=progress)
        except KeyboardInterrupt:
            note("interrupted; the same command continues the search")
            raise typer.Exit(130) from None


def _fresh_seeds(values: list[str]) -> int | tuple[int, ...]:
    """Read how many seeds, or a list of them."""
    if len(values) == 1 and values[0].isdecimal():
        return int(values[0])
    return read_numbers(",".join(values), "--evaluate-seeds", least=0)


def tune_table(result: TuneResult) -> Table:
    """What was found, for people."""
    from rich.markup import escape
    from rich.table import Table

    config = result.config
    title = f"{config.model.name} on {config.data.dataset}, {config.data.split} split"
    table = Table("", "", title=escape(title), title_justify="left", show_header=False)
    for option, value in result.parameters.items():
        table.add_row(option, escape(str(value)))
    table.add_section()
    metric = config.training.metric
    name = "" if metric == "accuracy" else f" {ncgnn.training.SCORE_NAMES[metric]}"
    table.add_row(
        f"validation{name} in the search, {_seeds(result.seeds)}", f"{100 * result.value:.2f}"
    )
    if result.runs:
        over = ncgnn.training.summary(result.runs)
        fresh = f"fresh {_seeds(over.seeds)}"
        table.add_row(f"validation{name}, {fresh}", ncgnn.report.percent(over.val_score))
        if "accuracy" in over.test:
            table.add_row(
                f"test, {fresh}", ncgnn.report.percent(over.test["accuracy"]), style="bold"
            )
        if "macro_f1" in over.test:
            table.add_row(f"test macro-F1, {fresh}", ncgnn.report.percent(over.test["macro_f1"]))
        if metric in over.test.keys() - {"accuracy", "macro_f1"}:
            table.add_row(f"test{name}, {fresh}", ncgnn.report.percent(over.test[metric]))
        if over.majority_baseline is not None:
            table.add_row(f"majority class, {fresh}", ncgnn.report.percent(over.majority_baseline))
    table.add_row("trials", result.state.in_words)
    return table


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(seed) for seed in seeds)}"


def tune_tree(result: TuneResult) -> dict[str, Any]:
    """What was found, for programs."""
    over = ncgnn.training.summary(result.runs) if result.runs else None
    test = {} if over is None else {name: asdict(one) for name, one in over.test.items()}
    majority = None if over is None else over.majority_baseline
    metric = result.config.training.metric
    return {
        "study": str(result.folder),
        "dataset": result.config.data.dataset,
        "model": result.config.model.name,
        "split": result.config.data.split,
        "metric": metric,
        "parameters": result.parameters,
        "search": {
            "seeds": list(result.seeds),
            f"val_{metric}": result.value,
            "complete": result.state.complete,
            "pruned": result.state.pruned,
            "failed": result.state.failed,
        },
        "evaluation": None
        if over is None
        else {
            "seeds": list(over.seeds),
            "val_accuracy": asdict(over.val_accuracy),
            f"val_{metric}": asdict(over.val_score),
            "test_accuracy": test.get("accuracy"),
            "test_macro_f1": test.get("macro_f1"),
            f"test_{metric}": test.get(metric),
            "majority_baseline": None if majority is None else asdict(majority),
            "test_nodes_seen_in_search": result.seen,
            "runs": [str(run.folder) for run in result.runs],
        },
        "failed": {str(path): error for path, error in result.failed.items()},
    }


def tune_notes(result: TuneResult, data_dir: Path | None) -> Iterator[str]:
    """What a person should know beside the table; last, how the winner is compared with others."""
    yield f"The study is in {result.folder}."
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
    if any((path / ncgnn.training.ERROR).is_file() for path in result.failed):
        yield "--retry-failed tries failed runs once more."
    command = [*result.comparison_command(), *(["--data-dir", str(data_dir)] if data_dir else [])]
    yield "To compare the winner with other models, train it with their seeds, here the fresh ones:"
    yield shlex.join(command)
