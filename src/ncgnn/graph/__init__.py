"""The graph container and its sparse kernels.

``Graph`` needs numpy and scipy only; the torch kernels live in :mod:`ncgnn.graph.sparse`.
"""

from ncgnn.graph._as_graph import GraphLike, as_graph
from ncgnn.graph._graph import Graph

__all__ = ["Graph", "GraphLike", "as_graph"]
