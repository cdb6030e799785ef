"""Protocols: what training and validation see of a graph in which all nodes are tested.

==================  ============================  ============================  ================
protocol            training sees                 validation sees               testing sees
==================  ============================  ============================  ================
``transductive``    all nodes and edges           all                           all
``inductive``       training nodes and the edges  all                           all
                    among them
``temporal``        training nodes and the edges  training and validation       all
                    among them                    nodes, the edges among them
==================  ============================  ============================  ================

Groups follow from what is seen: those that training works with from predictions for training nodes,
made within their own subgraph; those of all nodes from predictions in the whole graph, and no step
of training reads them. Validation scores choose the best epoch, and groups are renewed at every new
high, in all protocols; so with ``inductive`` the choice and the times at which groups are renewed,
and nothing else, depend on nodes that are not trained on. With ``temporal`` they do not either.

Temperatures and the limits of prediction sets are found on validation nodes in the whole graph, and
a refit, which is for answers to come, is trained on all labels in the whole graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.nn import GraphInputs, Grouper, Grouping, subgraph
from ncgnn.training.trainer import Trainer, know_labels, predict

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ncgnn.nn import Model
    from ncgnn.training.config import Protocol, TrainingConfig


class InductiveTrainer(Trainer):
    """Trains on the subgraph of the training nodes alone.

    Args:
        model: The model.
        inputs: The whole graph.
        split: Training, validation and test nodes of it.
        config: Learning rate, epochs, patience, seed, metric.
        protocol: ``inductive`` or ``temporal``.
    """

    def __init__(
        self,
        model: Model,
        inputs: GraphInputs,
        split: Split,
        config: TrainingConfig,
        protocol: Protocol,
    ) -> None:
        super().__init__(model, inputs, split, config)
        model.check_inductive()
        self._seen_part = _Part(self.inputs, split.train, split)
        self.seen, self.seen_train = self._seen_part.inputs, self._seen_part.find(split.train)
        self.state.seen_grouping = Grouping.start(self.seen.num_nodes, inputs.device)
        self._checked: _Part | None = None
        if protocol == "temporal":
            self._checked = _Part(self.inputs, np.concatenate([split.train, split.val]), split)
            nodes = self._checked.inputs.num_nodes
            self.state.checked_grouping = Grouping.start(nodes, inputs.device)

    @property
    def seen_grouping(self) -> Grouping:
        """NC and groups of the training nodes, in their own subgraph."""
        grouping = self.state.seen_grouping
        if grouping is None:
            return Grouping.start(self.seen.num_nodes, self.seen.device)
        return grouping

    def _validation_logits(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As a whole graph's; with ``temporal``, in the graph without later nodes."""
        part, grouping = self._checked, self.state.checked_grouping
        if part is None or grouping is None:
            return super()._validation_logits()
        logits = predict(self.model, part.inputs, grouping, ranks=self.ranks)
        return logits.index_select(0, part.find(self.split.val)), None

    def _keep(self, logits: torch.Tensor) -> None:
        """Keep the epoch, and regroup all nodes, and those that are seen by what is seen."""
        state = self.state
        super()._keep(logits)
        if self.rule is None:
            return
        state.seen_grouping = self._regroup(self._seen_part, self.seen_grouping)
        if self._checked is not None and state.checked_grouping is not None:
            state.checked_grouping = self._regroup(self._checked, state.checked_grouping)

    def _regroup(self, part: _Part, grouping: Grouping) -> Grouping:
        """Groups of a part of the nodes, by predictions within it."""
        logits = predict(self.model, part.inputs, grouping, ranks=self.ranks)
        pseudo_labels = logits.argmax(1)
        if self.rule is not None and self.rule.known_labels:
            known = part.find(self.split.train)
            pseudo_labels[known] = part.inputs.labels[known]
        found = self.ranks.first(lambda: part.grouper(self)(pseudo_labels))
        return found.to(self.inputs.device)


class _Part:
    """A part of a graph's nodes, with the edges among them."""

    def __init__(self, whole: GraphInputs, nodes: NDArray[np.int64], split: Split) -> None:
        self.nodes, self.device = np.sort(nodes), whole.device
        inputs = GraphInputs(
            subgraph(whole.graph, self.nodes),
            device=whole.device,
            dtype=whole.dtype,
            scaling=whole.scaling,
        )
        inputs.in_blocks, inputs.num_classes = whole.in_blocks, whole.num_classes
        train, none = np.searchsorted(self.nodes, split.train), np.zeros(0, dtype=np.int64)
        own = Split("custom", "custom", split.seed, train, none, none)
        self.inputs = know_labels(inputs, own)
        self._grouper: Callable[[torch.Tensor], Grouping] | None = None

    def find(self, nodes: NDArray[np.int64]) -> torch.Tensor:
        """The numbers here of nodes of the whole graph."""
        return torch.from_numpy(np.searchsorted(self.nodes, nodes)).to(self.device)

    def grouper(self, trainer: Trainer) -> Callable[[torch.Tensor], Grouping]:
        """Groups the nodes by the rule of the trainer's model."""
        if self._grouper is None:
            if trainer.rule is None:
                raise InputError("the model does not group nodes.")
            self._grouper = Grouper(self.inputs.graph, trainer.rule, self.inputs.num_classes)
        return self._grouper
