"""Trained models as one: their average, or a mixture whose gate was trained on unseen nodes.

A gate has to learn whom to believe where nobody has seen the label, and experts have seen the label
of every training node. So training nodes are dealt out into folds, and every expert is trained once
more without each fold, as long as it was trained before. A fold's expert answers for all nodes: its
answers around a node of its fold are those of neighbors of which some were seen and some were not,
as they are around a test node. Log-likelihood of these answers is what the gate is trained for, and
that of validation nodes, which the experts themselves answer for, says when to stop.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from scipy.special import logsumexp
from torch.nn.functional import nll_loss

from ncgnn.data import Split
from ncgnn.nn import Grouping, Mixture
from ncgnn.training.calibration import fit_temperature
from ncgnn.training.config import resolve_config
from ncgnn.training.evaluation import score
from ncgnn.training.folder import DamagedFileError, read_tensors, write_tensors
from ncgnn.training.refit import Expert, Refitter
from ncgnn.training.start import first_model
from ncgnn.training.trained import TrainedModel
from ncgnn.training.trainer import predict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.nn import Gate, GraphInputs

#: At most so many experts are in an average, and under a gate, for which each is trained once more
#: per fold; and so many times an average takes one of them.
MOST_EXPERTS, MOST_GATED, ROUNDS = 8, 4, 24
#: How much the logarithms of experts' temperatures scatter around 0: label propagation needs a
#: temperature of a sixth, which the scatter of trained networks would not allow for.
EXPERTS_SCATTER = 1.0
# Of a gate's training: its steps, how far they go, and how often validation nodes are asked.
_STEPS, _RATE, _DECAY, _EVERY, _WAIT = 400, 0.02, 1e-3, 10, 8
#: The score that the best single expert begins with, where all others have 0: it counts 99 %.
_FIRST_BIAS = 6.0
# With fewer validation nodes a combination's score must be no lower than that of one model.
_FEW = 100


def select_average(
    answers: Sequence[torch.Tensor],
    labels: torch.Tensor,
    best: int,
    grouped: Sequence[bool],
) -> dict[int, float]:
    """How often each of some models counts in their average; greedy, with replacement.

    From the best one on, the model is added, again and again, whose answers make the average most
    likely (Caruana et al., Ensemble Selection from Libraries of Models, ICML 2004), until none
    does.

    Args:
        answers: log P of every model for the validation nodes [nodes, classes].
        labels: Their labels.
        best: The model to begin with.
        grouped: Whether a model has groups; at most one of these takes part.

    Returns:
        The share of every model that takes part, in their order.
    """
    own = [a.double().exp().gather(1, labels[:, None])[:, 0] for a in answers]
    chosen, total = [best], own[best]
    for _ in range(ROUNDS - 1):
        reached = float(total.div(len(chosen)).clamp(min=1e-12).log().mean())
        found: tuple[float, int] | None = None
        for place, mine in enumerate(own):
            if not _may_join(place, chosen, grouped):
                continue
            mean = (total + mine).div(len(chosen) + 1).clamp(min=1e-12)
            value = float(mean.log().mean())
            if value > reached + 1e-6 and (found is None or value > found[0]):
                found = value, place
        if found is None:
            break
        chosen.append(found[1])
        total = total + own[found[1]]
    return {place: chosen.count(place) / len(chosen) for place in sorted(set(chosen))}


def _may_join(place: int, chosen: Sequence[int], grouped: Sequence[bool]) -> bool:
    """Whether a model may count, or count more, beside those that are chosen."""
    if place in chosen:
        return True
    has_groups = any(grouped[one] for one in chosen)
    return len(set(chosen)) < MOST_EXPERTS and not (grouped[place] and has_groups)


def expert_temperature(trained: TrainedModel) -> float:
    """What the logits of an expert are divided by: at most 1, so that timid ones speak up.

    It is the temperature by which probabilities of validation nodes would be calibrated. Experts
    that are too sure are taken as they are: they differ in what they are wrong about, and their
    average is less sure by itself. Where answers are corrected for class shares, which experts are
    not, their temperature cannot be told from the shift of shares, and is 1.
    """
    if trained.correction is not None:
        return 1.0
    nodes = trained.split.val
    logits = predict(trained.model, trained.inputs, trained.grouping)
    chosen = logits.index_select(0, torch.from_numpy(nodes.copy()).to(logits.device))
    return min(1.0, round(_fit(chosen.double().cpu().numpy(), trained.graph.labels[nodes]), 3))


def _fit(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """The temperature of some nodes; few of them move it little from 1, even if all are right."""
    if not len(labels) or not np.isfinite(logits).all():
        return 1.0
    return fit_temperature(logits, labels, scatter=EXPERTS_SCATTER)


def make_mixture(
    experts: Sequence[TrainedModel],
    shares: Sequence[float],
    gate: Gate,
    *,
    temperatures: Sequence[float] | None = None,
) -> TrainedModel:
    """Trained experts as one model, which gives each the same share at every node so far.

    Args:
        experts: They stay as they are.
        shares: How much each counts.
        gate: What will decide how much each counts at a node.
        temperatures: What the logits of each are divided by; None = 1.
    """
    first = experts[0]
    config = first.config
    tables = [{"name": one.config.model.name, **one.config.model.options} for one in experts]
    tree = config.model_dump(mode="json")
    tree["model"] = {"name": "mixture", "experts": tables, "gate": gate, "trained": "apart"}
    if temperatures is not None and any(one != 1 for one in temperatures):
        tree["model"] |= {"temperatures": [*temperatures]}
    for option in ("batch_size", "fanout", "sampling"):  # of experts, which keep their own
        tree["training"].pop(option, None)
    config = resolve_config(tree, "auto")
    model = cast("Mixture", first_model(config, first.inputs))
    for mine, theirs in zip(model.experts, experts, strict=True):
        mine.load_state_dict(theirs.model.state_dict())
    with torch.no_grad():
        model.bias.copy_(torch.tensor(shares).clamp(min=1e-6).log())
    grouping = Grouping.start(first.graph.num_nodes)
    if model.grouped is not None:
        grouping = experts[model.grouped].grouping
    total = sum(one.seconds for one in experts)
    kept = tuple(Expert.of(one) for one in experts)
    parts = (model.eval(), first.inputs, first.split, grouping, config)
    trained = TrainedModel(*parts, (), total, experts=kept)
    return replace(trained, history=[record_of(trained)])


def record_of(trained: TrainedModel) -> dict[str, Any]:
    """What stands for the epochs of a mixture: there is one, at its end."""
    inputs, split, metric = trained.inputs, trained.split, trained.config.training.metric
    logits = trained.logits()

    def part(nodes: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        where = torch.from_numpy(nodes.copy()).to(inputs.device)
        return logits.index_select(0, where), inputs.labels.index_select(0, where)

    record: dict[str, Any] = {"epoch": 0}
    for name, nodes in (("", split.train), ("val_", split.val), ("test_", split.test)):
        if not len(nodes):
            record[f"{name}accuracy"] = None
            continue
        answers, labels = part(nodes)
        record[f"{name}loss"] = float(torch.nn.functional.cross_entropy(answers, labels))
        record[f"{name or 'train_'}accuracy"] = score("accuracy", answers, labels)
        if name and metric != "accuracy":
            record[f"{name}{metric}"] = score(metric, answers, labels)
    record.pop("test_loss", None)
    if (rule := trained.model.rule) is not None:
        groups = len(rule.thresholds) + 1
        record["mean_nc"] = float(trained.grouping.confusion.mean())
        record["group_sizes"] = torch.bincount(trained.grouping.group, minlength=groups).tolist()
        if (alpha := trained.model.channel_alpha) is not None:
            record["alpha"] = [float(a) for a in alpha.detach()]
    return record


@dataclass(frozen=True, eq=False)
class Unseen:
    """What experts answer for nodes whose labels they have not seen, and what a gate sees of it.

    Attributes:
        answers: log P of every expert [nodes, classes].
        seen: What a full gate sees of every expert [nodes, columns].
        labels: The labels of the nodes.
    """

    answers: list[torch.Tensor]
    seen: list[torch.Tensor]
    labels: torch.Tensor

    def for_gate(self, model: Mixture) -> list[torch.Tensor]:
        """The columns that a gate sees: NC comes last."""
        plain = model.num_classes + 4
        kept = {"nc": slice(plain, None), "without-nc": slice(plain)}.get(model.gate, slice(None))
        return [rows[:, kept] for rows in self.seen]


def answer_unseen(
    mixture: TrainedModel,
    experts: Sequence[TrainedModel],
    fold: NDArray[np.int64],
    keep: Path,
    after_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Unseen:
    """Let experts answer for training nodes, each trained without the fold that it answers for.

    Args:
        mixture: The mixture with a full gate that the experts are in.
        experts: The experts.
        fold: The fold of every node, -1 = none, as for the only training node of a class.
        keep: Folder where answers are kept, so that an interrupted search has them, in a folder
            of their own for every number of folds.
        after_epoch: Called with the record of every epoch.
    """
    model, inputs = cast("Mixture", mixture.model), mixture.inputs
    nodes, folds = np.flatnonzero(fold >= 0), int(fold.max()) + 1
    place = torch.from_numpy(nodes).to(inputs.device)
    unseen = Unseen([], [], inputs.labels.index_select(0, place))
    for expert_number, expert in enumerate(experts):
        answers = inputs.labels.new_empty(len(nodes), inputs.num_classes, dtype=inputs.dtype)
        described: torch.Tensor | None = None
        for number in range(folds):
            path = keep / str(folds) / f"{expert.config.name}-{number}.safetensors"
            log_shares = _answer_fold(expert, fold, number, path, after_epoch)
            log_shares = model.said_by(expert_number, log_shares)
            rows = torch.from_numpy(fold[nodes] == number).to(inputs.device)
            with torch.no_grad():
                seen = model.describe(inputs, log_shares).index_select(0, place)
            if described is None:
                described = torch.empty_like(seen)
            answers[rows] = log_shares.index_select(0, place)[rows]
            described[rows] = seen[rows]
        unseen.answers.append(answers)
        unseen.seen.append(cast("torch.Tensor", described))
    return unseen


def _answer_fold(
    expert: TrainedModel,
    fold: NDArray[np.int64],
    number: int,
    path: Path,
    after_epoch: Callable[[dict[str, Any]], None] | None,
) -> torch.Tensor:
    """The logarithm of P of all nodes by an expert that was trained without one fold."""
    dealt = hashlib.sha256(np.ascontiguousarray(fold).tobytes()).hexdigest()
    model = expert.config.model
    said = {
        "fold": number,
        "dealt": dealt,
        "revision": type(expert.model).revision_of(model.options),
    }
    with suppress(DamagedFileError):
        if path.is_file():
            tensors, about = read_tensors(path)
            if said.items() <= about.items():
                return tensors["answers"].to(expert.inputs.device)
    others = expert.split.train[fold[expert.split.train] != number]
    none = others[:0]
    seen = Split("custom", "custom", expert.config.training.seed, others, none, none)
    follower = Refitter(expert, seen=seen)
    follower.run(after_epoch, keeps_weights=True)
    logits = predict(follower.model, follower.inputs, follower.state.best_grouping)
    answers = torch.log_softmax(logits, dim=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, {"answers": answers}, said, durable=False)
    return answers


def train_gate(trained: TrainedModel, unseen: Unseen, best: int) -> TrainedModel:
    """Train the gate of a mixture; experts stay as they are.

    It begins as the best single expert: the others count under one percent, at every node.

    Args:
        trained: The mixture.
        unseen: What experts answer for nodes that they have not seen.
        best: Which of them is the best one.
    """
    model, inputs = cast("Mixture", trained.model), trained.inputs
    val = torch.from_numpy(trained.split.val.copy()).to(inputs.device)
    answers, seen = validation_answers(trained, inputs, val)
    labels = inputs.labels.index_select(0, val)
    gate = [model.bias, model.first, model.second]
    with torch.no_grad():
        model.bias.zero_()
        model.bias[best] = _FIRST_BIAS
    groups: list[dict[str, Any]] = [{"params": gate[:1], "weight_decay": 0.0}, {"params": gate[1:]}]
    optimizer = torch.optim.Adam(groups, lr=_RATE, weight_decay=_DECAY)
    mine = unseen.for_gate(model)
    reached, kept, waited = float("inf"), [one.detach().clone() for one in gate], 0
    for step in range(_STEPS + 1):
        if step % _EVERY == 0:
            with torch.no_grad():
                loss = float(nll_loss(model.combine(answers, seen), labels))
            waited += 1
            if loss < reached:
                reached, kept, waited = loss, [one.detach().clone() for one in gate], 0
            if waited > _WAIT:
                break
        for one in gate:
            one.grad = None
        nll_loss(model.combine(unseen.answers, mine), unseen.labels).backward()
        optimizer.step()
    with torch.no_grad():
        for one, best_one in zip(gate, kept, strict=True):
            one.copy_(best_one)
            one.grad = None
    return replace(trained, history=[record_of(trained)])


@torch.no_grad()
def validation_answers(
    trained: TrainedModel, inputs: GraphInputs, nodes: torch.Tensor
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What every expert of a mixture answers for some nodes, log P, and what the gate sees."""
    model = cast("Mixture", trained.model.eval())
    answers: list[torch.Tensor] = []
    seen: list[torch.Tensor] = []
    for place, expert in enumerate(cast("Any", model.experts)):
        every = model.said_by(place, predict(expert, inputs, trained.grouping))
        answers.append(every.index_select(0, nodes))
        seen.append(model.describe(inputs, every).index_select(0, nodes))
    return answers, seen


class Judgement(NamedTuple):
    """Whether validation speaks for a combination, and why or why not."""

    better: bool
    why: str


def judge_combination(one: TrainedModel, other: TrainedModel, title: str) -> Judgement:
    """Whether validation speaks for a combination, against a model that is simpler.

    Its answers must be likelier by more than the standard error of the difference, and by more than
    one nat over all nodes together, each model with a temperature of its own. Its score need not be
    higher, as the other's may be the highest of many by luck, but it must not be lower by more than
    two standard errors of the difference in accuracy, whatever the score is; with fewer than a
    hundred validation nodes, where that would be ten points, not at all.

    Args:
        one: The combination.
        other: The simpler model.
        title: What that is called.
    """
    if len(one.split.val) < 2:
        return Judgement(False, "there are no validation nodes to judge by")
    metric = one.config.training.metric
    mine, theirs = (model.history[model.best_epoch][f"val_{metric}"] for model in (one, other))
    (likely, right), (likely_before, right_before) = map(_judge_answers, (one, other))
    gains, count = likely - likely_before, len(likely)
    gain = float(gains.mean())
    error = max(float(gains.std(ddof=1) / np.sqrt(count)), 1 / count)
    word = "likelier" if gain >= 0 else "less likely"
    why = f"{word} than {title} by {abs(gain):.3f} ± {error:.3f}"
    if not gain > error:
        return Judgement(False, f"{why}, no more than its error" if gain > 0 else why)
    allowed = 2 * np.sqrt(int((right != right_before).sum())) / count
    if count < _FEW:
        allowed = 0.0
    if mine < theirs - allowed:
        lower = f"{100 * (theirs - mine):.1f}", f"{100 * allowed:.1f}"
        few = f", with {count} validation nodes" if count < _FEW else f", over {lower[1]}"
        return Judgement(False, f"{why}, but score lower by {lower[0]} points{few}")
    return Judgement(True, why)


def _judge_answers(trained: TrainedModel) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Log P of the label of every validation node, and whether the answer is right."""
    nodes = trained.split.val
    logits = trained.logits().double().cpu().numpy()[nodes]
    labels = trained.graph.labels[nodes]
    scaled = logits / _fit(logits, labels)
    told = scaled[np.arange(len(nodes)), labels] - logsumexp(scaled, axis=1)
    return told, logits.argmax(axis=1) == labels
