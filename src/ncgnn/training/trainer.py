"""Algorithm 1 of "Clarify Confused Nodes via Separated Learning".

Neighborhood Confusion starts at 0, so that every node is in the low group. Each epoch takes one
step on the training nodes and validates. Whenever the validation score (by default accuracy)
reaches a new high, the model's predictions become pseudo-labels of all nodes, NC is counted among
them, and the groups follow from it. Training ends after ``epochs`` epochs, or after ``patience``
epochs without a new high. The result is the model of the best epoch together with the groups in
force in that epoch. The first epoch always is a new high, even with an accuracy of 0, which the
paper's comparison with 0 would not call one.

A model without groups is trained by the same loop; nothing is regrouped then. A model may declare
groups of parameters, a further loss and stages of training, see :class:`ncgnn.nn.Model`.

Every pass computes the logits of only those nodes that it needs: of training nodes for the loss
(so training accuracy is with dropout, before the step), of validation nodes for validation, and of
all nodes on a new high. With ``averaging``, a running mean of the weights is what is validated,
regroups the nodes and is kept.

An accelerator works while the program goes on; whoever looks at a number waits for it. So the
record of an epoch holds tensors until validation is done, and then they are looked at together.

Several processes may train one model, see :mod:`ncgnn.training.ranks`: each takes its share of the
nodes of a step, and all go by the scores and groups that the first one has found.
"""

from __future__ import annotations

import math
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from inspect import unwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd.graph import increment_version
from torch.nn.functional import cross_entropy

from ncgnn.errors import InputError, NcgnnError
from ncgnn.nn import (
    BlockMaker,
    DropoutKey,
    Grouper,
    Grouping,
    compute_block,
    infer,
    is_layered,
)
from ncgnn.sparse import look_at, widest_float
from ncgnn.training.batches import Batches
from ncgnn.training.evaluation import check_metric, score
from ncgnn.training.ranks import Ranks, Share
from ncgnn.training.requirements import read_fanout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from numpy.typing import NDArray
    from torch import nn

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.nn import GraphInputs, GroupingRule, Model
    from ncgnn.training.config import ClassShares, RunConfig, TrainingConfig

    #: The loss of a training pass, and its logits.
    _Pass = tuple[torch.Tensor, torch.Tensor]

Record = dict[str, Any]

# Where torch's own random numbers are drawn; models count their places of dropout from 0.
_STEP_PLACE, _PHASE_PLACE = 1 << 16, (1 << 16) + 1


class TrainingError(NcgnnError):
    """Training cannot go on."""


@dataclass
class State:
    """Everything that training knows between two epochs.

    Attributes:
        epoch: Number of epochs done.
        phase: Number of the stage of training; -1 before the first one has begun.
        phase_start: The epoch with which the stage began.
        best_score: Highest validation score so far, of the stage or of what it must beat.
        best_epoch: The epoch that reached it first.
        grouping: NC and groups in force.
        best_grouping: NC and groups in force in the best epoch.
        seen_grouping: NC and groups of the nodes that training sees, where these are not all.
        checked_grouping: The same of the nodes that validation sees.
        best_weights: The parameters that were validated in the best epoch.
        mean_weights: Running mean of the parameters; empty where there is none.
        batch: Number of batches done in an epoch that is not; their total loss and right answers
            are ``batch_loss`` and ``batch_right``.
    """

    epoch: int = 0
    phase: int = -1
    phase_start: int = 0
    best_score: float = -1.0
    best_epoch: int = -1
    grouping: Grouping = field(default_factory=lambda: Grouping.start(0))
    best_grouping: Grouping = field(default_factory=lambda: Grouping.start(0))
    seen_grouping: Grouping | None = None
    checked_grouping: Grouping | None = None
    best_weights: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    mean_weights: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    batch: int = 0
    batch_loss: float = 0.0
    batch_right: int = 0


class Trainer:
    """Trains one model on one split of one graph.

    Args:
        model: The model; ``model.rule`` says how nodes are grouped, None means not at all.
        inputs: The graph.
        split: Training, validation and test nodes.
        config: Learning rate, epochs, patience, seed, metric.

    Attributes:
        seen: What training sees of the graph: all of it, unless a protocol says otherwise.
        seen_train: The training nodes, by their numbers there.
        after_batch: Called after each batch of an epoch, when the state is up to date.
        ranks: The processes that train the model together; by default this one alone.
    """

    optimizer: EagerAdam
    after_batch: Callable[[], None] | None = None
    ranks = Ranks()
    _run_pass: Callable[[Callable[[], _Pass]], _Pass] | None = None

    def __init__(
        self, model: Model, inputs: GraphInputs, split: Split, config: TrainingConfig
    ) -> None:
        check_trainable(inputs.graph, split)
        check_metric(config.metric, inputs.graph.labels[split.val])
        model.check_graph(inputs.graph)
        self.model, self.split, self.config = model, split, config
        self.train, self.val, self.test = (
            torch.from_numpy(part.copy()).to(inputs.device)
            for part in (split.train, split.val, split.test)
        )
        self.inputs = self.seen = know_labels(inputs, split)
        self.seen_train = self.train
        self.correction = ShareCorrection.of(config.class_shares, inputs, split)
        self.phases = model.phases(config.epochs, config.patience)
        if not self.phases:
            raise InputError("the model's phases() must give at least one stage; it gave none.")
        if config.batch_size is not None:
            if not model.fits_at_once:
                read_fanout(config.fanout, model)
        elif config.fanout is not None:
            raise InputError("fanout is for batches; set batch_size, too, or leave it out.")
        self.rule = model.rule
        start = Grouping.start(inputs.num_nodes, inputs.device)
        self.state = State(grouping=start, best_grouping=start)

    def join(self, ranks: Ranks) -> None:
        """Train together with other processes, whose trainers are made of the same things.

        Raises:
            InputError: There are others, and the model cannot be trained so.
        """
        if not ranks.alone and self.model.fits_at_once:
            raise InputError(
                f"{self.model.title} is fitted at once, not in steps that several processes could "
                "share; train it with one."
            )
        if not ranks.alone and self.batches is not None and self.batches.normalizes:
            raise InputError(
                "norm must be 'layer' or 'none' with batch_size on several processes, as none of "
                "them sees all nodes of a batch; got 'batch'."
            )
        self.ranks = ranks

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
            # Changes of weights are counted in _step.
            shares = (after_epoch is None or keeps_weights) and self.batches is None
            self.model.share_products(shares)
            try:
                while not self.finished:
                    record = self.epoch()
                    if after_epoch is not None:
                        after_epoch(record)
            finally:
                self.model.share_products(False)
        self.model.load_state_dict(self.state.best_weights)
        return self.state

    @property
    def finished(self) -> bool:
        """Whether all epochs of the last stage are done, or patience has run out."""
        return self.state.phase == len(self.phases) - 1 and self._phase_is_over()

    def epoch(self) -> Record:
        """One training step, one validation, and new groups if validation reached a new high."""
        state = self.state
        if state.phase < 0 or self._phase_is_over():
            self._begin_phase()
        record: Record = {"epoch": state.epoch}
        self._step(record)
        mean = state.mean_weights
        with use_weights(self.model, mean) if mean else nullcontext():
            logits = self._validate(record)
            self._look(record)
            record.update(self.ranks.broadcast(record))
            if record[f"val_{self.config.metric}"] > state.best_score:
                self._keep_best(record, logits)
        state.epoch += 1
        return record

    def _step(self, record: Record) -> None:
        """One step of Adam on the cross-entropy of the training nodes, if there is one to take."""
        state, train, grouping = self.state, self.seen_train, self.seen_grouping
        if self.model.fits_at_once:
            labels = self.seen.labels.index_select(0, train)
            logits = predict(self.model, self.seen, grouping, nodes=train)
            loss, right = cross_entropy(logits, labels), _count_right(logits, labels)
            self._record_step(record, loss, right, len(train))
            return
        if self.batches is not None:
            self._step_in_batches(self.batches, record)
        else:
            group, share = grouping.group.to(self.seen.device), self.ranks.share(train)
            loss, right = self._descend(
                DropoutKey(self.config.seed, state.epoch),
                share,
                lambda key: self.model(self.seen, group, key, share.nodes),
                train,
            )
            self._record_step(record, loss, right, len(train))
        if decay := self.config.averaging:
            steps = state.epoch - state.phase_start
            state.mean_weights = average_weights(state.mean_weights, self.model, decay, steps)

    def _descend(
        self,
        key: DropoutKey,
        share: Share,
        compute: Callable[[DropoutKey], torch.Tensor],
        everyone: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One step of Adam on the cross-entropy of some nodes, of which this rank has a share.

        Returns:
            The loss, and how many answers were right, of all of them before the step.
        """
        labels = self.seen.labels.index_select(0, share.nodes)

        def compute_loss() -> _Pass:
            logits = compute(key)
            loss = share.weight * cross_entropy(logits, labels)
            nodes, weight = (share.nodes, share.weight) if everyone is None else (everyone, 1.0)
            extra = self.model.extra_loss(nodes, self.seen.labels.index_select(0, nodes))
            return loss if extra is None else loss + weight * extra, logits

        self._seed_torch(key.at(_STEP_PLACE))
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        if self._run_pass is None:
            self._run_pass = self.ranks.wrap(self.model)
        with self.ranks.hearing():
            loss, logits = self._run_pass(compute_loss)
            loss.backward()
        self.optimizer.step()
        increment_version(list(self.model.parameters()))
        right = _count_right(logits[: share.counts], labels[: share.counts])
        total, all_right = self.ranks.sum(loss.detach(), right)
        return total / self.ranks.count, all_right

    def _step_in_batches(self, batches: Batches, record: Record) -> None:
        """A step on each batch of the training nodes; what is recorded is the mean over nodes."""
        state, train, epoch = self.state, self.seen_train, self.state.epoch
        of_all = self.seen_grouping.group
        with batches.draw(train, of_all, epoch, state.batch, self.ranks) as drawn:
            for number, (nodes, block, group) in enumerate(drawn, state.batch):
                step = epoch * batches.count(train) + number
                loss, right = self._descend(
                    DropoutKey(self.config.seed, step, block.places),
                    self.ranks.share(nodes),
                    lambda key, block=block, group=group: compute_block(
                        self.model, block, group, key
                    ),
                )
                found = look_at({"loss": loss, "right": right})
                if not math.isfinite(found["loss"]):
                    raise self._divergence(f"the loss is {found['loss']}")
                state.batch_loss += found["loss"] * len(nodes)
                state.batch_right += int(found["right"])
                state.batch = number + 1
                if self.after_batch is not None and state.batch < batches.count(train):
                    self.after_batch()
        record["loss"] = state.batch_loss / len(train)
        record["train_accuracy"] = state.batch_right / len(train)
        state.batch, state.batch_loss, state.batch_right = 0, 0.0, 0

    @cached_property
    def batches(self) -> Batches | None:
        """Draws batches of what training sees; None where it is trained on as a whole."""
        if self.config.batch_size is None or self.model.fits_at_once:
            return None
        return Batches(self.seen, self.model, self.config)

    @property
    def seen_grouping(self) -> Grouping:
        """NC and groups of the nodes that training sees."""
        return self.state.grouping

    def _record_step(
        self, record: Record, loss: torch.Tensor, right: torch.Tensor, count: int
    ) -> None:
        record["loss"], record["train_accuracy"] = loss, right / count

    def _look(self, record: Record) -> None:
        """Put numbers in the place of the tensors of a record, and end where training diverges."""
        record.update(look_at({k: v for k, v in record.items() if isinstance(v, torch.Tensor)}))
        if not math.isfinite(record["loss"]):
            raise self._divergence(f"the loss is {record['loss']}")
        if record.get(f"val_{self.config.metric}", 0.0) is None:
            raise self._divergence("the logits are not finite")
        if not all(map(math.isfinite, record.get("alpha", ()))):
            raise self._divergence("the weights are not finite")
        if not math.isfinite(record.get("val_loss", 0.0)):
            record["val_loss"] = None

    def _validate(self, record: Record) -> torch.Tensor | None:
        """Score the validation nodes; returns the logits of all nodes if they were computed."""
        state, labels = self.state, self.inputs.labels.index_select(0, self.val)
        logits, known = self._validation_logits()
        record["val_accuracy"] = _accuracy(logits, labels)
        record["val_loss"] = cross_entropy(logits, labels)
        if self.config.metric != "accuracy":
            true = torch.from_numpy(self.inputs.graph.labels[self.split.val])
            record[f"val_{self.config.metric}"] = score(self.config.metric, logits.cpu(), true)
        if len(self.phases) > 1:
            record["phase"] = self.phases[state.phase].name
        record["test_accuracy"] = None  # measured in epochs with a new high only
        if self.rule is not None:
            self._describe_groups(record, self.rule)
        return known

    def _validation_logits(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Logits of the validation nodes, and of all nodes if they were computed."""
        everyone = self.model.computes_all or computes_in_blocks(self.model, self.inputs)
        wanted = None if everyone else self.val
        grouping, correction = self.state.grouping, self.correction
        logits = predict(self.model, self.inputs, grouping, correction, wanted, self.ranks)
        return (logits.index_select(0, self.val), logits) if everyone else (logits, None)

    def _keep_best(self, record: Record, logits: torch.Tensor | None) -> None:
        """Keep weights and groups of a new high, and regroup the nodes by their pseudo-labels."""
        logits = self._all_logits() if logits is None else self._check_finite(logits)
        if len(self.test):
            labels = self.inputs.labels.index_select(0, self.test)
            record["test_accuracy"] = float(_accuracy(logits[self.test], labels))
            if (metric := self.config.metric) != "accuracy":
                record[f"test_{metric}"] = score(metric, logits[self.test], labels)
        self.state.best_score = record[f"val_{self.config.metric}"]
        self._keep(logits)

    def _all_logits(self) -> torch.Tensor:
        """Logits of all nodes."""
        inputs, grouping = self.inputs, self.state.grouping
        logits = predict(self.model, inputs, grouping, self.correction, ranks=self.ranks)
        return self._check_finite(logits)

    def _check_finite(self, logits: torch.Tensor) -> torch.Tensor:
        if not logits.isfinite().all():
            raise self._divergence("the logits are not finite")
        return logits

    def _keep(self, logits: torch.Tensor) -> None:
        """Keep the weights and groups of this epoch, and regroup the nodes by the given logits."""
        state = self.state
        state.best_epoch, state.best_grouping = state.epoch, state.grouping
        state.best_weights = copy_weights(self.model.state_dict(), state.best_weights)
        if self.rule is not None:
            pseudo_labels = logits.argmax(1)
            if self.rule.known_labels:
                pseudo_labels[self.train] = self.inputs.labels[self.train]
            found = self.ranks.first(lambda: self.grouper(pseudo_labels))
            state.grouping = found.to(self.inputs.device)

    @cached_property
    def grouper(self) -> Callable[[torch.Tensor], Grouping]:
        """Groups the nodes by the model's rule."""
        if self.rule is None:
            raise InputError("the model does not group nodes; model.rule must be a GroupingRule.")
        return Grouper(self.inputs.graph, self.rule, self.inputs.num_classes)

    def new_optimizer(self) -> EagerAdam:
        """Adam as a stage of training begins with it."""
        return EagerAdam(
            self.model.parameter_groups(self.config.weight_decay),
            lr=self.config.learning_rate,
            fused=self.inputs.device.type in ("cpu", "cuda"),
        )

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
            state.best_score, state.best_epoch, state.best_weights = -1.0, -1, {}
        state.mean_weights = {}
        labels = self.seen.labels.index_select(0, self.seen_train)
        self._seed_torch(DropoutKey(self.config.seed, state.epoch).at(_PHASE_PLACE))
        self.model.eval()
        self.model.begin_phase(state.phase, self.seen, self.seen_train, labels)
        increment_version(list(self.model.parameters()))
        self.optimizer, self._run_pass = self.new_optimizer(), None

    def _seed_torch(self, key: int) -> None:
        """Seed torch for layers that draw numbers themselves, so that resumed runs repeat them."""
        if self.inputs.device.type == "cpu":
            torch.default_generator.manual_seed(key >> 1)  # without touching every other device
        else:
            torch.manual_seed(key >> 1)

    def _describe_groups(self, record: Record, rule: GroupingRule) -> None:
        """Record the mean NC and the sizes of the groups in force, and α of every group."""
        mean, sizes = self.state.grouping.describe(len(rule.thresholds) + 1)
        record["mean_nc"], record["group_sizes"] = mean, list(sizes)
        if (alpha := self.model.channel_alpha) is not None:
            record["alpha"] = alpha.detach()

    def _divergence(self, what: str) -> TrainingError:
        return TrainingError(
            f"{what} in epoch {self.state.epoch}; lower learning_rate, or look for huge values in "
            "the features."
        )


@torch.no_grad()
def predict(
    model: Model,
    inputs: GraphInputs,
    grouping: Grouping,
    correction: ShareCorrection | None = None,
    nodes: torch.Tensor | None = None,
    ranks: Ranks | None = None,
) -> torch.Tensor:
    """Logits of the given nodes, or of all, without dropout.

    Args:
        model: The model.
        inputs: The graph.
        grouping: Its groups.
        correction: Of the logits.
        nodes: Whose logits are wanted; None for all.
        ranks: Who computes the same, and shares the work where it is done in blocks; None: nobody.
            A whole graph is not shared out: its first layer is computed for all nodes whichever are
            asked for, and what the next step needs again is kept.
    """
    model.eval()
    group = grouping.group.to(inputs.device)
    if nodes is None and computes_in_blocks(model, inputs):
        logits = infer(BlockMaker(inputs, model), group, ranks)
    else:
        logits = model(inputs, group, None, nodes)
    return logits if correction is None else correction(logits, nodes)


def computes_in_blocks(model: Model, inputs: GraphInputs) -> bool:
    """Whether all nodes are answered for layer by layer."""
    return inputs.in_blocks and is_layered(model)


def _accuracy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return _count_right(logits, labels) / len(labels)


def _count_right(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (logits.argmax(1) == labels).sum().to(widest_float(logits.device))


def know_labels(inputs: GraphInputs, split: Split) -> GraphInputs:
    """Inputs in which models may read the labels of training nodes, and no others."""
    train = torch.from_numpy(split.train.copy()).to(inputs.device)
    known = torch.full_like(inputs.labels, -1)
    known[train] = inputs.labels[train]
    return inputs.knowing(known)


def check_trainable(graph: Graph, split: Split) -> None:
    """Refuse what no model could be trained with.

    Raises:
        InputError: Classes, training or validation nodes, or their labels are missing.
    """
    if not len(split.train) or not len(split.val):
        raise InputError("training needs training and validation nodes; the split lacks them.")
    nodes = np.concatenate([split.train, split.val, split.test])
    if nodes.max() >= graph.num_nodes:
        raise InputError("split: it holds nodes that the graph does not have.")
    if graph.labels[nodes].min() < 0:
        raise InputError("the split holds unlabeled nodes.")
    if graph.num_classes < 2:
        raise InputError("the graph has one class only; there is nothing to classify.")


def trainable_split(graph: Graph, config: RunConfig) -> Split:
    """A split to train with.

    Args:
        graph: The graph.
        config: The configuration, which names it.

    Raises:
        InputError: The graph cannot be split so, or nothing can be trained with it.
    """
    try:
        split = config.make_split(graph)
        check_trainable(graph, split)
    except InputError as error:
        raise InputError(f"{config.data.dataset}: {error}") from None
    return split


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
        cls,
        shares: ClassShares,
        inputs: GraphInputs,
        split: Split,
        like: NDArray[np.int64] | None = None,
    ) -> ShareCorrection | None:
        """The correction for a split; None where the shares of training nodes are wanted.

        ``like`` are the nodes whose shares are wanted, by default those of validation.
        """
        if shares == "train":
            return None
        wanted = split.val if like is None else like
        train, val = (
            torch.from_numpy(part.copy()).to(inputs.device) for part in (split.train, wanted)
        )
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


def average_weights(
    mean: Mapping[str, torch.Tensor], model: nn.Module, decay: float, steps: int
) -> Mapping[str, torch.Tensor]:
    r"""The running mean of a model's weights after one more step.

    .. math::

        \bar θ ← d \bar θ + (1 - d) θ, \qquad d = \min(\text{decay}, (1 + t) / (10 + t))

    as an exponential moving average (Polyak and Juditsky, SIAM Journal on Control and Optimization
    30, 1992, average the same steps with equal weights) whose memory grows with the number of steps
    t, so that the first weights, which are random, are soon forgotten. Running statistics of batch
    normalization are averaged as well; counters are copied.

    Args:
        mean: The mean so far, changed in place; empty before the first step.
        model: The weights after the step.
        decay: Share that the mean keeps of itself in the long run.
        steps: Number of steps before this one.
    """
    now = model.state_dict()
    if not mean:
        return copy_weights(now, {})
    kept = min(decay, (1 + steps) / (10 + steps))
    for name, value in now.items():
        if value.is_floating_point():
            mean[name].lerp_(value, 1 - kept)
        else:
            mean[name].copy_(value)
    return mean


def copy_weights(
    weights: Mapping[str, torch.Tensor], into: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:
    """Copy weights, into the memory of the previous copy if there is one."""
    if not into:
        return {name: value.detach().clone() for name, value in weights.items()}
    for name, value in weights.items():
        into[name].copy_(value)
    return into


@contextmanager
def use_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> Generator[None]:
    """Give a model other weights for a while, without copies.

    The optimizer's tensors stay the same ones, and so do gradients.
    """
    _swap(model, weights)
    try:
        yield
    finally:
        _swap(model, weights)


def _swap(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    # A tensor that a model holds under two names is one tensor.
    own = {id(value): (name, value) for name, value in model.state_dict(keep_vars=True).items()}
    for name, value in own.values():
        other = weights[name]
        value.data, other.data = other.data, value.data
    increment_version([value for _, value in own.values()])  # products that were kept are stale


class EagerAdam(torch.optim.Adam):
    """Torch's Adam where nothing is compiled: the same numbers, without ``import torch._dynamo``.

    Torch wraps four of its methods for ``torch.compile``, and the wrappers import all of the
    compiler on first use, which takes as long as importing torch. These are the same methods
    without their wrappers.
    """

    add_param_group: Any = unwrap(torch.optim.Adam.add_param_group)
    zero_grad: Any = unwrap(torch.optim.Adam.zero_grad)
    state_dict: Any = unwrap(torch.optim.Adam.state_dict)
    load_state_dict: Any = unwrap(torch.optim.Adam.load_state_dict)
    step: Any = torch.no_grad()(unwrap(torch.optim.Adam.step))
