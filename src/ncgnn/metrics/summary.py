"""Everything the metrics say about one graph, also how many of its nodes are copies of others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph import whole_number
from ncgnn.metrics._kernels import compare_rows, hash_rows
from ncgnn.metrics.alternatives import (
    aggregation_similarity_of,
    density_aware_homophily_of,
    local_assortativity_of,
    two_hop_similarity_of,
)
from ncgnn.metrics.confusion import (
    attainable_of,
    check_threshold,
    confusion_masks,
    relative_to,
)
from ncgnn.metrics.homophily import (
    adjusted_homophily_of,
    class_insensitive_homophily_of,
    class_pairs,
    class_sizes,
    edge_homophily_of,
    edge_informativeness_of,
    entropy_of_counts,
    node_homophily_of,
    node_informativeness_of,
)
from ncgnn.metrics.kinds import (
    KINDS,
    class_names,
    commonest_classes,
    kinds_of,
    striking_of,
)
from ncgnn.metrics.neighborhoods import Neighborhoods, confusion_of_counts, label_graph, mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.metrics.kinds import StrikingNode
    from ncgnn.metrics.neighborhoods import LabelCounts, LabeledGraph

#: The paper's rules for datasets: more nodes per class than these, and no larger share of copies.
NODES_PER_CLASS, MOST_COPIES = 100, 0.3
#: How many mixed and how many contrary nodes an analysis lists.
STRIKING = 50


@dataclass(frozen=True, repr=False)
class Analysis:
    """The metrics of one graph.

    Attributes:
        graph: The graph, with the labels that were analyzed.
        hops: The hop counts of NC and entropy.
        threshold: The threshold between low and high NC.
        per_node: One vector per metric: ``nh_open``, ``nh_closed``, and for each hop count k
            ``nc_k``, ``relative_nc_k`` (see :func:`ncgnn.relative_confusion`) and ``entropy_k``;
            with related metrics also ``two_hop_similarity`` and ``local_assortativity``.
        means: Their means, and the measures of the whole graph.
        high_share: For each hop count, the share of nodes with high NC.
        reach: For each hop count, the share of nodes whose NC could exceed the threshold at all.
        kinds: The kind of every node, as :func:`ncgnn.node_kinds` gives it.
        mixed: The most mixed nodes; see :func:`ncgnn.striking_nodes`.
        contrary: The most contrary nodes.
        commonest: The commonest class among each node and its neighbors, -1 where there is none.
        duplication: Duplication rates.
        class_pairs: Number of stored edges by class of target (rows) and source (columns).
    """

    graph: Graph
    hops: tuple[int, ...]
    threshold: float
    per_node: dict[str, NDArray[np.float64]]
    means: dict[str, float]
    high_share: dict[int, float]
    reach: dict[int, float]
    kinds: NDArray[np.str_]
    mixed: tuple[StrikingNode, ...]
    contrary: tuple[StrikingNode, ...]
    commonest: NDArray[np.int64]
    duplication: Duplication
    class_pairs: NDArray[np.int64]

    def __repr__(self) -> str:
        means = ", ".join(f"{key}={value:.3f}" for key, value in self.means.items())
        return f"Analysis({self.graph.name!r}, {means})"

    def neighbors(self, most: int = 5) -> list[str]:
        """The classes around every node as text, such as "libs 12, python 9, 4 more"."""
        given, nodes = label_graph(self.graph), np.arange(self.graph.num_nodes)
        most = min(most, given.num_classes)
        return commonest_classes(given, nodes, most).as_texts(class_names(self.graph))

    def kind_counts(self) -> dict[str, int]:
        """How many nodes are of each kind; ``"unknown"`` ones have no label, but agreed neighbors.

        Those are left out where there are none.
        """
        counts = {kind: int((self.kinds == kind).sum()) for kind in KINDS}
        unknown = int((self.kinds == "").sum())
        return counts | ({"unknown": unknown} if unknown else {})

    def broken_rules(self) -> list[str]:
        """What speaks against the graph as a benchmark, by the rules of the paper.

        "Clarify Confused Nodes via Separated Learning" takes graphs with more than
        :data:`NODES_PER_CLASS` nodes per class, at most :data:`MOST_COPIES` of which are copies.
        """
        graph, broken = self.graph, list[str]()
        least = NODES_PER_CLASS * graph.num_classes
        if graph.num_nodes <= least:
            broken.append(f"{graph.num_nodes:,} nodes, where more than {least:,} are asked for")
        shared = {"neighbors": self.duplication.neighbors, "features": self.duplication.features}
        for what, rate in shared.items():
            if rate > MOST_COPIES:
                broken.append(f"{rate:.0%} copies by {what}, above {MOST_COPIES:.0%}")
        return broken

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
            "unlabeled": graph.num_unlabeled,
            "means": {key: _plain(value) for key, value in self.means.items()},
            "threshold": self.threshold,
            "high_share": {f"nc_{hops}": _plain(v) for hops, v in self.high_share.items()},
            "reach": {f"nc_{hops}": share for hops, share in self.reach.items()},
            "kinds": self.kind_counts(),
            "mixed": [self._describe(one) for one in self.mixed],
            "contrary": [self._describe(one) for one in self.contrary],
            "duplication": {
                "neighbors": _plain(self.duplication.neighbors),
                "features": _plain(self.duplication.features),
            },
            "broken_rules": self.broken_rules(),
            "origin": graph.origin,
        }

    def _describe(self, one: StrikingNode) -> dict[str, Any]:
        graph, label = self.graph, int(self.graph.labels[one.node])
        return {
            "id": graph.ids[one.node].item(),
            "label": class_names(graph)[label] if label >= 0 else None,
            "neighbors": one.neighbors,
            "share": one.share,
            "usual": _plain(one.usual),
            "evidence": one.evidence,
        }


def analyze(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    hops: int | Sequence[int] = (1, 2),
    threshold: float = 0.5,
    num_classes: int | None = None,
    related: bool = False,
) -> Analysis:
    """Compute every metric of a graph.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions; by default the graph's own.
        hops: The hop count k for NC and entropy, or several.
        threshold: NC above it is high.
        num_classes: Number of classes; by default the graph's.
        related: Whether to add the metrics of :mod:`ncgnn.metrics.alternatives`, which other papers
            propose.
    """
    check_threshold(threshold)
    several = (hops,) if isinstance(hops, int) else hops
    counts = tuple(whole_number(k, "hops", 1) for k in several)
    if not counts:
        raise InputError("hops must name at least one hop count; got none.")
    given = label_graph(graph, labels, num_classes, features=True)
    analyzed = given.graph.with_labels(given.labels, given.num_classes)
    around = Neighborhoods(given.graph)
    open_counts = around.count(given.classes, given.num_classes, closed=False, leader=True)
    per_node, reach = _per_node(given, counts, open_counts, threshold)
    leaders = around.count(given.classes, given.num_classes, leader=True, same=False).leader
    pairs, shares = class_pairs(given)
    striking = (given, open_counts, pairs)
    nodes = class_sizes(given.labels, given.num_classes)
    if related:
        per_node["two_hop_similarity"] = two_hop_similarity_of(given)
        per_node["local_assortativity"] = local_assortativity_of(given, pairs=pairs)
    means = {key: mean(values) for key, values in per_node.items()} | {
        "edge_homophily": edge_homophily_of(pairs),
        "class_insensitive_homophily": class_insensitive_homophily_of(pairs, nodes),
        "adjusted_homophily": adjusted_homophily_of(pairs),
        "label_informativeness": edge_informativeness_of(pairs),
        "label_informativeness_node": node_informativeness_of(pairs, shares, nodes),
    }
    if related:
        means["aggregation_similarity"] = aggregation_similarity_of(given)
        means["density_aware_homophily"] = density_aware_homophily_of(pairs, nodes)
    highs = {k: confusion_masks(per_node[f"nc_{k}"], threshold)[1] for k in counts}
    return Analysis(
        graph=analyzed,
        hops=counts,
        threshold=threshold,
        per_node=per_node,
        means=means,
        high_share={k: float(high.mean()) for k, high in highs.items()},
        reach=reach,
        kinds=np.array([*KINDS, ""])[kinds_of(open_counts, given.labels)],
        mixed=tuple(striking_of(*striking, "mixed", STRIKING)),
        contrary=tuple(striking_of(*striking, "contrary", STRIKING)),
        commonest=leaders.astype(np.int64),
        duplication=duplication_rates(analyzed),
        class_pairs=pairs,
    )


def _per_node(
    given: LabeledGraph, hops: tuple[int, ...], open_counts: LabelCounts, threshold: float
) -> tuple[dict[str, NDArray[np.float64]], dict[int, float]]:
    """Vectors of all metrics, and how many nodes could exceed the threshold, by hop count."""
    labels, around = (given.classes, given.num_classes), Neighborhoods(given.graph)
    vectors = {
        "nh_open": node_homophily_of(open_counts, given),
        "nh_closed": node_homophily_of(around.count(*labels), given),
    }
    reach: dict[int, float] = {}
    for k in hops:
        counts = Neighborhoods(given.graph, k).count(*labels, surprise=True, same=False)
        attainable = attainable_of(counts.size, given.num_classes)
        reach[k] = float(confusion_masks(attainable, threshold)[1].mean())
        vectors[f"nc_{k}"] = confusion_of_counts(counts, given.num_classes)
        vectors[f"relative_nc_{k}"] = relative_to(vectors[f"nc_{k}"], attainable)
        vectors[f"entropy_{k}"] = entropy_of_counts(counts)
    return vectors, reach


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class Duplication:
    """Share of labeled nodes that repeat another one.

    Attributes:
        neighbors: With the same label and the same set of neighbors.
        features: With the same label and the same feature row; NaN without features.
    """

    neighbors: float
    features: float


def duplication_rates(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    direction: Literal["out", "in"] = "out",
    binary_features: bool = False,
    num_classes: int | None = None,
) -> Duplication:
    """Duplication rates of a graph: (nodes - distinct keys) / nodes.

    The appendix table "Duplication detection for nodes of same labels" of "Clarify Confused Nodes
    via Separated Learning". The keys are (label, set of neighbors) and (label, feature row); a
    node is not added to its own set, self-loops stay, and isolated nodes share the empty set.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: Class per node; by default the graph's own. Unlabeled nodes are left out.
        direction: On a directed graph, compare the targets of outgoing edges (``"out"``, which is
            what the paper's numbers are) or the sources of incoming ones (``"in"``).
        binary_features: Compare only which features are not zero.
        num_classes: Number of classes; by default the graph's.
    """
    if direction not in ("out", "in"):
        raise InputError(f"direction must be 'out' or 'in'; got '{direction}'.")
    given = label_graph(graph, labels, num_classes, features=True)
    rows = given.graph.reverse() if direction == "out" and given.graph.is_directed else given.graph
    none = np.zeros(0, dtype=np.uint64)
    neighbors = _duplication_rate(given.labels, rows.indptr, rows.indices, none)
    if given.graph.features is None:
        return Duplication(neighbors, float("nan"))
    from scipy.sparse import csr_array

    features = csr_array(given.graph.features)
    bits = f"uint{8 * features.dtype.itemsize}"
    values = none if binary_features else features.data.view(bits).astype(np.uint64)
    starts = features.indptr.astype(np.int64)
    return Duplication(neighbors, _duplication_rate(given.labels, starts, features.indices, values))


def _duplication_rate(
    labels: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    values: NDArray[np.uint64],
) -> float:
    nodes = np.flatnonzero(labels >= 0)
    first, second = hash_rows(indptr, indices, values)
    lengths = np.diff(indptr)
    order = nodes[np.lexsort((second[nodes], first[nodes], lengths[nodes], labels[nodes]))]
    left, right = order[:-1], order[1:]
    alike = (labels[left] == labels[right]) & (lengths[left] == lengths[right])
    alike &= (first[left] == first[right]) & (second[left] == second[right])
    # Equal hashes are only a candidate: the rows themselves decide.
    alike &= compare_rows(left, right, alike, indptr, indices, values)
    return float(np.count_nonzero(alike)) / len(nodes)
