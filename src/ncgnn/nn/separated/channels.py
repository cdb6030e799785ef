"""What a model keeps between two calls on the same graph.

How the groups of nodes are kept apart: the operators of every channel, by separation mode.

A channel has its own weights. Its first layer computes rows for its *sources*, its second layer
passes messages from those to its *targets*. Separation modes differ in nothing but these two sets
and the operators between them; M_s is the diagonal mask of group s and S = norm(A).

================  ===========================  ==================================================
mode              first layer                  second layer
================  ===========================  ==================================================
``strict``        M_s S                        M_s S M_s: low←low and high←high only (the text)
``source``        M_s S                        S M_s: sources are masked, all nodes receive (the
                                               formula, normalised on the whole graph)
``renormalised``  norm(M_s A)                  norm(A M_s), degrees of the masked matrices and
                                               self-loops after masking: a node outside the group
                                               keeps weight one on itself
``target-only``   M_s S                        M_s S on the rows of all channels: weights are
                                               separated, messages are not
``none``          S                            S, one channel for all nodes
================  ===========================  ==================================================

The graph operators of GCN and SAGE layers, on the whole graph and on parts of it.

A layer of these backbones is linear in its input: Σ_t P_t · H · W_t + b, with one operator P_t per
weight matrix. None stands for the identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import torch

from ncgnn.errors import UnknownNameError
from ncgnn.nn.inputs import checked_nodes, select_rows
from ncgnn.nn.layers import Term
from ncgnn.sparse import ConstantSparse, gcn_normalize, masked_adjacency, row_normalize

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.nn.separated.backbones import Backbone

Separation = Literal["strict", "source", "renormalised", "target-only", "none"]
SEPARATIONS: tuple[str, ...] = get_args(Separation)
DISJOINT = ("strict", "target-only", "none")


@dataclass(frozen=True, eq=False)
class Channel:
    """Where one group's weights act.

    Attributes:
        sources: Nodes whose rows the first layer computes.
        targets: Nodes that the second layer writes to.
        first: What the backbone's first layer works on.
        second: What its second layer works on.
        raw: The features of the targets, where every node is a target of one channel only.
    """

    sources: torch.Tensor
    targets: torch.Tensor
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


def check_separation(separation: str) -> None:
    """Complain about a mode that does not exist."""
    if separation not in SEPARATIONS:
        raise UnknownNameError("separation", separation, list(SEPARATIONS))


def arrange(
    inputs: GraphInputs,
    separation: Separation,
    group: torch.Tensor,
    num_groups: int,
    channel_of: Callable[[torch.Tensor, torch.Tensor], Channel],
    raw_features: Term,
) -> Layout:
    """Put the channels of all groups together.

    Args:
        inputs: The graph.
        separation: The mode.
        group: Group of each node.
        num_groups: Number of groups, also empty ones.
        channel_of: Makes a channel from the nodes of its group and all nodes ordered by group.
        raw_features: The features of all nodes.
    """
    if separation == "none":
        group, num_groups = torch.zeros_like(group), 1
    members = [torch.nonzero(group == s).flatten() for s in range(num_groups)]
    ordered = torch.cat(members)
    channels = tuple(channel_of(rows, ordered) for rows in members)
    disjoint = separation in DISJOINT
    position = None
    if disjoint:
        position = torch.empty_like(ordered)
        position[ordered] = inputs.everyone
    pooled = separation == "target-only"
    return Layout(group, channels, disjoint, pooled, None if disjoint else raw_features, position)


def restricted(
    layout: Layout, nodes: torch.Tensor, second_of: Callable[[Channel, torch.Tensor], Any]
) -> Layout:
    """The same layout where the rows of some nodes only are asked for.

    Args:
        layout: The layout for all nodes.
        nodes: The nodes, each at most once.
        second_of: What a channel's second layer works on if only some of its targets are asked
            for, see :meth:`ncgnn.nn._backbones.Backbone.restricted`.
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
        channels.append(Channel(channel.sources, targets, channel.first, second, raw))
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
    """Makes the channels of a GCN or SAGE backbone.

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
        self.features = Term(inputs.features)
        self._make = {
            "none": self._strict,
            "strict": self._strict,
            "source": self._source,
            "target-only": self._target_only,
            "renormalised": self._renormalised,
        }[separation]

    def __call__(self, rows: torch.Tensor, ordered: torch.Tensor) -> Channel:
        """The channel of the group that holds the given nodes."""
        return self._make(rows, ordered)

    def _strict(self, rows: torch.Tensor, ordered: torch.Tensor) -> Channel:
        second = self.operators.whole if self._is_all(rows) else self.operators.within(rows)
        return Channel(rows, rows, self._own_rows(rows), second, self._raw(rows))

    def _target_only(self, rows: torch.Tensor, ordered: torch.Tensor) -> Channel:
        second = tuple(self._block(op, rows, ordered) for op in self.operators.whole)
        return Channel(rows, rows, self._own_rows(rows), second, self._raw(rows))

    def _source(self, rows: torch.Tensor, ordered: torch.Tensor) -> Channel:
        everyone = self.inputs.everyone
        second = tuple(self._block(op, everyone, rows) for op in self.operators.whole)
        return Channel(rows, everyone, self._own_rows(rows), second)

    def _renormalised(self, rows: torch.Tensor, ordered: torch.Tensor) -> Channel:
        inside = self._mask(rows)
        first = self._transform_first(self.operators.masked_targets(inside))
        everyone = self.inputs.everyone
        return Channel(everyone, everyone, first, self.operators.masked_sources(inside))

    def _own_rows(self, rows: torch.Tensor) -> tuple[Term, ...]:
        """The terms of the first layer M_s S, propagated beforehand where that is cheaper."""
        return tuple(self._own_term(operator, rows) for operator in self.operators.whole)

    def _own_term(self, operator: ConstantSparse | None, rows: torch.Tensor) -> Term:
        if operator is None:
            return Term(self._rows_of(self.inputs.features, rows))
        propagated = self.inputs.propagated(operator, uses=self.num_groups)
        if propagated is None:
            return Term(self.inputs.features, self._rows_of(operator, rows))
        return Term(self._rows_of(propagated, rows))

    def _transform_first(self, operators: Operators) -> tuple[Term, ...]:
        return tuple(Term(self.inputs.features, operator) for operator in operators)

    def _raw(self, rows: torch.Tensor) -> Term:
        return Term(self._rows_of(self.inputs.features, rows))

    def _rows_of(self, matrix: Any, rows: torch.Tensor) -> Any:
        return matrix if self._is_all(rows) else select_rows(matrix, rows)

    def _is_all(self, rows: torch.Tensor) -> bool:
        return len(rows) == self.inputs.num_nodes

    def _block(
        self, operator: ConstantSparse | None, rows: torch.Tensor, columns: torch.Tensor
    ) -> ConstantSparse:
        if operator is None:
            operator = identity(self.inputs.num_nodes, self.inputs.everyone, self.inputs.dtype)
        return operator.block(rows, columns)

    def _mask(self, rows: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(self.inputs.num_nodes, dtype=torch.bool, device=self.inputs.device)
        mask[rows] = True
        return mask


def identity(size: int, like: torch.Tensor, dtype: torch.dtype) -> ConstantSparse:
    """The identity matrix as an operator, on the device of another tensor."""
    ones = torch.ones(size, dtype=dtype, device=like.device)
    starts = torch.arange(size + 1, device=like.device)
    return ConstantSparse.from_csr(starts, starts[:-1], ones, shape=(size, size))


Operators: TypeAlias = "tuple[ConstantSparse | None, ...]"


class LinearOperators(ABC):
    """The operators of a backbone on one graph.

    Args:
        inputs: The graph.
        self_loops: Whether every node is its own neighbour too.
    """

    bias: ClassVar[bool]
    terms: ClassVar[int]

    def __init__(self, inputs: GraphInputs, self_loops: bool) -> None:
        self.self_loops = self_loops
        self.base = inputs.looped_adjacency if self_loops else inputs.adjacency
        self.whole = self._normalised(self.base)

    @abstractmethod
    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        """The operators of an adjacency that holds self-loops already where they are wanted."""

    def masked_targets(self, inside: torch.Tensor) -> Operators:
        """norm(M A): only nodes inside receive messages; degrees are of the masked matrix."""
        return self._normalised(masked_adjacency(self.base, targets=inside))

    def masked_sources(self, inside: torch.Tensor) -> Operators:
        """norm(A M): only nodes inside send messages; degrees are of the masked matrix."""
        return self._normalised(masked_adjacency(self.base, sources=inside))

    @abstractmethod
    def within(self, rows: torch.Tensor) -> Operators:
        """Messages among the given nodes only, [rows, rows]."""


class GcnOperators(LinearOperators):
    """S = D^-½ A D^-½ of graph convolutional networks (https://arxiv.org/abs/1609.02907)."""

    bias = False
    terms = 1

    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        return (gcn_normalize(adjacency, self_loops=False),)

    def within(self, rows: torch.Tensor) -> Operators:
        """A block of the whole graph's S: separation changes no degree."""
        return tuple(op and op.block(rows, rows) for op in self.whole)


class SageOperators(LinearOperators):
    """The node itself and the mean of its neighbours (https://arxiv.org/abs/1706.02216).

    Where edges are removed the mean is over the neighbours that are left; mode ``source`` alone
    divides by the number of all neighbours.
    """

    bias = True
    terms = 2

    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        return (None, row_normalize(adjacency))

    def within(self, rows: torch.Tensor) -> Operators:
        """The mean over the neighbours among the given nodes."""
        return (None, row_normalize(self.base.block(rows, rows)))


class IdentityOperators(LinearOperators):
    """No neighbours at all."""

    bias = True
    terms = 1

    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        return (None,)

    def within(self, rows: torch.Tensor) -> Operators:
        """Every node by itself."""
        return (None,)


OPERATORS: dict[str, type[LinearOperators]] = {
    "gcn": GcnOperators,
    "sage": SageOperators,
    "identity": IdentityOperators,
}


# Training and validation nodes, and a few more that someone may ask for in turn.
_MOST_SELECTIONS = 4


class Prepared:
    """The layouts of the latest graph and grouping, rebuilt only when one of them changes."""

    def __init__(self, backbone: Backbone, separation: Separation, num_groups: int) -> None:
        self._parts = (backbone, separation, num_groups)
        self._inputs: GraphInputs | None = None
        self._layout: Layout | None = None
        self._selected: list[tuple[torch.Tensor, Layout]] = []

    def layout(
        self, inputs: GraphInputs, group: torch.Tensor, nodes: torch.Tensor | None = None
    ) -> Layout:
        """The layout for a graph, the group of each node and the nodes that are asked for."""
        backbone, separation, num_groups = self._parts
        if inputs is not self._inputs:
            self._channel_of = backbone.channels(inputs, separation, num_groups)
            self._raw = Term(inputs.features)
            self._inputs, self._layout = inputs, None
        if separation == "none":
            group = torch.zeros_like(group)
        if self._layout is None or not torch.equal(self._layout.group, group):
            self._layout, self._selected = None, []  # free the memory before the new one is made
            self._layout = arrange(
                inputs, separation, group.clone(), num_groups, self._channel_of, self._raw
            )
        return self._layout if nodes is None else self._of(self._layout, nodes)

    def _of(self, layout: Layout, nodes: torch.Tensor) -> Layout:
        asked = checked_nodes(nodes, layout.group)
        for known, selected in self._selected:
            if torch.equal(known, asked):
                return selected
        if len(self._selected) == _MOST_SELECTIONS:
            self._selected.clear()
        selected = restricted(layout, asked, self._parts[0].restricted)
        self._selected.append((asked.clone(), selected))
        return selected

    def __deepcopy__(self, memo: dict[int, object]) -> Prepared:
        return Prepared(*self._parts)

    def __reduce__(self) -> tuple[type[Prepared], tuple[object, ...]]:
        return Prepared, self._parts
