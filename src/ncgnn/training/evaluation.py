"""How good predictions are: scores, and accuracy where nodes are confused and where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from ncgnn.data import split_report
from ncgnn.errors import InputError
from ncgnn.metrics import confusion_masks, neighborhood_confusion, node_homophily

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data import Split
    from ncgnn.nn import GraphInputs, Grouping, Model

Metric = Literal[
    *("accuracy", "macro_f1", "balanced_accuracy", "roc_auc", "average_precision", "likelihood")
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
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=right.astype(float) - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(true))


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
    shown = nodes["test"] if len(nodes["test"]) else nodes["val"]
    rule = model.rule
    hops = 1 if rule is None else rule.hops
    thresholds = (DEFAULT_THRESHOLD,)
    if rule is not None and rule.kind == "value" and rule.guidance == "nc":
        thresholds = rule.thresholds
    true_nc = neighborhood_confusion(inputs.graph, hops=hops)
    true_group = np.sum([confusion_masks(true_nc, limit)[1] for limit in thresholds], axis=0)
    homophily = node_homophily(inputs.graph, neighborhood="closed")
    result: dict[str, Any] = {
        "scores": {
            name: scores(logits, inputs.labels, part) for name, part in nodes.items() if len(part)
        },
        "nodes": {name: len(part) for name, part in nodes.items()},
        "majority_baseline": report.majority_baseline,
        "never_evaluated": list(report.never_evaluated),
        "hops": hops,
        "thresholds": list(thresholds),
        "accuracy_by_true_group": accuracy_by(logits, inputs.labels, shown, true_group),
        "accuracy_by_nh_decile": accuracy_by(logits, inputs.labels, shown, deciles(homophily)),
        "true_mean_nc": float(np.nanmean(true_nc)) if np.isfinite(true_nc).any() else None,
    }
    if rule is not None:
        group = grouping.group
        result["accuracy_by_group"] = accuracy_by(logits, inputs.labels, shown, group.numpy())
        result["group_sizes"] = torch.bincount(group, minlength=len(rule.thresholds) + 1).tolist()
        result["mean_nc"] = float(grouping.confusion.mean())
        if (alpha := model.channel_alpha) is not None:
            result["alpha"] = [float(a) for a in alpha.detach()]
    return result


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
