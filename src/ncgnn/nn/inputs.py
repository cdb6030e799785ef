"""What a model sees of a graph, on one device and in one precision."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch

from ncgnn.errors import InputError
from ncgnn.graph import as_graph, index_type
from ncgnn.sparse import (
    ConstantSparse,
    add_self_loops,
    bounds,
    directed_normalize,
    gcn_normalize,
    row_normalize,
    share,
    sparse_product,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.nn.blocks import Degrees
    from ncgnn.sparse import SparsePattern

#: A constant matrix, in whichever form multiplies faster.
Constant: TypeAlias = "ConstantSparse | torch.Tensor"

FeatureScaling = Literal["raw", "row"]
#: Which edges bring messages to a node: those into it, those into it and out of it alike, or both
#: kinds with weights of their own for each.
Direction: TypeAlias = Literal["incoming", "both", "separate"]
_Made = TypeVar("_Made")

# One multiply-add with a stored entry costs as much as this many in a dense product, so that a
# matrix is better dense when more than one entry in seven is not zero (benchmarks/features.py).
SPARSE_COST = 7.0
# A product of operator and features is not formed beyond this many entries: 2 GiB of float32.
MOST_ENTRIES = 1 << 29


class GraphInputs:
    """The constant tensors of a graph that models work on.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes, for example a PyG ``Data``.
        device: Where the tensors go.
        dtype: float32 or float64.
        scaling: ``"raw"`` features, or ``"row"``: every row divided by its sum where that is above
            one, as PyG's ``NormalizeFeatures`` does.

    Attributes:
        features: Sparse or dense, whichever multiplies faster. Dense ones may be in the memory of
            the graph, or in a file, and must never be changed in place.
        labels: Class per node, -1 = unlabeled; for training and scores.
        known: Class per node whose label a model may read in a pass, which are training nodes; -1
            for all others, and by default for all.
        passes_once: Whether there is one pass only, so that little is worth being kept.
        num_rows: How many rows a layer computes, those of the first nodes: all of them, but in a
            :class:`ncgnn.nn.Block`.
        in_blocks: Whether models are computed a part of the nodes at a time.
        degrees: Of the nodes in the whole graph, where this is a part of it; None: it is whole.
    """

    passes_once: bool = False
    in_blocks: bool = False
    degrees: Degrees | None = None

    def __init__(
        self,
        graph: GraphLike,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        scaling: FeatureScaling = "raw",
    ) -> None:
        self.graph = as_graph(graph, require_labels=False)
        self.device = torch.device(device)
        self.dtype = dtype
        self.scaling: FeatureScaling = scaling
        self.num_nodes = self.num_rows = self.graph.num_nodes
        self.num_classes = self.graph.num_classes
        features = features_of(self.graph)
        self.features = _constant(_scale(features, scaling), self.device, dtype)
        self.num_features = int(self.features.shape[1])
        self.labels = share(self.graph.labels).to(self.device)
        self.known = torch.full_like(self.labels, -1)
        self._propagated: dict[int, _Propagated] = {}
        self._kept: dict[Hashable, Any] = {}
        self._of_edges: dict[Hashable, Any] = {}

    @cached_property
    @torch.inference_mode(False)
    def everyone(self) -> torch.Tensor:
        """All nodes."""
        return torch.arange(self.num_nodes, device=self.device)

    def knowing(self, known: torch.Tensor) -> GraphInputs:
        """The same graph with other labels that a model may read; see ``known``."""
        known = known.to(self.device)
        if torch.equal(known, self.known):
            return self
        changed = copy(self)  # what is kept is of features and edges alone, and shared
        changed.known = known
        return changed

    def number_entries(self, kind: int, pattern: SparsePattern) -> torch.Tensor | None:
        """The numbers of the entries of a kind of messages for dropout; None: their places."""
        return None

    @property
    def x(self) -> torch.Tensor:
        """The features as PyG's layers take them: dense [n, features], made once."""
        if isinstance(self.features, torch.Tensor):
            return self.features
        return self.kept("x", self.features.to_dense)

    @property
    def edge_index(self) -> torch.Tensor:
        """The edges as PyG's layers take them: source → target [2, E], without self-loops."""
        return self.kept("edge_index", lambda: self.adjacency.pattern.edge_index)

    @cached_property
    @torch.inference_mode(False)
    def adjacency(self) -> ConstantSparse:
        """Row = target, column = source, all ones, without self-loops."""
        return self._make_adjacency()

    def _make_adjacency(self) -> ConstantSparse:
        return self._constant(self._stored(np.ones(self.graph.num_entries, dtype=np.float32)))

    @cached_property
    @torch.inference_mode(False)
    def undirected_adjacency(self) -> ConstantSparse:
        """The adjacency with every edge in both directions; itself where it is symmetric."""
        if self.adjacency.t() is self.adjacency:
            return self.adjacency
        return self._both_ways(self.adjacency)

    @cached_property
    @torch.inference_mode(False)
    def looped_adjacency(self) -> ConstantSparse:
        """The adjacency with a self-loop on every node."""
        known: ConstantSparse | None = self.__dict__.get("adjacency")
        return add_self_loops(self._make_adjacency() if known is None else known)

    def propagate(
        self, operator: ConstantSparse, *, steps: int = 1, uses: int = 1
    ) -> tuple[Constant, int]:
        """The features after the applications of an operator that are worth making once.

        Of ``steps`` applications, as many are made beforehand as make a pass cheapest; the others
        follow after the weights. The features are multiplied by ``uses`` different weights, but
        only once when no step is left, because every row then meets the weights of its own group
        alone. Kept for the latest number of steps of every operator. For a single pass nothing is
        worth making beforehand.

        Returns:
            The propagated features, and the number of steps left.
        """
        if self.passes_once:
            return self.features, steps
        known = self._propagated.get(id(operator))
        if known is None or known.steps != steps or (known.left and known.uses < uses):
            with torch.inference_mode(False), torch.no_grad():
                constant, left = _propagate(operator, self.features, steps, uses)
            known = self._propagated[id(operator)] = _Propagated(
                operator, steps, uses, constant, left
            )
        return known.constant, known.left

    def messages(
        self, direction: Direction = "incoming", *, self_loops: bool = False
    ) -> tuple[ConstantSparse, ...]:
        """The matrices along which messages pass, row = who receives them; made once.

        Entries are the weights of edges. There is one matrix, with self-loops where they are asked
        for. ``separate`` directions have two, along the edges and against them, and never
        self-loops, which have no direction.
        """
        if direction == "separate":
            return self.along, self.along.t()
        if direction == "incoming" and self_loops and self.graph.edge_weights is None:
            return (self.looped_adjacency,)  # and nobody needs the one without loops
        matrix = self.weighted_adjacency
        if direction == "both":
            matrix = self.kept("undirected weights", self._make_undirected, of_edges=True)
        if not self_loops:
            return (matrix,)
        if matrix is self.adjacency:
            return (self.looped_adjacency,)
        whose = self._plainest(direction)
        return (self.kept(("looped", whose), lambda: add_self_loops(matrix), of_edges=True),)

    def _plainest(self, direction: Direction) -> Direction:
        """``incoming`` where edges in both directions are the same ones."""
        same = direction == "both" and self.messages("both")[0] is self.weighted_adjacency
        return "incoming" if same else direction

    @cached_property
    @torch.inference_mode(False)
    def weighted_adjacency(self) -> ConstantSparse:
        """The adjacency with the weights of edges; itself where there are none."""
        weights = self.graph.edge_weights
        if weights is None:
            return self.adjacency
        return self._constant(self._stored(weights))

    @cached_property
    @torch.inference_mode(False)
    def along(self) -> ConstantSparse:
        """The weighted edges in the direction in which they were given: row = target.

        A graph whose edges count in both directions still knows how they pointed, by
        ``Graph.edge_directions``; in others edges point as they are stored.
        """
        directions, weights = self.graph.edge_directions, self.graph.edge_weights
        if directions is None:
            return self.weighted_adjacency
        weights = np.ones(len(directions), dtype=np.float32) if weights is None else weights
        given = self._stored(np.where(directions & 1, weights, 0))
        mirrored = self._stored(np.where(directions & 1, 0, weights)).T.tocsr()
        # An edge that was given is not made again from its mirror image.
        mirrored = mirrored - mirrored.multiply(given.astype(bool))
        matrix = (given + mirrored).tocsr()
        matrix.eliminate_zeros()
        return self._constant(matrix)

    def _make_undirected(self) -> ConstantSparse:
        """Weights in both directions, the larger one where an edge and its reverse have two."""
        matrix = self.weighted_adjacency
        if matrix is self.adjacency:
            return self.undirected_adjacency
        if matrix.t() is matrix:
            return matrix
        return self._both_ways(matrix)

    def _both_ways(self, matrix: ConstantSparse) -> ConstantSparse:
        one = matrix.to_scipy(copy=False)
        return self._constant(one.maximum(one.T).tocsr())

    def _stored(self, entries: NDArray[Any]) -> csr_array[Any]:
        """A matrix with an entry per stored edge, row = target, without zeros and self-loops.

        It may share the memory of the graph and of the entries.
        """
        from scipy.sparse import csr_array

        graph, n = self.graph, self.num_nodes
        # Scipy would make all of them as wide as the widest.
        starts = graph.indptr.astype(index_type(max(n, graph.num_entries)), copy=False)
        matrix = csr_array((entries, graph.indices, starts), shape=(n, n))
        if graph.num_self_loops or not entries.all():
            matrix = matrix.copy()  # the graph's own arrays are not to be written to
            if graph.num_self_loops:
                matrix.setdiag(0)
            matrix.eliminate_zeros()
        return matrix

    def _constant(self, matrix: csr_array[Any]) -> ConstantSparse:
        matrix.sort_indices()
        return ConstantSparse.from_scipy(matrix, copy=False).to(self.device).to(self.dtype)

    def gcn_operators(
        self, direction: Direction = "incoming", *, self_loops: bool = True
    ) -> tuple[ConstantSparse, ...]:
        """D^-½ A D^-½ of the matrix of :meth:`messages`, made once.

        Degrees are sums of rows, that is of incoming edges. For ``separate`` directions it is
        D_in^-½ A D_out^-½ and its transpose, see :func:`ncgnn.sparse.directed_normalize`.
        """
        if direction == "separate":
            operator = self.kept(
                "directed gcn", lambda: directed_normalize(self.along), of_edges=True
            )
            return operator, operator.t()
        return self._normalized("gcn", gcn_normalize, direction, self_loops)

    def mean_operators(
        self, direction: Direction = "incoming", *, self_loops: bool = False
    ) -> tuple[ConstantSparse, ...]:
        """D^-1 A of the matrices of :meth:`messages`, made once: weighted means over senders."""
        return self._normalized("mean", row_normalize, direction, self_loops)

    def _normalized(
        self,
        name: str,
        normalize: Callable[..., ConstantSparse],
        direction: Direction,
        self_loops: bool,
    ) -> tuple[ConstantSparse, ...]:
        direction = self._plainest(direction)

        def make() -> tuple[ConstantSparse, ...]:
            matrices = self.messages(direction, self_loops=self_loops)
            return tuple(normalize(matrix, self_loops=False) for matrix in matrices)

        return self.kept((name, direction, self_loops), make, of_edges=True)

    def gcn_operator(self, *, self_loops: bool = True, undirected: bool = False) -> ConstantSparse:
        """The one matrix of :meth:`gcn_operators`."""
        return self.gcn_operators("both" if undirected else "incoming", self_loops=self_loops)[0]

    def mean_operator(
        self, *, self_loops: bool = False, undirected: bool = False
    ) -> ConstantSparse:
        """The one matrix of :meth:`mean_operators`."""
        return self.mean_operators("both" if undirected else "incoming", self_loops=self_loops)[0]

    def kept(self, name: Hashable, make: Callable[[], _Made], *, of_edges: bool = False) -> _Made:
        """What a model derives from the graph alone: made when first asked for, then kept.

        Args:
            name: What it is.
            make: Makes it.
            of_edges: Whether it stays the same where features change.
        """
        there = self._of_edges if of_edges else self._kept
        if name not in there:
            with torch.inference_mode(False), torch.no_grad():
                there[name] = make()
        return there[name]

    def without_edges(self, node: int, others: NDArray[np.int64]) -> GraphInputs:
        """The same without the edges between a node and some others, in both directions.

        Every entry of an adjacency depends on the edges between its two nodes alone, so that those
        which were made already lose entries and need not be made again.
        """
        left = np.zeros(self.num_nodes, dtype=bool)
        left[others] = True
        graph = self.graph
        targets, sources = graph.targets, graph.indices
        kept = ~((targets == node) & left[sources] | (sources == node) & left[targets])
        changed = self._change(graph.keep_edges(kept), self.features)
        lost = torch.from_numpy(left).to(self.device)
        known: dict[int, ConstantSparse] = {}
        for name in _OF_PAIRS:
            if name not in self.__dict__:
                continue
            matrix: ConstantSparse = self.__dict__[name]
            if id(matrix) not in known:
                row, col = matrix.pattern.row, matrix.pattern.col
                between = (row == node) & lost[col] | (col == node) & lost[row]
                known[id(matrix)] = matrix.keep(~between)
            changed.__dict__[name] = known[id(matrix)]
        return changed

    def with_features(self, node: int, row: NDArray[Any]) -> GraphInputs:
        """The same with other features of a node, which are 0 where they were 0 before."""
        graph, scaled = self.graph, _scale(row[None, :], self.scaling)[0]
        values = torch.from_numpy(scaled).to(device=self.device, dtype=self.dtype)
        if isinstance(self.features, torch.Tensor):
            features: Constant = self.features.clone()
            features[node] = values
        else:
            pattern, entries = self.features.pattern, self.features.values.clone()
            own = slice(int(pattern.crow[node]), int(pattern.crow[node + 1]))
            entries[own] = values[pattern.col[own].to(torch.int64)]
            features = ConstantSparse(pattern, entries)
        changed = self._change(graph.with_features(node, row), features)
        changed._of_edges = self._of_edges
        for name in (*_OF_PAIRS, "looped_adjacency"):
            if name in self.__dict__:
                changed.__dict__[name] = self.__dict__[name]
        return changed

    def _change(self, graph: Graph, features: Constant) -> GraphInputs:
        """Inputs of the same kind, without anything that is kept."""
        changed = copy(self)
        changed.graph, changed.features, changed.passes_once = graph, features, True
        changed._propagated, changed._kept, changed._of_edges = {}, {}, {}
        for name in (*_OF_PAIRS, "looped_adjacency"):
            changed.__dict__.pop(name, None)
        return changed


#: Adjacencies whose entries depend on the edges between two nodes alone.
_OF_PAIRS = ("adjacency", "weighted_adjacency", "undirected_adjacency", "along")


def features_of(graph: Graph) -> Any:
    """The features of a graph; one column of ones where it has none, and edges alone tell."""
    if graph.features is None:
        return np.ones(feature_shape(graph), dtype=np.float32)
    return graph.features


def feature_shape(graph: Graph) -> tuple[int, int]:
    """The shape of what :func:`features_of` gives."""
    return graph.num_nodes, 1 if graph.features is None else graph.num_features


def as_inputs(graph: GraphInputs | GraphLike, weight: torch.Tensor) -> GraphInputs:
    """A graph as inputs for the model that a weight belongs to, in its precision and place."""
    if not isinstance(graph, GraphInputs):
        return GraphInputs(graph, device=weight.device, dtype=weight.dtype)
    if graph.dtype != weight.dtype or graph.device.type != weight.device.type:
        raise InputError(
            f"the model is {weight.dtype} on {weight.device}, the inputs are {graph.dtype} on "
            f"{graph.device}; make both alike."
        )
    return graph


def as_group(group: torch.Tensor | None, num_groups: int, everyone: torch.Tensor) -> torch.Tensor:
    """The group of every node as int64; None stands for 0."""
    if group is None:
        return torch.zeros_like(everyone)
    if group.shape != everyone.shape:
        raise InputError(
            f"group must hold one number per node, [{len(everyone)}]; got {list(group.shape)}."
        )
    if group.is_floating_point() or group.is_complex():
        raise InputError(f"group must hold whole numbers; got {group.dtype}.")
    low, high = bounds(group)
    if low < 0 or high >= num_groups:
        raise InputError(
            f"group must hold numbers from 0 to {num_groups - 1}; got {low} to {high}."
        )
    return group.to(everyone.device, torch.int64)


class _Propagated(NamedTuple):
    """What :meth:`GraphInputs.propagate` keeps; the operator, so that its id stays its own."""

    operator: ConstantSparse
    steps: int
    uses: int
    constant: Constant
    left: int


def _propagate(
    operator: ConstantSparse, features: Constant, steps: int, uses: int
) -> tuple[Constant, int]:
    step_cost = SPARSE_COST * operator.nnz
    current, best = features, (features, steps)
    least = (uses if steps else 1) * cost(features) + steps * step_cost
    for left in reversed(range(steps)):
        product = _multiply(operator, current)
        # Further steps only fill the features up more.
        if product is None or cost(product) > least:
            break
        current, total = product, (uses if left else 1) * cost(product) + left * step_cost
        if total <= least:
            best, least = (current, left), total
    return best


def _multiply(operator: ConstantSparse, features: Constant) -> Constant | None:
    """The product, dense where that multiplies faster; None where it would be too large."""
    if isinstance(features, torch.Tensor):
        return operator @ features
    per_node = features.row_counts().to(torch.int64)
    pairs = int(per_node.index_select(0, operator.pattern.col.to(torch.int64)).sum())
    if min(pairs, features.shape[0] * features.shape[1]) > MOST_ENTRIES:
        return None
    return _densify(sparse_product(operator, features))


def cost(matrix: Constant) -> float:
    """Cost of multiplying a constant by one column, in multiply-adds of a dense product."""
    return float(matrix.numel()) if isinstance(matrix, torch.Tensor) else SPARSE_COST * matrix.nnz


def propagates_first(operator: ConstantSparse, weight: torch.Tensor) -> bool:
    """Whether (P · H) · W costs less than P · (H · W) for the dense rows H of a hidden layer."""
    (rows, columns), (width, out) = operator.shape, weight.shape
    first = SPARSE_COST * operator.nnz * width + rows * width * out
    return first < SPARSE_COST * operator.nnz * out + columns * width * out


def select_rows(matrix: Constant, rows: torch.Tensor) -> Constant:
    """Rows of a constant, in the given order."""
    return matrix.index_select(0, rows) if isinstance(matrix, torch.Tensor) else matrix.rows(rows)


def _constant(matrix: Any, device: torch.device, dtype: torch.dtype) -> Constant:
    """A numpy or scipy matrix as a constant in the form that multiplies faster."""
    if isinstance(matrix, np.ndarray):
        if SPARSE_COST * np.count_nonzero(matrix) >= matrix.size:
            return share(matrix).to(device=device, dtype=dtype)
        from scipy.sparse import csr_array

        matrix = csr_array(matrix)
    return _densify(ConstantSparse.from_scipy(matrix, copy=False).to(device).to(dtype))


def _densify(matrix: ConstantSparse) -> Constant:
    """A sparse matrix as it is, or dense if it holds so much that this multiplies faster."""
    size = matrix.shape[0] * matrix.shape[1]
    return matrix.to_dense() if SPARSE_COST * matrix.nnz >= size else matrix


def _scale(features: Any, scaling: FeatureScaling) -> Any:
    if scaling == "raw":
        return features
    if scaling != "row":
        raise InputError(f"scaling must be 'raw' or 'row'; got '{scaling}'.")
    sums = np.asarray(features.sum(axis=1)).reshape(-1)
    factors = (1 / np.maximum(sums, 1)).astype(features.dtype)
    if isinstance(features, np.ndarray):
        return features * factors[:, None]
    from scipy.sparse import diags_array

    return (diags_array(factors) @ features).tocsr()


def as_nodes(nodes: torch.Tensor, everyone: torch.Tensor) -> torch.Tensor:
    """The nodes as int64, from an index or a mask; ``everyone`` has one entry per node."""
    if nodes.dtype == torch.bool and nodes.shape == everyone.shape:
        return torch.nonzero(nodes).flatten().to(everyone.device)
    whole = not (nodes.is_floating_point() or nodes.is_complex() or nodes.dtype == torch.bool)
    if nodes.dim() != 1 or not whole:
        raise InputError(
            f"nodes must be a 1-D index or a boolean mask of all nodes; got {nodes.dtype} "
            f"{list(nodes.shape)}."
        )
    low, high = bounds(nodes)
    if low < 0 or high >= len(everyone):
        raise InputError(f"nodes must be between 0 and {len(everyone) - 1}; got {low} to {high}.")
    return nodes.to(everyone.device, torch.int64)
