"""The immutable graph that everything else works on, read from and written to other libraries'."""

from __future__ import annotations

import difflib
import hashlib
from collections import ChainMap
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph.checks import (
    check_class_count,
    check_class_names,
    check_csr,
    check_edges,
    check_feature_names,
    check_features,
    check_labels,
    check_node_ids,
    check_nodes,
    check_shipped_splits,
    check_some_labeled,
    is_scipy_sparse,
    is_whole,
    number_classes,
    to_numpy,
    warn_about_gaps,
    whole_number,
)
from ncgnn.graph.conversion import read_networkx, read_pyg, write_pyg
from ncgnn.graph.edges import (
    BACKWARD,
    FORWARD,
    Edges,
    check_edge_directions,
    check_edge_weights,
    index_type,
    insert_edges,
    merge_edges,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph.checks import Features

# Comparing texts is slow: of more candidates, only these are compared with a misspelt id.
_MOST_LIKE = 5_000
# Numbers that are hashed or compared at a time.
_AT_ONCE = 1 << 20
#: A ``Graph``, a PyG ``Data``, a NetworkX graph, a scipy sparse matrix, or an edge index [2, E].
GraphLike: TypeAlias = "Graph | Any"


class GraphSource(Protocol):
    """The tables that a graph was made of, which know how to read more of the same kind."""

    @property
    def extend(self) -> Callable[..., Graph]:
        """Called with a graph, nodes, edges and options, what :meth:`Graph.extend` gives."""
        ...


class GraphFields(TypedDict, total=False):
    """What every constructor of :class:`Graph` takes besides the edges.

    Attributes:
        labels: Class per node [n], as a number or a name; -1, NaN, None and an empty text mean
            unlabeled. Names are numbered in sorted order unless ``class_names`` orders them.
        features: Array, tensor or sparse matrix [n, d].
        edge_weights: A positive number per given edge; those of repeated edges add up.
        edge_directions: 1, 2 or 3 per given edge; see :class:`Graph`.
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
    feature_names: Sequence[str] | None
    edge_weights: ArrayLike | None
    edge_directions: ArrayLike | None
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
        feature_names: One name per feature, or None.
        edge_weights: Weight per stored edge, float32, in the order of ``indices``; None = all 1.
        edge_directions: Per stored edge, 1 = it was given as source → target, 2 = only the reverse
            was, and it is stored because edges count in both directions, 3 = both were. None =
            nothing is known beyond what is stored.
        name: A short name for tables and files.
        origin: Where the graph came from and what was done to it.
        shipped_splits: Splits that its authors publish, as arrays under the keys of the npz format.
        merged_duplicates: How many repeated edges were merged when the graph was built.
        num_added: How many of the last nodes came by :meth:`extend`.
        source: The tables that it was made of: their schema and encoders; None if it was not.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32] | NDArray[np.int64]
    labels: NDArray[np.int64]
    num_classes: int
    features: Features | None = None
    node_ids: NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    edge_weights: NDArray[np.float32] | None = None
    edge_directions: NDArray[np.uint8] | None = None
    name: str = "graph"
    origin: str = ""
    shipped_splits: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    merged_duplicates: int = 0
    num_added: int = 0
    source: GraphSource | None = None

    def __post_init__(self) -> None:
        splits = {key: _freeze(value) for key, value in self.shipped_splits.items()}
        frozen: dict[str, Any] = {
            "indptr": _freeze(self.indptr),
            "indices": _freeze(self.indices),
            "labels": _freeze(self.labels),
            "features": None if self.features is None else _freeze_features(self.features),
            "shipped_splits": MappingProxyType(splits),
        }
        for key in ("node_ids", "edge_weights", "edge_directions"):
            value = getattr(self, key)
            frozen[key] = None if value is None else _freeze(value)
        for key, value in frozen.items():
            object.__setattr__(self, key, value)

    @classmethod
    def from_csr(
        cls, indptr: ArrayLike, indices: ArrayLike, **fields: Unpack[GraphFields]
    ) -> Graph:
        """Build a graph from CSR arrays over incoming edges, sorted and merged if they are not."""
        starts, sources = to_numpy(indptr, "indptr"), to_numpy(indices, "indices")
        count = check_csr(starts, sources)
        starts = starts.astype(np.int64, copy=False)
        extra = _take_edge_fields(fields, len(sources))
        if _rows_rise(starts, sources):
            sources = sources.astype(index_type(count), copy=False)
            weights, directions = extra
            narrow = None if weights is None else weights.astype(np.float32)
            return cls._check(Edges(starts, sources, narrow, directions), **fields)
        targets = np.repeat(np.arange(count), np.diff(starts))
        return cls._check(_lock_edges(merge_edges(targets, sources, count, *extra)), **fields)

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
        edges = check_edges(edge_index)
        count = _count_nodes(edges, num_nodes, fields.get("labels"), fields.get("features"))
        check_nodes(edges, "edge_index", count)
        extra = _take_edge_fields(fields, edges.shape[1])
        merged = _lock_edges(merge_edges(edges[1], edges[0], count, *extra))
        return cls._check(merged, **fields)

    @classmethod
    def _check(
        cls,
        edges: Edges,
        *,
        labels: ArrayLike | None = None,
        features: Any = None,
        num_classes: int | None = None,
        node_ids: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        edge_weights: ArrayLike | None = None,
        edge_directions: ArrayLike | None = None,
        name: str = "graph",
        origin: str = "",
        shipped_splits: Mapping[str, ArrayLike] | None = None,
        self_loops: Literal["keep", "drop"] = "keep",
        require_labels: bool = True,
    ) -> Graph:
        """Check all that comes with edges in canonical form, which hold weights and directions."""
        if self_loops not in ("keep", "drop"):
            raise InputError(f"self_loops must be 'keep' or 'drop'; got '{self_loops}'.")
        num_nodes = len(edges.indptr) - 1
        if self_loops == "drop":
            edges = _lock_edges(edges.without_loops())
        if num_nodes < 1:
            raise InputError("the graph is empty: it has no nodes.")
        names = None if class_names is None else check_class_names(class_names)
        numbers, names = (-1, names) if labels is None else number_classes(labels, names)
        if class_names is None and names is not None and num_classes not in (None, len(names)):
            names = None  # there are classes without a name
        numbers = np.full(num_nodes, -1) if labels is None else numbers
        classes = _lock(check_labels(numbers, num_nodes))
        if require_labels:
            check_some_labeled(classes)
        count = check_class_count(classes, num_classes, names)
        if num_classes is None and names is None:
            warn_about_gaps(classes)
        checked = None if features is None else check_features(features, num_nodes)
        width = 0 if checked is None else int(checked.shape[1])
        return cls(
            indptr=edges.indptr,
            indices=edges.indices,
            labels=classes,
            num_classes=count,
            features=checked,
            node_ids=None if node_ids is None else check_node_ids(node_ids, num_nodes),
            class_names=names,
            feature_names=check_feature_names(feature_names, width),
            edge_weights=edges.weights,
            edge_directions=edges.directions,
            name=name,
            origin=origin,
            shipped_splits=check_shipped_splits(shipped_splits or {}, num_nodes),
            merged_duplicates=edges.merged,
        )

    @classmethod
    def from_scipy(cls, adjacency: Any, **fields: Unpack[GraphFields]) -> Graph:
        """Build a graph from a square scipy sparse matrix: entry (i, j) ≠ 0 is an edge i → j.

        Entries are not taken as weights; pass them as ``edge_weights`` of an edge index if they
        are.
        """
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
        found: dict[str, Any] = {**read_pyg(data), **fields}
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
        found: dict[str, Any] = {**read_networkx(graph, label, feature), **fields}
        return cls.from_edge_index(**found)

    def to_pyg(self, *, sparse_features: bool = False) -> Any:
        """Return a PyG ``Data`` with ``edge_index``, ``x``, ``y`` and published masks.

        Args:
            sparse_features: Give sparse features as a torch CSR tensor instead of a dense one.
        """
        return write_pyg(self, sparse_features=sparse_features)

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
        rows = max(1, self.num_nodes * _AT_ONCE // max(1, self.num_entries))
        for first in range(0, self.num_nodes, rows):  # so that nothing as large is made
            starts = self.indptr[first : first + rows + 1]
            sources = self.indices[starts[0] : starts[-1]]
            targets = np.repeat(np.arange(first, first + len(starts) - 1), np.diff(starts))
            looped[sources[sources == targets]] = True
        looped.flags.writeable = False
        return looped

    @property
    def num_self_loops(self) -> int:
        """How many nodes have an edge to themselves."""
        return int(np.count_nonzero(self.self_loops))

    @cached_property
    def is_directed(self) -> bool:
        """Whether some edge is stored in one direction only."""
        outgoing = Edges(self.indptr, self.indices).reverse()
        return not (
            np.array_equal(self.indptr, outgoing.indptr)
            and np.array_equal(self.indices, outgoing.indices)
        )

    @cached_property
    def has_direction(self) -> bool:
        """Whether it is known of some edge that it points one way only."""
        if self.edge_directions is None:
            return self.is_directed
        return bool((self.edge_directions != FORWARD | BACKWARD).any())

    @property
    def edges(self) -> Edges:
        """The stored edges with what they carry."""
        parts = (self.indptr, self.indices, self.edge_weights, self.edge_directions)
        return Edges(*parts, self.merged_duplicates)

    @property
    def ids(self) -> NDArray[Any]:
        """The user's identifiers, or 0 … n-1 where there are none."""
        return np.arange(self.num_nodes) if self.node_ids is None else self.node_ids

    @cached_property
    def places(self) -> Mapping[Any, int]:
        """The number of every node by its identifier."""
        return {name: place for place, name in enumerate(self.ids.tolist())}

    def find(self, ids: Any) -> NDArray[np.int64]:
        """The numbers of nodes that are named by their identifiers.

        Raises:
            InputError: It names up to five that the graph does not have.
        """
        wanted = to_numpy(ids, "ids")
        names = wanted.reshape(-1).tolist()
        if self.ids.dtype.kind == "U":
            names = [str(name) for name in names]
        elif wanted.dtype.kind in "UO":
            names = [int(name) if is_whole(str(name)) else name for name in names]
        found = [self.places.get(name, -1) for name in names]
        unknown = [str(name) for name, place in zip(names, found, strict=True) if place < 0]
        if unknown:
            listed = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            close = self._like(unknown[0]) if len(unknown) == 1 else []
            hint = (
                f"did you mean {' or '.join(close)}?"
                if close
                else f"its ids are like {', '.join(map(str, self.ids[:3].tolist()))}."
            )
            raise InputError(f"the graph '{self.name}' has no node {listed}; {hint}")
        return np.array(found, dtype=np.int64)

    def _like(self, name: str) -> list[str]:
        """Ids that somebody may have meant."""
        wanted = name.casefold()
        near: list[str] = [
            text
            for text in map(str, self.ids.tolist())
            if abs(len(text) - len(name)) <= 2 and text[:1].casefold() == wanted[:1]
        ]
        same = [text for text in near if text.casefold() == wanted]
        return same[:3] or difflib.get_close_matches(name, near[:_MOST_LIKE], n=3, cutoff=0.75)

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
        wide, numbers = np.dtype("<i8"), np.array([self.num_classes])
        whole = {"indptr": self.indptr, "indices": self.indices, "labels": self.labels}
        whole["num_classes"] = numbers
        parts: list[tuple[str, NDArray[Any], np.dtype[Any]]] = [
            (name, array, wide) for name, array in whole.items()
        ]
        features = self.features
        if isinstance(features, np.ndarray):
            parts.append(("features", features, features.dtype))
        elif features is not None:
            for name in ("indptr", "indices", "data"):
                array = getattr(features, name)
                parts.append((name, array, array.dtype))
        for name in ("edge_weights", "edge_directions"):
            if (array := getattr(self, name)) is not None:
                parts.append((name, array, array.dtype))
        for name, array, kind in parts:
            digest.update(f"{name} {kind.str} {array.shape}\n".encode())
            flat = array.reshape(-1)  # in parts, so that nothing as large is made
            for first in range(0, flat.size, _AT_ONCE):
                part = flat[first : first + _AT_ONCE]
                digest.update(np.ascontiguousarray(part, dtype=kind).data)
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
        return self._with_edges(_lock_edges(self.edges.reverse()))

    def keep_edges(self, kept: NDArray[np.bool_]) -> Graph:
        """The same graph with those stored edges only that a mask names."""
        return self._with_edges(_lock_edges(self.edges.keep(kept)))

    def with_features(self, node: int, row: NDArray[Any]) -> Graph:
        """The same graph with other features of a node, which are 0 where they were 0 before."""
        features = self.features
        if features is None:
            raise InputError(f"the graph '{self.name}' has no features.")
        if isinstance(features, np.ndarray):
            changed = features.copy()
            changed[node] = row
            return replace(self, features=_lock(changed))
        from scipy.sparse import csr_array

        own = slice(*features.indptr[node : node + 2].tolist())
        entries = features.data.copy()
        entries[own] = row[features.indices[own]]
        parts = (_lock(entries), features.indices, features.indptr)
        return replace(self, features=csr_array(parts, shape=features.shape))

    def _with_edges(self, edges: Edges, **fields: Any) -> Graph:
        return replace(
            self,
            indptr=edges.indptr,
            indices=edges.indices,
            edge_weights=edges.weights,
            edge_directions=edges.directions,
            merged_duplicates=edges.merged,
            **fields,
        )

    def extend(self, nodes: Any, edges: Any = None, **options: Any) -> Graph:
        """The same graph with more nodes after its own, for example those of today.

        A graph that was made of tables takes tables: their columns are encoded as the first ones
        were, rows of nodes that it has already are left out, and ``options`` are those of
        :meth:`ncgnn.data.Tables.extend`. Any other graph takes arrays, see :meth:`add_nodes`.
        """
        if self.source is not None:
            return self.source.extend(self, nodes, edges, **options)
        return self.add_nodes(nodes, edges, **options)

    def add_nodes(
        self,
        features: Any,
        edge_index: Any = None,
        *,
        labels: ArrayLike | None = None,
        node_ids: ArrayLike | None = None,
        edge_weights: ArrayLike | None = None,
    ) -> Graph:
        """The same graph with more nodes after its own, given as arrays.

        Args:
            features: One row per new node, as the graph has them; their number where it has none.
            edge_index: Sources and targets [2, E], new nodes being numbered from ``num_nodes`` on.
                They count both ways unless the graph is directed.
            labels: Class per new node, -1 = unknown.
            node_ids: Identifiers of the new nodes, where the graph has some.
            edge_weights: A positive number per edge; by default 1.
        """
        if self.features is None:
            added, rows = whole_number(features, "nodes", 1), None
        else:
            shape = getattr(features, "shape", None) or to_numpy(features, "features").shape
            if not shape:
                raise InputError(f"features must be a row per new node; got {features!r:.200}.")
            rows = check_features(features, int(shape[0]))
            added = int(rows.shape[0])
            if rows.shape[1] != self.num_features:
                raise InputError(
                    f"the graph has {self.num_features} features; the new nodes have "
                    f"{rows.shape[1]}."
                )
        count = self.num_nodes + added
        new_edges = check_edges(np.zeros((2, 0), np.int64) if edge_index is None else edge_index)
        check_nodes(new_edges, "edge_index", count)
        sources, targets = new_edges
        weights = None
        if edge_weights is not None:
            weights = check_edge_weights(edge_weights, len(sources)).astype(np.float32)
        bits = None
        both_ways = self.edge_directions is not None or not self.is_directed
        if both_ways:
            # A self-loop is one entry whichever way it is read.
            back = sources != targets
            bits = np.full(len(sources) + int(back.sum()), FORWARD, dtype=np.uint8)
            bits[len(sources) :] = BACKWARD
            sources, targets = (
                np.concatenate([sources, targets[back]]),
                np.concatenate([targets, sources[back]]),
            )
            weights = None if weights is None else np.concatenate([weights, weights[back]])
        bits = None if self.edge_directions is None else bits
        edges = insert_edges(self.edges, count, targets, sources, weights, bits)
        numbers = [-1] * added if labels is None else number_classes(labels, self.class_names)[0]
        more = check_labels(numbers, added)
        if self.num_classes or more.max() >= 0:
            check_class_count(more, self.num_classes)
        splits = {key: _pad_masks(part, added) for key, part in self.shipped_splits.items()}
        result = self._with_edges(
            _lock_edges(edges),
            labels=_lock(np.concatenate([self.labels, more])),
            features=None if rows is None else _stack(self.features, rows),
            node_ids=self._extend_ids(node_ids, added),
            shipped_splits=splits,
            num_added=self.num_added + added,
        )
        if both_ways and not self.is_directed:
            result.__dict__["is_directed"] = False  # found out once, not for every extension
        if result.node_ids is not None:
            new = result.node_ids[self.num_nodes :].tolist()
            places = dict(zip(new, range(self.num_nodes, count), strict=True))
            result.__dict__["places"] = ChainMap(places, *_maps(self.places))
        return result

    def add_edges(self, edges: Edges) -> Graph:
        """The same nodes with more stored edges, as :func:`ncgnn.graph.merge_edges` makes them.

        An edge that is stored already gets the larger weight and both directions.
        """
        targets = np.repeat(np.arange(self.num_nodes), np.diff(edges.indptr))
        more = (targets, edges.indices, edges.weights, edges.directions)
        result = self._with_edges(_lock_edges(insert_edges(self.edges, self.num_nodes, *more)))
        if "places" in self.__dict__:
            result.__dict__["places"] = self.places
        return result

    def _extend_ids(self, node_ids: ArrayLike | None, added: int) -> NDArray[Any] | None:
        if self.node_ids is None:
            return None
        if node_ids is None:
            raise InputError(f"node_ids must name the {added} new nodes; the graph has ids.")
        new = check_node_ids(node_ids, added)
        texts = self.node_ids.dtype.kind == "U"
        if (new.dtype.kind == "U") != texts:
            wanted, found = ("texts", "numbers") if texts else ("whole numbers", "texts")
            raise InputError(f"node_ids must be {wanted} as in the graph; got {found}.")
        for name in new.tolist():
            if name in self.places:
                raise InputError(f"node_ids: the graph has a node {name} already.")
        return _lock(np.concatenate([self.node_ids, new]))

    def with_labels(self, labels: ArrayLike, num_classes: int | None = None) -> Graph:
        """The same graph with other labels, for example a model's predictions."""
        numbers, names = number_classes(labels, self.class_names)
        checked = check_labels(numbers, self.num_nodes)
        known = (self.num_classes or None) if num_classes is None else num_classes
        if names is not None and names != self.class_names:
            known = len(names)
        count = check_class_count(checked, known)
        names = names if names is not None and count == len(names) else None
        return replace(self, labels=checked, num_classes=count, class_names=names)

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self  # nobody can write to it

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


def _rows_rise(starts: NDArray[np.int64], sources: NDArray[Any]) -> bool:
    """Whether every row is strictly increasing already: where entries fall, a row must begin."""
    for first in range(0, len(sources) - 1, _AT_ONCE):  # so that nothing as large is made
        part = sources[first : first + _AT_ONCE + 1]
        falls = np.flatnonzero(part[1:] <= part[:-1]) + (first + 1)
        if not np.array_equal(starts[np.searchsorted(starts, falls)], falls):
            return False
    return True


def _take_edge_fields(
    fields: Any, num_edges: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.uint8] | None]:
    """Weights and directions of the given edges, checked and taken out of the fields."""
    weights, directions = fields.pop("edge_weights", None), fields.pop("edge_directions", None)
    return (
        None if weights is None else check_edge_weights(weights, num_edges),
        None if directions is None else check_edge_directions(directions, num_edges),
    )


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


def _lock(array: NDArray[Any]) -> NDArray[Any]:
    """An array that nobody else holds, made read-only, so that it need not be copied."""
    array.flags.writeable = False
    return array


def _lock_edges(edges: Edges) -> Edges:
    for array in (edges.indptr, edges.indices, edges.weights, edges.directions):
        if array is not None:
            array.flags.writeable = False
    return edges


def _stack(features: Any, rows: Features) -> Features:
    """Rows of features after others, in the form and type of the first."""
    if isinstance(features, np.ndarray):
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return _lock(np.concatenate([features, dense.astype(features.dtype)]))
    from scipy.sparse import csr_array

    more = csr_array(rows, dtype=features.dtype)
    start = features.indptr[-1]
    parts = (
        _lock(np.concatenate([features.data, more.data])),
        _lock(np.concatenate([features.indices, more.indices.astype(features.indices.dtype)])),
        _lock(np.concatenate([features.indptr, more.indptr[1:].astype(start.dtype) + start])),
    )
    return csr_array(parts, shape=(features.shape[0] + more.shape[0], features.shape[1]))


def _maps(places: Mapping[Any, int]) -> list[dict[Any, int]]:
    """The dictionaries of a mapping, so that chains of them stay flat."""
    maps: Any = places.maps if isinstance(places, ChainMap) else [places]
    return maps


def _pad_masks(part: NDArray[Any], added: int) -> NDArray[Any]:
    if part.dtype != bool:
        return part
    return np.concatenate([part, np.zeros((len(part), added), dtype=bool)], axis=1)


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
