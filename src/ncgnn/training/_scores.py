"""How good predictions are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
