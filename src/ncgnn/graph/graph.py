"""The immutable graph that everything else works on, read from and written to other libraries'."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import numpy as np

from ncgnn.errors import InputError, NcgnnWarning
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
    is_scipy_sparse,
    quiet_about_sparse_tensors,
    scipy_from_torch,
    to_numpy,
    warn_about_gaps,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Unpack

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph.checks import Features

_MASKS = {"train_masks": "train_mask", "val_masks": "val_mask", "test_masks": "test_mask"}

#: A ``Graph``, a PyG ``Data``, a NetworkX graph, a scipy sparse matrix, or an edge index [2, E].
GraphLike: TypeAlias = "Graph | Any"


class GraphFields(TypedDict, total=False):
    """What every constructor of :class:`Graph` takes besides the edges.

    Attributes:
        labels: Class per node [n]; -1, NaN, None and an empty text mean unlabeled.
        features: Array, tensor or sparse matrix [n, d].
        num_classes: Number of classes; by default the largest label plus one.
        shipped_splits: Published splits, by npz key.
        self_loops: ``"keep"`` them (the default) or ``"drop"`` them. Metrics never count a node as
            its own neighbor either way; models see what is kept.
        require_labels: Whether a graph without any label is an error, as it is by default.
    """

    labels: ArrayLike | None
    features: Any
    num_classes: int | None
    node_ids: ArrayLike | None
    class_names: Sequence[str] | None
    name: str
    origin: str
    shipped_splits: Mapping[str, ArrayLike] | None
    self_loops: Literal["keep", "drop"]
    require_labels: bool


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph with features and labels, whose arrays cannot be written to.

    The adjacency is CSR over incoming edges: the neighbors of node ``i`` are the sources of the
    edges that end in it, ``indices[indptr[i]:indptr[i + 1]]``, sorted and without duplicates. An
    undirected graph stores both directions.

    Use the constructors (:meth:`from_edge_index`, :meth:`from_csr`, :meth:`from_scipy`,
    :meth:`from_pyg`, :meth:`from_networkx`), which take :class:`GraphFields` and check their input.

    Attributes:
        indptr: Row starts, int64 [n + 1].
        indices: Sources of incoming edges, int32 (int64 beyond 2³¹ nodes).
        labels: Class per node, int64 [n], -1 = unlabeled.
        num_classes: Number of classes, including those without a node.
        features: Dense [n, d] or sparse CSR, float32 or float64; None when there are none.
        node_ids: The user's identifiers, one per node; None means 0 … n-1.
        class_names: One name per class, or None.
        name: A short name for tables and files.
        origin: Where the graph came from and what was done to it.
        shipped_splits: Splits that its authors publish, as arrays under the keys of the npz format.
        merged_duplicates: How many repeated edges were merged when the graph was built.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32] | NDArray[np.int64]
    labels: NDArray[np.int64]
    num_classes: int
    features: Features | None = None
    node_ids: NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    name: str = "graph"
    origin: str = ""
    shipped_splits: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    merged_duplicates: int = 0

    def __post_init__(self) -> None:
        splits = {key: _freeze(value) for key, value in self.shipped_splits.items()}
        frozen: dict[str, Any] = {
            "indptr": _freeze(self.indptr),
            "indices": _freeze(self.indices),
            "labels": _freeze(self.labels),
            "features": None if self.features is None else _freeze_features(self.features),
            "node_ids": None if self.node_ids is None else _freeze(self.node_ids),
            "shipped_splits": MappingProxyType(splits),
        }
        for key, value in frozen.items():
            object.__setattr__(self, key, value)

    @classmethod
    def from_csr(
        cls, indptr: ArrayLike, indices: ArrayLike, **fields: Unpack[GraphFields]
    ) -> Graph:
        """Build a graph from CSR arrays over incoming edges, sorted and merged if they are not."""
        starts, sources = to_numpy(indptr, "indptr"), to_numpy(indices, "indices")
        kind = _index_type(check_csr(starts, sources))
        starts, sources = starts.astype(np.int64, copy=False), sources.astype(kind, copy=False)
        merged = 0
        if not _rows_rise(starts, sources):
            starts, sources, merged = _sort_and_merge(starts, sources)
        return cls._check(starts, sources, merged, **fields)

    @classmethod
    def from_edge_index(
        cls, edge_index: Any, *, num_nodes: int | None = None, **fields: Unpack[GraphFields]
    ) -> Graph:
        """Build a graph from an array or tensor [2, E] of sources and targets.

        Args:
            edge_index: Row 0 the sources, row 1 the targets; both directions if undirected.
            num_nodes: Number of nodes; by default from the labels, the features or the edges.
            **fields: See :class:`GraphFields`.
        """
        from scipy.sparse import coo_array

        edges = check_edges(edge_index)
        count = _count_nodes(edges, num_nodes, fields.get("labels"), fields.get("features"))
        check_nodes(edges, "edge_index", count)
        ones = np.ones(edges.shape[1], dtype=bool)
        matrix = coo_array((ones, (edges[1], edges[0])), shape=(count, count)).tocsr()
        starts = matrix.indptr.astype(np.int64)
        sources = matrix.indices.astype(_index_type(count), copy=False)
        return cls._check(starts, sources, edges.shape[1] - matrix.nnz, **fields)

    @classmethod
    def _check(
        cls,
        indptr: NDArray[np.int64],
        indices: NDArray[Any],
        merged_duplicates: int,
        *,
        labels: ArrayLike | None = None,
        features: Any = None,
        num_classes: int | None = None,
        node_ids: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        name: str = "graph",
        origin: str = "",
        shipped_splits: Mapping[str, ArrayLike] | None = None,
        self_loops: Literal["keep", "drop"] = "keep",
        require_labels: bool = True,
    ) -> Graph:
        """Check all that comes with edges in canonical form."""
        if self_loops not in ("keep", "drop"):
            raise InputError(f"self_loops must be 'keep' or 'drop'; got '{self_loops}'.")
        num_nodes = len(indptr) - 1
        if self_loops == "drop":
            kept = indices != np.repeat(np.arange(num_nodes), np.diff(indptr))
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            indices = indices[kept]
        if num_nodes < 1:
            raise InputError("the graph is empty: it has no nodes.")
        classes = check_labels(np.full(num_nodes, -1) if labels is None else labels, num_nodes)
        if require_labels:
            check_some_labeled(classes)
        names = None if class_names is None else check_class_names(class_names)
        count = check_class_count(classes, num_classes, names)
        if num_classes is None and names is None:
            warn_about_gaps(classes)
        return cls(
            indptr=indptr,
            indices=indices,
            labels=classes,
            num_classes=count,
            features=None if features is None else check_features(features, num_nodes),
            node_ids=None if node_ids is None else check_node_ids(node_ids, num_nodes),
            class_names=names,
            name=name,
            origin=origin,
            shipped_splits=check_shipped_splits(shipped_splits or {}, num_nodes),
            merged_duplicates=merged_duplicates,
        )

    @classmethod
    def from_scipy(cls, adjacency: Any, **fields: Unpack[GraphFields]) -> Graph:
        """Build a graph from a square scipy sparse matrix: entry (i, j) ≠ 0 is an edge i → j."""
        if not is_scipy_sparse(adjacency):
            kind = type(adjacency).__name__
            raise InputError(f"adjacency must be a scipy sparse matrix; got {kind}.")
        if adjacency.shape[0] != adjacency.shape[1]:
            raise InputError(f"adjacency must be square; got shape {list(adjacency.shape)}.")
        entries = adjacency.tocoo()
        edges = np.stack([entries.row, entries.col])[:, entries.data != 0]
        return cls.from_edge_index(edges, num_nodes=adjacency.shape[0], **fields)

    @classmethod
    def from_pyg(cls, data: Any, **fields: Unpack[GraphFields]) -> Graph:
        """Build a graph from a PyG ``Data``; fields given here win over those of ``data``."""
        found: dict[str, Any] = {**_read_pyg(data), **fields}
        return cls.from_edge_index(**found)

    @classmethod
    def from_networkx(
        cls, graph: Any, *, label: str = "y", feature: str = "x", **fields: Unpack[GraphFields]
    ) -> Graph:
        """Build a graph from NetworkX.

        Nodes keep their order; their names become ``node_ids``. An undirected graph is stored in
        both directions.

        Args:
            graph: Any NetworkX graph; parallel edges are merged.
            label: The node attribute with the class: a whole number or a name; absent, None, NaN
                and an empty text mean unlabeled.
            feature: The node attribute with a vector of numbers.
            **fields: See :class:`GraphFields`; they win over those of ``graph``.
        """
        found: dict[str, Any] = {**_read_networkx(graph, label, feature), **fields}
        return cls.from_edge_index(**found)

    def to_pyg(self, *, sparse_features: bool = False) -> Any:
        """Return a PyG ``Data`` with ``edge_index``, ``x``, ``y`` and published masks.

        Args:
            sparse_features: Give sparse features as a torch CSR tensor instead of a dense one.
        """
        return _write_pyg(self, sparse_features=sparse_features)

    def to_scipy(self, rows: Literal["sources", "targets"] = "sources") -> csr_array[Any]:
        """Return the adjacency as a scipy CSR matrix of float32 ones.

        Args:
            rows: With ``"sources"``, entry (i, j) is an edge from i to j, as :meth:`from_scipy`
                reads it; with ``"targets"``, an edge from j to i, so that the matrix times features
                adds up what flows into each node.
        """
        from scipy.sparse import csr_array

        parts = (np.ones(len(self.indices), dtype=np.float32), self.indices, self.indptr)
        incoming = csr_array(parts, shape=(self.num_nodes, self.num_nodes))
        return incoming if rows == "targets" else incoming.T.tocsr()

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def num_entries(self) -> int:
        """Number of stored (directed) edges, self-loops included."""
        return len(self.indices)

    @property
    def num_edges(self) -> int:
        """Undirected edges when every edge is stored both ways, directed ones otherwise."""
        if self.is_directed:
            return self.num_entries
        return (self.num_entries + self.num_self_loops) // 2

    @property
    def num_features(self) -> int:
        """Number of features per node."""
        return 0 if self.features is None else int(self.features.shape[1])

    @cached_property
    def self_loops(self) -> NDArray[np.bool_]:
        """Per node, whether it has an edge to itself."""
        looped = np.zeros(self.num_nodes, dtype=bool)
        looped[self.indices[self.indices == self.targets]] = True
        looped.flags.writeable = False
        return looped

    @property
    def num_self_loops(self) -> int:
        """How many nodes have an edge to themselves."""
        return int(np.count_nonzero(self.self_loops))

    @cached_property
    def is_directed(self) -> bool:
        """Whether some edge is stored in one direction only."""
        outgoing = self.reverse()
        return not (
            np.array_equal(self.indptr, outgoing.indptr)
            and np.array_equal(self.indices, outgoing.indices)
        )

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of incoming edges per node, self-loops included."""
        return np.diff(self.indptr)

    @property
    def targets(self) -> NDArray[Any]:
        """The target of every stored edge, in the order of ``indices``."""
        return np.repeat(np.arange(self.num_nodes, dtype=self.indices.dtype), self.degrees)

    @cached_property
    def compact_labels(self) -> NDArray[Any]:
        """What :func:`compact_classes` makes of the labels."""
        return compact_classes(self.labels, self.num_classes)

    @cached_property
    def num_unlabeled(self) -> int:
        """Number of nodes without a label."""
        return int(np.count_nonzero(self.labels < 0))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of edges, labels, number of classes and features, in the form they are stored."""
        digest = hashlib.sha256(b"ncgnn graph 1\n")
        parts: list[tuple[str, NDArray[Any]]] = [
            ("indptr", self.indptr.astype("<i8")),
            ("indices", self.indices.astype("<i8")),
            ("labels", self.labels.astype("<i8")),
            ("num_classes", np.array([self.num_classes], dtype="<i8")),
        ]
        features = self.features
        if isinstance(features, np.ndarray):
            parts.append(("features", features))
        elif features is not None:
            parts += [(name, getattr(features, name)) for name in ("indptr", "indices", "data")]
        for name, array in parts:
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def neighbors(self, node: int) -> NDArray[Any]:
        """Sources of the edges that end in ``node``."""
        if not 0 <= node < self.num_nodes:
            raise InputError(f"there is no node {node}: the graph has {self.num_nodes} nodes.")
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def edge_index(self) -> NDArray[np.int64]:
        """The edges as int64 [2, E], sources above targets, ordered by target."""
        return np.stack([self.indices, self.targets]).astype(np.int64)

    def reverse(self) -> Graph:
        """The same graph with every edge reversed, so that rows list outgoing edges."""
        matrix = self.to_scipy()
        indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(self.indices.dtype)
        return replace(self, indptr=indptr, indices=indices)

    def with_labels(self, labels: ArrayLike, num_classes: int | None = None) -> Graph:
        """The same graph with other labels, for example a model's predictions."""
        checked = check_labels(labels, self.num_nodes)
        known = (self.num_classes or None) if num_classes is None else num_classes
        count = check_class_count(checked, known)
        names = self.class_names if count == self.num_classes else None
        return replace(self, labels=checked, num_classes=count, class_names=names)

    def __reduce__(self) -> tuple[Any, ...]:
        # The mapping of splits is a read-only view, which cannot be sent to another process.
        values = [getattr(self, one.name) for one in dataclass_fields(self)]
        return Graph, tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, nodes={self.num_nodes}, entries={self.num_entries}, "
            f"features={self.num_features}, classes={self.num_classes})"
        )


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
    if isinstance(graph, Graph):
        found = graph
        if require_labels and labels is None:
            check_some_labeled(graph.labels)
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
        unlabeled = getattr(graph, "y", None) is None
        return Graph.from_pyg(graph, **(given if unlabeled else own))
    if hasattr(graph, "nodes") and hasattr(graph, "is_directed"):
        return Graph.from_networkx(graph, **own)
    if is_scipy_sparse(graph):
        return Graph.from_scipy(graph, **given)
    if isinstance(graph, str | Path):
        raise InputError(f"graph must not be a name or path; use ncgnn.load('{graph}').")
    edges = to_numpy(graph, "the graph")
    if edges.dtype == object or edges.ndim != 2:
        raise InputError(
            f"cannot read a graph from {type(graph).__name__}; give a Graph, a PyG Data, a "
            "NetworkX graph, a scipy sparse matrix, or an edge index [2, E]."
        )
    return Graph.from_edge_index(edges, **given)


def compact_classes(labels: NDArray[np.int64], num_classes: int) -> NDArray[Any]:
    """Labels in the smallest type the kernels know, with ``num_classes`` for unlabeled."""
    classes = labels.astype(np.uint8 if num_classes <= 255 else np.int32)
    if labels.size and labels.min() < 0:
        classes[labels < 0] = num_classes
    return classes


def _index_type(num_nodes: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64


def _rows_rise(starts: NDArray[np.int64], sources: NDArray[Any]) -> bool:
    """Whether every row is strictly increasing already."""
    rises = sources[1:] > sources[:-1]
    boundaries = starts[1:-1]
    inside = boundaries[(boundaries > 0) & (boundaries < len(sources))] - 1
    rises[inside] = True
    return bool(rises.all())


def _sort_and_merge(
    starts: NDArray[np.int64], sources: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    """Rows in rising order without repeated edges, and how many were repeated."""
    from scipy.sparse import csr_array

    shape = (len(starts) - 1, len(starts) - 1)
    parts = (np.ones(len(sources), dtype=bool), sources.copy(), starts.copy())
    matrix = csr_array(parts, shape=shape)
    matrix.sum_duplicates()
    merged = len(sources) - matrix.nnz
    return matrix.indptr.astype(np.int64), matrix.indices.astype(sources.dtype), merged


def _count_nodes(edges: NDArray[Any], num_nodes: int | None, labels: Any, features: Any) -> int:
    """Number of nodes: as given, else from labels or features, else from the edges."""
    if num_nodes is not None:
        return whole_number(num_nodes, "num_nodes")
    for name, sized in (("labels", labels), ("features", features)):
        if sized is not None:
            shape = sized.shape if hasattr(sized, "shape") else to_numpy(sized, name).shape
            if not shape:
                raise InputError(f"{name} are a single value; give one per node.")
            return int(shape[0])
    return int(edges.max()) + 1 if edges.size else 0


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only array; one that could still be written to is copied."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if array.flags.writeable or owner.flags.writeable or not array.flags.c_contiguous:
        array = array.copy(order="C")
        array.flags.writeable = False
    return array


def _freeze_features(features: Features) -> Features:
    if isinstance(features, np.ndarray):
        return _freeze(features)
    from scipy.sparse import csr_array

    parts = (_freeze(features.data), _freeze(features.indices), _freeze(features.indptr))
    return csr_array(parts, shape=features.shape)


def _read_pyg(data: Any) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a PyG ``Data`` holds."""
    fields: dict[str, Any] = {"edge_index": _edges_of_pyg(data)}
    if getattr(data, "edge_weight", None) is not None:
        message = "edge_weight of the Data is not used: edges have no weights here."
        warnings.warn(message, NcgnnWarning, stacklevel=4)
    # PyG guesses the number of nodes from the edges unless it was set; labels know better.
    if "num_nodes" in data:
        fields["num_nodes"] = data.num_nodes
    for key, attribute in (("labels", "y"), ("features", "x"), ("num_classes", "num_classes")):
        value = getattr(data, attribute, None)
        if value is not None:
            fields[key] = value
    if {"labels", "features"} <= fields.keys() and len(fields["labels"]) != data.x.shape[0]:
        raise InputError(
            f"y has {len(fields['labels'])} entries, but x has {data.x.shape[0]} rows; each node "
            "needs one of both (label -1 = unknown)."
        )
    if isinstance(getattr(data, "name", None), str):
        fields["name"] = data.name
    for key in ("node_ids", "class_names"):
        if getattr(data, key, None) is not None:
            fields[key] = getattr(data, key)
    masks = {key: getattr(data, attribute, None) for key, attribute in _MASKS.items()}
    if all(mask is not None for mask in masks.values()):
        arrays = {key: to_numpy(mask, key) for key, mask in masks.items()}
        fields["shipped_splits"] = {
            key: mask[None] if mask.ndim == 1 else mask.T for key, mask in arrays.items()
        }
    return fields


def _edges_of_pyg(data: Any) -> Any:
    edge_index = getattr(data, "edge_index", None)
    if edge_index is not None:
        return edge_index
    adj_t = getattr(data, "adj_t", None)
    if adj_t is None:
        raise InputError("the Data has neither edge_index nor adj_t; set one of them.")
    if hasattr(adj_t, "to_torch_sparse_csr_tensor"):
        adj_t = adj_t.to_torch_sparse_csr_tensor()
    target, source = scipy_from_torch(adj_t).nonzero()
    return np.stack([source, target])


def _write_pyg(graph: Graph, *, sparse_features: bool) -> Any:
    """A PyG ``Data`` that holds copies of the graph's arrays."""
    import torch
    from torch_geometric.data import Data

    data = Data(
        edge_index=torch.from_numpy(graph.edge_index()),
        y=torch.from_numpy(graph.labels.copy()),
        num_nodes=graph.num_nodes,
    )
    if graph.features is not None:
        data.x = _torch_features(graph.features, sparse=sparse_features)
    for key, attribute in _MASKS.items():
        if key in graph.shipped_splits:
            masks = torch.from_numpy(graph.shipped_splits[key].T.copy())
            setattr(data, attribute, masks[:, 0] if masks.shape[1] == 1 else masks)
    data.name, data.num_classes = graph.name, graph.num_classes
    if graph.node_ids is not None:
        data.node_ids = graph.node_ids.tolist()
    if graph.class_names is not None:
        data.class_names = list(graph.class_names)
    return data


def _torch_features(features: Any, *, sparse: bool) -> Any:
    import torch

    if isinstance(features, np.ndarray):
        return torch.from_numpy(features.copy())
    if not sparse:
        return torch.from_numpy(features.toarray())
    with quiet_about_sparse_tensors():
        return torch.sparse_csr_tensor(
            torch.from_numpy(features.indptr.copy()),
            torch.from_numpy(features.indices.copy()),
            torch.from_numpy(features.data.copy()),
            size=features.shape,
            check_invariants=False,
        )


def _read_networkx(graph: Any, label: str, feature: str) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a NetworkX graph holds."""
    if not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
        raise InputError(f"graph must be a NetworkX graph; got {type(graph).__name__}.")
    position = {node: i for i, node in enumerate(graph.nodes)}
    edges = np.array([(position[u], position[v]) for u, v in graph.edges()], dtype=np.int64)
    edges = edges.reshape(-1, 2).T
    if not graph.is_directed():
        apart = edges[:, edges[0] != edges[1]]
        edges = np.concatenate([edges, apart[::-1]], axis=1)
    found: dict[str, Any] = {"edge_index": edges, "num_nodes": len(position)}
    found["node_ids"] = np.asarray([str(node) for node in position])
    classes = [attributes.get(label) for _, attributes in graph.nodes(data=True)]
    if any(value is not None for value in classes):
        found["labels"], names = _number_classes(classes)
        if names is not None:
            found["class_names"] = names
    vectors = [attributes.get(feature) for _, attributes in graph.nodes(data=True)]
    if any(value is not None for value in vectors):
        missing = [node for node, value in zip(position, vectors, strict=True) if value is None]
        if missing:
            raise InputError(f"node {missing[0]!r} has no attribute '{feature}', but others have.")
        found["features"] = to_numpy(vectors, f"attribute '{feature}'")
    return found


def _number_classes(classes: list[Hashable | None]) -> tuple[list[int], list[str] | None]:
    """Class numbers; names are numbered in sorted order, whole numbers stay as they are."""
    classes = [None if is_missing(value) else value for value in classes]
    known = [value for value in classes if value is not None]
    whole = (isinstance(value, int | np.integer) and not isinstance(value, bool) for value in known)
    if all(whole):
        numbers: list[Any] = classes
        return [-1 if value is None else int(value) for value in numbers], None
    names = sorted({str(value) for value in known})
    number = {name: i for i, name in enumerate(names)}
    return [-1 if value is None else number[str(value)] for value in classes], names
