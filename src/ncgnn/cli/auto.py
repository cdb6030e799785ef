"""What the command train does before and after training, and how it chooses a model by itself."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import ncgnn
from ncgnn.cli.terminal import note, print_json, print_tables, say, show_status
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncgnn.cli.progress import RunProgress
    from ncgnn.graph import Graph
    from ncgnn.training import AutoConfig, ConfigFile, Cost, RunConfig, RunFolder, RunResult

#: The model that is a choice among others.
AUTO = "auto"
#: What has changed since the latest run before, in a run's folder.
CHANGES = "changes.json"


def default_model(
    graph: str | None, file: ConfigFile | None, settings: dict[str, Any]
) -> str | None:
    """The model where --models names none: auto, or None for what a file or the package says."""
    named = any(ncgnn.training.find_option(key) == ("model", "name") for key in settings)
    if file is not None and file.model is not None:
        return AUTO if file.model == AUTO else None
    places = {ncgnn.training.find_option(key): value for key, value in settings.items()}
    dataset = places.get(("data", "dataset"), graph or (None if file is None else file.dataset))
    if named or dataset is None or ("training", "start_from") in places:
        return None  # weights to begin with are those of one model
    known = {entry.name for entry in ncgnn.data.list_datasets()}
    return None if ncgnn.training.locate_dataset(str(dataset)) in known else AUTO


def make_any(name: str | None, **told: Any) -> RunConfig | AutoConfig:
    """The configuration of a model, or of a choice among some."""
    if name == AUTO:
        return ncgnn.training.make_auto(**told)
    return ncgnn.training.make_config(model=name, **told)


def read_time(time: str | None, names: Sequence[str | None]) -> dict[str, Any]:
    """Read ``--time``, which is an option of auto."""
    if time is None:
        return {}
    if AUTO not in names:
        raise InputError("--time is how long auto may take; name that model, or leave --time out.")
    return {"time": time}


def check_events(tensorboard: bool, names: Sequence[str | None]) -> None:
    """Refuse ``--tensorboard`` for auto, whose many short trainings have no curve in common."""
    if tensorboard and AUTO in names:
        raise InputError(
            "--tensorboard must be left out with auto, which trains many models; name one of them."
        )


def load_for(configs: Sequence[RunConfig | AutoConfig], data_dir: Path | None) -> Graph:
    """The graph that all of them are for."""
    first = configs[0]
    config = first if isinstance(first, ncgnn.training.RunConfig) else first.base
    return ncgnn.load(config.data.dataset, data_dir)


def list_configs(
    configs: Sequence[RunConfig | AutoConfig], data_dir: Path | None
) -> list[RunConfig]:
    """All configurations that would be trained, with the candidates of auto."""
    found: list[RunConfig] = []
    for config in configs:
        if isinstance(config, ncgnn.training.RunConfig):
            found.append(config)
        else:
            graph = load_for([config], data_dir)
            found += [one.config for one in ncgnn.training.list_candidates(config, graph)]
    return found


def show_costs(configs: Sequence[RunConfig], graph: Graph, json: bool) -> None:
    """Print what runs will take; seeds that differ in nothing else take the same."""
    alike = {config.replaced("training", seed=0).sha256: config for config in configs}
    costs: dict[str, Cost | None] = {}
    chosen: dict[str, Cost | None] = {}
    for config in alike.values():
        name = config.model.name
        costs[name] = ncgnn.training.estimate_run(config, graph)
        batches, choice = ncgnn.training.choose_batches(config, graph)
        if choice is not None:
            chosen[name] = ncgnn.training.estimate_run(batches, graph)
    if json:
        facts = {name: None if cost is None else cost.facts() for name, cost in costs.items()}
        instead = {name: cost.facts() for name, cost in chosen.items() if cost is not None}
        print_json({"graph": graph.name, "estimates": facts, "in_batches": instead})
        return
    costs |= {f"{name} in batches, which are chosen": cost for name, cost in chosen.items()}
    print_tables(ncgnn.report.cost_table(graph, costs))


def about_cost(config: RunConfig, graph: Graph) -> str | None:
    """One line on what a run will take, if that is long and it can begin."""
    if not ncgnn.training.may_be_long(config, graph):
        return None
    with suppress(InputError):
        config.make_split(graph)
        return _long_cost(config, graph)
    return None


def _long_cost(config: RunConfig, graph: Graph) -> str | None:
    cost = ncgnn.training.estimate_run(config, graph)
    if cost is None or (cost.seconds or 0) < ncgnn.training.LONG_SECONDS:
        return None
    return cost.sentence()


def search_model(
    wanted: AutoConfig,
    graph: Graph,
    runs: Path,
    data_dir: Path | None,
    progress: RunProgress,
    stop: Callable[[], bool],
) -> RunResult:
    """Let auto choose a model, with progress on standard error; Ctrl-C keeps what is done."""
    tell, changes = changes_since(graph, wanted.base, runs, data_dir)
    for sentence in tell:
        progress.note(sentence)
    with progress.search(wanted) as watcher:
        try:
            return ncgnn.training.auto_run(
                wanted,
                runs,
                graph=graph,
                watcher=watcher,
                before_done=lambda run: write_beside(run, changes),
                stop=stop,
            )
        except KeyboardInterrupt:
            note("interrupted; the same command continues with what is done")
            raise typer.Exit(130) from None


def search_facts(folder: Path) -> dict[str, Any] | None:
    """What was tried before a run was chosen; None where nothing was."""
    run = ncgnn.training.RunFolder(folder)
    tried = ncgnn.training.TRIED
    return run.read_json(tried) if (run / tried).is_file() else None


def show_search(result: RunResult, *, one_of_many: bool = False) -> None:
    """Print the leaderboard of a search, what the graph adds, and what would help.

    Args:
        result: The chosen run.
        one_of_many: Whether searches with other seeds are shown as well.
    """
    facts = search_facts(result.folder)
    if facts is None:
        return
    if not result.fresh:
        note("This search was finished before: nothing was trained.")
    seed = {"seed": result.config.training.seed} if one_of_many else {}
    print_tables(ncgnn.report.leaderboard(facts | seed))
    say(f"Seed {seed['seed']}: {facts['sentence']}" if seed else facts["sentence"])
    for remedy in facts["remedies"]:
        say(f"note: {remedy}")


def changes_since(
    graph: Graph, config: RunConfig, runs: Path, data_dir: Path | None
) -> tuple[list[str], dict[str, Any] | None]:
    """What has changed since the latest run, if that is of the same place with other content.

    Returns:
        Sentences, and all of it for the run's folder.
    """
    training = ncgnn.training
    latest = training.RunFolder(training.find_run(runs / training.LATEST))
    if config.data.fingerprint is None or (runs / config.name / training.DONE).is_file():
        return [], None
    try:
        before = latest.read_config().data
        if before.dataset != config.data.dataset or before.fingerprint == config.data.fingerprint:
            return [], None
        with show_status("comparing with the latest run"):
            changes = ncgnn.compare_graphs(training.load_graph(latest, data_dir), graph)
    except InputError:  # there is no latest run, or its graph is gone
        return [], None
    said = changes.to_json() | {"run": latest.path.name}
    head = f"since {latest.path.name}:"
    return [head, *(f"  {sentence}" for sentence in changes.sentences())], said


def write_beside(run: RunFolder, changes: dict[str, Any] | None) -> None:
    """Write what belongs to a run for people: its report, and what has changed before it."""
    ncgnn.report.write_run_report(run)
    if changes is not None:
        run.write_json(CHANGES, changes)
