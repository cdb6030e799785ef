"""Runs that exist: as trained models, as graphs, and as what a new run starts from."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ncgnn.data import Split, load
from ncgnn.errors import InputError, UnknownNameError
from ncgnn.nn import GraphInputs, Grouping, Model, model_name
from ncgnn.training.cost import check_memory
from ncgnn.training.folder import (
    DATASET,
    ENVIRONMENT,
    GRAPH,
    LATEST,
    SPLIT,
    START,
    TRIED,
    WEIGHTS,
    DamagedFileError,
    RunFolder,
    find_run,
    first_reason,
    read_tensors,
    run_folders,
    tensors_sha256,
    weights_under,
)
from ncgnn.training.protocols import InductiveTrainer
from ncgnn.training.refit import read_experts, read_refit
from ncgnn.training.start import HASH, Start, first_model
from ncgnn.training.trained import TrainedModel
from ncgnn.training.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.graph import Graph
    from ncgnn.training.config import RunConfig
    from ncgnn.training.trainer import Record


def load_run(
    path: Path | str,
    data_dir: Path | str | None = None,
    device: str | None = None,
    dataset: Path | str | None = None,
    model: type[Model] | None = None,
    *,
    refit: bool = True,
) -> TrainedModel:
    """Load a finished run.

    Args:
        path: The run's folder, or ``runs/latest``.
        data_dir: Folder with npz files, where the run's dataset is looked for.
        device: Where to run it; by default where it was trained.
        dataset: Where the run's graph is now, if its file has moved.
        model: The class of the run's model, if it is one of your own that is not registered.
        refit: Whether to load what a refit has left, too.

    Raises:
        InputError: The run is not finished, damaged, or the graph is no longer the same.
    """
    folder = RunFolder(find_run(path))
    folder.check()
    name = None if model is None else model_name(model)
    try:
        config = folder.read_config()
    except UnknownNameError as error:
        raise InputError(
            f"{folder.path}: {error} If it is a model of your own, pass its class with model=, or "
            "register it before you load the run."
        ) from None
    if name not in (None, config.model.name):
        raise InputError(f"{folder.path}: model must be {config.model.name}; got {name}.")
    if device is not None:
        training = config.training.model_copy(update={"device": device})
        config = config.model_copy(update={"training": training})
    inputs = new_inputs(config, load_graph(folder, data_dir, dataset))
    trained = read_trained(folder, config, inputs)
    return replace(trained, refitted=read_refit(folder, trained)) if refit else trained


def read_trained(folder: RunFolder, config: RunConfig, inputs: GraphInputs) -> TrainedModel:
    """The model of a finished run, whose graph is at hand."""
    split = Split.load(folder / SPLIT)
    trainer = Trainer(first_model(config, inputs), inputs, split, config.training)
    tensors, _ = read_tensors(folder / WEIGHTS)
    try:
        trainer.model.load_state_dict(weights_under("model.", tensors))
        trainer.state.best_grouping = Grouping(tensors["confusion"], tensors["group"])
    except (RuntimeError, KeyError) as error:
        raise DamagedFileError(
            f"{folder / WEIGHTS}: does not fit ({first_reason(error)}); train the run again."
        ) from None
    seconds = folder.read_seconds()
    start = Start.read(folder) if (folder / START).is_file() else None
    trained = as_trained(trainer, config, folder.history(), seconds, start)
    tried = folder.read_json(TRIED) if (folder / TRIED).is_file() else None
    return replace(trained, experts=read_experts(folder), auto=tried)


def find_other_seeds(path: Path | str) -> list[Path]:
    """The finished runs beside a run that differ from it by the seed alone.

    Of a run that ``auto`` has chosen, these are what it has chosen with other seeds, too, which may
    be other models.
    """
    folder = RunFolder(find_run(path))
    wanted, asked = _without_seed(folder.read_config()), _asked(folder)
    found: list[Path] = []
    for other in map(RunFolder, run_folders(folder.path.resolve().parent)):
        if other.is_done() and other.path.name != folder.path.resolve().name:
            with suppress(InputError):  # a run that is damaged, or of a model that is not at hand
                same = asked is not None and _asked(other) == asked
                if same or _without_seed(other.read_config()) == wanted:
                    found.append(other.path)
    return found


def _asked(folder: RunFolder) -> str | None:
    """What ``auto`` was asked for, seed and time aside, when it chose a run; None of others."""
    return folder.read_json(TRIED).get("asked") if (folder / TRIED).is_file() else None


def _without_seed(config: RunConfig) -> RunConfig:
    """A configuration that is the same for all seeds; each may begin with weights of its own."""
    training = config.training.model_copy(update={"seed": 0, "start_from": None})
    return config.model_copy(update={"training": training})


def load_graph(
    folder: RunFolder, data_dir: Path | str | None = None, dataset: Path | str | None = None
) -> Graph:
    """The graph of a run: what the run has kept of it, or else its dataset.

    Args:
        folder: The run's folder.
        data_dir: Folder with npz files, where the run's dataset is looked for.
        dataset: Where the graph is now, if its file has moved.

    Raises:
        InputError: It is not there, or no longer the same.
    """
    named = folder.read_config().data.dataset
    kept = next((folder / name for name in (DATASET, GRAPH) if (folder / name).exists()), None)
    place = str(dataset or kept or named)
    try:
        graph = load(place, data_dir)
    except InputError as error:
        if dataset is not None:
            raise
        raise InputError(
            f"{error} If the graph has moved, give its new place: dataset=… in Python, or after "
            "the run on the command line."
        ) from None
    if graph.fingerprint != folder.read_json(ENVIRONMENT)["graph_sha256"]:
        raise InputError(
            f"{place} is not the graph that {folder.path} was trained on, or has changed since."
        )
    if kept is None or place != str(kept):
        return graph
    renamed = replace(graph, name=Path(named).name if kept.name == DATASET else named)
    renamed.__dict__["fingerprint"] = graph.fingerprint
    return renamed


def new_trainer(
    config: RunConfig, graph: Graph, split: Split | None = None, start: Start | None = None
) -> Trainer:
    """The graph, split and model of a configuration, ready to be trained.

    The first weights depend on the seed alone, or are those of ``start``.

    Args:
        config: The configuration.
        graph: The graph.
        split: Its split, if it is not the one that the configuration names.
        start: What training begins with, if not with random weights.
    """
    if split is None:
        split = config.make_split(graph) if start is None else start.split
    check_memory(config, graph)
    inputs = new_inputs(config, graph)
    model, protocol = first_model(config, inputs, start), config.data.protocol
    if protocol != "transductive":
        return InductiveTrainer(model, inputs, split, config.training, protocol)
    return Trainer(model, inputs, split, config.training)


def new_inputs(config: RunConfig, graph: Graph) -> GraphInputs:
    """A graph as the models of a configuration see it."""
    inputs = GraphInputs(
        graph,
        device=find_device(config.training.device),
        dtype=getattr(torch, config.training.precision),
        scaling=config.data.scaling,
    )
    inputs.in_blocks = config.training.batch_size is not None
    return inputs


def find_device(name: str) -> torch.device:
    """A device by its name.

    Raises:
        InputError: There is none on this machine.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "meta":
            raise NotImplementedError  # there are no numbers on it
    except (RuntimeError, AssertionError, NotImplementedError):
        raise InputError(f"device '{name}' is not available; use cpu.") from None
    return device


def as_trained(
    trainer: Trainer,
    config: RunConfig,
    history: Sequence[Record],
    seconds: float,
    start: Start | None,
) -> TrainedModel:
    """What a trainer at its end has made of a model."""
    grouping = trainer.state.best_grouping.to("cpu")
    parts = (trainer.model, trainer.inputs, trainer.split, grouping)
    return TrainedModel(*parts, config, history, seconds, start)


def find_start(
    config: RunConfig, graph: Graph, runs: Path, data_dir: Path | str | None = None
) -> tuple[RunConfig, Start | None]:
    """Find the run that a configuration wants to start from.

    ``latest`` means what it is when the run begins: where it is this very run, or the same with
    another seed, that one's own start counts, so that a command that is given twice trains once.
    Where there is no latest run yet, training begins with random weights.

    Args:
        config: The configuration; its ``start_from`` is ``latest``, a path, a name under ``runs``
            or the hash of weights.
        graph: The graph of the new run.
        runs: Folder of all runs.
        data_dir: Folder with npz files.

    Returns:
        The configuration with the hash of the weights, and the weights; without both where there
        are none.

    Raises:
        InputError: There is no such run, or it does not fit.
    """
    word = config.training.start_from
    if word is None:
        return config, None
    path = find_run(runs / word if word == LATEST else word)
    if Path(word).name == LATEST:
        config = _origin_of_latest(path, config)
        if (word := config.training.start_from) is None:
            return config, None
    if word.startswith(HASH):
        own = RunFolder(runs / config.name)
        if (own / START).is_file():
            return config, Start.read(own)
        path = _find_weights(word.removeprefix(HASH), config, runs)
    elif not path.exists() and (runs / word).exists():
        path = runs / word
    return begin_with(path, config, graph, data_dir)


def _origin_of_latest(latest: Path, config: RunConfig) -> RunConfig:
    """A configuration that wants to start from the latest run, with what this means now."""
    if not latest.exists():
        return config.replaced("training", start_from=None)
    begun = RunFolder(latest).read_config()
    own = {"start_from": begun.training.start_from, "seed": begun.training.seed}
    if begun != config.replaced("training", **own):
        return config
    return config.replaced("training", start_from=begun.training.start_from)


def begin_with(
    earlier: TrainedModel | Path | str,
    config: RunConfig,
    graph: Graph,
    data_dir: Path | str | None = None,
) -> tuple[RunConfig, Start]:
    """What a run takes over from an earlier one, and its configuration, which says so.

    Raises:
        InputError: Its protocol lets training see a part of the graph alone.
    """
    if config.data.protocol != "transductive":
        raise InputError(
            "start_from must be left out with protocol = 'inductive' or 'temporal': earlier "
            "weights may have seen what training must not."
        )
    run = "the model that was given"
    if not isinstance(earlier, TrainedModel):
        run = find_run(earlier).name
        earlier = load_run(earlier, data_dir, refit=False)
    start = Start.of(earlier, config, new_inputs(config, graph), run)
    return config.replaced("training", start_from=f"{HASH}{start.sha256}"), start


def _find_weights(sha256: str, config: RunConfig, runs: Path) -> Path:
    """The finished run with these weights."""
    for path in run_folders(runs) if runs.is_dir() else ():
        folder = RunFolder(path)
        with suppress(InputError):
            if folder.is_done() and folder.read_config().model == config.model:
                tensors, _ = read_tensors(folder / WEIGHTS)
                if tensors_sha256(weights_under("model.", tensors)) == sha256:
                    return path
    raise InputError(
        f"start_from: no run in {runs} has the weights {HASH}{sha256[:12]}…; name a run instead."
    )
