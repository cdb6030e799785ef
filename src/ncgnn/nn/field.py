"""Receptive fields: the part of a graph that a model needs to answer for some nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.nn.base import Model

#: A field with more than this share of all nodes is the whole graph, which needs no copy.
LARGEST_SHARE = 0.9


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """A part of a graph in which some nodes look to a model as they do in the whole.

    Attributes:
        graph: The part, without labels; the whole graph where it would be most of it.
        nodes: The nodes of the whole graph that are in it, ascending.
        wanted: Where the wanted nodes are among them, in the order in which they were asked for.
    """

    graph: Graph
    nodes: NDArray[np.int64]
    wanted: NDArray[np.int64]


def receptive_field(graph: Graph, nodes: NDArray[Any], model: Model) -> ReceptiveField:
    """What of a graph a model's answers for some nodes depend on.

    Args:
        graph: The whole graph.
        nodes: The wanted nodes.
        model: Its :attr:`~ncgnn.nn.Model.reach` says how far it looks. Edges are followed both
            ways, because options may decide which of them it sees.
    """
    if model.reach is None:
        return _whole(graph, nodes)
    return nodes_around(graph, nodes, model.reach, outgoing=model.edges != "none")


def nodes_around(
    graph: Graph, nodes: NDArray[Any], hops: int, *, outgoing: bool = False
) -> ReceptiveField:
    """The nodes within some hops of the given ones, with all edges that have an inner end.

    Inner nodes are those fewer than ``hops`` hops away; every edge into them is kept. The others
    are there for their features.

    Args:
        graph: The whole graph.
        nodes: The nodes to begin with.
        hops: How far to go against the direction of edges.
        outgoing: Whether to go along with it, too, and to keep the edges out of inner nodes.
    """
    directed = outgoing and graph.is_directed
    ways = [(graph.indptr, graph.indices)]
    if directed:
        back = graph.reverse()
        ways.append((back.indptr, back.indices))
    nodes = np.asarray(nodes, dtype=np.int64)
    inside = np.zeros(graph.num_nodes, dtype=bool)
    inside[nodes] = True
    edge = np.flatnonzero(inside)
    inner = np.zeros_like(inside)
    for _ in range(hops):
        inner[edge] = True
        reached = np.zeros_like(inside)
        for indptr, indices in ways:
            reached[indices[_entries_of(indptr, edge)[0]]] = True
        reached &= ~inside
        inside |= reached
        edge = np.flatnonzero(reached)
        if np.count_nonzero(inside) > LARGEST_SHARE * graph.num_nodes:
            return _whole(graph, nodes)
        if not len(edge):
            break
    found = np.flatnonzero(inside)
    part = _part(graph, found, inner, both_ends=outgoing)
    return ReceptiveField(part, found, np.searchsorted(found, nodes))


def subgraph(graph: Graph, nodes: NDArray[Any]) -> Graph:
    """The given nodes with their labels, in ascending order, and the edges among them."""
    nodes = np.unique(np.asarray(nodes, dtype=np.int64))
    inside = np.zeros(graph.num_nodes, dtype=bool)
    inside[nodes] = True
    part = _part(graph, nodes, inside, both_ends=True, only_inner=True)
    ids = graph.node_ids
    return replace(
        part,
        labels=_lock(graph.labels[nodes]),
        node_ids=None if ids is None else _lock(ids[nodes]),
    )


def _whole(graph: Graph, nodes: NDArray[Any]) -> ReceptiveField:
    everyone = np.arange(graph.num_nodes)
    return ReceptiveField(graph, everyone, np.asarray(nodes, dtype=np.int64))


def _part(
    graph: Graph,
    nodes: NDArray[np.int64],
    inner: NDArray[np.bool_],
    *,
    both_ends: bool,
    only_inner: bool = False,
) -> Graph:
    """The given nodes with the edges into inner nodes and, with ``both_ends``, out of them.

    With ``only_inner``, both ends of an edge must be inner nodes.
    """
    rows = nodes if both_ends else nodes[inner[nodes]]
    entries, counts = _entries_of(graph.indptr, rows)
    sources = graph.indices[entries]
    if both_ends:
        kept = inner[sources]
        if not only_inner:
            kept = kept | np.repeat(inner[rows], counts)
        ends = np.concatenate([[0], np.cumsum(counts)])
        counts = np.diff(np.concatenate([[0], np.cumsum(kept)])[ends])
        entries, sources = entries[kept], sources[kept]
    place = np.empty(graph.num_nodes, dtype=graph.indices.dtype)
    place[nodes] = np.arange(len(nodes), dtype=place.dtype)
    degrees = np.zeros(len(nodes), dtype=np.int64)
    degrees[place[rows]] = counts
    features = graph.features
    if features is not None:
        features = features[nodes]
        parts = (features,) if isinstance(features, np.ndarray) else _arrays_of(features)
        for array in parts:
            _lock(array)
    weights, directions = graph.edge_weights, graph.edge_directions
    return replace(
        graph,
        indptr=_lock(np.concatenate([[0], np.cumsum(degrees)])),
        indices=_lock(place[sources]),
        labels=_lock(np.full(len(nodes), -1)),
        features=features,
        edge_weights=None if weights is None else _lock(weights[entries]),
        edge_directions=None if directions is None else _lock(directions[entries]),
        node_ids=None,
        shipped_splits={},
        num_added=0,
        source=None,
    )


def _entries_of(
    indptr: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the entries of some rows, one row after another, and how many each has."""
    starts = indptr[rows]
    counts = indptr[rows + 1] - starts
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum()), counts


def _arrays_of(matrix: Any) -> tuple[NDArray[Any], ...]:
    return matrix.data, matrix.indices, matrix.indptr


def _lock(array: NDArray[Any]) -> NDArray[Any]:
    """An array that nobody else holds, made read-only, so that a graph need not copy it."""
    array.flags.writeable = False
    return array
