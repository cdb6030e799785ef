"""Algorithm 1 of "Clarify Confused Nodes via Separated Learning", from top to bottom.

Neighborhood Confusion starts at 0, so that every node is in the low group. Each epoch takes one
step on the training nodes and validates. Whenever validation accuracy reaches a new high, the
model's predictions become pseudo-labels of all nodes, NC is counted among them, and the groups
follow from it. Training ends after ``epochs`` epochs, or after ``patience`` epochs without a new
high. What counts is the model of the best epoch together with the groups in force in that epoch.
The first epoch always is a new high, also with an accuracy of 0, which the paper's comparison with
0 would not call one.

A model without groups is trained by the same loop; nothing is regrouped then. A model may declare
groups of parameters, a further loss and stages of training, see :mod:`ncgnn.nn._protocol`.

Every pass computes the logits of those nodes alone that it needs: of training nodes for the loss
(so that training accuracy is with dropout, before the step), of validation nodes for validation,
and of all nodes only on a new high. With ``averaging``, validation, pseudo-labels and what is kept
are those of a running mean of the weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import increment_version
from torch.nn.functional import cross_entropy

from ncgnn.errors import NcgnnError
from ncgnn.nn._dropout import DropoutKey
from ncgnn.nn._grouping import Grouper, Grouping
from ncgnn.nn._protocol import begin_phase, parameter_groups, phases, with_extra_loss
from ncgnn.training._averaging import averaged_step, weights_in_force
from ncgnn.training._optimizer import EagerAdam
from ncgnn.training._shares import ShareCorrection
from ncgnn.training._state import State, copied
from ncgnn.training._trainable import check_trainable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.data import Split
    from ncgnn.nn._grouping import GroupingRule
    from ncgnn.nn._inputs import GraphInputs
    from ncgnn.training._config import TrainingConfig

Record = dict[str, Any]

# The places of torch's own random numbers; models count their places from 0.
_TORCH_PLACE, _PHASE_PLACE = 1 << 16, (1 << 16) + 1


class TrainingError(NcgnnError):
    """Training cannot go on."""


class Trainer:
    """Trains one model on one split of one graph.

    Args:
        model: Called as ``model(inputs, group, key, nodes)``; ``model.rule`` says how nodes are
            grouped, None (or no such attribute) means not at all.
        inputs: The graph.
        split: Training, validation and test nodes.
        config: Learning rate, epochs, patience, seed.
    """

    def __init__(
        self, model: Any, inputs: GraphInputs, split: Split, config: TrainingConfig
    ) -> None:
        check_trainable(inputs.graph, split)
        self.model, self.inputs, self.config = model, inputs, config
        self.train, self.val, self.test = (
            torch.from_numpy(part.copy()).to(inputs.device)
            for part in (split.train, split.val, split.test)
        )
        self.correction = ShareCorrection.of(config.class_shares, inputs, self.train, self.val)
        self.phases = phases(model, config.epochs, config.patience)
        self._computes_all = bool(getattr(model, "computes_all", False))
        self.optimizer = self.new_optimizer()
        self.grouper = None
        self.rule: GroupingRule | None = getattr(model, "rule", None)
        if self.rule is not None:
            self.grouper = Grouper(inputs.graph, self.rule, inputs.num_classes)
        start = Grouping.start(inputs.num_nodes)
        self.state = State(grouping=start, best_grouping=start)

    def run(
        self, after_epoch: Callable[[Record], None] | None = None, *, keeps_weights: bool = False
    ) -> State:
        """Train until the end, from wherever the state is; torch's random state stays as it was.

        Args:
            after_epoch: Called with the record of every epoch, when the state is up to date.
            keeps_weights: Promise that ``after_epoch`` does not change the model, so that products
                of an evaluation can be used again in the training pass after it.
        """
        devices = [self.inputs.device] if self.inputs.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            self._run(after_epoch, share=after_epoch is None or keeps_weights)
        self.model.load_state_dict(self.state.best_weights)
        return self.state

    def _run(self, after_epoch: Callable[[Record], None] | None, *, share: bool) -> None:
        sharing: Callable[[bool], None] = getattr(self.model, "share_products", lambda _: None)
        sharing(share)  # the weights' changes are counted in _step
        try:
            while not self.finished:
                record = self.epoch()
                if after_epoch is not None:
                    after_epoch(record)
        finally:
            sharing(False)

    def new_optimizer(self) -> EagerAdam:
        """Adam as a stage of training begins with it."""
        config = self.config
        return EagerAdam(
            parameter_groups(self.model, config.weight_decay),
            lr=config.learning_rate,
            fused=self.inputs.device.type in ("cpu", "cuda"),
        )

    @property
    def finished(self) -> bool:
        """Whether all epochs of the last stage are done, or patience has run out."""
        return self.state.phase == len(self.phases) - 1 and self._phase_is_over

    @property
    def _phase_is_over(self) -> bool:
        state = self.state
        phase, done = self.phases[state.phase], state.epoch - state.phase_start
        waited = state.epoch - 1 - max(state.best_epoch, state.phase_start - 1)
        return done >= phase.epochs or (done > 0 and waited >= phase.patience)

    def _begin_phase(self) -> None:
        """Go on to the next stage, from the best weights of the one before."""
        state = self.state
        if state.phase >= 0 and self.phases[state.phase].keeps_best:
            self.model.load_state_dict(state.best_weights)
        state.phase, state.phase_start = state.phase + 1, state.epoch
        if not self.phases[state.phase].beats_earlier:
            state.best_accuracy, state.best_epoch, state.best_weights = -1.0, -1, {}
        state.mean_weights = {}
        labels = self.inputs.labels.index_select(0, self.train)
        self._seed_torch(_PHASE_PLACE)
        self.model.eval()
        begin_phase(self.model, state.phase, self.inputs, self.train, labels)
        increment_version(list(self.model.parameters()))
        self.optimizer = self.new_optimizer()

    def epoch(self) -> Record:
        """One training step, one validation, and new groups if validation reached a new high."""
        state = self.state
        if state.phase < 0 or self._phase_is_over:
            self._begin_phase()
        record: Record = {"epoch": state.epoch, **self._step()}
        with weights_in_force(self.model, state.mean_weights):
            self._judge(record)
        state.epoch += 1
        return record

    def _judge(self, record: Record) -> None:
        """Validate, and keep the weights and regroup the nodes on a new high."""
        state = self.state
        everyone = self.logits(state.grouping) if self._computes_all else None
        if everyone is None:
            record |= self._validation(self.logits(state.grouping, self.val))
        else:
            record |= self._validation(everyone.index_select(0, self.val))
        if len(self.phases) > 1:
            record["phase"] = self.phases[state.phase].name
        record["test_accuracy"] = None  # looked at where the model is, and nowhere else
        if self.grouper is not None:
            record |= self._groups_in_force()
        if record["val_accuracy"] > state.best_accuracy:
            logits = self.logits(state.grouping) if everyone is None else everyone
            self._require_finite(bool(logits.isfinite().all()), "the logits are not finite")
            if len(self.test):
                record["test_accuracy"] = self._share_right(logits[self.test], self.test)
            state.best_accuracy, state.best_epoch = record["val_accuracy"], state.epoch
            state.best_grouping = state.grouping
            state.best_weights = copied(self.model.state_dict(), state.best_weights)
            if self.grouper is not None:
                state.grouping = self.grouper(self._pseudo_labels(logits))

    def _step(self) -> Record:
        """One step of Adam on the cross-entropy of the training nodes."""
        key = self._seed_torch(_TORCH_PLACE)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(self.inputs, self._group(self.state.grouping), key, self.train)
        labels = self.inputs.labels.index_select(0, self.train)
        loss = with_extra_loss(self.model, cross_entropy(logits, labels), self.train, labels)
        loss.backward()
        self.optimizer.step()
        increment_version(list(self.model.parameters()))
        value = float(loss.detach())
        self._require_finite(math.isfinite(value), f"the loss is {value}")
        self._average()
        return {"loss": value, "train_accuracy": self._share_right(logits, self.train)}

    def _average(self) -> None:
        state, decay = self.state, self.config.averaging
        if decay:
            steps = state.epoch - state.phase_start
            state.mean_weights = averaged_step(state.mean_weights, self.model, decay, steps)

    def _seed_torch(self, place: int) -> DropoutKey:
        """Seed torch for layers that draw numbers themselves, so that resumed runs repeat them."""
        key = DropoutKey(self.config.seed, self.state.epoch)
        seed = key.at(place) >> 1
        if self.inputs.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # without a look at every other device
        else:
            torch.manual_seed(seed)
        return key

    def _validation(self, logits: torch.Tensor) -> Record:
        """Accuracy and loss of the validation nodes."""
        loss = cross_entropy(logits, self.inputs.labels.index_select(0, self.val))
        value = float(loss)
        return {
            "val_accuracy": self._share_right(logits, self.val),
            "val_loss": value if math.isfinite(value) else None,
        }

    @torch.no_grad()
    def logits(self, grouping: Grouping, nodes: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of the given nodes, or of all, with the given groups and without dropout."""
        self.model.eval()
        logits = self.model(self.inputs, self._group(grouping), None, nodes)
        return logits if self.correction is None else self.correction(logits, nodes)

    def _group(self, grouping: Grouping) -> torch.Tensor:
        return grouping.group.to(self.inputs.device)

    def _pseudo_labels(self, logits: torch.Tensor) -> torch.Tensor:
        """Predictions of all nodes; labels of training nodes where the rule wants them."""
        labels = logits.argmax(1)
        if self.rule is not None and self.rule.known_labels:
            labels[self.train] = self.inputs.labels[self.train]
        return labels

    def _groups_in_force(self) -> Record:
        grouping, thresholds = (
            self.state.grouping,
            () if self.rule is None else self.rule.thresholds,
        )
        sizes = torch.bincount(grouping.group, minlength=len(thresholds) + 1)
        record: Record = {
            "mean_nc": float(grouping.confusion.mean()),
            "group_sizes": sizes.tolist(),
        }
        alpha = getattr(self.model, "alpha", None)
        if alpha is not None:
            record["alpha"] = [float(a) for a in alpha.detach()]
            finite = all(math.isfinite(a) for a in record["alpha"])
            self._require_finite(finite, "the weights are not finite")
        return record

    def _require_finite(self, holds: bool, what: str) -> None:
        if not holds:
            raise TrainingError(
                f"{what} in epoch {self.state.epoch}; lower learning_rate, or look for huge values "
                "in the features."
            )

    def _share_right(self, logits: torch.Tensor, nodes: torch.Tensor) -> float:
        right = logits.argmax(1) == self.inputs.labels.index_select(0, nodes)
        return int(right.sum()) / len(nodes)
