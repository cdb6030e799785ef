"""What training knows between two epochs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from ncgnn.nn._grouping import Grouping

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class State:
    """Everything that training knows between two epochs.

    Attributes:
        epoch: Number of epochs done.
        phase: Number of the stage of training; -1 before the first one has begun.
        phase_start: The epoch with which the stage began.
        best_accuracy: Highest validation accuracy so far, of the stage or of what it must beat.
        best_epoch: The epoch that reached it first.
        grouping: NC and groups in force.
        best_grouping: NC and groups in force in the best epoch.
        best_weights: The parameters that were validated in the best epoch.
        mean_weights: Running mean of the parameters; empty where there is none.
    """

    epoch: int = 0
    phase: int = -1
    phase_start: int = 0
    best_accuracy: float = -1.0
    best_epoch: int = -1
    grouping: Grouping = field(default_factory=lambda: Grouping.start(0))
    best_grouping: Grouping = field(default_factory=lambda: Grouping.start(0))
    best_weights: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    mean_weights: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])


def copied(
    weights: Mapping[str, torch.Tensor], into: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:
    """A copy of the weights, in the memory of the previous one if there is one."""
    if not into:
        return {name: value.detach().clone() for name, value in weights.items()}
    for name, value in weights.items():
        into[name].copy_(value)
    return into
