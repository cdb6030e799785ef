"""Accepting a graph in whatever form a user holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph._build import is_scipy_sparse
from ncgnn.graph._graph import Graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: A ``Graph``, a PyG ``Data``, a NetworkX graph, a scipy sparse matrix, or an edge index [2, E].
GraphLike: TypeAlias = "Graph | Any"


def as_graph(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    require_labels: bool = True,
) -> Graph:
    """Turn any known form of a graph into a :class:`Graph`.

    Args:
        graph: ``Graph``, PyG ``Data``, NetworkX graph, scipy sparse matrix (entry (i, j) is an edge
            from i to j), or an array or tensor [2, E] of sources and targets.
        labels: Class per node; wins over the labels that ``graph`` holds.
        num_classes: Number of classes; by default what the graph says, or the largest label plus
            one.
        require_labels: Whether a graph without any label is an error.
    """
    if labels is not None:
        labels = _to_numpy(labels)
    if isinstance(graph, Graph):
        if labels is None and num_classes is None:
            return graph
        return graph.with_labels(graph.labels if labels is None else labels, num_classes)
    given = {"labels": labels, "num_classes": num_classes, "require_labels": require_labels}
    fields = {key: value for key, value in given.items() if value is not None}
    return _convert(graph, fields)


def _convert(graph: Any, fields: dict[str, Any]) -> Graph:
    if is_scipy_sparse(graph):
        return Graph.from_scipy(graph, **fields)
    if hasattr(graph, "edge_index") or hasattr(graph, "adj_t"):
        return Graph.from_pyg(graph, **fields)
    if hasattr(graph, "nodes") and hasattr(graph, "is_directed"):
        return Graph.from_networkx(graph, **fields)
    edges = _to_numpy(graph)
    if edges.dtype == object or edges.ndim != 2:
        raise InputError(
            f"cannot read a graph from {type(graph).__name__}; give a Graph, a PyG Data, a "
            "NetworkX graph, a scipy sparse matrix, or an edge index [2, E]."
        )
    return Graph.from_edge_index(edges, **fields)


def _to_numpy(values: Any) -> np.ndarray[Any, Any]:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values)
