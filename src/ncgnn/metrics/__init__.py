"""Metrics of the labels around each node, and what theory says about them.

Per-node vectors come first and means second: every per-node function returns one value per node,
NaN where it is undefined, and :func:`mean` averages the rest.
"""

from ncgnn.metrics import sql
from ncgnn.metrics.alternatives import (
    aggregation_similarity,
    density_aware_homophily,
    local_assortativity,
    two_hop_similarity,
)
from ncgnn.metrics.changes import Changes, ConfusionChange, Counts, compare_graphs
from ncgnn.metrics.confusion import (
    TIE,
    ConfusionTracker,
    TorchConfusion,
    attainable_confusion,
    confusion_masks,
    group_names,
    neighborhood_confusion,
    relative_confusion,
)
from ncgnn.metrics.drift import Drift
from ncgnn.metrics.homophily import (
    adjusted_homophily,
    class_insensitive_homophily,
    class_pair_counts,
    edge_homophily,
    label_informativeness,
    neighborhood_class_distribution,
    neighborhood_entropy,
    node_homophily,
)
from ncgnn.metrics.kinds import (
    KINDS,
    StrikingNode,
    class_names,
    lowest_share,
    neighbor_classes,
    node_kinds,
    striking_nodes,
)
from ncgnn.metrics.neighborhoods import (
    HopSearch,
    LabeledGraph,
    label_counts,
    label_graph,
    mean,
)
from ncgnn.metrics.summary import STRIKING, Analysis, Duplication, analyze, duplication_rates
from ncgnn.metrics.theory import (
    conditional_entropy,
    entropy_lower_bound,
    error_lower_bound,
    top_share,
)

__all__ = [
    "KINDS",
    "STRIKING",
    "TIE",
    "Analysis",
    "Changes",
    "ConfusionChange",
    "ConfusionTracker",
    "Counts",
    "Drift",
    "Duplication",
    "HopSearch",
    "LabeledGraph",
    "StrikingNode",
    "TorchConfusion",
    "adjusted_homophily",
    "aggregation_similarity",
    "analyze",
    "attainable_confusion",
    "class_insensitive_homophily",
    "class_names",
    "class_pair_counts",
    "compare_graphs",
    "conditional_entropy",
    "confusion_masks",
    "density_aware_homophily",
    "duplication_rates",
    "edge_homophily",
    "entropy_lower_bound",
    "error_lower_bound",
    "group_names",
    "label_counts",
    "label_graph",
    "label_informativeness",
    "local_assortativity",
    "lowest_share",
    "mean",
    "neighbor_classes",
    "neighborhood_class_distribution",
    "neighborhood_confusion",
    "neighborhood_entropy",
    "node_homophily",
    "node_kinds",
    "relative_confusion",
    "sql",
    "striking_nodes",
    "top_share",
    "two_hop_similarity",
]
