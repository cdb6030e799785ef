"""Answers for nodes whose classes have other shares than those of the training nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from ncgnn.nn._inputs import GraphInputs

ClassShares = Literal["train", "val"]


@dataclass(frozen=True, eq=False)
class ShareCorrection:
    r"""Corrects logits for a shift of class shares between training and other nodes.

    A model that was trained on nodes with class shares :math:`π_c` and asked about nodes with
    shares :math:`π'_c`, where classes look the same in both, is right most often by

    .. math::

        p'(c \mid x) ∝ p(c \mid x) \, π'_c / π_c

    (Saerens, Latinne and Decaestecker, Neural Computation 14, 2002). Here :math:`π'` are the shares
    among validation nodes, counted with one node more per class, so that a class without any is
    unlikely and not impossible. Training nodes keep their logits.

    Attributes:
        offsets: log π'_c - log π_c per class.
        outside: 1 for nodes that are not trained on, 0 for others [n, 1].
    """

    offsets: torch.Tensor
    outside: torch.Tensor

    @classmethod
    def of(
        cls, shares: ClassShares, inputs: GraphInputs, train: torch.Tensor, val: torch.Tensor
    ) -> ShareCorrection | None:
        """The correction for a split; None where the shares of training nodes are wanted."""
        if shares == "train":
            return None
        offsets = _log_shares(inputs, val) - _log_shares(inputs, train)
        outside = torch.ones(inputs.num_nodes, 1, dtype=inputs.dtype, device=inputs.device)
        outside[train] = 0
        return cls(offsets, outside)

    def __call__(self, logits: torch.Tensor, nodes: torch.Tensor | None = None) -> torch.Tensor:
        """Corrected logits of the given nodes, or of all."""
        outside = self.outside if nodes is None else self.outside.index_select(0, nodes)
        return logits + outside * self.offsets


def _log_shares(inputs: GraphInputs, nodes: torch.Tensor) -> torch.Tensor:
    labels = inputs.labels.index_select(0, nodes)
    counts = torch.bincount(labels, minlength=inputs.num_classes).to(inputs.dtype) + 1
    return counts.log() - counts.sum().log()
