"""The commands train and tune."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ncgnn
from ncgnn._memory import keep_freed_memory
from ncgnn.cli import options as opt
from ncgnn.cli.auto import (
    about_cost,
    changes_since,
    check_events,
    default_model,
    list_configs,
    load_for,
    make_any,
    read_time,
    search_facts,
    search_model,
    show_costs,
    show_search,
    write_beside,
)
from ncgnn.cli.terminal import (
    command,
    note,
    print_json,
    print_tables,
    read_config,
    read_list,
    read_numbers,
    read_seeds,
    read_settings,
    say,
    show_status,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from rich.status import Status

    from ncgnn.cli.progress import RunProgress
    from ncgnn.experiments import TuneResult
    from ncgnn.graph import Graph
    from ncgnn.training import AutoConfig, Choice, Ranks, RunConfig, RunResult, Start


@command
def train(
    graph: opt.MaybeGraph = None,
    models: opt.TrainedModels = None,
    time: opt.Time = None,
    config: opt.Config = None,
    settings: opt.Settings = None,
    seeds: opt.Seeds = None,
    split: opt.Split = None,
    fractions: opt.Fractions = None,
    protocol: opt.Protocol = None,
    metric: opt.Metric = None,
    device: opt.Device = None,
    batch_size: opt.BatchSize = None,
    fanout: opt.Fanout = None,
    start_from: opt.StartFrom = None,
    refit: opt.Refit = False,
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    engine: opt.TrainEngine = "local",
    address: opt.Address = None,
    workers: opt.Processes = None,
    threads: opt.ProcessThreads = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events while training.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the configuration as TOML, or JSON; do not train."),
    ] = False,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Print the time and memory it will take; do not train."),
    ] = False,
    json: opt.Json = False,
) -> None:
    """Train a model, or several to compare, once per seed; interrupted runs continue.

    Several processes that torchrun starts train each model together.

    On a graph of your own, without --models, candidates are tried for at most --time, from the
    commonest class to separated models, and the one with the best validation score is kept, or a
    mixture of some.

    Options that neither the command nor a file sets come from the model's preset: on a dataset of
    the paper the values that the paper found best, on its splits those of our own search where the
    paper prints none, and on any other graph the values for all graphs.

    Of a folder that 'ncgnn import' wrote every content is a run of its own, so that the same
    command may be given every night. The run is then called latest; of several models or seeds,
    the one with the best validation score.
    """

    def read() -> tuple[list[RunConfig | AutoConfig], dict[str, Any], int]:
        """The configurations, what was said of them, and how many there are of each model."""
        chosen = read_settings(
            settings,
            dataset=graph,
            name=models,
            split=split,
            device=device,
            seed=seeds,
            metric=metric,
            fractions=fractions,
            start_from=start_from,
            protocol=protocol,
            batch_size=batch_size,
            fanout=fanout,
        )
        numbers = read_seeds(seeds) or (None,)
        path = read_config(config)
        file = None if path is None else ncgnn.training.read_config_file(path)
        names = read_list(models, "--models") or (default_model(graph, file, chosen),)
        chosen |= read_time(time, names)
        check_events(tensorboard, names)
        told: dict[str, Any] = {"dataset": graph, "split": split, "device": device}
        told |= {"config": file, "settings": chosen}
        configs = [make_any(name, seed=number, **told) for name in names for number in numbers]
        return configs, chosen, len(numbers)

    with ncgnn.training.join_ranks() as ranks:
        configs, chosen, step = ranks.together(read)
        if dry_run or estimate:
            if ranks.leads and dry_run:
                _print_configs(list_configs(configs, data_dir), json)
            elif ranks.leads:
                show_costs(list_configs(configs, data_dir), load_for(configs, data_dir), json)
            return
        check_ranks(ranks, configs, refit=refit)
        with _open_engine(engine, address, workers, threads, configs) as train_one:
            results = _train_all(ranks, configs, train_one, runs, data_dir, tensorboard)
        if not ranks.leads:
            return
    made = {result.folder for result in results if result.fresh}
    if refit:
        made |= _refit_all(results, data_dir)
    latest = max(results, key=lambda run: run.result["scores"]["val"][run.result["metric"]])
    moved = ncgnn.training.point_latest(latest.folder)
    if json:
        print_json({"runs": [run_facts(result) for result in results]})
    else:
        for one, result in zip(configs, results, strict=True):
            if isinstance(one, ncgnn.training.AutoConfig):
                show_search(result, one_of_many=len(results) > 1)
        per_model = [results[first : first + step] for first in range(0, len(results), step)]
        print_tables(
            ncgnn.report.summary_table(results)
            if len(per_model) == 1
            else ncgnn.report.comparison_table(per_model)
        )
        # A file may set other learning rates.
        named = [one for one in configs if isinstance(one, ncgnn.training.RunConfig)]
        if named and not config and (remark := about_parameters(named, chosen)) is not None:
            note(remark)
    for head, is_made in (("Written:", True), ("Found finished:", False)):
        listed = [f"  {one.folder}" for one in results if (one.folder in made) == is_made]
        note(*([head, *listed] if listed else []))
    if moved:
        why = ", the best of these by validation" if len(results) > 1 else ""
        note(f"{runs / ncgnn.training.LATEST} is {latest.folder.name}{why}")
        by_auto = any(isinstance(one, ncgnn.training.AutoConfig) for one in configs)
        known = ncgnn.training.refit_facts(ncgnn.training.RunFolder(latest.folder))
        if by_auto and not refit and known is None:
            note("for nodes without a label, --refit trains it once more on all labels")
    else:
        note(f"note: {runs / ncgnn.training.LATEST} is a folder of its own and was left as it is.")


def _print_configs(configs: list[RunConfig], json: bool) -> None:
    """Print what would be trained: as TOML, one configuration for all its seeds."""
    if json:
        print_json({"configs": [config.model_dump(mode="json") for config in configs]})
        return
    alike: dict[str, list[RunConfig]] = {}
    for config in configs:
        alike.setdefault(config.replaced("training", seed=0).sha256, []).append(config)
    texts: list[str] = []
    for first, *others in alike.values():
        more = ", ".join(str(config.training.seed) for config in others)
        head = f"# and the same with seed {more}\n" if others else ""
        texts.append(head + ncgnn.training.to_toml(first.model_dump(mode="json")))
    say(*texts, end="")


def check_ranks(ranks: Ranks, configs: list[RunConfig | AutoConfig], *, refit: bool) -> None:
    """Refuse what several processes cannot do together."""
    if ranks.alone:
        return
    if any(isinstance(one, ncgnn.training.AutoConfig) for one in configs):
        raise InputError("auto runs in one process; name --models, or start it without torchrun.")
    if refit:
        raise InputError(
            "--refit runs in one process; when the run is finished, give the same command with "
            "--refit and without torchrun."
        )


@contextmanager
def _open_engine(
    engine: str,
    address: str | None,
    workers: int | None,
    threads: int | None,
    configs: list[RunConfig | AutoConfig],
) -> Generator[Callable[..., RunResult]]:
    """Yield what trains a run: this process, perhaps as one of a group, or a Ray cluster."""
    if engine == "local":
        if (address, workers, threads) != (None, None, None):
            raise InputError("--address, --workers and --threads are for --engine ray; add it.")
        yield ncgnn.training.train_run
        return
    if not ncgnn.training.Ranks.here().alone:
        raise InputError("--engine ray starts its own processes; start it without torchrun.")
    if any(isinstance(one, ncgnn.training.AutoConfig) for one in configs):
        raise InputError("auto runs in one process; name --models, or leave --engine ray out.")
    with ncgnn.experiments.training_on_ray(workers, threads or 1, address) as train_one:
        yield train_one


def _train_all(
    ranks: Ranks,
    configs: list[RunConfig | AutoConfig],
    train_one: Callable[..., RunResult],
    runs: Path,
    data_dir: Path | None,
    tensorboard: bool,
) -> list[RunResult]:
    from ncgnn.cli.progress import RunProgress, stop_requests

    keep_freed_memory()
    results: list[RunResult] = []
    with RunProgress() as progress, stop_requests(together=not ranks.alone) as stop:
        graph = ranks.together(lambda: load_for(configs, data_dir))
        if not ranks.alone:
            progress.note(f"{ranks.count} processes train together")
        named = [one for one in configs if isinstance(one, ncgnn.training.RunConfig)]
        # A model that was told which edges count needs no advice.
        models = [c.model.name for c in named if c.model.options.get("direction") in _DEFAULT]
        if (remark := about_edges(graph, models)) is not None:
            progress.note(remark)
        if named and (remark := about_protocol(named[0])) is not None:
            progress.note(remark)
        for wanted in configs:
            if isinstance(wanted, ncgnn.training.AutoConfig):
                results.append(search_model(wanted, graph, runs, data_dir, progress, stop))
                continue
            config, start, choice, changes = ranks.first(
                lambda one=wanted: _prepare(one, graph, runs, data_dir, progress)
            )
            folder = runs / config.name
            if ranks.any(stop()):
                note("interrupted; the same command continues")
                raise typer.Exit(130)
            events = folder if tensorboard and ranks.leads else None
            with progress.run(config, events) as on_epoch:
                try:
                    result = train_one(
                        config,
                        runs,
                        graph=graph,
                        data_dir=data_dir,
                        on_epoch=on_epoch,
                        on_resume=progress.resumed,
                        before_done=partial(write_beside, changes=changes),
                        stop=stop,
                        start=start,
                        choice=choice,
                    )
                except KeyboardInterrupt:
                    note(f"interrupted; the same command continues {folder}")
                    raise typer.Exit(130) from None
            progress.finished(result)
            if tensorboard and not result.fresh:
                progress.note(f"no events are written for a run that is finished: {result.folder}")
            results.append(result)
    return results


def _prepare(
    wanted: RunConfig, graph: Graph, runs: Path, data_dir: Path | None, progress: RunProgress
) -> tuple[RunConfig, Start | None, Choice | None, Any]:
    """What a run starts from, why it is in batches, and what has changed; all are told of."""
    config, start, choice = _begin(wanted, graph, runs, data_dir)
    is_new = not (runs / config.name / ncgnn.training.DONE).is_file()
    if is_new and start is not None:
        progress.note(start.sentence())
    elif is_new and wanted.training.start_from is not None:
        progress.note("there is no latest run yet: training begins with random weights")
    if is_new and choice is not None:
        progress.note(choice.sentence())
    tell, changes = changes_since(graph, config, runs, data_dir)
    for sentence in tell:
        progress.note(sentence)
    if is_new and (remark := about_cost(config, graph)) is not None:
        progress.note(remark)
    return config, start, choice, changes


def _begin(
    wanted: RunConfig, graph: Graph, runs: Path, data_dir: Path | None
) -> tuple[RunConfig, Start | None, Choice | None]:
    """The configuration of a run with what it starts from, and why it is in batches."""
    find, choose = ncgnn.training.find_start, ncgnn.training.choose_batches
    config, start = find(wanted, graph, runs, data_dir)
    config, choice = choose(config, graph, runs)
    if choice is not None and start is not None:  # it may be the latest run itself
        batches = wanted.replaced("training", batch_size=config.training.batch_size)
        config, start = find(batches, graph, runs, data_dir)
    return config, start, choice


def _refit_all(results: list[RunResult], data_dir: Path | None) -> set[Path]:
    """Train every run once more on all labels; returns those that were not finished before."""
    from ncgnn.cli.progress import stop_requests

    made = set[Path]()
    with stop_requests() as stop:
        for result in results:
            run = ncgnn.training.RunFolder(result.folder)
            before = ncgnn.training.refit_facts(run)
            trained_for = ncgnn.training.read_experts(run)
            end = sum(expert.schedule.epochs for expert in trained_for)
            end = end or result.result["best_epoch"] + 1
            with show_status(f"{result.folder.name}: training on all labels") as status:
                on_epoch = _shows_epochs(status, result.folder.name, end)
                try:
                    trained = ncgnn.training.refit_run(
                        result.folder, data_dir, on_epoch=on_epoch, stop=stop
                    )
                except KeyboardInterrupt:
                    note(f"interrupted; the same command continues {result.folder}")
                    raise typer.Exit(130) from None
            is_new = ncgnn.training.refit_facts(run) != before
            if is_new:
                made.add(result.folder)
                ncgnn.report.write_run_report(run)  # says so
            if (done := trained.refitted) is not None:
                how = f"{done.seconds:.0f} s" if is_new else "found finished"
                note(
                    f"refitted on all {len(done.split.train):,} labels, {end} epochs, {how}; "
                    "scores are those of the run before"
                )
    return made


def _shows_epochs(status: Status, name: str, end: int) -> Callable[[dict[str, Any]], None]:
    """What shows the epochs of a refit on a terminal."""

    def on_epoch(record: dict[str, Any]) -> None:
        status.update(f"{name}: training on all labels, epoch {record['epoch'] + 1} of {end}")

    return on_epoch


def about_parameters(configs: list[RunConfig], settings: dict[str, Any]) -> str | None:
    """Say which models start from parameters for this graph, if some do and others do not."""
    has_own_values, find_option = ncgnn.training.has_own_values, ncgnn.training.find_option
    data = configs[0].data
    own = {c.model.name: has_own_values(c.model.name, data.dataset, data.split) for c in configs}
    plain = [name for name, has in own.items() if not has]
    if ("training", "learning_rate") in map(find_option, settings) or len(plain) in (0, len(own)):
        return None
    tuned = [name for name, has in own.items() if has]
    return (
        f"note: {', '.join(tuned)} used parameters found for {data.dataset}, {', '.join(plain)} "
        "those for any graph; for a fair comparison search them too ('ncgnn tune')."
    )


_DEFAULT = (None, "incoming")


def about_edges(graph: Graph, models: Iterable[str]) -> str | None:
    """Say what these models miss of the edges of a graph that is not in the catalog."""
    if not graph.num_edges:
        return f"note: {graph.name} has no edges: every node is on its own."
    if not graph.is_directed or graph.name in {entry.name for entry in ncgnn.data.list_datasets()}:
        return None
    known = dict.fromkeys(models)
    listening = [name for name in known if ncgnn.nn.model_class(name).edges == "incoming"]
    if not listening:
        return None
    return (
        f"note: {graph.name} is directed: with {', '.join(listening)} a node sees only the sources "
        "of its incoming edges. If edges mean both directions, set direction=both, or "
        "direction=separate for weights of its own for each; or store both directions."
    )


def about_protocol(config: RunConfig) -> str | None:
    """Say that no node is later than another where a split is drawn at random."""
    if config.data.protocol != "temporal" or config.data.split in ("time", "published", "custom"):
        return None
    return (
        "note: protocol = temporal is for splits by time; parts of a split of the family "
        f"{config.data.split} are drawn at random."
    )


def run_facts(result: RunResult) -> dict[str, Any]:
    """A finished run, for programs."""
    facts = {"folder": str(result.folder), "seconds": result.seconds, **result.result}
    tried = search_facts(result.folder)
    return facts if tried is None else facts | {"auto": tried}


@command
def tune(
    graph: opt.MaybeGraph = None,
    model: opt.Model = None,
    trials: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Number of trials, those of earlier calls included."),
    ] = 100,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Stop the search after this time; evaluate the best so far."
        ),
    ] = None,
    config: opt.Config = None,
    settings: opt.Settings = None,
    seeds: opt.Seeds = None,
    evaluate_seeds: Annotated[
        list[str],
        typer.Option(
            metavar="COUNT|LIST",
            help="Fresh seeds that the best parameters are trained with at the end.",
        ),
    ] = ["3"],  # noqa: B006
    split: opt.Split = None,
    fractions: opt.Fractions = None,
    metric: opt.Metric = None,
    device: opt.Device = None,
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    engine: opt.Engine = "local",
    address: opt.Address = None,
    workers: opt.Workers = None,
    threads: opt.Threads = 1,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Database, like postgresql://…, that several machines share.",
        ),
    ] = None,
    retry_failed: opt.Retry = False,
    json: opt.Json = False,
) -> None:
    """Search the parameters of a model by its validation score, then train the best ones anew.

    The search spaces are the paper's; sections search.training, search.model and search.data of a
    TOML file change them. The same command continues an interrupted search.
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
        config=read_config(config),
        settings=read_settings(
            settings, seed=seeds, device=device, metric=metric, fractions=fractions
        ),
        data_dir=data_dir,
        runs=runs,
        engine=engine,
        address=address,
        workers=workers,
        threads=threads,
        storage=storage,
        retry_failed=retry_failed,
    )
    if json:
        print_json(_search_facts(result))
    else:
        print_tables(ncgnn.report.search_table(result))
    note(*_search_notes(result, data_dir))
    if result.failed:
        raise typer.Exit(1)


def _search(**options: Any) -> TuneResult:
    """Search with progress on standard error; Ctrl-C loses no finished trial."""
    from ncgnn.cli.progress import TuneProgress, stop_requests

    with stop_requests() as stop, (progress := TuneProgress(stop)):
        try:
            return ncgnn.experiments.tune(**options, watcher=progress)
        except KeyboardInterrupt:
            note("interrupted; the same command continues the search")
            raise typer.Exit(130) from None


def _fresh_seeds(values: list[str]) -> int | tuple[int, ...]:
    """Read how many seeds, or a list."""
    if len(values) == 1 and values[0].isdecimal():
        return int(values[0])
    return read_numbers(values, "--evaluate-seeds", least=0)


def _search_facts(result: TuneResult) -> dict[str, Any]:
    """The outcome of a search, for programs."""
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


def _search_notes(result: TuneResult, data_dir: Path | None) -> Iterator[str]:
    """What the table does not say; last, the command that compares the winner with others."""
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
        again = f"; {state.failed} failed, --retry-failed tries them again" if state.failed else ""
        yield f"Every choice of the search space was tried, {state.size} in all{again}."
    elif left > 0 and state.is_hopeless:
        yield f"{left} trials are left, but errors ended the search; --retry-failed continues it."
    elif left > 0:
        yield f"{left} trials are left; the same command continues."
    for path, error in result.failed.items():
        yield f"failed: {path}: {error}"
    if any((path / ncgnn.training.ERROR).is_file() for path in result.failed):
        yield "--retry-failed tries failed runs again."
    command = [*result.comparison_command(), *(["--data-dir", str(data_dir)] if data_dir else [])]
    yield "To compare the winner with other models, train it with their seeds, here the fresh ones:"
    yield shlex.join(command)
