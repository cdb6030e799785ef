"""The state of training as one file, from which it goes on as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.nn._grouping import Grouping
from ncgnn.training._tensors import DamagedFileError, read_tensors, write_tensors

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from ncgnn.training._algorithm import Trainer

_GROUPINGS = ("grouping", "best_grouping")


def save_checkpoint(path: Path, trainer: Trainer, about: dict[str, Any]) -> None:
    """Write model, optimiser, groups, NC and early stopping.

    Random states are not among them: every random number is a function of seed and epoch.
    """
    state = trainer.state
    tensors = {f"model.{name}": value for name, value in trainer.model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best_weights.items()}
    tensors |= {f"mean.{name}": value for name, value in state.mean_weights.items()}
    for number, moments in trainer.optimizer.state_dict()["state"].items():
        tensors |= {f"adam.{number}.{name}": value for name, value in moments.items()}
    for name in _GROUPINGS:
        grouping: Grouping = getattr(state, name)
        tensors[f"{name}.confusion"], tensors[f"{name}.group"] = grouping.confusion, grouping.group
    numbers = {
        "epoch": state.epoch,
        "phase": state.phase,
        "phase_start": state.phase_start,
        "best_accuracy": state.best_accuracy,
        "best_epoch": state.best_epoch,
    }
    write_tensors(path, tensors, numbers | about)


def load_checkpoint(path: Path, trainer: Trainer) -> dict[str, Any]:
    """Put a trainer into the state that a checkpoint holds, and return what is said about it."""
    tensors, about = read_tensors(path)
    try:
        _restore(trainer, tensors, about)
    except (KeyError, RuntimeError, ValueError, TypeError) as error:
        raise DamagedFileError(f"{path}: does not fit the model ({error}).") from None
    return about


def _restore(trainer: Trainer, tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
    state, device = trainer.state, trainer.inputs.device
    trainer.model.load_state_dict(_under("model.", tensors))
    state.phase, state.phase_start = int(about["phase"]), int(about["phase_start"])
    trainer.optimizer = trainer.new_optimizer()
    optimizer = trainer.optimizer.state_dict()
    optimizer["state"] = {}
    for key, value in _under("adam.", tensors).items():
        number, name = key.split(".", 1)
        optimizer["state"].setdefault(int(number), {})[name] = value
    trainer.optimizer.load_state_dict(optimizer)
    state.best_weights = {k: v.to(device) for k, v in _under("best.", tensors).items()}
    state.mean_weights = {k: v.to(device) for k, v in _under("mean.", tensors).items()}
    for name in _GROUPINGS:
        setattr(state, name, Grouping(tensors[f"{name}.confusion"], tensors[f"{name}.group"]))
    state.epoch, state.best_epoch = int(about["epoch"]), int(about["best_epoch"])
    state.best_accuracy = float(about["best_accuracy"])


def _under(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
