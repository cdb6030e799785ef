"""A finished run, ready to predict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ncgnn.data import Split, load
from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph._fingerprint import fingerprint
from ncgnn.nn._grouping import Grouping
from ncgnn.training import _folder as names
from ncgnn.training._folder import RunFolder
from ncgnn.training._run import graph_inputs, new_model
from ncgnn.training._tensors import DamagedFileError, read_tensors
from ncgnn.training._trained import TrainedModel


def load_run(
    path: Path | str,
    data_dir: Path | str | None = None,
    device: str | None = None,
    dataset: Path | str | None = None,
) -> TrainedModel:
    """Load a finished run.

    Args:
        path: The run's folder.
        data_dir: Folder with npz files, where the run's data set is looked for.
        device: Where to run it; by default where it was trained.
        dataset: Where the run's graph is now, if its file has moved.

    Raises:
        InputError: The run is not finished, damaged, or the graph is no longer the same.
    """
    folder = RunFolder(Path(path).expanduser())
    folder.check()
    try:
        config = folder.read_config()
    except UnknownNameError as error:
        raise InputError(
            f"{folder.path}: {error} A backbone of your own must be registered by the program that "
            "loads a run of it, before it does."
        ) from None
    if device is not None:
        training = config.training.model_copy(update={"device": device})
        config = config.model_copy(update={"training": training})
    kept = folder / names.GRAPH
    place = str(dataset or (kept if kept.is_file() else config.data.dataset))
    try:
        graph = load(place, data_dir)
    except InputError as error:
        if dataset is not None:
            raise
        raise InputError(
            f"{error} If the graph of a run has moved, --dataset says where."
        ) from None
    if fingerprint(graph) != folder.read_json(names.ENVIRONMENT)["graph_sha256"]:
        raise InputError(
            f"{place} is not the graph that {folder.path} was trained on, or has changed since."
        )
    if place == str(kept):
        graph = replace(graph, name=config.data.dataset)
    inputs = graph_inputs(config, graph)
    model = new_model(config, inputs)
    tensors, _ = read_tensors(folder / names.WEIGHTS)
    weights = {
        name.removeprefix("model."): value
        for name, value in tensors.items()
        if name.startswith("model.")
    }
    try:
        model.load_state_dict(weights)
        grouping = Grouping(tensors["confusion"], tensors["group"])
    except (RuntimeError, KeyError) as error:
        raise DamagedFileError(f"{folder / names.WEIGHTS}: does not fit ({error}).") from None
    split, seconds = Split.load(folder / names.SPLIT), folder.read_json(names.TIMING)["seconds"]
    return TrainedModel(model, inputs, split, grouping, config, folder.history(), float(seconds))
