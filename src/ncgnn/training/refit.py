"""The same model once more, trained on all labels, for answers about nodes that have none.

A run keeps nodes apart to select its best epoch and to say how good it is. What is left to answer
for, unlabeled nodes and those that arrive later, is answered best by a model that has learned from
every label. It cannot select anything, as nothing is kept apart, so it follows the run that could:
the same first weights, the same random numbers, epoch by epoch until the best one, with new groups
and new stages where that run had them. Its scores are unknown; those of the run stay what they are,
and are those of a model that knew less.

======================  =======================================================================
``weights.safetensors`` its weights, with the groups and NC in force at the end
``metrics.jsonl``       one line per epoch: loss and accuracy on the training nodes, with dropout
``checkpoint.*``        the latest state, while it lasts
``expert-0.*`` …        experts of a mixture that are done, while the others are not
``refit.json``          how it was made, checksums, and the hash of the run's own weights; written
                        last
======================  =======================================================================
"""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._io import make_durable, sha256_of_file
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.nn import Grouping
from ncgnn.training.config import RunConfig, resolve_config
from ncgnn.training.folder import (
    CHECKPOINT,
    EXPERTS,
    HISTORY,
    WEIGHTS,
    DamagedFileError,
    RunFolder,
    first_reason,
    load_checkpoint,
    read_tensors,
    save_checkpoint,
    trained_tensors,
    weights_under,
    write_tensors,
)
from ncgnn.training.start import first_model
from ncgnn.training.trainer import ShareCorrection, Trainer, know_labels, use_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ncgnn.nn import Model
    from ncgnn.training.trained import TrainedModel
    from ncgnn.training.trainer import Record

REFIT, REFITTED = "refit", "refit.json"


@dataclass(frozen=True)
class Schedule:
    """What a finished training did, and when.

    Attributes:
        highs: Epochs in which validation reached a new high.
        starts: Epochs with which stages after the first one began.
        epochs: Number of epochs up to the best one.
    """

    highs: frozenset[int]
    starts: frozenset[int]
    epochs: int

    @classmethod
    def of(cls, trained: TrainedModel) -> Schedule:
        """Read it from the records of all epochs."""
        training = trained.config.training
        stages = trained.model.phases(training.epochs, training.patience)
        number = {stage.name: place for place, stage in enumerate(stages)}
        end = trained.best_epoch + 1
        highs, starts, stage, best = list[int](), list[int](), 0, -1.0
        for record in trained.history[:end]:
            if (now := number.get(record.get("phase", ""), stage)) != stage:
                stage = now
                starts.append(record["epoch"])
                best = best if stages[stage].beats_earlier else -1.0
            if record[f"val_{training.metric}"] > best:
                best = record[f"val_{training.metric}"]
                highs.append(record["epoch"])
        return cls(frozenset(highs), frozenset(starts), end)


@dataclass(frozen=True)
class Expert:
    """How an expert of a mixture was trained, before it was one.

    Attributes:
        config: The configuration of its own run.
        schedule: What that run did, and when.
    """

    config: RunConfig
    schedule: Schedule

    @classmethod
    def of(cls, trained: TrainedModel) -> Expert:
        """Read it from the expert's own run."""
        return cls(trained.config, Schedule.of(trained))

    def to_json(self) -> dict[str, Any]:
        """For ``experts.json``."""
        schedule = self.schedule
        return {
            "config": self.config.model_dump(mode="json"),
            "highs": sorted(schedule.highs),
            "starts": sorted(schedule.starts),
            "epochs": schedule.epochs,
        }


def write_experts(folder: RunFolder, experts: Sequence[Expert]) -> None:
    """Write how the experts of a mixture were trained into its folder."""
    folder.write_json(EXPERTS, {"experts": [expert.to_json() for expert in experts]})


def read_experts(folder: RunFolder) -> tuple[Expert, ...]:
    """How the experts of a mixture were trained; none where the run is no such mixture.

    Raises:
        DamagedFileError: The file does not say.
    """
    if not (folder / EXPERTS).is_file():
        return ()
    try:
        return tuple(
            Expert(
                resolve_config(one["config"], str(folder / EXPERTS)),
                Schedule(frozenset(one["highs"]), frozenset(one["starts"]), int(one["epochs"])),
            )
            for one in folder.read_json(EXPERTS)["experts"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{folder / EXPERTS}: cannot be used ({error}).") from None


class Refitter(Trainer):
    """Trains without validation, by default on all labels, as an earlier training went.

    Args:
        trained: That training.
        schedule: What it did, and when; by default its records say so.
        seen: The nodes to train on; by default all that have a label.
    """

    def __init__(
        self,
        trained: TrainedModel,
        schedule: Schedule | None = None,
        seen: Split | None = None,
    ) -> None:
        model = first_model(trained.config, trained.inputs, trained.start)
        super().__init__(model, trained.inputs, trained.split, trained.config.training)
        self.schedule = Schedule.of(trained) if schedule is None else schedule
        seen = all_labels(trained) if seen is None else seen
        self.train = torch.from_numpy(seen.train.copy()).to(self.inputs.device)
        self.inputs = self.seen = know_labels(self.inputs, seen)
        self.seen_train = self.train
        self.correction = _correction(trained, seen)

    @property
    def finished(self) -> bool:
        """Whether the best epoch of the earlier training is done."""
        return self.state.epoch >= self.schedule.epochs

    def epoch(self) -> Record:
        """One training step, and new groups where the earlier training made some."""
        state = self.state
        if state.phase < 0 or state.epoch in self.schedule.starts:
            self._begin_phase()
        record: Record = {"epoch": state.epoch}
        self._step(record)
        if self.rule is not None:
            self._describe_groups(record, self.rule)
        self._look(record)
        if state.epoch in self.schedule.highs:
            mean = state.mean_weights
            with use_weights(self.model, mean) if mean else nullcontext():
                self._keep(self._all_logits())
        state.epoch += 1
        return record


def all_labels(trained: TrainedModel) -> Split:
    """Every labeled node as a training node."""
    none = np.zeros(0, dtype=np.int64)
    nodes = np.flatnonzero(trained.graph.labels >= 0)
    return Split("custom", "custom", trained.config.training.seed, nodes, none, none)


def _correction(trained: TrainedModel, seen: Split) -> ShareCorrection | None:
    """What corrects logits for class shares, from those of seen labels to those of validation."""
    shares, inputs = trained.config.training.class_shares, trained.inputs
    return ShareCorrection.of(shares, inputs, seen, trained.split.val)


def refit(trained: TrainedModel, on_epoch: Callable[[Record], None] | None = None) -> TrainedModel:
    """Train a model once more, on all labels.

    Args:
        trained: The model.
        on_epoch: Called with a record of every epoch.

    Returns:
        The refitted model.
    """
    if not len(trained.split.val):
        raise InputError("the model was trained on all labels already; refit the run itself.")
    if trained.experts:
        return _refit_experts(trained, on_epoch)
    refitter, began = Refitter(trained), time.perf_counter()
    refitter.run(on_epoch, keeps_weights=True)
    seconds = time.perf_counter() - began
    return _refitted(trained, refitter.model, refitter.state.best_grouping, seconds)


def _refit_experts(
    trained: TrainedModel,
    on_epoch: Callable[[Record], None] | None,
    folder: RunFolder | None = None,
) -> TrainedModel:
    """Refit every expert of a mixture as it was trained; the gate stays what it is.

    Args:
        trained: The mixture.
        on_epoch: Called with a record of every epoch.
        folder: The run's folder, where experts that are done are kept until all are.
    """
    model, grouping, total = deepcopy(trained.model), trained.grouping, 0.0
    for place, expert in enumerate(trained.experts):
        if (done := _read_expert(folder, place)) is None:
            began = time.perf_counter()
            alone = replace(trained, config=expert.config, experts=())
            refitter = Refitter(alone, expert.schedule)
            refitter.run(on_epoch, keeps_weights=True)
            tensors = trained_tensors(refitter.model, refitter.state.best_grouping)
            done = tensors, time.perf_counter() - began
            if folder is not None:
                about = {"of": _of(folder), "seconds": done[1]}
                write_tensors(_expert_path(folder, place), tensors, about, durable=False)
        tensors, seconds = done
        weights = weights_under("model.", tensors)
        model.load_state_dict(
            {f"experts.{place}.{name}": value for name, value in weights.items()}, strict=False
        )
        if getattr(model, "grouped", None) == place:
            grouping = Grouping(tensors["confusion"], tensors["group"])
        total += seconds
    return _refitted(trained, model, grouping, total)


def _expert_path(folder: RunFolder, place: int) -> Path:
    return folder / REFIT / f"expert-{place}.safetensors"


def _read_expert(
    folder: RunFolder | None, place: int
) -> tuple[dict[str, torch.Tensor], float] | None:
    """An expert that an interrupted refit of the same weights has finished, and its seconds."""
    if folder is None or not (path := _expert_path(folder, place)).is_file():
        return None
    with suppress(DamagedFileError, KeyError):
        tensors, about = read_tensors(path)
        if about["of"] == _of(folder):
            return tensors, float(about["seconds"])
    return None


def _refitted(
    trained: TrainedModel, model: Model, grouping: Grouping, seconds: float
) -> TrainedModel:
    """A trained model with other weights, which have seen every label."""
    split = all_labels(trained)
    changed: dict[str, Any] = {"model": model, "split": split, "grouping": grouping.to("cpu")}
    result = replace(trained, **changed, seconds=seconds, refitted=None)
    result.__dict__["correction"] = _correction(trained, split)
    result.__dict__["origin"] = trained
    return result


def refit_in(
    folder: RunFolder,
    trained: TrainedModel,
    *,
    on_epoch: Callable[[Record], None] | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint_seconds: float,
) -> TrainedModel:
    """Refit a run in its folder, from the latest checkpoint if there is one, or find it done.

    Args:
        folder: The run's folder, which nobody else works on.
        trained: The run, as it was loaded.
        on_epoch: Called with a record of every epoch that is trained now.
        stop: Asked after every epoch; if it says yes, the state is saved and
            ``KeyboardInterrupt`` raised.
        checkpoint_seconds: Time between checkpoints.

    Returns:
        The refitted model.
    """
    place = RunFolder(folder.folder_inside(REFIT))
    try:
        if (done := read_refit(folder, trained)) is not None:
            return done
    except DamagedFileError:
        (place / REFITTED).unlink(missing_ok=True)
    if trained.experts:

        def after(record: Record) -> None:
            if on_epoch is not None:
                on_epoch(record)
            if stop is not None and stop():
                raise KeyboardInterrupt  # the expert in training begins anew then

        result = _refit_experts(trained, after, folder)
        write_refit(folder, result)
        return result
    refitter, seconds, records = _resume(place, folder, trained)
    place.write_history(records)
    began = saved = time.perf_counter()
    with place.keep_history(records) as history:

        def after_epoch(record: Record) -> None:
            nonlocal saved
            history.add(record)
            if on_epoch is not None:
                on_epoch(record)
            stopped = stop is not None and stop()
            if stopped or time.perf_counter() - saved >= checkpoint_seconds:
                about = history.flush() | {"seconds": seconds + time.perf_counter() - began}
                about |= {"of": _of(folder)}
                make_durable([place / HISTORY])
                save_checkpoint(place / CHECKPOINT, refitter, about)
                saved = time.perf_counter()
            if stopped:
                raise KeyboardInterrupt

        refitter.run(after_epoch, keeps_weights=True)
    seconds += time.perf_counter() - began
    result = _refitted(trained, refitter.model, refitter.state.best_grouping, seconds)
    write_refit(folder, result)
    return result


def _resume(
    place: RunFolder, folder: RunFolder, trained: TrainedModel
) -> tuple[Refitter, float, list[Record]]:
    """What trains, at the latest checkpoint; the seconds spent, and the records up to there."""
    path, refitter = place / CHECKPOINT, Refitter(trained)
    if not path.is_file():
        return refitter, 0.0, []
    try:
        about = load_checkpoint(path, refitter)
        if about["of"] != _of(folder):
            raise DamagedFileError(f"{path} belongs to another run.")
        records = place.history_until(refitter.state.epoch, about)
        return refitter, float(about["seconds"]), records
    except (DamagedFileError, KeyError, TypeError, ValueError):
        path.unlink()
        return Refitter(trained), 0.0, []


def _of(folder: RunFolder) -> str:
    """What a refit belongs to: the weights of its run."""
    return sha256_of_file(folder / WEIGHTS)


def write_refit(folder: RunFolder, result: TrainedModel) -> None:
    """Write a refitted model into the folder of its run, beside the records of its epochs."""
    place = RunFolder(folder / REFIT)
    epochs = sum(expert.schedule.epochs for expert in result.experts) or result.best_epoch + 1
    about = {"model": result.config.model.name, "epochs": epochs}
    write_tensors(place / WEIGHTS, trained_tensors(result.model, result.grouping), about)
    if not (place / HISTORY).is_file():  # it was refitted in memory
        place.write_history([])
    make_durable([place / HISTORY])
    said: dict[str, Any] = {
        "nodes": len(result.split.train),
        "epochs": epochs,
        "seconds": result.seconds,
        "of": _of(folder),
        "files": {name: sha256_of_file(place / name) for name in (WEIGHTS, HISTORY)},
    }
    place.write_json(REFITTED, said, durable=True)
    (place / CHECKPOINT).unlink(missing_ok=True)
    for number in range(len(result.experts)):
        _expert_path(folder, number).unlink(missing_ok=True)


def refit_facts(folder: RunFolder) -> dict[str, Any] | None:
    """What is written of a run's refit; None if there is none, or one of other weights."""
    place = RunFolder(folder / REFIT)
    if not (place / REFITTED).is_file():
        return None
    said = place.read_json(REFITTED)
    return said if said.get("of") == _of(folder) else None


def read_refit(folder: RunFolder, trained: TrainedModel) -> TrainedModel | None:
    """The refitted model of a run; None if there is none.

    Raises:
        DamagedFileError: A file is missing or has changed, or belongs to another run.
    """
    place = RunFolder(folder / REFIT)
    if not (place / REFITTED).is_file():
        return None
    said, again = place.read_json(REFITTED), "refit the run again (ncgnn train … --refit)"
    files: Any = said.get("files")
    for name in (WEIGHTS, HISTORY):
        stated = files.get(name) if isinstance(files, dict) else None
        if not (place / name).is_file() or sha256_of_file(place / name) != stated:
            raise DamagedFileError(f"{place / name} has changed since it was written; {again}.")
    if said.get("of") != _of(folder):
        raise DamagedFileError(f"{place.path} belongs to other weights of the run; {again}.")
    tensors, _ = read_tensors(place / WEIGHTS)
    model = first_model(trained.config, trained.inputs)
    try:
        model.load_state_dict(weights_under("model.", tensors))
        grouping = Grouping(tensors["confusion"], tensors["group"])
    except (RuntimeError, KeyError) as error:
        why = first_reason(error)
        raise DamagedFileError(f"{place / WEIGHTS}: does not fit ({why}); {again}.") from None
    return _refitted(trained, model, grouping, float(said["seconds"]))
