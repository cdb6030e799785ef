"""Several runs that differ in nothing but their seed, in one row.

How good predictions are.

What a trained model is worth: scores, and accuracy where nodes are confused and where not.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.data import split_report
from ncgnn.errors import InputError
from ncgnn.metrics import confusion_masks, neighborhood_confusion, node_homophily

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.data import Split
    from ncgnn.nn import GraphInputs, Grouping, GroupingRule, Model
    from ncgnn.training.run import RunResult

Scores = dict[str, float | None]


def scores(logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor) -> Scores:
    r"""Scores of the predictions on some nodes.

    * ``accuracy``: the share of nodes whose highest logit is at their class.
    * ``macro_f1``: the mean over classes of F1 = 2·TP / (2·TP + FP + FN), over all classes that
      occur among the labels or the predictions of these nodes.
    * ``balanced_accuracy``: the mean recall over the classes that occur among the labels.
    * ``auroc``: for two classes, the probability that a random node of class 1 gets a higher
      probability of class 1 than a random node of class 0, ties counting one half; None where it is
      not defined.
    * ``calibration_error``: :math:`\sum_b |B_b|/n \cdot |acc(B_b) - conf(B_b)|` over 15 bins of
      equal width of the highest probability (Guo et al., https://arxiv.org/abs/1706.04599).
    * ``loss``: the mean cross-entropy.
    """
    if not len(nodes):
        raise InputError("there are no nodes to score; the split has an empty part.")
    chosen = logits.index_select(0, nodes).detach()
    truth = labels.index_select(0, nodes)
    loss = float(torch.nn.functional.cross_entropy(chosen, truth))
    probabilities = torch.softmax(chosen.double(), dim=1).cpu().numpy()
    answers, true = probabilities.argmax(1), truth.cpu().numpy()
    values: Scores = {
        "accuracy": float(np.mean(answers == true)),
        "macro_f1": macro_f1(true, answers, logits.shape[1]),
        "balanced_accuracy": balanced_accuracy(true, answers, logits.shape[1]),
        "auroc": auroc(true, probabilities[:, 1]) if logits.shape[1] == 2 else None,
        "calibration_error": calibration_error(true, probabilities),
        "loss": loss,
    }
    return {name: _finite(value) for name, value in values.items()}


def macro_f1(true: NDArray[Any], answers: NDArray[Any], num_classes: int) -> float:
    """Mean F1 over the classes that occur among labels or predictions."""
    hits, labelled, answered = _counts(true, answers, num_classes)
    seen = labelled + answered > 0
    return float(np.mean(2 * hits[seen] / (labelled + answered)[seen]))


def balanced_accuracy(true: NDArray[Any], answers: NDArray[Any], num_classes: int) -> float:
    """Mean recall over the classes that occur among labels."""
    hits, labelled, _ = _counts(true, answers, num_classes)
    return float(np.mean(hits[labelled > 0] / labelled[labelled > 0]))


def auroc(true: NDArray[Any], score: NDArray[np.float64]) -> float | None:
    """Area under the ROC curve of a score for class 1, by ranks; None if a class is missing."""
    from scipy.stats import rankdata

    positive = true == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        return None
    ranks = rankdata(score)
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def calibration_error(
    true: NDArray[Any], probabilities: NDArray[np.float64], bins: int = 15
) -> float:
    """Expected calibration error of the highest probability."""
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == true
    if not np.isfinite(confidence).all():
        return float("nan")
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=right.astype(float) - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(true))


def accuracy_by(
    logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor, part: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Accuracy within parts of the nodes: ``part`` holds a number per node, -1 = none.

    Returns:
        One record per number that occurs: ``part``, ``nodes``, ``accuracy``.
    """
    chosen = nodes.cpu().numpy()
    right = (logits.argmax(1) == labels).cpu().numpy()[chosen]
    place = part[chosen]
    return [
        {
            "part": int(number),
            "nodes": int((place == number).sum()),
            "accuracy": float(right[place == number].mean()),
        }
        for number in np.unique(place[place >= 0])
    ]


def deciles(share: NDArray[np.float64]) -> NDArray[np.int64]:
    """The tenth of [0, 1] that a share lies in: 0 for [0, 0.1), …, 9 for [0.9, 1]; -1 for NaN."""
    known = np.nan_to_num(share, nan=-1.0)
    tenth = np.minimum(np.floor(known * 10 + 1e-9), 9).astype(np.int64)
    return np.where(np.isnan(share), -1, tenth)


def _finite(value: float | None) -> float | None:
    """A number that JSON knows; logits that overflow have no loss and no calibration."""
    return value if value is not None and np.isfinite(value) else None


def _counts(
    true: NDArray[Any], answers: NDArray[Any], num_classes: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Per class: right answers, labels, answers."""
    hits = np.bincount(true[true == answers], minlength=num_classes)
    labelled = np.bincount(true, minlength=num_classes)
    return hits, labelled, np.bincount(answers, minlength=num_classes)


DEFAULT_THRESHOLD = 0.5


def evaluation(
    model: Model, inputs: GraphInputs, split: Split, grouping: Grouping, logits: torch.Tensor
) -> dict[str, Any]:
    """Everything that is reported of a trained model that gives all nodes these logits.

    Accuracy per group is shown twice: by NC of the true labels, which says where the model is
    right, and by the estimated groups, which the model was run with. Labels of test nodes enter
    nothing else.
    """
    parts = {"train": split.train, "val": split.val, "test": split.test}
    nodes = {name: torch.from_numpy(part.copy()).to(logits.device) for name, part in parts.items()}
    report = split_report(split, inputs.graph)
    by_test = nodes["test"] if len(nodes["test"]) else nodes["val"]
    rule = model.rule
    hops = 1 if rule is None else rule.hops
    limits = _limits(rule)
    true_nc = neighborhood_confusion(inputs.graph, hops=hops)
    homophily = node_homophily(inputs.graph, neighborhood="closed")

    def accuracy_within(part: NDArray[np.int64]) -> list[dict[str, Any]]:
        return accuracy_by(logits, inputs.labels, by_test, part)

    result: dict[str, Any] = {
        "scores": {
            name: scores(logits, inputs.labels, part) for name, part in nodes.items() if len(part)
        },
        "nodes": {name: len(part) for name, part in nodes.items()},
        "majority_baseline": report.majority_baseline,
        "never_evaluated": list(report.never_evaluated),
        "hops": hops,
        "thresholds": list(limits),
        "accuracy_by_true_group": accuracy_within(_groups(true_nc, limits)),
        "accuracy_by_nh_decile": accuracy_within(deciles(homophily)),
        "true_mean_nc": _mean(true_nc),
    }
    if rule is not None:
        result["accuracy_by_group"] = accuracy_within(grouping.group.numpy())
        result["group_sizes"] = torch.bincount(
            grouping.group, minlength=len(rule.thresholds) + 1
        ).tolist()
        result["mean_nc"] = float(grouping.confusion.mean())
        if (alpha := model.channel_alpha) is not None:
            result["alpha"] = [float(a) for a in alpha.detach()]
    return result


def _limits(rule: GroupingRule | None) -> tuple[float, ...]:
    """Thresholds on NC; a rule with quantiles or with NH has none, so the usual one stands in."""
    if rule is None or rule.kind != "value" or rule.guidance != "nc":
        return (DEFAULT_THRESHOLD,)
    return rule.thresholds


def _groups(confusion: NDArray[np.float64], limits: tuple[float, ...]) -> NDArray[np.int64]:
    group = np.zeros(len(confusion), dtype=np.int64)
    for limit in limits:
        group += confusion_masks(confusion, limit)[1]
    return group


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


SCORES = ("accuracy", "macro_f1", "balanced_accuracy", "auroc", "calibration_error")


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation; the latter is None for a single value."""

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one or more values."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation)


@dataclass(frozen=True)
class Summary:
    """Results over seeds.

    Attributes:
        seeds: The seeds.
        val_accuracy: Validation accuracy.
        test: Scores on test nodes, by name.
        majority_baseline: Test accuracy of always answering the commonest test class.
        never_evaluated: Classes that some seed's validation and test parts do not hold.
        seconds: Training time.
        epochs: Number of epochs.
    """

    seeds: tuple[int, ...]
    val_accuracy: Spread
    test: dict[str, Spread]
    majority_baseline: Spread | None
    never_evaluated: tuple[int, ...]
    seconds: Spread
    epochs: Spread


def summary(runs: Sequence[RunResult]) -> Summary:
    """Summarise runs of one configuration with different seeds."""
    results = [run.result for run in runs]
    parts = [result["scores"].get("test") for result in results]
    test = {
        name: Spread.of([part[name] for part in parts])
        for name in SCORES
        if all(part is not None and part[name] is not None for part in parts)
    }
    baselines = [result["majority_baseline"] for result in results]
    known = None if None in baselines else Spread.of(baselines)
    unseen = {label for result in results for label in result["never_evaluated"]}
    return Summary(
        seeds=tuple(result["seed"] for result in results),
        val_accuracy=Spread.of([result["scores"]["val"]["accuracy"] for result in results]),
        test=test,
        majority_baseline=known,
        never_evaluated=tuple(sorted(unseen)),
        seconds=Spread.of([run.seconds for run in runs]),
        epochs=Spread.of([result["epochs"] for result in results]),
    )
