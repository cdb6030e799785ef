from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.training import RunConfig, make_config
from ncgnn.training.trainer import predict

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from ncgnn.nn import Grouping
    from ncgnn.training import Trainer


def tiny_config(model: str = "ncgcn", seed: int = 0, **settings: object) -> RunConfig:
    chosen = {"hidden": 16, "epochs": 12, "learning_rate": 0.05} | settings
    return make_config(dataset="digits", model=model, seed=seed, settings=chosen)


class InterruptedRunError(Exception):
    """Ends a run from within."""


def interrupt_at(epoch: int) -> Callable[[dict[str, Any]], None]:
    """Something to call after every epoch, which interrupts the run at one."""

    def on_epoch(record: dict[str, Any]) -> None:
        if record["epoch"] == epoch:
            raise InterruptedRunError

    return on_epoch


def logits_of(trainer: Trainer, grouping: Grouping) -> torch.Tensor:
    """Logits of all nodes with the given groups, as the trainer validates them."""
    return predict(trainer.model, trainer.inputs, grouping, trainer.correction)
