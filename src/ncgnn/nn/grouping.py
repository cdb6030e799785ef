"""Which group of a separated model a node belongs to, estimated from labels or predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from ncgnn.metrics import ConfusionTracker, confusion_masks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph import GraphLike

Guidance = Literal["nc", "nh"]
ThresholdKind = Literal["value", "quantile"]

# Stored neighbourhoods of two or more hops may take this much memory; see ConfusionTracker.
MEMORY_BUDGET = 1 << 30


@dataclass(frozen=True)
class GroupingRule:
    """How nodes are grouped.

    Attributes:
        hops: Size of the neighbourhood, k.
        thresholds: Ascending; a node is in group g if its confusion is above g of them.
        guidance: ``"nc"`` groups by Neighborhood Confusion; ``"nh"`` by 1 - Node Homophily (of the
            closed neighbourhood), the paper's ablation.
        kind: Whether thresholds are values of the confusion, or quantiles of it among all nodes.
        known_labels: Whether training nodes count with their labels instead of the predictions.
    """

    hops: int = 1
    thresholds: tuple[float, ...] = (0.5,)
    guidance: Guidance = "nc"
    kind: ThresholdKind = "value"
    known_labels: bool = False


@dataclass(frozen=True, eq=False)
class Grouping:
    """How confused every node is, float64 [n], and the group that follows, int64 [n]."""

    confusion: torch.Tensor
    group: torch.Tensor

    @classmethod
    def start(cls, num_nodes: int) -> Grouping:
        """Before anything is known nobody is confused: NC = 0, all nodes in the first group."""
        return cls(
            torch.zeros(num_nodes, dtype=torch.float64), torch.zeros(num_nodes, dtype=torch.int64)
        )


class Grouper:
    """Applies a rule to one graph; what depends on the graph alone is prepared once.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        rule: The rule.
        num_classes: Number of classes; by default the graph's.
    """

    def __init__(
        self, graph: GraphLike, rule: GroupingRule, num_classes: int | None = None
    ) -> None:
        self.rule = rule
        self._tracker = ConfusionTracker(
            graph, rule.hops, num_classes=num_classes, memory_budget=MEMORY_BUDGET
        )

    def __call__(self, labels: torch.Tensor) -> Grouping:
        """Group the nodes of the graph by their labels or predictions [n], -1 = unknown."""
        classes = labels.detach().cpu().numpy()
        confusion = self._tracker(classes) if self.rule.guidance == "nc" else self._unlike(classes)
        group = np.zeros(len(confusion), dtype=np.int64)
        for threshold in self.rule.thresholds:
            group += confusion_masks(confusion, self._value(confusion, threshold))[1]
        return Grouping(torch.from_numpy(confusion), torch.from_numpy(group))

    def _value(self, confusion: NDArray[np.float64], threshold: float) -> float:
        if self.rule.kind == "value":
            return threshold
        return float(np.nanquantile(confusion, threshold))

    def _unlike(self, classes: NDArray[np.int64]) -> NDArray[np.float64]:
        """1 - NH: the share of a node's closed neighbourhood that has another label."""
        from ncgnn.metrics import labelled

        given = labelled(self._tracker.graph, classes, self._tracker.num_classes)
        counts = self._tracker.neighborhoods.count(given.classes, given.num_classes, "closed")
        share = np.ones(len(classes))
        np.divide(counts.same, counts.size, out=share, where=counts.size > 0)
        return 1 - share
