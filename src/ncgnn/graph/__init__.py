"""The graph container and its sparse kernels.

``Graph`` needs numpy and scipy only; the torch kernels live in :mod:`ncgnn.graph.sparse`.
"""

from ncgnn.graph.checks import check_class_count, check_labels, check_some_labelled, whole_number
from ncgnn.graph.convert import GraphLike, as_graph, to_numpy
from ncgnn.graph.graph import Graph, compact_classes, fingerprint

__all__ = [
    "Graph",
    "GraphLike",
    "as_graph",
    "check_class_count",
    "check_labels",
    "check_some_labelled",
    "compact_classes",
    "fingerprint",
    "to_numpy",
    "whole_number",
]
