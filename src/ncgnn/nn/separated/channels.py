"""How the groups of nodes are kept apart: the channel of every group, by separation mode.

A channel has its own weights. Its first layer computes rows for its *sources*, its second layer
passes messages from those to its *targets*. Separation modes differ in nothing but these two sets
and the operators between them; M_s is the diagonal mask of group s and S = norm(A).

================  ===========================  ==================================================
mode              first layer                  second layer
================  ===========================  ==================================================
``strict``        M_s S                        M_s S M_s: low←low and high←high only (the text)
``source``        M_s S                        S M_s: sources are masked, all nodes receive (the
                                               formula, normalized on the whole graph)
``renormalized``  norm(M_s A)                  norm(A M_s), degrees of the masked matrices and
                                               self-loops after masking: a node outside the group
                                               keeps weight one on itself
``target-only``   M_s S                        M_s S on the rows of all channels: weights are
                                               separated, messages are not
``none``          S                            S, one channel for all nodes
================  ===========================  ==================================================

A layer of GCN or SAGE is linear in its input: Σ_t P_t · H · W_t + b, with one operator P_t per
weight matrix, on the whole graph or on a part of it. None stands for the identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import torch

from ncgnn.nn.blocks import Masked, first_rows, scale_block
from ncgnn.nn.inputs import as_group, as_nodes, select_rows
from ncgnn.nn.layers import Term
from ncgnn.sparse import (
    ConstantSparse,
    MaskedSparse,
    Seen,
    SparsePattern,
    directed_normalize,
    gcn_normalize,
    index_dtype,
    masked_adjacency,
    row_normalize,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.nn.inputs import Constant, Direction, GraphInputs
    from ncgnn.nn.separated.backbones import Backbone

Separation = Literal["strict", "source", "renormalized", "target-only", "none"]
SEPARATIONS: tuple[str, ...] = get_args(Separation)
#: Which of a channel's layers.
Layer = Literal["first", "second"]
DISJOINT = ("strict", "target-only", "none")
# Training and validation nodes, and a few more that someone may ask for in turn.
_MOST_SELECTIONS = 4


@dataclass(frozen=True, eq=False)
class Channel:
    """Where one group's weights act.

    Attributes:
        sources: Nodes whose rows the first layer computes.
        targets: Nodes that the second layer writes to.
        senders: Nodes whose rows the second layer reads, in this order: the sources, or those of
            all channels where they are pooled. In a block some of them are in its last hop, whose
            rows the first layer of this block does not compute.
        first: What the backbone's first layer works on.
        second: What its second layer works on.
        raw: The features of the targets, where every node is a target of one channel only.
    """

    sources: torch.Tensor
    targets: torch.Tensor
    senders: torch.Tensor
    first: Any
    second: Any
    raw: Term | None = None


@dataclass(frozen=True, eq=False)
class Layout:
    """All channels for one assignment of nodes to groups.

    Attributes:
        group: The group of each node; all zero where there is one channel only.
        channels: One per group.
        disjoint: Whether every node is a target of exactly one channel.
        pooled: Whether second layers read the rows of all channels, one after another.
        raw: The features of all nodes, where channels are not disjoint.
        position: For disjoint channels, the place of each node in their concatenation.
    """

    group: torch.Tensor
    channels: tuple[Channel, ...]
    disjoint: bool
    pooled: bool
    raw: Term | None
    position: torch.Tensor | None


class _Selection(NamedTuple):
    """Nodes that were asked for, as they were given, and the layout for them."""

    nodes: torch.Tensor
    seen: Seen | None
    narrow: bool
    layout: Layout


class Layouts:
    """The layouts of the latest graph and grouping, rebuilt only when one of them changes.

    A copy of it, or one in another process, begins empty. Threads may share it.

    Args:
        backbone: Makes the channels.
        separation: The mode.
        num_groups: Number of groups of nodes, also empty ones.
    """

    def __init__(self, backbone: Backbone, separation: Separation, num_groups: int) -> None:
        self._parts = (backbone, separation, num_groups)
        self._lock = Lock()
        self._inputs: GraphInputs | None = None
        self._only: Layer | None = None
        self._layout: Layout | None = None
        self._seen: Seen | None = None
        self._selected: list[_Selection] = []

    def find(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        nodes: torch.Tensor | None = None,
        *,
        narrow: bool = False,
        only: Layer | None = None,
        forget: Callable[[], None] | None = None,
    ) -> Layout:
        """The layout for a graph, the group of each node and the nodes that are asked for.

        With ``narrow``, and few nodes, the first layer has those rows only that the second needs.
        In a block, which serves one layer, the other one may be left out.
        ``forget`` is called before another layout is made, to free what was computed with the old
        one.
        """
        # What is kept serves later training too.
        with self._lock, torch.inference_mode(False):
            layout = self._find_whole(inputs, group, only, forget)
            return layout if nodes is None else self._find_selected(layout, nodes, narrow)

    def _find_whole(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        only: Layer | None,
        forget: Callable[[], None] | None,
    ) -> Layout:
        """The layout for all nodes."""
        backbone, separation, num_groups = self._parts
        only = only if inputs.degrees is not None else None
        known = inputs is self._inputs and only == self._only
        if known and self._layout is not None and self._seen and self._seen.is_same(group):
            return self._layout
        found = as_group(group, num_groups, inputs.everyone)
        if separation == "none":
            found = torch.zeros_like(found)
        if not known:
            channels = 1 if separation == "none" else num_groups
            self._make_channel = backbone.channels(inputs, separation, channels)
            self._only = only
            self._raw = Term(first_rows(inputs.features, inputs.num_rows))
            self._inputs, self._layout = inputs, None
        if self._layout is None or not torch.equal(self._layout.group, found):
            self._layout, self._selected = None, []  # free memory before asking for more
            if forget is not None:
                forget()
            self._layout = self._arrange(found.clone())
        self._seen = Seen.of(group)
        return self._layout

    def _find_selected(self, layout: Layout, nodes: torch.Tensor, narrow: bool) -> Layout:
        """The part of a layout for some nodes."""
        backbone = self._parts[0]
        for selection in self._selected:
            if selection.narrow == narrow and selection.seen and selection.seen.is_same(nodes):
                return selection.layout
        seen, nodes = Seen.of(nodes), as_nodes(nodes, layout.group)
        for number, selection in enumerate(self._selected):
            if selection.narrow == narrow and torch.equal(selection.nodes, nodes):
                self._selected[number] = selection._replace(seen=seen)
                return selection.layout
        if len(self._selected) == _MOST_SELECTIONS:
            self._selected.clear()
        nodes = nodes.clone()  # the caller may write to them later
        selected = restrict(layout, nodes, backbone.restrict)
        if narrow and not selected.pooled:
            channels = tuple(backbone.narrow(channel) for channel in selected.channels)
            selected = replace(selected, channels=channels)
        self._selected.append(_Selection(nodes, seen, narrow, selected))
        return selected

    def _arrange(self, group: torch.Tensor) -> Layout:
        """Put the channels of all groups together."""
        _, separation, num_groups = self._parts
        channels = 1 if separation == "none" else num_groups
        members = [torch.nonzero(group == s).flatten() for s in range(channels)]
        ordered = torch.cat(members)
        made = tuple(
            self._make_channel(s, rows, ordered, self._only) for s, rows in enumerate(members)
        )
        disjoint, position = separation in DISJOINT, None
        if disjoint:
            targets = torch.cat([channel.targets for channel in made])
            position = torch.empty_like(targets)
            position[targets] = torch.arange(len(targets), device=targets.device)
        return Layout(
            group,
            made,
            disjoint,
            pooled=separation == "target-only",
            raw=None if disjoint else self._raw,
            position=position,
        )

    def __deepcopy__(self, memo: dict[int, object]) -> Layouts:
        return Layouts(*self._parts)

    def __reduce__(self) -> tuple[type[Layouts], tuple[object, ...]]:
        return Layouts, self._parts


def restrict(
    layout: Layout, nodes: torch.Tensor, second_of: Callable[[Channel, torch.Tensor], Any]
) -> Layout:
    """The same layout where the rows of some nodes only are asked for, each at most once.

    ``second_of`` is the backbone's :meth:`~ncgnn.nn.separated.backbones.Backbone.restrict`.
    """
    asked = torch.zeros_like(layout.group, dtype=torch.bool)
    asked[nodes] = True
    channels: list[Channel] = []
    for channel in layout.channels:
        # Channels that are not disjoint have all nodes as targets, in the order of ``nodes`` then.
        places = nodes
        if layout.disjoint:
            places = torch.nonzero(asked.index_select(0, channel.targets)).flatten()
        raw = channel.raw and Term(select_rows(channel.raw.constant, places))
        targets, second = channel.targets.index_select(0, places), second_of(channel, places)
        channels.append(replace(channel, targets=targets, second=second, raw=raw))
    position = None
    if layout.disjoint:
        places = torch.empty_like(layout.group)
        ordered = torch.cat([channel.targets for channel in channels])
        places[ordered] = torch.arange(len(ordered), device=ordered.device)
        position = places.index_select(0, nodes)
    raw = layout.raw and Term(select_rows(layout.raw.constant, nodes))
    group = layout.group.index_select(0, nodes)
    return Layout(group, tuple(channels), layout.disjoint, layout.pooled, raw, position)


class LinearChannels:
    """Makes the channels of a backbone that is linear in its input.

    Args:
        inputs: The graph.
        operators: The backbone's operators on it.
        separation: The mode.
        num_groups: How many channels multiply the features by weights of their own.
    """

    def __init__(
        self,
        inputs: GraphInputs,
        operators: LinearOperators,
        separation: Separation,
        num_groups: int,
    ) -> None:
        self.inputs, self.operators, self.num_groups = inputs, operators, num_groups
        self.separation: Separation = separation

    def __call__(
        self, number: int, nodes: torch.Tensor, ordered: torch.Tensor, only: Layer | None = None
    ) -> Channel:
        """The channel of the group that holds the given nodes; ``ordered`` are all, by group."""
        inputs, everyone = self.inputs, self.inputs.everyone
        reached = everyone[: inputs.num_rows]
        if self.separation == "renormalized":
            inside = torch.zeros_like(everyone, dtype=torch.bool)
            inside[nodes] = True
            into, out = self.operators.masked(inside, number, only)
            first = tuple(self._masked_term(operator) for operator in into)
            return Channel(reached, reached, everyone, first, out)
        whole = self.operators.whole
        rows = nodes if len(reached) == len(everyone) else nodes[nodes < len(reached)]
        first = () if only == "second" else tuple(self._first_term(one, rows) for one in whole)
        disjoint, second = self.separation in DISJOINT, ()
        targets = rows if disjoint else reached
        senders = ordered if self.separation == "target-only" else nodes
        raw = Term(self._rows_of(inputs.features, rows)) if disjoint else None
        if only == "first":
            return Channel(rows, targets, senders, first, second, raw)
        if self.separation in ("source", "target-only"):
            second = tuple(self._block(operator, targets, senders) for operator in whole)
        else:
            second = whole if len(nodes) == len(everyone) else self.operators.within(rows, nodes)
        return Channel(rows, targets, senders, first, second, raw)

    def _masked_term(self, operator: ConstantSparse | None) -> Term:
        """A term of the first layer norm(M_s A)."""
        if operator is None:
            return Term(first_rows(self.inputs.features, self.inputs.num_rows))
        return self._apply(operator, self.inputs.features)

    def _first_term(self, operator: ConstantSparse | None, rows: torch.Tensor) -> Term:
        """A term of the first layer M_s S, propagated beforehand where that is cheaper."""
        if operator is None:
            return Term(self._rows_of(self.inputs.features, rows))
        constant, left = self.inputs.propagate(operator, uses=self.num_groups)
        if left:
            return self._apply(self._rows_of(operator, rows), constant)
        return Term(self._rows_of(constant, rows))

    def _apply(self, operator: ConstantSparse, features: Constant) -> Term:
        """Operator · features, multiplied at once in a block, which has few rows and many nodes."""
        if self.inputs.degrees is not None and isinstance(features, torch.Tensor):
            return Term(operator @ features)
        return Term(features, operator)

    def _rows_of(self, matrix: Any, rows: torch.Tensor) -> Any:
        if len(rows) == matrix.shape[0]:
            return matrix
        if len(rows) == self.inputs.num_rows:
            return first_rows(matrix, len(rows))
        return select_rows(matrix, rows)

    def _block(
        self, operator: ConstantSparse | None, rows: torch.Tensor, columns: torch.Tensor
    ) -> ConstantSparse:
        if operator is None:
            operator = identity(self.inputs.num_nodes, self.inputs.everyone, self.inputs.dtype)
        return operator.block(rows, columns)


def identity(size: int, like: torch.Tensor, dtype: torch.dtype) -> ConstantSparse:
    """The identity matrix as an operator, on the device of another tensor."""
    ones = torch.ones(size, dtype=dtype, device=like.device)
    starts = torch.arange(size + 1, device=like.device, dtype=index_dtype(size))
    return ConstantSparse(SparsePattern(starts, starts[:-1], (size, size)), ones)


MakeChannel: TypeAlias = "Callable[[int, torch.Tensor, torch.Tensor, Layer | None], Channel]"
Operators: TypeAlias = "tuple[ConstantSparse | None, ...]"


class LinearOperators(ABC):
    """The operators of a backbone on one graph: of the node itself, and one per kind of message.

    With ``separate`` directions there are two kinds of messages, along edges and against them. A
    self-loop would be a message of both kinds; instead, the node's own row gets weights of its own
    where self-loops are asked for.

    Args:
        inputs: The graph.
        self_loops: Whether every node is its own neighbor too.
        direction: Which edges bring messages.

    Attributes:
        hops: How far away a layer's messages come from.
        degree_hops: How much farther it looks for the degrees of those who send them.
    """

    bias: ClassVar[bool]
    has_own: ClassVar[bool] = False
    has_messages: ClassVar[bool] = True
    hops: ClassVar[int] = 1
    degree_hops: ClassVar[int] = 0

    def __init__(
        self, inputs: GraphInputs, self_loops: bool, direction: Direction = "incoming"
    ) -> None:
        self.separate, self.degrees = direction == "separate", inputs.degrees
        self.loops = float(self_loops and not self.separate)
        self.own: Operators = (None,) if self._needs_own(self_loops, direction) else ()
        self.bases: tuple[ConstantSparse, ...] = ()
        if self.has_messages:
            self.bases = inputs.messages(direction, self_loops=self_loops)

    @cached_property
    @torch.inference_mode(False)
    def whole(self) -> Operators:
        """Messages along all edges."""
        return self._of(self.bases)

    @classmethod
    def count_terms(cls, self_loops: bool, direction: Direction) -> int:
        """The number of operators, and so of weight matrices."""
        messages = (2 if direction == "separate" else 1) if cls.has_messages else 0
        return cls._needs_own(self_loops, direction) + messages

    @classmethod
    def _needs_own(cls, self_loops: bool, direction: Direction) -> bool:
        return cls.has_own or (self_loops and direction == "separate")

    def _of(
        self, adjacencies: tuple[ConstantSparse, ...], masked: Masked | None = None
    ) -> Operators:
        """The operators of adjacencies that hold self-loops already where they are wanted."""
        made = (self._normalize(one, kind, masked) for kind, one in enumerate(adjacencies))
        return (*self.own, *made)

    @abstractmethod
    def _normalize(
        self, adjacency: ConstantSparse, kind: int, masked: Masked | None
    ) -> ConstantSparse:
        """The operator of one adjacency, of a kind of messages, of which some may be masked."""

    def masked(
        self, inside: torch.Tensor, number: int, only: Layer | None = None
    ) -> tuple[Operators, Operators]:
        """norm(M A) and norm(A M): only nodes inside receive, or send, messages.

        Degrees are those of the masked matrices.


        Args:
            inside: Which nodes are.
            number: Of the group that they are.
            only: Which of the two is needed, for the ``first`` layer or the ``second``.
        """
        into: tuple[ConstantSparse, ...] = ()
        out: tuple[ConstantSparse, ...] = ()
        if only != "second":
            into = tuple(masked_adjacency(base, targets=inside) for base in self.bases)
        if only != "first":
            out = tuple(masked_adjacency(base, sources=inside) for base in self.bases)
        for base, one, other in zip(self.bases, into, out, strict=False):
            if not isinstance(base, MaskedSparse) and base.t() is base:
                one.pattern.mirror(other.pattern)
        return (
            self._of(into, Masked("targets", inside, number)),
            self._of(out, Masked("sources", inside, number)),
        )

    def within(self, rows: torch.Tensor, nodes: torch.Tensor) -> Operators:
        """Messages to the given rows from the given nodes, which rows are the first ones of.

        Separation changes no degree.
        """
        return tuple(operator and operator.block(rows, nodes) for operator in self.whole)


class GcnOperators(LinearOperators):
    """S = D^-½ A D^-½ of graph convolutional networks (https://arxiv.org/abs/1609.02907).

    With separate directions D_in^-½ A D_out^-½ and its transpose, and the node itself where there
    are self-loops (https://arxiv.org/abs/2305.10498).
    """

    bias = False
    degree_hops = 1

    def _normalize(
        self, adjacency: ConstantSparse, kind: int, masked: Masked | None
    ) -> ConstantSparse:
        if self.degrees is not None:
            return scale_block(adjacency, self.degrees, kind, masked, self.loops)
        if self.separate:
            return directed_normalize(adjacency)
        return gcn_normalize(adjacency, self_loops=False)


class MeanOperators(LinearOperators):
    """The mean over neighbors."""

    bias = False

    def _normalize(
        self, adjacency: ConstantSparse, kind: int, masked: Masked | None
    ) -> ConstantSparse:
        return row_normalize(adjacency)


class SageOperators(MeanOperators):
    """The node itself and the mean of its neighbors (https://arxiv.org/abs/1706.02216).

    Where edges are removed the mean is over the neighbors that are left; mode ``source`` alone
    divides by the number of all neighbors. With separate directions there is a mean for each.
    """

    bias = True
    has_own = True

    def within(self, rows: torch.Tensor, nodes: torch.Tensor) -> Operators:
        """The mean over the neighbors among the given nodes."""
        return self._of(tuple(base.block(rows, nodes) for base in self.bases))


class IdentityOperators(LinearOperators):
    """No neighbors at all."""

    bias = True
    has_own = True
    has_messages = False
    hops = 0

    def _normalize(
        self, adjacency: ConstantSparse, kind: int, masked: Masked | None
    ) -> ConstantSparse:
        return adjacency


OPERATORS: dict[str, type[LinearOperators]] = {
    "gcn": GcnOperators,
    "mean": MeanOperators,
    "sage": SageOperators,
    "identity": IdentityOperators,
}
