"""Everything the metrics say about one graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError
from ncgnn.metrics.confusion import check_threshold, confusion_masks
from ncgnn.metrics.duplication import Duplication, duplication_rates
from ncgnn.metrics.homophily import (
    adjusted_homophily_of,
    class_insensitive_homophily_of,
    class_pairs,
    class_sizes,
    edge_homophily_of,
    edge_informativeness_of,
    entropy_of_counts,
    node_homophily,
    node_informativeness_of,
)
from ncgnn.metrics.neighborhoods import (
    Neighborhoods,
    checked_hops,
    confusion_of_counts,
    labelled,
    mean,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.metrics.neighborhoods import Labelled


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        means = ", ".join(f"{key}={value:.3f}" for key, value in self.means.items())
        return f"Analysis({self.graph.name!r}, {means})"

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
    hops: int | Sequence[int] = (1, 2),
    threshold: float = 0.5,
    num_classes: int | None = None,
) -> Analysis:
    """Compute every metric of a graph.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions; by default the graph's own.
        hops: The hop count k for NC and entropy, or several.
        threshold: NC above it is high.
        num_classes: Number of classes; by default the graph's.
    """
    check_threshold(threshold)
    counts = tuple(checked_hops(k) for k in ((hops,) if isinstance(hops, int) else hops))
    if not counts:
        raise InputError("hops is empty; give at least one hop count.")
    given = labelled(graph, labels, num_classes, features=True)
    analysed = given.graph.with_labels(given.labels, given.num_classes)
    per_node = _per_node(given, counts)
    pairs, shares = class_pairs(given)
    nodes = class_sizes(given.labels, given.num_classes)
    means = {key: mean(values) for key, values in per_node.items()} | {
        "edge_homophily": edge_homophily_of(pairs),
        "class_insensitive_homophily": class_insensitive_homophily_of(pairs, nodes),
        "adjusted_homophily": adjusted_homophily_of(pairs),
        "label_informativeness": edge_informativeness_of(pairs),
        "label_informativeness_node": node_informativeness_of(pairs, shares, nodes),
    }
    highs = {k: confusion_masks(per_node[f"nc_{k}"], threshold)[1] for k in counts}
    return Analysis(
        graph=analysed,
        hops=counts,
        threshold=threshold,
        per_node=per_node,
        means=means,
        high_share={k: float(high.mean()) for k, high in highs.items()},
        commonest=_commonest(given),
        duplication=duplication_rates(analysed),
        class_pairs=pairs,
    )


def _per_node(given: Labelled, hops: tuple[int, ...]) -> dict[str, NDArray[np.float64]]:
    same: dict[str, Any] = {"labels": given.labels, "num_classes": given.num_classes}
    vectors = {
        "nh_open": node_homophily(given.graph, **same),
        "nh_closed": node_homophily(given.graph, neighborhood="closed", **same),
    }
    for k in hops:
        counts = Neighborhoods(given.graph, k).count(
            given.classes, given.num_classes, surprise=True, same=False
        )
        vectors[f"nc_{k}"] = confusion_of_counts(counts, given.num_classes)
        vectors[f"entropy_{k}"] = entropy_of_counts(counts)
    return vectors


def _commonest(given: Labelled) -> NDArray[np.int64]:
    counts = Neighborhoods(given.graph).count(
        given.classes, given.num_classes, leader=True, same=False
    )
    return counts.leader.astype(np.int64)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
