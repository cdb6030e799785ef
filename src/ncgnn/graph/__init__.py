"""The graph container, the door for other forms of graphs, and the checks of all input.

It needs numpy and scipy only.
"""

from ncgnn.graph.checks import (
    check_class_count,
    check_class_names,
    check_csr,
    check_edges,
    check_features,
    check_labels,
    check_node_ids,
    check_nodes,
    check_shipped_splits,
    check_some_labeled,
    is_missing,
    is_whole,
    number_classes,
    to_numpy,
    whole_number,
)
from ncgnn.graph.edges import BACKWARD, FORWARD, Edges, index_type, merge_edges
from ncgnn.graph.graph import Graph, GraphFields, GraphLike, as_graph, compact_classes

__all__ = [
    "BACKWARD",
    "FORWARD",
    "Edges",
    "Graph",
    "GraphFields",
    "GraphLike",
    "as_graph",
    "check_class_count",
    "check_class_names",
    "check_csr",
    "check_edges",
    "check_features",
    "check_labels",
    "check_node_ids",
    "check_nodes",
    "check_shipped_splits",
    "check_some_labeled",
    "compact_classes",
    "index_type",
    "is_missing",
    "is_whole",
    "merge_edges",
    "number_classes",
    "to_numpy",
    "whole_number",
]
