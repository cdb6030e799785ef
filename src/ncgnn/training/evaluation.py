"""How good predictions are: scores, and accuracy where nodes are confused and where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import torch

from ncgnn.data import split_report
from ncgnn.errors import InputError
from ncgnn.metrics import (
    KINDS,
    attainable_confusion,
    confusion_masks,
    group_names,
    neighborhood_confusion,
    node_homophily,
    node_kinds,
    relative_confusion,
)
from ncgnn.nn import Grouper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.nn import GraphInputs, Grouping, GroupingRule, Model

Metric = Literal[
    "accuracy", "macro_f1", "balanced_accuracy", "roc_auc", "average_precision", "likelihood"
]
METRICS: tuple[Metric, ...] = get_args(Metric)
Scores = dict[str, float | None]
#: What people call the scores.
SCORE_NAMES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "likelihood": "likelihood",
    "calibration_error": "calibration error",
}

#: NC above it is high where a model has no threshold on NC of its own.
DEFAULT_THRESHOLD = 0.5
#: A group with a smaller share of the nodes is warned of.
SMALL_GROUP = 0.01
#: The accuracy of fewer nodes is not compared with that of others.
FEWEST_NODES = 10


def scores(logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor) -> Scores:
    r"""Scores of the predictions on some nodes: those of :func:`score`, and two more.

    * ``calibration_error``: :math:`\sum_b |B_b|/n \cdot |acc(B_b) - conf(B_b)|` over 15 bins of
      equal width of the highest probability (Guo et al., https://arxiv.org/abs/1706.04599).
    * ``loss``: the mean cross-entropy.

    A score that is not defined, or not finite because logits overflow, is None.
    """
    if not len(nodes):
        raise InputError("there are no nodes to score; the split has an empty part.")
    chosen, truth = logits.index_select(0, nodes).detach(), labels.index_select(0, nodes)
    values: Scores = {metric: score(metric, chosen, truth) for metric in METRICS}
    probabilities = torch.softmax(chosen.double(), dim=1).cpu().numpy()
    values["calibration_error"] = calibration_error(truth.cpu().numpy(), probabilities)
    values["loss"] = float(torch.nn.functional.cross_entropy(chosen, truth))
    return {
        name: value if value is not None and np.isfinite(value) else None
        for name, value in values.items()
    }


def score(metric: Metric, logits: torch.Tensor, labels: torch.Tensor) -> float | None:
    """One score of the logits of some nodes [n, classes], given their labels [n].

    * ``accuracy``: the share of nodes whose highest logit is at their class.
    * ``macro_f1``: the mean over classes of F1 = 2·TP / (2·TP + FP + FN), over all classes that
      occur among the labels or the predictions of these nodes.
    * ``balanced_accuracy``: the mean recall over the classes that occur among the labels.
    * ``roc_auc``: the area under the ROC curve of the probability of class 1, that is the
      probability that a random node of class 1 gets a higher one than a random node of class 0,
      ties counting one half. With more than two classes, the mean of the areas of each class
      against all others, over the classes that occur among the labels.
    * ``average_precision``: Σ (R_i - R_{i-1}) P_i over the thresholds of the same probability, with
      precision P and recall R. With more than two classes, the mean as for ``roc_auc``.
    * ``likelihood``: the geometric mean of the probability of a node's own class, exp(-loss). It
      still tells epochs apart where few validation nodes are all classified rightly.

    The two areas are None where all labels are of one class or a probability is not a number.
    """
    # Only here, because importing it takes a tenth of the time of importing torch.
    from sklearn import metrics

    true = labels.cpu().numpy()
    probabilities = torch.softmax(logits.detach().double(), dim=1).cpu().numpy()
    predicted = probabilities.argmax(1)
    if metric == "accuracy":
        return float(np.mean(predicted == true))
    if metric == "likelihood":
        return float(torch.nn.functional.cross_entropy(logits.detach(), labels).neg().exp())
    if metric == "macro_f1":
        return float(metrics.f1_score(true, predicted, average="macro"))
    seen = np.unique(true)
    if metric == "balanced_accuracy":
        return float(metrics.recall_score(true, predicted, labels=seen, average="macro"))
    if len(seen) < 2 or not np.isfinite(probabilities).all():
        return None
    area = metrics.roc_auc_score if metric == "roc_auc" else metrics.average_precision_score
    classes = (1,) if probabilities.shape[1] == 2 else seen
    return float(np.mean([area(true == c, probabilities[:, c]) for c in classes]))


def check_metric(metric: Metric, labels: NDArray[np.int64]) -> None:
    """Refuse to select models by a metric that is not defined on validation nodes.

    Raises:
        InputError: The validation nodes are all of one class, which a ranking needs two of.
    """
    if metric in ("roc_auc", "average_precision") and len(np.unique(labels)) < 2:
        raise InputError(
            f"metric must be defined on the validation nodes; got {metric}, and these are all of "
            "one class; choose accuracy, or another split."
        )


def calibration_error(
    true: NDArray[Any], probabilities: NDArray[np.float64], bins: int = 15
) -> float:
    """Expected calibration error of the highest probability."""
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == true
    if not np.isfinite(confidence).all():
        return float("nan")
    place = confidence_bins(confidence, bins)
    gaps = np.bincount(place, weights=right.astype(float) - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(true))


def confidence_bins(confidence: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """The bin of equal width that each probability is in, its upper end included."""
    return np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def evaluation(
    model: Model, inputs: GraphInputs, split: Split, grouping: Grouping, logits: torch.Tensor
) -> dict[str, Any]:
    """Everything that is reported of a trained model that gives all nodes these logits.

    Accuracy is shown by what the true labels say, which is where the model is right: by kind, by
    NC and by NH of nodes; and by the estimated groups, which the model was run with. It is that of
    the nodes of the part ``evaluated``: test nodes, or validation nodes where the split has no
    others. Labels of test nodes enter nothing else.
    """
    parts = {"train": split.train, "val": split.val, "test": split.test}
    nodes = {name: torch.from_numpy(part.copy()).to(logits.device) for name, part in parts.items()}
    report = split_report(split, inputs.graph)
    evaluated = "test" if len(nodes["test"]) else "val"
    chosen = (logits, inputs.labels, nodes[evaluated])
    rule = model.rule
    true = true_groups(inputs.graph, rule)
    homophily = node_homophily(inputs.graph, neighborhood="closed")
    kind = node_kinds(inputs.graph)
    places = np.select([kind == name for name in KINDS], range(len(KINDS)), -1)
    result: dict[str, Any] = {
        "scores": {
            name: scores(logits, inputs.labels, part) for name, part in nodes.items() if len(part)
        },
        "nodes": {name: len(part) for name, part in nodes.items()},
        "evaluated": evaluated,
        "majority_baseline": report.majority_baseline,
        "never_evaluated": list(report.never_evaluated),
        "hops": true.hops,
        "thresholds": list(true.thresholds),
        "threshold_kind": true.kind,
        "accuracy_by_kind": [
            {"kind": KINDS[row.pop("part")]} | row for row in accuracy_by(*chosen, places)
        ],
        "accuracy_by_true_group": accuracy_by(*chosen, true.group),
        "accuracy_by_nh_decile": accuracy_by(*chosen, deciles(homophily)),
        "true_mean_nc": true.mean,
    }
    if rule is not None:
        group = grouping.group
        sizes = torch.bincount(group, minlength=len(rule.thresholds) + 1).tolist()
        result["accuracy_by_group"] = accuracy_by(*chosen, group.numpy())
        result["group_sizes"] = sizes
        result["small_groups"] = small_groups(sizes)
        result["mean_nc"] = float(grouping.confusion.mean())
        if (alpha := model.channel_alpha) is not None:
            result["alpha"] = [float(a) for a in alpha.detach()]
    return result


class TrueGroups(NamedTuple):
    """Groups of nodes by NC of the true labels, with the mean NC; None if it is nowhere defined."""

    group: NDArray[np.int64]
    hops: int
    thresholds: tuple[float, ...]
    kind: str
    mean: float | None


def true_groups(graph: Graph, rule: GroupingRule | None) -> TrueGroups:
    """Group nodes by NC of the true labels as a model's rule does, where it compares NC itself.

    Otherwise NC is divided at one half; or at one half of what is attainable, where most
    neighborhoods are too small for an NC of one half and hardly any node has it.
    """
    hops = 1 if rule is None else rule.hops
    confusion = neighborhood_confusion(graph, hops=hops)
    mean = float(np.nanmean(confusion)) if np.isfinite(confusion).any() else None
    if rule is not None and rule.guidance == "nc" and rule.kind.startswith("attainable"):
        group = Grouper(graph, rule)(torch.from_numpy(graph.labels.copy())).group.numpy()
        return TrueGroups(group, hops, rule.thresholds, rule.kind, mean)
    thresholds = (DEFAULT_THRESHOLD,)
    if rule is not None and rule.kind == "value" and rule.guidance == "nc":
        thresholds = rule.thresholds
    elif _is_out_of_reach(graph, confusion, hops):
        relative = relative_confusion(graph, hops=hops)
        high = confusion_masks(relative, DEFAULT_THRESHOLD)[1].astype(np.int64)
        return TrueGroups(high, hops, thresholds, "attainable", mean)
    group = np.sum([confusion_masks(confusion, limit)[1] for limit in thresholds], axis=0)
    return TrueGroups(group, hops, thresholds, "value", mean)


def _is_out_of_reach(graph: Graph, confusion: NDArray[np.float64], hops: int) -> bool:
    """Whether hardly any node is above the threshold, because most cannot be."""
    if confusion_masks(confusion, DEFAULT_THRESHOLD)[1].mean() >= SMALL_GROUP:
        return False
    reach = attainable_confusion(graph, hops=hops)
    return bool(confusion_masks(reach, DEFAULT_THRESHOLD)[0].mean() > 0.5)


def small_groups(sizes: Sequence[int]) -> list[int]:
    """The groups that hold under one percent of the nodes."""
    return [group for group, size in enumerate(sizes) if size < SMALL_GROUP * sum(sizes)]


def about_small_groups(sizes: Sequence[int], kind: str = "value", guidance: Any = "nc") -> str:
    """A sentence on the groups with under one percent of the nodes; empty if there are none."""
    if not (small := small_groups(sizes)):
        return ""
    names = group_names(len(sizes), measure_name(guidance))
    held = " and ".join(f"{names[group]} holds {sizes[group]:,}" for group in small)
    remedy = "set another threshold"
    if kind == "value":
        better = "attainable" if guidance == "nc" else "quantile"
        remedy = f'set threshold_kind = "{better}" or another threshold'
    return (
        f"of the groups, {held} of {sum(sizes):,} nodes, under one percent: "
        f"{'its' if len(small) == 1 else 'their'} weights learn from hardly anybody; {remedy}."
    )


def measure_name(guidance: Any) -> str:
    """What people call the measure that groups follow: NC, 1 − NH in the ablation, or another."""
    known = {"nc": "NC", "nh": "1 − NH"}
    return known.get(guidance) or getattr(guidance, "__name__", str(guidance))


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
