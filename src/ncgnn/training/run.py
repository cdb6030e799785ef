"""Runs: training in one call or in a folder that survives interruption, and loading what came out.

A run is trained by :func:`fit` in memory, or by :func:`train_run` in a folder named after its
configuration, from where it continues bit by bit after whatever interrupts it.
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

from ncgnn.data import Split, load, split_families
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning, UnknownNameError, sentence
from ncgnn.graph import as_graph
from ncgnn.nn import GraphInputs, Grouping, Model, model_class, model_name
from ncgnn.training.config import RunConfig, find_option, make_config
from ncgnn.training.evaluation import METRICS, about_small_groups
from ncgnn.training.folder import (
    CHECKPOINT,
    CONFIG,
    DONE,
    ENVIRONMENT,
    ERROR,
    GRAPH,
    HISTORY,
    RESULT,
    SPLIT,
    TIMING,
    WEIGHTS,
    DamagedFileError,
    OtherRunError,
    RunFolder,
    continue_environment,
    differences,
    environment,
    load_checkpoint,
    metrics_line,
    read_tensors,
    save_checkpoint,
    weights_under,
)
from ncgnn.training.trained import TrainedModel
from ncgnn.training.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from numpy.typing import ArrayLike

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.training.trainer import Record

#: Seconds between two checkpoints; a killed run loses at most that much work.
CHECKPOINT_SECONDS = 20.0


def fit(
    graph: GraphLike,
    model: str | type[Model] = "ncgcn",
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
        model: A model's name, such as ``"ncgcn"``, ``"ncsage"``, ``"gcn"`` or ``"mlp"``, or a
            subclass of :class:`ncgnn.nn.Model`.
        labels: Class per node, -1 = unknown, where the graph holds none or others.
        split: A split family, or a split; ``"published"`` takes the masks of a PyG ``Data``.
        seed: Seed of a drawn split, of the first weights and of dropout.
        device: Where tensors live.
        on_epoch: Called with a record of every epoch.
        **settings: Options by the names that TOML and ``--set`` use, for example ``hidden=64``,
            ``learning_rate=0.01``, ``threshold=0.4``, ``metric="roc_auc"``,
            ``fractions=(0.7, 0.15, 0.15)``.

    Example:
        >>> import ncgnn
        >>> trained = ncgnn.fit(ncgnn.load("digits"), "ncgcn", hidden=32, epochs=5)
        >>> sorted(trained.evaluate()["scores"])
        ['test', 'train', 'val']
    """
    for key in settings:
        if find_option(key) in (("data", "dataset"), ("model", "name")):
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
    if isinstance(split, Split) and {"fractions", "data.fractions"} & settings.keys():
        raise InputError("fractions come with the name of a split family; got a split beside them.")
    tables = None
    if graph.source is not None:
        tables = "directed" if graph.has_direction else "undirected"
    config = make_config(
        dataset=graph.name,
        model=model,
        split=family,
        seed=seed,
        device=device,
        settings=settings,
        tables=tables,
    )
    if not isinstance(split, Split):
        split = config.make_split(graph, warn=True)
    trainer = new_trainer(config, graph, split)
    history: list[Record] = []

    def after_epoch(record: Record) -> None:
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)

    started = time.perf_counter()
    trainer.run(after_epoch, keeps_weights=True)
    seconds = time.perf_counter() - started
    _warn_of_small_groups(trainer)
    return _trained(trainer, config, history, seconds)


def load_run(
    path: Path | str,
    data_dir: Path | str | None = None,
    device: str | None = None,
    dataset: Path | str | None = None,
    model: type[Model] | None = None,
) -> TrainedModel:
    """Load a finished run.

    Args:
        path: The run's folder.
        data_dir: Folder with npz files, where the run's dataset is looked for.
        device: Where to run it; by default where it was trained.
        dataset: Where the run's graph is now, if its file has moved.
        model: The class of the run's model, if it is one of your own that is not registered.

    Raises:
        InputError: The run is not finished, damaged, or the graph is no longer the same.
    """
    folder = RunFolder(Path(path).expanduser())
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
    kept = folder / GRAPH
    place = str(dataset or (kept if kept.is_file() else config.data.dataset))
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
    if place == str(kept):
        graph = replace(graph, name=config.data.dataset)
    trainer = new_trainer(config, graph, Split.load(folder / SPLIT))
    tensors, _ = read_tensors(folder / WEIGHTS)
    try:
        trainer.model.load_state_dict(weights_under("model.", tensors))
        trainer.state.best_grouping = Grouping(tensors["confusion"], tensors["group"])
    except (RuntimeError, KeyError) as error:
        raise DamagedFileError(f"{folder / WEIGHTS}: does not fit ({error}).") from None
    seconds = float(folder.read_json(TIMING)["seconds"])
    return _trained(trainer, config, folder.history(), seconds)


def new_trainer(config: RunConfig, graph: Graph, split: Split | None = None) -> Trainer:
    """The graph, split and model of a configuration, ready to be trained.

    The first weights depend on the seed alone.

    Args:
        config: The configuration.
        graph: The graph.
        split: Its split, if it is not the one that the configuration names.
    """
    training = config.training
    if split is None:
        split = config.make_split(graph)
    inputs = GraphInputs(
        graph,
        device=find_device(training.device),
        dtype=getattr(torch, training.precision),
        scaling=config.data.scaling,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = model_class(config.model.name).for_inputs(inputs, **config.model.options)
    model = model.to(device=inputs.device, dtype=inputs.dtype)
    return Trainer(model, inputs, split, training)


def _warn_of_small_groups(trainer: Trainer) -> None:
    """Warn of groups with under one percent of the nodes in the best epoch."""
    rule, group = trainer.rule, trainer.state.best_grouping.group
    if rule is not None:
        sizes = torch.bincount(group, minlength=len(rule.thresholds) + 1).tolist()
        if text := about_small_groups(sizes, rule.kind, rule.guidance):
            warnings.warn(text, NcgnnWarning, stacklevel=3)


def find_device(name: str) -> torch.device:
    """A device by its name.

    Raises:
        InputError: There is none on this machine.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise InputError(f"device '{name}' is not available; use cpu.") from None
    return device


def _trained(
    trainer: Trainer, config: RunConfig, history: Sequence[Record], seconds: float
) -> TrainedModel:
    parts = (trainer.model, trainer.inputs, trainer.split, trainer.state.best_grouping)
    return TrainedModel(*parts, config, history, seconds)


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
        with _keep_error(folder, config):
            job = _Job(config, folder, graph, checkpoint_seconds)
            (folder / ERROR).unlink(missing_ok=True)  # of an earlier try
            trained = job.train(on_epoch, stop, on_resume)
            usual = statistics.median(job.epoch_seconds) if job.epoch_seconds else None
            trained.write_outcome(folder, usual)
        if before_done is not None:
            before_done(folder)
        folder.mark_done()
        (folder / CHECKPOINT).unlink(missing_ok=True)
        result = folder.read_json(RESULT)
        return RunResult(folder.path, config, result, trained.seconds, fresh=True)


def finished_run(folder: RunFolder) -> RunResult:
    """What is kept of a finished run.

    Raises:
        DamagedFileError: A file is missing or has changed.
        InputError: The run is not finished.
    """
    folder.check()
    seconds = float(folder.read_json(TIMING)["seconds"])
    result = folder.read_json(RESULT)
    return RunResult(folder.path, folder.read_config(), result, seconds, fresh=False)


def _finished(folder: RunFolder, config: RunConfig, graph: Graph) -> RunResult | None:
    """The result of a finished run; None if its files are damaged, so that it is trained again."""
    try:
        result = finished_run(folder)
        split = config.make_split(graph)
        check_same_graph(folder, config, graph.fingerprint, split.sha256)
    except DamagedFileError as error:
        warnings.warn(f"{error} It is trained again now.", NcgnnWarning, stacklevel=3)
        (folder / DONE).unlink()
        result = None
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return result


@contextmanager
def _keep_error(folder: RunFolder, config: RunConfig) -> Generator[None]:
    """Keep in a run's folder why it cannot be trained; a caller's own exceptions end it otherwise.

    Torch reports a lack of memory as RuntimeError.
    """
    try:
        yield
    except (NcgnnError, MemoryError, RuntimeError) as error:
        with suppress(OSError):  # the folder itself may be what is wrong
            wrong_input = isinstance(error, InputError)
            folder.write_config(config)  # so that it is known what has failed
            folder.write_error(sentence(error), wrong_input=wrong_input, trace=format_exc())
        raise


def check_same_config(folder: RunFolder, config: RunConfig) -> None:
    """Refuse a folder that holds another run; a configuration that is damaged does not tell.

    Raises:
        OtherRunError: It does.
    """
    if not folder.is_as_written(CONFIG):
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


def check_same_graph(
    folder: RunFolder, config: RunConfig, graph_hash: str, split_hash: str
) -> None:
    """Refuse a run that was begun on another graph, or on another split of it.

    Raises:
        DamagedFileError: What it was begun on is no longer known.
        InputError: It was another one.
    """
    same_graph = folder.read_json(ENVIRONMENT).get("graph_sha256") == graph_hash
    if not same_graph or folder.read_json(SPLIT).get("sha256") != split_hash:
        data = config.data
        what = f"the {data.split} split of {data.dataset}" if same_graph else data.dataset
        raise InputError(
            f"{what} has changed since {folder.path} was begun; remove that folder, "
            "or name another with --runs."
        )


class _Job:
    """The training of one run in its folder, from the latest checkpoint if there is one."""

    def __init__(
        self, config: RunConfig, folder: RunFolder, graph: Graph, checkpoint_seconds: float
    ) -> None:
        self.config, self.folder, self.graph = config, folder, graph
        self.checkpoint_seconds = checkpoint_seconds
        self.seconds = 0.0
        self.epoch_seconds: list[float] = []
        self.trainer = new_trainer(config, graph)
        self.environment = environment() | {"graph_sha256": graph.fingerprint}
        self.begun_in = self._origin()
        resumed = self.begun_in is not None  # a checkpoint is of use only beside these files
        folder.write_config(config, durable=resumed)
        self.trainer.split.save(folder / SPLIT, durable=resumed)

    def _origin(self) -> dict[str, Any] | None:
        """The environment in which an interrupted run began; None if the run is new."""
        folder = self.folder
        if not (folder / CHECKPOINT).is_file():
            return None
        try:
            before = folder.read_json(ENVIRONMENT)
            graph_hash, split_hash = self.environment["graph_sha256"], self.trainer.split.sha256
            check_same_graph(folder, self.config, graph_hash, split_hash)
        except DamagedFileError as error:  # what the checkpoint belongs to is not known
            warnings.warn(f"{error} Training starts anew.", NcgnnWarning, stacklevel=4)
            (folder / CHECKPOINT).unlink()
            return None
        if changed := differences(before, self.environment):
            warnings.warn(
                f"{folder.path} continues in another environment, so its numbers may differ "
                f"in the last digits ({'; '.join(changed)}).",
                NcgnnWarning,
                stacklevel=4,
            )
        return before

    def train(
        self,
        on_epoch: Callable[[Record], None] | None = None,
        stop: Callable[[], bool] | None = None,
        on_resume: Callable[[int], None] | None = None,
    ) -> TrainedModel:
        """Train from the latest checkpoint, or from the start."""
        records = self._resume()
        if records and on_resume is not None:
            on_resume(len(records))
        if on_epoch is not None:
            for record in records:
                on_epoch(record)
        started = saved = epoch_began = time.perf_counter()
        before = self.seconds
        with (self.folder / HISTORY).open("ab") as stream:

            def after_epoch(record: Record) -> None:
                nonlocal saved, epoch_began
                self.epoch_seconds.append(time.perf_counter() - epoch_began)
                stream.write(metrics_line(record).encode())
                if on_epoch is not None:
                    on_epoch(record)
                stopped = stop is not None and stop()
                if stopped or time.perf_counter() - saved >= self.checkpoint_seconds:
                    stream.flush()
                    self.folder.make_durable()
                    about = {"seconds": before + time.perf_counter() - started}
                    save_checkpoint(self.folder / CHECKPOINT, self.trainer, about)
                    saved = time.perf_counter()
                if stopped:
                    raise KeyboardInterrupt
                epoch_began = time.perf_counter()

            self.trainer.run(after_epoch, keeps_weights=True)
        seconds = before + time.perf_counter() - started
        _warn_of_small_groups(self.trainer)
        return _trained(self.trainer, self.config, self.folder.history(), seconds)

    def _resume(self) -> list[Record]:
        """Go back to the latest checkpoint, and return the records up to it."""
        folder, path = self.folder, self.folder / CHECKPOINT
        records: list[Record] = []
        if path.is_file():
            try:
                records = folder.history()
                about = load_checkpoint(path, self.trainer)
                if len(records) < self.trainer.state.epoch:
                    raise DamagedFileError(f"{folder / HISTORY} has lost lines.")
                self.seconds = float(about["seconds"])
            except (DamagedFileError, KeyError, TypeError, ValueError) as error:
                warnings.warn(f"{error} Training starts anew.", NcgnnWarning, stacklevel=4)
                records, self.begun_in = [], None
                path.unlink()
                self.trainer = new_trainer(self.config, self.graph)
        kept = self.environment
        if self.begun_in is not None:
            kept = continue_environment(self.begun_in, self.environment)
        records = records[: self.trainer.state.epoch]
        folder.write_json(ENVIRONMENT, kept, durable=bool(records))
        folder.write_history(records, durable=bool(records))
        return records


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation; the latter is None for a single value."""

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one or more values."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation)


@dataclass(frozen=True)
class Summary:
    """Results over seeds.

    Attributes:
        seeds: The seeds.
        metric: The metric that selected the best epochs.
        val_score: Validation score by that metric.
        val_accuracy: Validation accuracy.
        test: Scores on test nodes, by name.
        majority_baseline: Test accuracy of always answering the commonest test class.
        never_evaluated: Classes that some seed's validation and test parts do not hold.
        seconds: Training time.
        epochs: Number of epochs.
    """

    seeds: tuple[int, ...]
    metric: str
    val_score: Spread
    val_accuracy: Spread
    test: dict[str, Spread]
    majority_baseline: Spread | None
    never_evaluated: tuple[int, ...]
    seconds: Spread
    epochs: Spread


def summary(runs: Sequence[RunResult]) -> Summary:
    """Summarize runs of one configuration with different seeds."""
    results = [run.result for run in runs]
    metric = results[0].get("metric", "accuracy")
    parts = [result["scores"].get("test") for result in results]
    test = {
        name: Spread.of([part[name] for part in parts])
        for name in (*METRICS, "calibration_error")
        if all(part is not None and part.get(name) is not None for part in parts)
    }
    baselines = [result["majority_baseline"] for result in results]
    return Summary(
        seeds=tuple(result["seed"] for result in results),
        metric=metric,
        val_score=Spread.of([result["scores"]["val"][metric] for result in results]),
        val_accuracy=Spread.of([result["scores"]["val"]["accuracy"] for result in results]),
        test=test,
        majority_baseline=None if None in baselines else Spread.of(baselines),
        never_evaluated=tuple(sorted({c for result in results for c in result["never_evaluated"]})),
        seconds=Spread.of([run.seconds for run in runs]),
        epochs=Spread.of([result["epochs"] for result in results]),
    )
