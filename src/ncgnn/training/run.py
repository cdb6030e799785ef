"""Runs: training in one call or in a folder that survives interruption, and loading what came out.

A run is trained by :func:`fit` in memory, or by :func:`train_run` in a folder named after its
configuration, from where it continues bit by bit after whatever interrupts it.

In a process group every process calls the same function with the same arguments, and all train one
model together, see :mod:`ncgnn.training.ranks`. The first one keeps the folder.
"""

from __future__ import annotations

import shutil
import statistics
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from traceback import format_exc
from typing import TYPE_CHECKING, Any

from ncgnn.data import (
    Split,
    folder_sha256,
    is_folder,
    load,
    read_manifest,
    split_families,
)
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning, sentence
from ncgnn.graph import as_graph
from ncgnn.nn import model_class
from ncgnn.training.candidates import AUTO, make_auto
from ncgnn.training.choice import choose_batches
from ncgnn.training.config import RunConfig, find_option, make_config
from ncgnn.training.folder import (
    CHECKPOINT,
    CONFIG,
    DONE,
    RESULT,
    DamagedFileError,
    OtherRunError,
    RunFolder,
    find_run,
)
from ncgnn.training.job import (
    Job,
    check_same_graph,
    follow_training,
    join_trainer,
    revision,
    warn_of_small_groups,
)
from ncgnn.training.loading import as_trained, begin_with, find_start, load_run
from ncgnn.training.ranks import LostRankError, Ranks, refuse_ranks
from ncgnn.training.refit import refit_in
from ncgnn.training.start import HASH

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from numpy.typing import ArrayLike

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.nn import Model
    from ncgnn.training.choice import Choice
    from ncgnn.training.job import Parts
    from ncgnn.training.start import Start
    from ncgnn.training.trained import TrainedModel
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
    start_from: TrainedModel | Path | str | None = None,
    **settings: Any,
) -> TrainedModel:
    """Train a model on a graph and return its best epoch.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes, for example a PyG ``Data``.
        model: A model's name, such as ``"ncgcn"``, ``"ncsage"``, ``"gcn"`` or ``"mlp"``, or a
            subclass of :class:`ncgnn.nn.Model`; with ``"auto"`` candidates are tried within a
            ``time``, and the best one or a mixture of some is returned.
        labels: Class per node, -1 = unknown, where the graph holds none or others.
        split: A split family, or a split; ``"published"`` takes the masks of a PyG ``Data``.
        seed: Seed of a drawn split, of the first weights and of dropout.
        device: Where tensors live.
        on_epoch: Called with a record of every epoch; in a process group on every rank.
        start_from: A trained model, or the folder of a run, of the same model, whose weights are
            the first ones; see :mod:`ncgnn.training.start`. Nodes that it was trained on are
            trained on again and never tested.
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
    if model == AUTO:
        from ncgnn.training.auto import auto_fit  # which itself trains runs

        refuse_ranks("model = 'auto'")
        if start_from is not None:
            settings["start_from"] = str(start_from)
        told = settings | {"data.fingerprint": None}
        wanted = make_auto(
            dataset=graph.name, split=family, seed=seed, device=device, settings=told, tables=tables
        )
        if not isinstance(split, Split):
            split = wanted.base.make_split(graph, warn=True)
        return auto_fit(wanted, graph, split, on_epoch)
    config = make_config(
        dataset=graph.name,
        model=model,
        split=family,
        seed=seed,
        device=device,
        settings=settings | {"data.fingerprint": None},  # a folder of that name is another thing
        tables=tables,
    )
    start, ranks = None, Ranks.here()
    config, choice = ranks.first(lambda: choose_batches(config, graph))
    if choice is not None:
        warnings.warn(f"{choice.sentence()}.", NcgnnWarning, stacklevel=2)
    if start_from is not None:
        if isinstance(split, Split):
            raise InputError("split must be a family's name with start_from; got a split.")
        begun, wanted = start_from, config
        config, start = ranks.first(lambda: begin_with(begun, wanted, graph))
        split = start.split
    if not isinstance(split, Split):
        split = config.make_split(graph, warn=True)
    trainer = join_trainer(ranks, config, graph, split, start)
    history: list[Record] = []

    def after_epoch(record: Record) -> None:
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)

    started = time.perf_counter()
    trainer.run(after_epoch, keeps_weights=True)
    seconds = time.perf_counter() - started
    warn_of_small_groups(trainer)
    return as_trained(trainer, config, history, seconds, start)


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
    split: Split | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    on_resume: Callable[[int], None] | None = None,
    before_done: Callable[[RunFolder], object] | None = None,
    stop: Callable[[], bool] | None = None,
    start: Start | None = None,
    choice: Choice | None = None,
    copies: bool = True,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> RunResult:
    """Train a run, continue one that was interrupted, or find it finished.

    Args:
        config: The configuration; the folder is named after it.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
        graph: The graph, if it is loaded already.
        split: Its split, if it is not the one that the configuration names.
        on_epoch: Called with the record of every epoch, old ones of a continued run included; in a
            process group on every rank.
        on_resume: Called with the number of epochs that an interrupted run had done.
        before_done: Called when all is written but the completion marker.
        stop: Asked after every epoch; if it says yes, the state is saved and
            ``KeyboardInterrupt`` raised. In a process group all stop where one is asked to.
        start: What :func:`find_start` gives; by default it is looked for in ``runs``.
        choice: Why it is in batches, where nobody has asked for them; see :func:`choose_batches`.
        copies: Whether a dataset folder may be copied into the run where it cannot be linked.
        checkpoint_seconds: Time between checkpoints.
    """
    ranks = Ranks.here()
    if graph is None:
        graph = ranks.together(lambda: load(config.data.dataset, data_dir))
    read, asked = graph, config
    ranks.together(lambda: _check_content(asked, read))
    if (word := config.training.start_from) is not None and start is None:
        if not word.startswith(HASH):
            raise InputError(
                f"start_from must be the hash of a run's weights here, {HASH}…; got {word}; 'ncgnn "
                "train --start-from' finds it."
            )
        config, start = ranks.first(lambda: find_start(asked, read, runs, data_dir))
    folder, parts = RunFolder(runs / config.name), (config, graph, split, start)
    with ExitStack() as kept:
        if (finished := ranks.first(lambda: _open(folder, parts, choice, kept))) is not None:
            return finished
        if not ranks.leads:
            follow_training(ranks, parts, on_epoch, stop)
            theirs: RunResult = ranks.hear()
            return theirs
        with _keep_error(folder, config):
            job = Job(folder, parts, ranks, checkpoint_seconds, copies=copies)
            trained = job.train(on_epoch, stop, on_resume)

        def finish() -> RunResult:
            with _keep_error(folder, config):
                usual = statistics.median(job.epoch_seconds) if job.epoch_seconds else None
                trained.write_outcome(folder, usual)
            if before_done is not None:
                before_done(folder)
            folder.mark_done()
            (folder / CHECKPOINT).unlink(missing_ok=True)
            result = folder.read_json(RESULT)
            return RunResult(folder.path, config, result, trained.seconds, fresh=True)

        return ranks.first(finish)


def _open(
    folder: RunFolder, parts: Parts, choice: Choice | None, kept: ExitStack
) -> RunResult | None:
    """Lock a run's folder until what is kept is let go; the result of a run that is finished."""
    config, graph, split, start = parts
    _set_aside_earlier(folder, config)
    kept.enter_context(folder.lock())
    check_same_config(folder, config)
    if choice is not None:
        choice.write(folder)
    return _finished(folder, config, graph, start, split) if folder.is_done() else None


def refit_run(
    path: Path | str,
    data_dir: Path | str | None = None,
    *,
    on_epoch: Callable[[Record], None] | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> TrainedModel:
    """Train a finished run once more, on all labels; see :mod:`ncgnn.training.refit`.

    An interrupted refit continues, a finished one is found. Arguments are those of
    :func:`train_run`.

    Returns:
        The run, whose ``refitted`` is the new model.
    """
    refuse_ranks("a refit")
    folder = RunFolder(find_run(path))
    trained = load_run(folder.path, data_dir, refit=False)
    with folder.lock():
        done = refit_in(
            folder, trained, on_epoch=on_epoch, stop=stop, checkpoint_seconds=checkpoint_seconds
        )
    return replace(trained, refitted=done)


def _check_content(config: RunConfig, graph: Graph) -> None:
    """Refuse a dataset folder that was replaced since the configuration was made."""
    place, stated = config.data.dataset, config.data.fingerprint
    if stated is None:
        return
    manifest = read_manifest(place) if is_folder(place) else {}
    found = folder_sha256(manifest) if manifest else "nothing"
    if found != stated or manifest["fingerprint"] != graph.fingerprint:
        raise InputError(
            f"{place} must hold what the configuration names, {stated[:8]}; it holds {found[:8]}, "
            "so it has changed since; give the command again."
        )


def finished_run(folder: RunFolder) -> RunResult:
    """What is kept of a finished run.

    Raises:
        DamagedFileError: A file is missing or has changed.
        InputError: The run is not finished.
    """
    folder.check()
    seconds = folder.read_seconds()
    result = folder.read_result()
    return RunResult(folder.path, folder.read_config(), result, seconds, fresh=False)


def is_current(model: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether a result is of what a model is now, see :meth:`ncgnn.nn.Model.revision_of`.

    Args:
        model: Its name and options, as configurations have them.
        result: The content of ``result.json``.
    """
    return revision(result) == model_class(model["name"]).revision_of(model)


def _set_aside_earlier(folder: RunFolder, config: RunConfig) -> None:
    """Rename a finished run of an earlier revision of its model, so that it is trained anew."""
    if not folder.is_done():
        return
    with folder.lock():
        try:
            result = folder.read_json(RESULT)
        except DamagedFileError:
            return
        if is_current(config.model.model_dump(), result):
            return
        kept = folder.path.with_name(f"{folder.path.name}-revision-{revision(result)}")
        shutil.rmtree(kept, ignore_errors=True)  # the same run, set aside before
        folder.path.rename(kept)
    warnings.warn(
        f"{config.model.name} trains otherwise than when {folder.path.name} was trained; that run "
        f"is kept as {kept.name}, and trained anew.",
        NcgnnWarning,
        stacklevel=6,
    )


def _finished(
    folder: RunFolder, config: RunConfig, graph: Graph, start: Start | None, split: Split | None
) -> RunResult | None:
    """The result of a finished run; None if its files are damaged, so that it is trained again."""
    try:
        result = finished_run(folder)
        if split is None:
            split = config.make_split(graph) if start is None else start.split
        check_same_graph(folder, config, graph.fingerprint, split.sha256)
    except DamagedFileError as error:
        warnings.warn(f"{error} It is trained again now.", NcgnnWarning, stacklevel=6)
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
    except LostRankError:
        raise  # the run is interrupted, whatever has happened to the others
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
