"""What a trained model is worth: scores, and accuracy where nodes are confused and where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.data import split_report
from ncgnn.metrics import confusion_masks, neighborhood_confusion, node_homophily
from ncgnn.training._scores import accuracy_by, deciles, scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data import Split
    from ncgnn.nn._grouping import Grouping, GroupingRule
    from ncgnn.nn._inputs import GraphInputs

DEFAULT_THRESHOLD = 0.5


def evaluation(
    model: Any, inputs: GraphInputs, split: Split, grouping: Grouping, logits: torch.Tensor
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
    rule: GroupingRule | None = getattr(model, "rule", None)
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
        if hasattr(model, "alpha"):
            result["alpha"] = [float(a) for a in model.alpha.detach()]
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
