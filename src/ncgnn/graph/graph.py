"""The immutable graph that everything else works on.

Bringing edges and features into their canonical form.

A hash of what a graph holds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph import checks as _validate
from ncgnn.graph.checks import is_scipy_sparse, to_numpy, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array


def count_nodes(edges: NDArray[Any], num_nodes: int | None, labels: Any, features: Any) -> int:
    """Number of nodes: as given, else from labels or features, else from the edges."""
    if num_nodes is not None:
        return whole_number(num_nodes, "num_nodes", 0, np.iinfo(np.int64).max)
    for name, sized in (("labels", labels), ("features", features)):
        if sized is not None:
            shape = sized.shape if hasattr(sized, "shape") else to_numpy(sized, name).shape
            if not shape:
                raise InputError(f"{name} are a single value; give one per node.")
            return int(shape[0])
    return int(edges.max()) + 1 if edges.size else 0


def csr_from_edges(edges: NDArray[Any], num_nodes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """CSR over incoming edges of edges [2, E], rows sorted and repeated edges merged."""
    from scipy.sparse import coo_array

    ones = np.ones(edges.shape[1], dtype=bool)
    matrix = coo_array((ones, (edges[1], edges[0])), shape=(num_nodes, num_nodes)).tocsr()
    return matrix.indptr, matrix.indices


def edges_of_scipy(adjacency: Any) -> NDArray[Any]:
    """Edges [2, E] of a scipy matrix whose entry (i, j) is an edge from i to j; zeros are none."""
    if not is_scipy_sparse(adjacency):
        raise InputError(f"expected a scipy sparse matrix, got {type(adjacency).__name__}.")
    if adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"the adjacency has shape {list(adjacency.shape)}; it must be square.")
    entries = adjacency.tocoo()
    return np.stack([entries.row, entries.col])[:, entries.data != 0]


def canonical_csr(
    indptr: NDArray[Any], indices: NDArray[Any], *, drop_self_loops: bool
) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    """Sort the rows and merge repeated edges; returns row starts, sources and merged count."""
    num_nodes = len(indptr) - 1
    kind = np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64
    starts, sources = indptr.astype(np.int64, copy=False), indices.astype(kind, copy=False)
    duplicates = 0
    if not _rows_rise(starts, sources):
        starts, sources, duplicates = _sorted_and_merged(starts, sources)
    if drop_self_loops:
        rows = np.repeat(np.arange(num_nodes, dtype=kind), np.diff(starts))
        kept = sources != rows
        starts = np.concatenate([[0], np.cumsum(kept)])[starts]
        sources = sources[kept]
    return starts, sources, duplicates


def _rows_rise(starts: NDArray[np.int64], sources: NDArray[Any]) -> bool:
    """Whether every row is strictly increasing already."""
    rises = sources[1:] > sources[:-1]
    boundaries = starts[1:-1]
    inside = boundaries[(boundaries > 0) & (boundaries < len(sources))] - 1
    rises[inside] = True
    return bool(rises.all())


def _sorted_and_merged(
    starts: NDArray[np.int64], sources: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    from scipy.sparse import csr_array

    shape = (len(starts) - 1, len(starts) - 1)
    matrix = csr_array(
        (np.ones(len(sources), dtype=bool), sources.copy(), starts.copy()), shape=shape
    )
    matrix.sum_duplicates()
    merged = len(sources) - matrix.nnz
    return matrix.indptr.astype(np.int64), matrix.indices.astype(sources.dtype), merged


def canonical_features(features: Any) -> csr_array[Any] | NDArray[Any]:
    """Features as a dense array or as CSR with sorted columns and no stored zeros."""
    from scipy.sparse import csr_array

    if (
        not is_scipy_sparse(features)
        and hasattr(features, "layout")
        and "sparse" in str(features.layout)
    ):
        from ncgnn.graph.convert import scipy_of_torch

        features = scipy_of_torch(features)
    if not is_scipy_sparse(features):
        return _floats(to_numpy(features, "features"))
    matrix = csr_array(features, copy=True)
    if matrix.dtype.kind in "biu":
        matrix = matrix.astype(np.float64)  # repeated entries are added up, which could overflow
        matrix.sum_duplicates()
        matrix.data = _floats(matrix.data.astype(np.int64))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as float32 where that is exact, as float64 otherwise."""
    if values.dtype.kind not in "biu":
        return values
    large = values.size > 0 and max(abs(int(values.min())), abs(int(values.max()))) > 1 << 24
    return values.astype(np.float64 if large else np.float32)


def compact_classes(labels: NDArray[np.int64], num_classes: int) -> NDArray[Any]:
    """Labels in the smallest type the kernels know, with ``num_classes`` for unlabelled."""
    classes = labels.astype(np.uint8 if num_classes <= 255 else np.int32)
    if labels.size and labels.min() < 0:
        classes[labels < 0] = num_classes
    return classes


def fingerprint(graph: Graph) -> str:
    """SHA-256 of edges, labels, number of classes and features, in the form they are stored."""
    digest = hashlib.sha256(b"ncgnn graph 1\n")
    parts: list[tuple[str, NDArray[Any]]] = [
        ("indptr", graph.indptr.astype("<i8")),
        ("indices", graph.indices.astype("<i8")),
        ("labels", graph.labels.astype("<i8")),
        ("num_classes", np.array([graph.num_classes], dtype="<i8")),
    ]
    features = graph.features
    if isinstance(features, np.ndarray):
        parts.append(("features", features))
    elif features is not None:
        parts += [(name, getattr(features, name)) for name in ("indptr", "indices", "data")]
    for name, array in parts:
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


if TYPE_CHECKING:
    Features = csr_array[Any] | NDArray[Any]

SelfLoops = Literal["keep", "drop"]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph with features and labels, whose arrays cannot be written to.

    The adjacency is CSR over incoming edges: the neighbours of node ``i`` are the sources of the
    edges that end in it, ``indices[indptr[i]:indptr[i + 1]]``, sorted and without duplicates. An
    undirected graph stores both directions.

    Use the constructors (:meth:`from_edge_index`, :meth:`from_csr`, :meth:`from_scipy`,
    :meth:`from_pyg`, :meth:`from_networkx`), which check what they are given.

    Attributes:
        indptr: Row starts, int64 [n + 1].
        indices: Sources of incoming edges, int32 (int64 beyond 2³¹ nodes).
        labels: Class per node, int64 [n], -1 = unlabelled.
        num_classes: Number of classes, also those without a node.
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
        splits = {key: _frozen(value) for key, value in self.shipped_splits.items()}
        frozen: dict[str, Any] = {
            "indptr": _frozen(self.indptr),
            "indices": _frozen(self.indices),
            "labels": _frozen(self.labels),
            "features": None if self.features is None else _frozen_features(self.features),
            "node_ids": None if self.node_ids is None else _frozen(self.node_ids),
            "shipped_splits": MappingProxyType(splits),
        }
        for key, value in frozen.items():
            object.__setattr__(self, key, value)

    @classmethod
    def from_csr(
        cls,
        indptr: ArrayLike,
        indices: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        features: Any = None,
        num_classes: int | None = None,
        node_ids: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        name: str = "graph",
        origin: str = "",
        shipped_splits: Mapping[str, ArrayLike] | None = None,
        self_loops: SelfLoops = "keep",
        require_labels: bool = True,
    ) -> Graph:
        """Build a graph from CSR arrays over incoming edges.

        Args:
            indptr: Row starts [n + 1].
            indices: Sources of the incoming edges of each row; sorted and merged if they are not.
            labels: Class per node [n], -1 = unlabelled.
            features: Array, tensor or scipy sparse matrix [n, d].
            num_classes: Number of classes; by default the largest label plus one.
            node_ids: Identifier per node.
            class_names: Name per class.
            name: Name for tables and files.
            origin: Where the graph came from.
            shipped_splits: Published splits, by npz key.
            self_loops: ``"keep"`` them or ``"drop"`` them. Metrics never count a node as its own
                neighbour either way; models see what is kept.
            require_labels: Whether a graph without any label is an error.

        Raises:
            InputError: With one sentence on what is wrong and what to do.
        """
        if self_loops not in ("keep", "drop"):
            raise InputError(f"self_loops is '{self_loops}'; choose 'keep' or 'drop'.")
        starts, sources = to_numpy(indptr, "indptr"), to_numpy(indices, "indices")
        num_nodes = _validate.check_node_count(_validate.check_csr(starts, sources))
        rows, columns, duplicates = canonical_csr(
            starts, sources, drop_self_loops=self_loops == "drop"
        )
        classes = np.full(num_nodes, -1) if labels is None else labels
        checked = _validate.check_labels(classes, num_nodes)
        if require_labels:
            _validate.check_some_labelled(checked)
        names = None if class_names is None else _validate.check_class_names(class_names)
        count = _validate.check_class_count(checked, num_classes, names)
        if num_classes is None and names is None:
            _validate.warn_about_gaps(checked)
        matrix = None if features is None else canonical_features(features)
        return cls(
            indptr=rows,
            indices=columns,
            labels=checked,
            num_classes=count,
            features=None if matrix is None else _validate.check_features(matrix, num_nodes),
            node_ids=None if node_ids is None else _validate.check_node_ids(node_ids, num_nodes),
            class_names=names,
            name=name,
            origin=origin,
            shipped_splits=_validate.check_shipped_splits(shipped_splits or {}, num_nodes),
            merged_duplicates=duplicates,
        )

    @classmethod
    def from_edge_index(
        cls, edge_index: Any, *, num_nodes: int | None = None, **fields: Any
    ) -> Graph:
        """Build a graph from an array or tensor [2, E] of sources and targets.

        Args:
            edge_index: Row 0 the sources, row 1 the targets; both directions if undirected.
            num_nodes: Number of nodes; by default from the labels, the features or the edges.
            **fields: As in :meth:`from_csr`.
        """
        edges = _validate.check_edges(to_numpy(edge_index, "edge_index"))
        count = count_nodes(edges, num_nodes, fields.get("labels"), fields.get("features"))
        _validate.check_node_count(count)
        _validate.check_range("edge_index", edges, count)
        indptr, indices = csr_from_edges(edges, count)
        graph = cls.from_csr(indptr, indices, **fields)
        return replace(graph, merged_duplicates=edges.shape[1] - len(indices))

    @classmethod
    def from_scipy(cls, adjacency: Any, **fields: Any) -> Graph:
        """Build a graph from a scipy sparse matrix: entry (i, j) is an edge from i to j.

        Args:
            adjacency: Square sparse matrix; explicit zeros are no edges.
            **fields: As in :meth:`from_csr`.
        """
        edges = edges_of_scipy(adjacency)
        return cls.from_edge_index(edges, num_nodes=adjacency.shape[0], **fields)

    @classmethod
    def from_pyg(cls, data: Any, **fields: Any) -> Graph:
        """Build a graph from a PyG ``Data``; fields given here win over those of ``data``."""
        from ncgnn.graph.convert import fields_of_pyg

        return cls.from_edge_index(**(fields_of_pyg(data) | fields))

    @classmethod
    def from_networkx(cls, graph: Any, **fields: Any) -> Graph:
        """Build a graph from NetworkX.

        Nodes keep their order; their names become ``node_ids``. An undirected graph is stored in
        both directions.

        Args:
            graph: Any NetworkX graph; parallel edges are merged.
            **fields: As in :meth:`from_csr`; also ``label="y"``, the node attribute with the class
                (a whole number, a name, or absent for unlabelled), and ``feature="x"``, the one
                with a vector of numbers.
        """
        from ncgnn.graph.convert import fields_of_networkx

        return cls.from_edge_index(**(fields_of_networkx(graph, **fields)))

    def to_pyg(self, *, sparse_features: bool = False) -> Any:
        """Return a PyG ``Data`` with ``edge_index``, ``x``, ``y`` and published masks.

        Args:
            sparse_features: Give sparse features as a torch CSR tensor instead of a dense one.
        """
        from ncgnn.graph.convert import pyg_of_graph

        return pyg_of_graph(self, sparse_features=sparse_features)

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
        """Labels in the smallest type the kernels know, with ``num_classes`` for unlabelled."""
        return compact_classes(self.labels, self.num_classes)

    @cached_property
    def num_unlabelled(self) -> int:
        """Number of nodes without a label."""
        return int(np.count_nonzero(self.labels < 0))

    def neighbors(self, node: int) -> NDArray[Any]:
        """Sources of the edges that end in ``node``."""
        if not 0 <= node < self.num_nodes:
            raise InputError(f"there is no node {node}: the graph has {self.num_nodes} nodes.")
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def edge_index(self) -> NDArray[np.int64]:
        """The edges as int64 [2, E], sources above targets, ordered by target."""
        return np.stack([self.indices, self.targets]).astype(np.int64)

    def reverse(self) -> Graph:
        """The same graph with every edge turned round, so that rows list outgoing edges."""
        matrix = self.to_scipy()
        indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(self.indices.dtype)
        return replace(self, indptr=indptr, indices=indices)

    def with_labels(self, labels: ArrayLike, num_classes: int | None = None) -> Graph:
        """The same graph with other labels, for example a model's predictions."""
        checked = _validate.check_labels(labels, self.num_nodes)
        known = (self.num_classes or None) if num_classes is None else num_classes
        count = _validate.check_class_count(checked, known, None)
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


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only array; one that somebody could still write to is copied."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if array.flags.writeable or owner.flags.writeable or not array.flags.c_contiguous:
        array = array.copy(order="C")
        array.flags.writeable = False
    return array


def _frozen_features(features: Features) -> Features:
    if isinstance(features, np.ndarray):
        return _frozen(features)
    from scipy.sparse import csr_array

    parts = (_frozen(features.data), _frozen(features.indices), _frozen(features.indptr))
    return csr_array(parts, shape=features.shape)
