"""The training of one run: in its folder, by the process that keeps it, and along with that one.

Training goes on from the latest checkpoint, if what it belongs to is still the same.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from ncgnn.data import keep_folder
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.nn import model_class
from ncgnn.training.evaluation import about_small_groups
from ncgnn.training.folder import (
    CHECKPOINT,
    DATASET,
    ENVIRONMENT,
    ERROR,
    SPLIT,
    DamagedFileError,
    RunFolder,
    continue_environment,
    differences,
    environment,
    load_checkpoint,
    restore,
    save_checkpoint,
    state_of,
)
from ncgnn.training.loading import as_trained, new_trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.training.config import RunConfig
    from ncgnn.training.ranks import Ranks
    from ncgnn.training.start import Start
    from ncgnn.training.trained import TrainedModel
    from ncgnn.training.trainer import Record, Trainer

    #: A configuration, its graph, a split if it is not the one that is named, the first weights.
    Parts = tuple[RunConfig, Graph, Split | None, Start | None]
    #: The records of a continued run, and its state where other ranks must be told of it.
    _Begun = tuple[list[Record], tuple[dict[str, torch.Tensor], dict[str, Any]] | None]


def join_trainer(
    ranks: Ranks, config: RunConfig, graph: Graph, split: Split | None, start: Start | None
) -> Trainer:
    """What trains a run together with all ranks, each of which has read the graph on its own."""

    def make() -> Trainer:
        trainer = new_trainer(config, graph, split, start)
        trainer.join(ranks)
        return trainer

    def check() -> None:
        if own != theirs:
            raise InputError(
                f"every process must read the same {config.data.dataset} and split it alike; this "
                "one has found others: give all of them the same files."
            )

    trainer = ranks.together(make)
    own = "" if ranks.alone else f"{graph.fingerprint} {trainer.split.sha256}"
    theirs = ranks.broadcast(own)
    ranks.together(check)
    return trainer


class Job:
    """The training of one run in its folder, from the latest checkpoint if there is one."""

    def __init__(
        self,
        folder: RunFolder,
        parts: Parts,
        ranks: Ranks,
        checkpoint_seconds: float,
        *,
        copies: bool,
    ) -> None:
        self.folder, self.ranks, self.parts, self.copies = folder, ranks, parts, copies
        self.config, self.graph, _, self.start = parts
        self.checkpoint_seconds = checkpoint_seconds
        self.seconds = 0.0
        self.epoch_seconds: list[float] = []
        self.begun_in: dict[str, Any] | None = None
        self.trainer = join_trainer(ranks, *parts)
        options = self.config.model.options
        self.environment = environment() | {
            "graph_sha256": self.graph.fingerprint,
            "revision": model_class(self.config.model.name).revision_of(options),
            "processes": ranks.count,
        }

    def _begin(self) -> _Begun:
        """Write what training begins with, and go back to the latest checkpoint if there is one."""
        folder, config = self.folder, self.config
        self.begun_in = self._origin()
        resumed = self.begun_in is not None  # a checkpoint is of use only beside these files
        folder.write_config(config, durable=resumed)
        self.trainer.split.save(folder / SPLIT, durable=resumed)
        if self.start is not None:
            self.start.write(folder)
        if config.data.fingerprint is not None:
            keep_folder(self.graph, config.data.dataset, folder / DATASET, copies=self.copies)
        (folder / ERROR).unlink(missing_ok=True)  # of an earlier try
        records = self._resume()
        told = not self.ranks.alone and self.trainer.state.phase >= 0
        return records, state_of(self.trainer) if told else None

    def _origin(self) -> dict[str, Any] | None:
        """The environment in which an interrupted run began; None if the run is new."""
        folder = self.folder
        if not (folder / CHECKPOINT).is_file():
            return None
        try:
            before = {"processes": 1} | folder.read_json(ENVIRONMENT)
            graph_hash, split_hash = self.graph.fingerprint, self.trainer.split.sha256
            check_same_graph(folder, self.config, graph_hash, split_hash)
            if revision(before) != self.environment["revision"]:
                name = self.config.model.name
                raise DamagedFileError(f"{folder.path} was begun when {name} trained otherwise.")
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
        records, _ = self.ranks.first(self._begin)
        if records and on_resume is not None:
            on_resume(len(records))
        if on_epoch is not None:
            for record in records:
                on_epoch(record)
        started = saved = epoch_began = time.perf_counter()
        before = self.seconds
        with self.folder.keep_history(records) as history:

            def save_if_due() -> None:
                nonlocal saved
                stopped = self.ranks.any(stop is not None and stop())
                if stopped or time.perf_counter() - saved >= self.checkpoint_seconds:
                    about = history.flush() | {"seconds": before + time.perf_counter() - started}
                    self.folder.make_durable()
                    save_checkpoint(self.folder / CHECKPOINT, self.trainer, about)
                    saved = time.perf_counter()
                if stopped:
                    raise KeyboardInterrupt

            def after_epoch(record: Record) -> None:
                nonlocal epoch_began
                self.epoch_seconds.append(time.perf_counter() - epoch_began)
                history.add(record)
                if on_epoch is not None:
                    on_epoch(record)
                save_if_due()
                epoch_began = time.perf_counter()

            self.trainer.after_batch = save_if_due
            self.trainer.run(after_epoch, keeps_weights=True)
        seconds = before + time.perf_counter() - started
        warn_of_small_groups(self.trainer)
        return as_trained(self.trainer, self.config, self.folder.history(), seconds, self.start)

    def _resume(self) -> list[Record]:
        """Go back to the latest checkpoint, and return the records up to it."""
        folder, path = self.folder, self.folder / CHECKPOINT
        records: list[Record] = []
        if path.is_file():
            try:
                about = load_checkpoint(path, self.trainer)
                records = folder.history_until(self.trainer.state.epoch, about)
                self.seconds = float(about["seconds"])
            except (DamagedFileError, KeyError, TypeError, ValueError) as error:
                warnings.warn(f"{error} Training starts anew.", NcgnnWarning, stacklevel=4)
                records, self.begun_in = [], None
                path.unlink()
                self.trainer = new_trainer(*self.parts)
                self.trainer.join(self.ranks)
        kept = self.environment
        if self.begun_in is not None:
            kept = continue_environment(self.begun_in, self.environment)
        folder.write_json(ENVIRONMENT, kept, durable=bool(records))
        folder.write_history(records, durable=bool(records))
        return records


def follow_training(
    ranks: Ranks,
    parts: Parts,
    on_epoch: Callable[[Record], None] | None,
    stop: Callable[[], bool] | None,
) -> None:
    """Train along with the rank that keeps the run's folder, from the state that it tells."""
    trainer = join_trainer(ranks, *parts)
    begun: _Begun = ranks.hear()
    records, state = begun
    if state is not None:
        restore(trainer, *state)

    def stop_together() -> None:
        if ranks.any(stop is not None and stop()):
            raise KeyboardInterrupt

    def after_epoch(record: Record) -> None:
        if on_epoch is not None:
            on_epoch(record)
        stop_together()

    if on_epoch is not None:
        for record in records:
            on_epoch(record)
    trainer.after_batch = stop_together
    trainer.run(after_epoch, keeps_weights=True)


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


def revision(result: Mapping[str, Any]) -> int:
    """The revision of the model that a result, or a run's environment, is of."""
    return int(result.get("revision", 1))  # the first ones do not say it


def warn_of_small_groups(trainer: Trainer) -> None:
    """Warn of groups with under one percent of the nodes in the best epoch."""
    rule, grouping = trainer.rule, trainer.state.best_grouping
    if rule is not None and rule.grouped:
        _, sizes = grouping.describe(len(rule.thresholds) + 1)
        if text := about_small_groups(sizes, rule.kind, rule.guidance):
            warnings.warn(text, NcgnnWarning, stacklevel=3)
