"""Accepting a graph in whatever form a user holds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ncgnn.errors import InputError
from ncgnn.graph._graph import Graph
from ncgnn.graph._numpy import is_scipy_sparse, to_numpy
from ncgnn.graph._validate import check_some_labelled

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
    features: bool = True,
) -> Graph:
    """Turn any known form of a graph into a :class:`Graph`.

    Args:
        graph: ``Graph``, PyG ``Data``, NetworkX graph, scipy sparse matrix (entry (i, j) is an edge
            from i to j), or an array or tensor [2, E] of sources and targets.
        labels: Class per node; wins over the labels that ``graph`` holds. Those still say how many
            classes there are, so that predictions which miss a class change no metric's scale.
        num_classes: Number of classes; by default what the graph says, or the largest label plus
            one.
        require_labels: Whether a graph without any label is an error.
        features: Whether to take the features along; a ``Graph`` keeps them anyway.
    """
    if labels is not None:
        labels = to_numpy(labels, "labels")
    if isinstance(graph, Graph):
        found = graph
        if require_labels and labels is None:
            check_some_labelled(graph.labels)
    else:
        needed = require_labels and labels is None
        found = _convert(graph, labels, num_classes, require_labels=needed, features=features)
    if labels is None and num_classes in (None, found.num_classes):
        return found
    return found.with_labels(found.labels if labels is None else labels, num_classes)


def _convert(
    graph: Any, labels: Any, num_classes: int | None, *, require_labels: bool, features: bool
) -> Graph:
    if hasattr(graph, "node_types") and hasattr(graph, "edge_types"):
        raise InputError("graphs with several node types are not supported; use to_homogeneous().")
    own: dict[str, Any] = {"require_labels": require_labels}
    if num_classes is not None:
        own |= {"num_classes": num_classes, "class_names": None}
    if not features:
        own["features"] = None
    given = own if labels is None else own | {"labels": labels}
    if hasattr(graph, "edge_index") or hasattr(graph, "adj_t"):
        unlabelled = getattr(graph, "y", None) is None
        return Graph.from_pyg(graph, **(given if unlabelled else own))
    if hasattr(graph, "nodes") and hasattr(graph, "is_directed"):
        return Graph.from_networkx(graph, **own)
    if is_scipy_sparse(graph):
        return Graph.from_scipy(graph, **given)
    if isinstance(graph, str | Path):
        raise InputError(f"a graph is wanted; ncgnn.load('{graph}') gives it by name or file.")
    edges = to_numpy(graph, "the graph")
    if edges.dtype == object or edges.ndim != 2:
        raise InputError(
            f"cannot read a graph from {type(graph).__name__}; give a Graph, a PyG Data, a "
            "NetworkX graph, a scipy sparse matrix, or an edge index [2, E]."
        )
    return Graph.from_edge_index(edges, **given)
