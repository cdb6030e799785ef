"""A finished run, ready to predict.

One run from its configuration to its folder, whatever interrupts it on the way.

Training in one call, without a folder.
"""

from __future__ import annotations

import statistics
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import format_exc
from typing import TYPE_CHECKING, Any

import torch

from ncgnn._io import write_text
from ncgnn.data import Split, load, make_split, split_families
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning, UnknownNameError, sentence
from ncgnn.graph import as_graph
from ncgnn.nn import GraphInputs, Grouping, model_class
from ncgnn.training import folder as names
from ncgnn.training.config import make_config, placed
from ncgnn.training.folder import (
    DamagedFileError,
    OtherRunError,
    RunFolder,
    continued_in,
    differences,
    environment,
    load_checkpoint,
    read_records,
    read_tensors,
    save_checkpoint,
)
from ncgnn.training.trained import TrainedModel, metrics_line, write_outcome
from ncgnn.training.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from numpy.typing import ArrayLike

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.training.config import RunConfig
    from ncgnn.training.trainer import Record

#: Seconds between two checkpoints; a killed run loses at most that much work.
CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        folder: Where it is.
        config: Its configuration.
        result: What ``result.json`` holds.
        seconds: How long training took.
        fresh: Whether it was trained now, and not found finished.
    """

    folder: Path
    config: RunConfig
    result: dict[str, Any]
    seconds: float
    fresh: bool


def train_run(
    config: RunConfig,
    runs: Path,
    *,
    data_dir: Path | None = None,
    graph: Graph | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    on_resume: Callable[[int], None] | None = None,
    before_done: Callable[[RunFolder], object] | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> RunResult:
    """Train a run, continue one that was interrupted, or find it finished.

    Args:
        config: The configuration; the folder is named after it.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
        graph: The graph, if it is loaded already.
        on_epoch: Called with the record of every epoch, old ones of a continued run included.
        on_resume: Called with the number of epochs that an interrupted run had done.
        before_done: Called when all is written but the completion marker.
        stop: Asked after every epoch; if it says yes, the state is saved and
            ``KeyboardInterrupt`` raised.
        checkpoint_seconds: Time between checkpoints.
    """
    folder = RunFolder(runs / config.name)
    graph = load(config.data.dataset, data_dir) if graph is None else graph
    with folder.lock():
        check_same_config(folder, config)
        if folder.is_done():
            finished = _finished(folder, config, graph)
            if finished is not None:
                return finished
        with _kept_error(folder, config):
            job = _Job(config, folder, graph, checkpoint_seconds)
            (folder / names.ERROR).unlink(missing_ok=True)  # of an earlier try
            job.train(on_epoch, stop, on_resume)
            job.write_outcome()
        if before_done is not None:
            before_done(folder)
        folder.mark_done()
        (folder / names.CHECKPOINT).unlink(missing_ok=True)
        result = folder.read_json(names.RESULT)
        return RunResult(folder.path, config, result, job.seconds, fresh=True)


def finished_run(folder: RunFolder) -> RunResult:
    """What is kept of a finished run.

    Raises:
        DamagedFileError: A file is missing or has changed.
        InputError: The run is not finished.
    """
    folder.check()
    seconds = float(folder.read_json(names.TIMING)["seconds"])
    result = folder.read_json(names.RESULT)
    return RunResult(folder.path, folder.read_config(), result, seconds, fresh=False)


def _finished(folder: RunFolder, config: RunConfig, graph: Graph) -> RunResult | None:
    """The result of a finished run; None if its files are damaged, so that it is trained again."""
    try:
        result = finished_run(folder)
        split = make_split(graph, config.data.split, config.split_seed, warn=False)
        check_same_graph(folder, config, graph.fingerprint, split.sha256)
        (folder / names.CHECKPOINT).unlink(missing_ok=True)
    except DamagedFileError as error:
        warnings.warn(f"{error} It is trained again now.", NcgnnWarning, stacklevel=3)
        (folder / names.DONE).unlink()
        (folder / names.CHECKPOINT).unlink(missing_ok=True)
        return None
    return result


@contextmanager
def _kept_error(folder: RunFolder, config: RunConfig) -> Generator[None]:
    """Keep in a run's folder why it cannot be trained; a caller's own exceptions end it otherwise.

    Torch's word for memory that is not to be had is RuntimeError.
    """
    try:
        yield
    except (NcgnnError, MemoryError, RuntimeError) as error:
        with suppress(OSError):  # the folder itself may be what is wrong
            wrong_input = isinstance(error, InputError)
            folder.write_config(config)  # so that it is known what has failed
            folder.write_error(sentence(error), wrong_input=wrong_input, trace=format_exc())
        raise


class _Job:
    def __init__(
        self, config: RunConfig, folder: RunFolder, graph: Graph, checkpoint_seconds: float
    ) -> None:
        self.config, self.folder, self.graph = config, folder, graph
        self.checkpoint_seconds = checkpoint_seconds
        self.seconds = 0.0
        self.begun_in: dict[str, Any] | None = None
        self.epoch_seconds: list[float] = []
        self.split = make_split(graph, config.data.split, config.split_seed, warn=False)
        self.inputs = graph_inputs(config, graph)
        self.trainer = self._new_trainer()
        self._write_origin()

    def _new_trainer(self) -> Trainer:
        model = new_model(self.config, self.inputs)
        return Trainer(model, self.inputs, self.split, self.config.training)

    def _write_origin(self) -> None:
        """Write what the run starts from, or check that a continued one starts from the same."""
        folder, graph_hash = self.folder, self.graph.fingerprint
        self.environment = environment() | {"graph_sha256": graph_hash}
        before: dict[str, Any] | None = None
        if (folder / names.CHECKPOINT).is_file():
            try:
                before = folder.read_json(names.ENVIRONMENT)
                check_same_graph(folder, self.config, graph_hash, self.split.sha256)
            except DamagedFileError as error:  # what the checkpoint belongs to is not known
                warnings.warn(f"{error} Training starts anew.", NcgnnWarning, stacklevel=4)
                (folder / names.CHECKPOINT).unlink()
                before = None
        self.begun_in = before
        if before is not None and (changed := differences(before, self.environment)):
            warnings.warn(
                f"{folder.path} continues in another environment, so its numbers may differ "
                f"in the last digits ({'; '.join(changed)}).",
                NcgnnWarning,
                stacklevel=4,
            )
        resumed = before is not None  # a checkpoint is of use only beside these files
        folder.write_config(self.config, durable=resumed)
        self.split.save(folder / names.SPLIT, durable=resumed)

    def train(
        self,
        on_epoch: Callable[[Record], None] | None = None,
        stop: Callable[[], bool] | None = None,
        on_resume: Callable[[int], None] | None = None,
    ) -> None:
        """Train from the latest checkpoint, or from the start."""
        records = self._resume()
        if records and on_resume is not None:
            on_resume(len(records))
        if on_epoch is not None:
            for record in records:
                on_epoch(record)
        started, saved, before = time.perf_counter(), time.perf_counter(), self.seconds
        with (self.folder / names.METRICS).open("ab") as stream:

            def checkpoint() -> None:
                stream.flush()
                self.folder.make_durable()
                self.seconds = before + time.perf_counter() - started
                about = {"seconds": self.seconds}
                save_checkpoint(self.folder / names.CHECKPOINT, self.trainer, about)

            epoch_began = time.perf_counter()

            def after_epoch(record: Record) -> None:
                nonlocal saved, epoch_began
                self.epoch_seconds.append(time.perf_counter() - epoch_began)
                stream.write(metrics_line(record).encode())
                if on_epoch is not None:
                    on_epoch(record)
                stopped = stop is not None and stop()
                if stopped or time.perf_counter() - saved >= self.checkpoint_seconds:
                    checkpoint()
                    saved = time.perf_counter()
                if stopped:
                    raise KeyboardInterrupt
                epoch_began = time.perf_counter()

            self.trainer.run(after_epoch, keeps_weights=True)
            self.seconds = before + time.perf_counter() - started

    def _resume(self) -> list[Record]:
        """Go back to the latest checkpoint, and return the records up to it."""
        path = self.folder / names.CHECKPOINT
        records: list[Record] = []
        if path.is_file():
            try:
                records = read_records(self.folder / names.METRICS)
                about = load_checkpoint(path, self.trainer)
                if len(records) < self.trainer.state.epoch:
                    raise DamagedFileError(f"{self.folder / names.METRICS} has lost lines.")
                self.seconds = float(about["seconds"])
            except (DamagedFileError, KeyError, TypeError, ValueError) as error:
                warnings.warn(f"{error} Training starts anew.", NcgnnWarning, stacklevel=4)
                records, self.begun_in = [], None
                path.unlink()
                self.trainer = self._new_trainer()
        kept = self.environment
        if self.begun_in is not None:
            kept = continued_in(self.begun_in, self.environment)
        records = records[: self.trainer.state.epoch]
        lines, resumed = "".join(metrics_line(record) for record in records), bool(records)
        self.folder.write_json(names.ENVIRONMENT, kept, durable=resumed)
        write_text(self.folder / names.METRICS, lines, durable=resumed)
        return records

    def write_outcome(self) -> None:
        """Write weights, scores and times."""
        trainer, history = self.trainer, self.folder.history()
        found = (self.split, trainer.state.best_grouping, self.config, history, self.seconds)
        usual = statistics.median(self.epoch_seconds) if self.epoch_seconds else None
        write_outcome(self.folder, TrainedModel(trainer.model, self.inputs, *found), usual)


def check_same_graph(
    folder: RunFolder, config: RunConfig, graph_hash: str, split_hash: str
) -> None:
    """Complain if a run was begun on another graph, or on another split of it.

    Raises:
        DamagedFileError: What it was begun on is no longer known.
        InputError: It was another one.
    """
    same_graph = folder.read_json(names.ENVIRONMENT).get("graph_sha256") == graph_hash
    if not same_graph or folder.read_json(names.SPLIT).get("sha256") != split_hash:
        data = config.data
        what = f"the {data.split} split of {data.dataset}" if same_graph else data.dataset
        raise InputError(
            f"{what} has changed since {folder.path} was begun; remove that folder, "
            "or name another with --runs."
        )


def check_same_config(folder: RunFolder, config: RunConfig) -> None:
    """Complain if a folder holds another run; a configuration that is damaged does not tell.

    Raises:
        OtherRunError: It does.
    """
    if not folder.is_as_written(names.CONFIG):
        return
    try:
        begun = folder.read_config()
    except InputError:
        return
    if begun.name != config.name:
        raise OtherRunError(
            f"{folder.path} holds another run, {begun.name}; move it away, or name another folder "
            "with --runs."
        )


def graph_inputs(config: RunConfig, graph: Graph) -> GraphInputs:
    """The graph as the run's model sees it."""
    return GraphInputs(
        graph,
        device=checked_device(config.training.device),
        dtype=getattr(torch, config.training.precision),
        scaling=config.data.scaling,
    )


def checked_device(name: str) -> torch.device:
    """A device that is to be had here."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise InputError(
            f"device is '{name}', which is not to be had here; cpu always is."
        ) from None
    return device


def new_model(config: RunConfig, inputs: GraphInputs) -> Any:
    """The run's model with its first weights, which depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = model_class(config.model.name).for_inputs(inputs, **config.model.options)
    return model.to(device=inputs.device, dtype=inputs.dtype)


def fit(
    graph: GraphLike,
    model: str = "ncgcn",
    *,
    labels: ArrayLike | None = None,
    split: str | Split = "stratified",
    seed: int = 0,
    device: str = "cpu",
    on_epoch: Callable[[Record], None] | None = None,
    **settings: Any,
) -> TrainedModel:
    """Train a model on a graph and return its best epoch.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes, for example a PyG ``Data``.
        model: A model's name, such as ``"ncgcn"``, ``"ncsage"``, ``"gcn"`` or ``"mlp"``.
        labels: Class per node, -1 = unknown, where the graph holds none or others.
        split: A split family, or a split; ``"published"`` takes the masks of a PyG ``Data``.
        seed: Of a drawn split, of the first weights and of dropout.
        device: Where tensors live.
        on_epoch: Called with a record of every epoch.
        **settings: Options by the names that TOML and ``--set`` use, for example ``hidden=64``,
            ``learning_rate=0.01``, ``threshold=0.4``, ``scaling="row"``.

    Example:
        >>> import ncgnn
        >>> trained = ncgnn.fit(ncgnn.load("digits"), "ncgcn", hidden=32, epochs=5)
        >>> sorted(trained.evaluate()["scores"])
        ['test', 'train', 'val']
    """
    for key in settings:
        if placed(key) in (("data", "dataset"), ("model", "name")):
            raise InputError(f"fit: {key} is said by the first two arguments, graph and model.")
    graph = as_graph(graph, labels)
    if split == "stratified" and graph.shipped_splits:
        warnings.warn(
            "the graph has masks of its own, which split='published' would use; a stratified "
            "split is drawn instead.",
            NcgnnWarning,
            stacklevel=2,
        )
    family = split.family if isinstance(split, Split) else split
    if isinstance(split, Split) and family not in split_families():
        family = "custom"
    config = make_config(
        dataset=graph.name, model=model, split=family, seed=seed, device=device, settings=settings
    )
    inputs = graph_inputs(config, graph)
    if isinstance(split, Split):
        parts = split
        if max(part.max(initial=-1) for part in (parts.train, parts.val, parts.test)) >= (
            graph.num_nodes
        ):
            raise InputError("split: it holds nodes that the graph does not have.")
    else:
        parts = make_split(graph, family, config.split_seed)
    trainer = Trainer(new_model(config, inputs), inputs, parts, config.training)
    history: list[Record] = []

    def after_epoch(record: Record) -> None:
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)

    started = time.perf_counter()
    state = trainer.run(after_epoch, keeps_weights=True)
    found = (parts, state.best_grouping, config, history, time.perf_counter() - started)
    return TrainedModel(trainer.model, inputs, *found)


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
        raise InputError(f"{error} If the graph of a run has moved, --graph says where.") from None
    if graph.fingerprint != folder.read_json(names.ENVIRONMENT)["graph_sha256"]:
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
