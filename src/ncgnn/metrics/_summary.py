"""Everything the metrics say about one graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.metrics._class_pairs import class_pair_counts
from ncgnn.metrics._confusion import confusion_masks, confusion_of_counts
from ncgnn.metrics._duplication import Duplication, duplication_rates
from ncgnn.metrics._homophily import (
    adjusted_homophily,
    class_insensitive_homophily,
    edge_homophily,
    node_homophily,
)
from ncgnn.metrics._information import entropy_of_counts, label_informativeness
from ncgnn.metrics._inputs import labelled, mean
from ncgnn.metrics._neighborhoods import Neighborhoods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.metrics._inputs import Labelled


@dataclass(frozen=True)
class Analysis:
    """The metrics of one graph.

    Attributes:
        graph: The graph, with the labels that were analysed.
        hops: The hop counts of NC and entropy.
        threshold: The threshold between low and high NC.
        per_node: One vector per metric: ``nh_open``, ``nh_closed``, and for each hop count k
            ``nc_k`` and ``entropy_k``.
        means: Their means, and the measures of the whole graph.
        high_share: For each hop count, the share of nodes with high NC.
        commonest: The commonest class among each node and its neighbours, -1 where there is none.
        duplication: Duplication rates.
        class_pairs: Number of stored edges by class of target (rows) and source (columns).
    """

    graph: Graph
    hops: tuple[int, ...]
    threshold: float
    per_node: dict[str, NDArray[np.float64]]
    means: dict[str, float]
    high_share: dict[int, float]
    commonest: NDArray[np.int64]
    duplication: Duplication
    class_pairs: NDArray[np.int64]

    def to_json(self) -> dict[str, Any]:
        """The summary as plain values; undefined numbers are None."""
        graph = self.graph
        return {
            "name": graph.name,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "directed": graph.is_directed,
            "self_loops": graph.num_self_loops,
            "features": graph.num_features,
            "classes": graph.num_classes,
            "unlabelled": graph.num_unlabelled,
            "means": {key: _plain(value) for key, value in self.means.items()},
            "threshold": self.threshold,
            "high_share": {f"nc_{hops}": _plain(v) for hops, v in self.high_share.items()},
            "duplication": {
                "neighbors": _plain(self.duplication.neighbors),
                "features": _plain(self.duplication.features),
            },
            "origin": graph.origin,
        }


def analyze(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    hops: Sequence[int] = (1, 2),
    threshold: float = 0.5,
    num_classes: int | None = None,
) -> Analysis:
    """Compute every metric of a graph.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions; by default the graph's own.
        hops: The hop counts k for NC and entropy.
        threshold: NC above it is high.
        num_classes: Number of classes; by default the graph's.
    """
    given = labelled(graph, labels, num_classes)
    same = (given.graph, given.labels)
    count = given.num_classes
    per_node = {
        "nh_open": node_homophily(*same, num_classes=count),
        "nh_closed": node_homophily(*same, neighborhood="closed", num_classes=count),
    }
    for k in hops:
        counts = Neighborhoods(given.graph, k).count(
            given.classes, count, surprise=True, same=False
        )
        per_node[f"nc_{k}"] = confusion_of_counts(counts, count)
        per_node[f"entropy_{k}"] = entropy_of_counts(counts)
    means = {key: mean(values) for key, values in per_node.items()}
    means |= {
        "edge_homophily": edge_homophily(*same, num_classes=count),
        "class_insensitive_homophily": class_insensitive_homophily(*same, num_classes=count),
        "adjusted_homophily": adjusted_homophily(*same, num_classes=count),
        "label_informativeness": label_informativeness(*same, num_classes=count),
        "label_informativeness_node": label_informativeness(*same, kind="node", num_classes=count),
    }
    highs = {k: confusion_masks(per_node[f"nc_{k}"], threshold)[1] for k in hops}
    return Analysis(
        graph=given.graph if labels is None else given.graph.with_labels(given.labels, count),
        hops=tuple(hops),
        threshold=threshold,
        per_node=per_node,
        means=means,
        high_share={k: float(high.mean()) for k, high in highs.items()},
        commonest=_commonest(given),
        duplication=duplication_rates(*same),
        class_pairs=class_pair_counts(*same, num_classes=count),
    )


def _commonest(given: Labelled) -> NDArray[np.int64]:
    counts = Neighborhoods(given.graph).count(
        given.classes, given.num_classes, leader=True, same=False
    )
    return counts.leader.astype(np.int64)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
