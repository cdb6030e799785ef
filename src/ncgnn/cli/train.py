"""``ncgnn train``."""

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
    RunsOption,
    SeedsOption,
    SettingsOption,
    chosen_settings,
    names,
    one_clear_error,
    only,
    print_json,
    seed_numbers,
    table_console,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig, RunResult


@one_clear_error
def train(
    dataset: Annotated[
        str | None,
        typer.Option(help="A name that 'ncgnn datasets' lists, or the path of an npz file."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A name that 'ncgnn models' lists, ncgcn by default; several, like "
            "ncgcn,gcn,mlp, are compared."
        ),
    ] = None,
    config: ConfigOption = None,
    settings: SettingsOption = None,
    seeds: SeedsOption = None,
    split: MaybeSplitOption = None,
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
    """Train a model, once per seed; a run that was interrupted goes on where it stopped.

    Where no configuration says otherwise, a model uses the parameters that the paper found best
    on a data set, or, on its splits, those that a search of ours chose; and what its preset says of
    all graphs on any other.
    """
    from ncgnn._memory import keep_freed_memory
    from ncgnn.training import make_config

    chosen = chosen_settings(settings, seeds)
    _no_contradiction(
        chosen,
        {
            ("data", "dataset"): ("--dataset", dataset),
            ("model", "name"): ("--model", model),
            ("data", "split"): ("--split", split),
            ("training", "device"): ("--device", device),
        },
    )
    numbers = seed_numbers(seeds) or (None,)
    models = [None] if model is None else names(model, "--model")
    configs = [
        make_config(
            dataset=dataset,
            model=name,
            split=split,
            device=device,
            seed=number,
            config=only(config),
            settings=chosen,
        )
        for name in models
        for number in numbers
    ]
    if dry_run:
        _print_configs(configs, json)
        return
    keep_freed_memory()
    results = _train_all(configs, runs.expanduser(), data_dir, tensorboard)
    if json:
        print_json({"runs": [_plain(result) for result in results]})
    else:
        from ncgnn.report import comparison_table, summary_table

        per_model = [
            results[first : first + len(numbers)] for first in range(0, len(results), len(numbers))
        ]
        one = len(per_model) == 1
        table_console().print(summary_table(results) if one else comparison_table(per_model))
        # A file may say other rates.
        if not config and (remark := about_parameters(configs, chosen)) is not None:
            print(remark, file=sys.stderr)
    print(
        "Results are in", *(f"  {result.folder}" for result in results), sep="\n", file=sys.stderr
    )


def _print_configs(configs: list[RunConfig], json: bool) -> None:
    """What would be trained; as TOML one configuration per model, which all its seeds share."""
    from ncgnn.training import to_toml

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
        texts.append(head + to_toml(first.model_dump(mode="json")))
    print("\n".join(texts), end="")


def _no_contradiction(
    settings: dict[str, Any], named: dict[tuple[str, str], tuple[str, str | None]]
) -> None:
    """Complain if something has an option of its own and is said by --set as well."""
    from ncgnn.training import placed

    for key in settings:
        option, value = named.get(placed(key), ("", None))
        if value is not None:
            raise InputError(f"{option} and --set {key}=… contradict each other; give one of them.")


def _train_all(
    configs: list[RunConfig], runs: Path, data_dir: Path | None, tensorboard: bool
) -> list[RunResult]:
    from ncgnn.cli.progress import RunProgress, stop_requests
    from ncgnn.data import load
    from ncgnn.report import write_run_report
    from ncgnn.training import train_run

    results: list[RunResult] = []
    with RunProgress() as progress, stop_requests() as stop:
        graph = load(configs[0].data.dataset, data_dir)
        if (remark := about_edges(graph, [config.model.name for config in configs])) is not None:
            progress.note(remark)
        for config in configs:
            folder = runs / config.name
            if stop():
                progress.note("interrupted; the same command continues")
                raise typer.Exit(130)
            with progress.run(config, folder if tensorboard else None) as on_epoch:
                try:
                    result = train_run(
                        config,
                        runs,
                        graph=graph,
                        on_epoch=on_epoch,
                        on_resume=progress.resumed,
                        before_done=write_run_report,
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
    from ncgnn.training import has_own_values, placed

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
    from ncgnn.data import list_datasets
    from ncgnn.nn import BY_NAME

    if not graph.num_edges:
        return f"{graph.name} has no edges: every node is on its own."
    if not graph.is_directed or graph.name in {entry.name for entry in list_datasets()}:
        return None
    known = dict.fromkeys(models)
    listening = [name for name in known if name not in BY_NAME or BY_NAME[name].edges == "incoming"]
    if not listening:
        return None
    return (
        f"{graph.name} is directed: with {', '.join(listening)} a node hears from the sources of "
        "its incoming edges alone. If its edges mean both directions, store both, for example by "
        "PyG's to_undirected."
    )


def _plain(result: RunResult) -> dict[str, Any]:
    return {"folder": str(result.folder), "seconds": result.seconds, **result.result}
