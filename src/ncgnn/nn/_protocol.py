"""What a model may tell the training loop about itself; everything here has a default.

A model is any module that is called as ``model(inputs, group, key, nodes)`` and gives logits. If it
has the methods of this protocol, the loop uses them:

``parameter_groups(weight_decay)``
    Groups of parameters for the optimiser, for parameters that are not decayed.
``extra_loss(train, labels)``
    Added to the cross-entropy of a training step, right after the forward pass of that step.
``phases(epochs, patience)``
    Stages of training one after another, each with a new optimiser; the last one counts, with the
    weights of its best epoch, unless it must beat the one before and does not. When a stage
    begins, ``begin_phase(number, inputs, train, labels)`` is called, in evaluation mode.
``computes_all``
    True if the model computes the logits of all nodes whatever it is asked for, so that one
    evaluation serves validation and new pseudo-labels.

The ``labels`` that are passed are those of the training nodes; a model must read no others, though
``inputs`` holds them. What a model keeps from one stage to the next must be a parameter or a
buffer, so that an interrupted run goes on from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError

if TYPE_CHECKING:
    import torch

    from ncgnn.nn._inputs import GraphInputs


@dataclass(frozen=True)
class Phase:
    """One stage of training.

    Attributes:
        name: What records of its epochs call it.
        epochs: Upper limit of its number of epochs.
        patience: Epochs without a new best validation accuracy after which it ends.
        keeps_best: Whether the next stage begins with the weights of its best epoch, or with its
            last ones.
        beats_earlier: Whether an epoch of it counts only if it is better than the best one before
            it; if none is, that one counts in the end. What the model does in the best epoch's
            stage must then follow from its parameters and buffers.
    """

    name: str
    epochs: int
    patience: int
    keeps_best: bool = True
    beats_earlier: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1:
            raise InputError(
                f"the stage '{self.name}' needs at least one epoch and patience of one."
            )


def parameter_groups(model: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Groups of parameters for the optimiser; by default one, decayed alike."""
    declared = getattr(model, "parameter_groups", None)
    if declared is not None:
        return declared(weight_decay)
    return [{"params": list(model.parameters()), "weight_decay": weight_decay}]


def phases(model: Any, epochs: int, patience: int) -> tuple[Phase, ...]:
    """The stages of training; by default one."""
    declared = getattr(model, "phases", None)
    if declared is None:
        return (Phase("training", epochs, patience),)
    stages = tuple(declared(epochs, patience))
    if not stages:
        raise InputError("the model declares no stage of training; phases() must give one.")
    return stages


def counting(stages: tuple[Phase, ...]) -> set[str]:
    """Names of the stages among whose epochs the best one is."""
    names: set[str] = set()
    for stage in reversed(stages):
        names.add(stage.name)
        if not stage.beats_earlier:
            break
    return names


def begin_phase(
    model: Any, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
) -> None:
    """Tell a model that a stage begins."""
    declared = getattr(model, "begin_phase", None)
    if declared is not None:
        declared(number, inputs, train, labels)


def with_extra_loss(
    model: Any, loss: torch.Tensor, train: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The loss of a training step, with what the model adds to it."""
    declared = getattr(model, "extra_loss", None)
    return loss if declared is None else loss + declared(train, labels)
