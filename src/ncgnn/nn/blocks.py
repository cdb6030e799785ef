"""Blocks: the part of a graph that some layers of a model need for a few nodes.

The nodes of a block are ordered by their distance from the wanted ones, and every edge leads into a
node that is not among the farthest. A layer that passes messages computes rows for all nodes but
those of the last hop, from the rows of all; the block without its last hop is what the next layer
works on (:meth:`Block.shrink`). With all edges the wanted rows are those of the whole graph, and
with some of them, drawn at random, their sums are unbiased.

Degrees are those of the whole graph, and so are numbers of neighbors within a group, because edges
that were left out count for normalization.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from ncgnn.errors import InputError
from ncgnn.nn.inputs import GraphInputs
from ncgnn.sparse import ConstantSparse, SparsePattern, power_or_zero, row_normalize

if TYPE_CHECKING:
    from ncgnn.nn.base import Model
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, Direction


class Masked(NamedTuple):
    """Which edges of an adjacency are left: into the nodes of a group, or out of them.

    Attributes:
        ends: Whether the ``targets`` of edges must be in the group, or their ``sources``.
        inside: Whether a node is.
        number: The number of the group.
    """

    ends: Literal["targets", "sources"]
    inside: torch.Tensor
    number: int


@dataclass(frozen=True, eq=False)
class Degrees:
    """Sums of the weights of all edges into each node of a block, in the whole graph.

    Attributes:
        all: Per kind of message, from all neighbors [n].
        inside: Per kind of message, from the neighbors in each group [n, groups]; empty where no
            separation mode asks for them.
    """

    all: tuple[torch.Tensor, ...]
    inside: tuple[torch.Tensor, ...] = ()

    def first(self, count: int) -> Degrees:
        """Those of the first nodes."""
        kept = [tuple(sums[:count] for sums in part) for part in (self.all, self.inside)]
        return Degrees(*kept)

    def rows(self, kind: int, masked: Masked | None, loops: float) -> torch.Tensor:
        """Sums of the rows of a masked adjacency, whose self-loops no mask removes."""
        sums = self.all[kind]
        if masked is not None and masked.ends == "targets":
            sums = sums * masked.inside
        elif masked is not None:
            sums = self._of_group(kind, masked)
        return sums + loops

    def columns(self, kind: int, masked: Masked | None) -> torch.Tensor:
        """Sums of the columns of a masked adjacency: those of rows against the edges."""
        other = 1 - kind
        if masked is None:
            return self.all[other]
        if masked.ends == "sources":
            return self.all[other] * masked.inside
        return self._of_group(other, masked)

    def _of_group(self, kind: int, masked: Masked) -> torch.Tensor:
        if not self.inside:
            raise InputError(
                "this block does not know how many neighbors are in each group; pass the groups "
                "of all nodes to what makes it."
            )
        return self.inside[kind][:, masked.number]

    def gcn_scales(
        self, kind: int, masked: Masked | None, loops: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """D^-½ of rows and of columns; with two kinds of messages D_in^-½ and D_out^-½."""
        rows = power_or_zero(self.rows(kind, masked, loops), -0.5)
        if len(self.all) == 1:
            return rows, rows
        return rows, power_or_zero(self.columns(kind, masked), -0.5)


@dataclass(frozen=True, eq=False)
class BlockEdges:
    """The edges of one kind into the nodes of a block, those of the last hop excepted.

    Attributes:
        crow: Row pointer [rows + 1].
        col: The place of every source in the block [edges].
        weights: The weights of edges, divided by the probability with which each was drawn.
        starts: Where every row starts in the block that this one is a part of [rows].
    """

    crow: torch.Tensor
    col: torch.Tensor
    weights: torch.Tensor
    starts: torch.Tensor | None = None

    def into(self, rows: int) -> BlockEdges:
        """Those into the first nodes."""
        end = int(self.crow[rows])
        starts = None if self.starts is None else self.starts[:rows]
        return BlockEdges(self.crow[: rows + 1], self.col[:end], self.weights[:end], starts)


class Block(GraphInputs):
    """What a model sees of a part of a graph, in one pass.

    Args:
        nodes: The number of every node in the whole graph, the wanted ones first.
        within: How many of them are within 0, 1, … hops of the wanted ones; the last is all.
        edges: Per kind of message, into those that are not in the last hop.
        degrees: In the whole graph.
        features: Of all nodes of the block.
        direction: Which messages the edges stand for.
        num_classes: Of the whole graph.

    Attributes:
        num_rows: How many rows a layer computes: all nodes but those of the last hop.
        places: Where its nodes are in the block that it is a part of; None: it is no part.
    """

    passes_once = True
    places: torch.Tensor | None = None

    def __init__(
        self,
        nodes: torch.Tensor,
        within: tuple[int, ...],
        edges: tuple[BlockEdges, ...],
        degrees: Degrees,
        features: Constant,
        direction: Direction,
        num_classes: int,
    ) -> None:
        self.nodes, self.within, self.edges = nodes, within, edges
        self.degrees = self._sums = degrees
        self.direction: Direction = direction
        self.device, self.dtype, self.scaling = features.device, features.dtype, "raw"
        self.num_nodes, self.num_classes = within[-1], num_classes
        self.num_rows = within[max(len(within) - 2, 0)]
        self.features, self.num_features = features, int(features.shape[1])
        self._propagated, self._kept, self._of_edges = {}, {}, {}

    def shrink(self) -> Block:
        """The block of the next layer: without the nodes of the last hop."""
        if len(self.within) == 1:
            return self
        within = self.within[:-1]
        count, rows = within[-1], within[max(len(within) - 2, 0)]
        block = Block(
            self.nodes[:count],
            within,
            tuple(edges.into(rows if len(within) > 1 else 0) for edges in self.edges),
            self._sums.first(count),
            first_rows(self.features, count),
            self.direction,
            self.num_classes,
        )
        block.places = None if self.places is None else self.places[:count]
        return block

    def number_entries(self, kind: int, pattern: SparsePattern) -> torch.Tensor | None:
        """The places of a kind's entries in the block that this one is a part of.

        Args:
            kind: The number of the kind of messages.
            pattern: Its entries, with or without self-loops.
        """
        edges = self.edges[kind]
        if edges.starts is None or self.places is None:
            return None
        shift = edges.starts - pattern.crow[:-1]
        if len(pattern.col) > len(edges.col):  # a self-loop in every row
            shift = shift + self.places[: len(shift)]
        return shift.index_select(0, pattern.row) + torch.arange(
            len(pattern.col), device=self.device
        )

    @cached_property
    def adjacency(self) -> ConstantSparse:
        """Row = target, column = source, all ones."""
        matrix = self.messages("incoming")[0]
        return ConstantSparse(matrix.pattern, torch.ones_like(matrix.values))

    def messages(
        self, direction: Direction = "incoming", *, self_loops: bool = False
    ) -> tuple[ConstantSparse, ...]:
        """The matrices along which messages pass [rows, nodes], see the whole graph's."""
        if direction != self.direction:
            raise InputError(
                f"the block has the edges of direction = '{self.direction}'; the model asks for "
                f"'{direction}'."
            )
        loops = self_loops and direction != "separate"
        return tuple(
            self.kept(("messages", kind, loops), lambda part=part: self._matrix(part, loops))
            for kind, part in enumerate(self.edges)
        )

    def _matrix(self, edges: BlockEdges, loops: bool) -> ConstantSparse:
        shape = (len(edges.crow) - 1, self.num_nodes)
        if not loops:
            return ConstantSparse(SparsePattern(edges.crow, edges.col, shape), edges.weights)
        # A row's self-loop comes before its other entries.
        places = torch.arange(shape[0] + 1, device=self.device, dtype=edges.crow.dtype)
        crow = edges.crow + places
        is_loop = torch.zeros(int(crow[-1]), dtype=torch.bool, device=self.device)
        is_loop[crow[:-1].to(torch.int64)] = True
        col = edges.col.new_empty(len(is_loop))
        col[is_loop], col[~is_loop] = places[:-1].to(col.dtype), edges.col
        values = edges.weights.new_ones(len(is_loop))
        values[~is_loop] = edges.weights
        return ConstantSparse(SparsePattern(crow, col, shape), values)

    def gcn_operators(
        self, direction: Direction = "incoming", *, self_loops: bool = True
    ) -> tuple[ConstantSparse, ...]:
        """D^-½ A D^-½ of :meth:`messages`, with the degrees of the whole graph."""
        matrices = self.messages(direction, self_loops=self_loops)
        loops = float(self_loops and direction != "separate")
        return tuple(
            scale_block(matrix, self._sums, kind, None, loops)
            for kind, matrix in enumerate(matrices)
        )

    def mean_operators(
        self, direction: Direction = "incoming", *, self_loops: bool = False
    ) -> tuple[ConstantSparse, ...]:
        """D^-1 A of :meth:`messages`: the mean over those neighbors that were drawn."""
        return tuple(map(row_normalize, self.messages(direction, self_loops=self_loops)))


def scale_block(
    matrix: ConstantSparse, degrees: Degrees, kind: int, masked: Masked | None, loops: float
) -> ConstantSparse:
    """The symmetric normalization of messages in a block [rows, nodes]."""
    rows, columns = degrees.gcn_scales(kind, masked, loops)
    return matrix.scale(rows=rows[: matrix.shape[0]], cols=columns[: matrix.shape[1]])


def first_rows(matrix: Any, count: int) -> Any:
    """The first rows of a tensor or a constant, without a copy; itself where these are all."""
    if matrix.shape[0] == count:
        return matrix
    if isinstance(matrix, torch.Tensor):
        return matrix[:count]
    crow = matrix.pattern.crow[: count + 1]
    end = int(crow[-1])
    pattern = SparsePattern(crow, matrix.pattern.col[:end], (count, matrix.shape[1]))
    return ConstantSparse(pattern, matrix.values[:end])


def compute_block(
    model: Model, block: Block, group: torch.Tensor | None, key: DropoutKey | None = None
) -> torch.Tensor:
    """Logits of the wanted nodes of a block, layer by layer.

    Args:
        model: A model with layers, see :attr:`ncgnn.nn.Model.depth`.
        block: Of :func:`block_hops` hops.
        group: The group of every node of the block; None for models without groups.
        key: Seed and step of dropout; None: nothing is dropped.
    """
    wanted, h = block.within[0], None
    for number in range(model.depth or 0):
        here = None if group is None else group[: block.num_nodes]
        h = model.compute_layer(number, block, h, here, key)
        block = block.shrink()
    if h is None:
        raise InputError(f"{model.title} cannot be computed layer by layer.")
    return h[:wanted]


def block_hops(model: Model) -> int:
    """How many hops a block needs for all layers of a model."""
    return (model.depth or 0) * model.layer_hops + model.extra_hops
