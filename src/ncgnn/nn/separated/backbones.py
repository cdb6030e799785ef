"""What passes messages in a separated model: one backbone for both of its layers.

GCN and SAGE layers are linear, and multiply by the operators of a channel. Any PyG message-passing
layer can take their place. It sees ordinary tensors: features of nodes and an ``edge_index`` from
which a separation mode has removed edges; how it normalizes what is left is its own business.

================  =============================  ============================================
mode              edges of the first layer       edges of the second layer
================  =============================  ============================================
``strict``        into the group                 within the group, only its nodes take part
``source``        into the group                 out of the group; a node outside it has zeros
``renormalized``  into the group, every node     out of the group, every node keeps its row
                  keeps its row
``target-only``   into the group                 into the group, from the rows of all channels
``none``          all                            all
================  =============================  ============================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import torch
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn.base import NotCopied
from ncgnn.nn.blocks import first_rows
from ncgnn.nn.functional import attend, sum_of_products
from ncgnn.nn.inputs import propagates_first, select_rows
from ncgnn.nn.layers import Term
from ncgnn.nn.separated.channels import OPERATORS, Channel, LinearChannels, identity
from ncgnn.sparse import ConstantSparse, SparsePattern, add_self_loops

if TYPE_CHECKING:
    from ncgnn.nn.inputs import Direction, GraphInputs
    from ncgnn.nn.layers import SharedProducts
    from ncgnn.nn.separated.channels import Layer, MakeChannel, Operators, Separation


#: How the weights of a linear layer begin: Xavier-uniform with the gain of ReLU, or uniform within
#: ±1/√(number of inputs), as those of PyG's layers.
Initialization = Literal["xavier", "pyg"]

# Where the second layer needs more of the first one's rows, all of them are computed at once.
_FEW = 0.25


class Backbone(ABC):
    """Makes the layers of a channel, and applies them to what the channel's mode lets through.

    Attributes:
        extra_hops: How much farther than their messages layers look, for what they normalize by.
        adds_up: Whether layers add up messages on their own, so that none may be left out.
    """

    extra_hops: int = 0
    adds_up: bool = False

    @abstractmethod
    def layer(self, width: int, hidden: int) -> nn.Module:
        """One layer with its own weights, from ``width`` columns to ``hidden``."""

    def reach(self, layers: int) -> int | None:
        """How many hops of edges so many layers depend on, see :class:`ncgnn.nn.Model`."""
        return None

    @abstractmethod
    def channels(self, inputs: GraphInputs, separation: Separation, num_groups: int) -> MakeChannel:
        """What makes a channel of its number, the nodes of its group and all nodes by group."""

    @abstractmethod
    def first(
        self, layer: Any, channel: Channel, products: SharedProducts, name: str
    ) -> torch.Tensor:
        """The first layer's rows for the channel's sources, before the activation."""

    @abstractmethod
    def second(self, layer: Any, channel: Channel, hidden: torch.Tensor) -> torch.Tensor:
        """The second layer's rows for the channel's targets."""

    def reads_messages(self, layer: Any, channel: Channel) -> bool:
        """Whether the second layer needs no rows for its gradients but those that it has passed."""
        return False

    @abstractmethod
    def restrict(self, channel: Channel, places: torch.Tensor) -> Any:
        """What the second layer works on where only some of the channel's targets are asked for.

        Args:
            channel: A channel for all its targets.
            places: Which of them are asked for.
        """

    def narrow(self, channel: Channel) -> Channel:
        """A channel for few targets, without rows of the first layer that these do not need."""
        return channel


class LinearLayer(nn.Module):
    """The weights of Σ_t P_t · H · W_t + b.

    Args:
        width: Number of columns of H.
        hidden: Number of columns of the result.
        terms: Number of weight matrices.
        bias: Whether there is a b.
        initialization: How weights begin, see :data:`Initialization`.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        terms: int,
        bias: bool,
        initialization: Initialization = "xavier",
    ) -> None:
        super().__init__()
        self.initialization: Initialization = initialization
        self.weights = nn.ParameterList(torch.empty(width, hidden) for _ in range(terms))
        self.bias = nn.Parameter(torch.empty(hidden)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """First weights, bias zero."""
        for weight in self.weights:
            if self.initialization == "pyg":
                bound = max(1, len(weight)) ** -0.5
                nn.init.uniform_(weight, -bound, bound)
            else:
                nn.init.xavier_uniform_(weight, gain=nn.init.calculate_gain("relu"))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class LinearBackbone(Backbone):
    """GCN or SAGE: layers that are linear in their input.

    Args:
        name: Of the operators: ``"gcn"``, ``"sage"``, or another key of ``OPERATORS``.
        self_loops: Whether every node is its own neighbor too.
        direction: Which edges bring messages.
        bias: Whether layers have one; None = as usual with these operators.
        initialization: How weights begin.
    """

    def __init__(
        self,
        name: str,
        self_loops: bool,
        direction: Direction = "incoming",
        bias: bool | None = None,
        initialization: Initialization = "xavier",
    ) -> None:
        self.operators = OPERATORS[name]
        self.bias = self.operators.bias if bias is None else bias
        self.initialization: Initialization = initialization
        self.self_loops: bool = self_loops
        self.direction: Direction = direction
        self.terms = self.operators.count_terms(self_loops, direction)

    def layer(self, width: int, hidden: int) -> LinearLayer:
        """One weight matrix per operator."""
        return LinearLayer(width, hidden, self.terms, self.bias, self.initialization)

    def reach(self, layers: int) -> int:
        """One hop per layer, and one more where neighbors' degrees count."""
        return layers * self.operators.hops + self.operators.degree_hops

    def channels(
        self, inputs: GraphInputs, separation: Separation, num_groups: int
    ) -> LinearChannels:
        """Channels of operators."""
        chosen = self.self_loops, self.direction
        operators = inputs.kept(
            (self.operators, *chosen), lambda: self.operators(inputs, *chosen), of_edges=True
        )
        return LinearChannels(inputs, operators, separation, num_groups)

    def first(
        self, layer: LinearLayer, channel: Channel, products: SharedProducts, name: str
    ) -> torch.Tensor:
        """Σ_t (P_t · X) · W_t + b, products shared between passes."""
        return products.total(name, channel.first, list(layer.weights), layer.bias)

    def second(self, layer: LinearLayer, channel: Channel, hidden: torch.Tensor) -> torch.Tensor:
        """Σ_t P_t · (H · W_t) + b."""
        rows: list[torch.Tensor] = []
        weights: list[torch.Tensor] = []
        passed: list[torch.Tensor] = []
        for operator, weight in zip(channel.second, layer.weights, strict=True):
            if operator is not None and not propagates_first(operator, weight):
                passed.append(operator @ sum_of_products([hidden], [weight]))
                continue
            # Targets are the first of those who send.
            count = len(channel.targets)
            rows.append(first_rows(hidden, count) if operator is None else operator @ hidden)
            weights.append(weight)
        total = sum_of_products(rows, weights, layer.bias) if rows else layer.bias
        for part in passed:
            total = part if total is None else total + part
        return cast("torch.Tensor", total)

    def reads_messages(self, layer: LinearLayer, channel: Channel) -> bool:
        """Whether every operator comes before its weights."""
        if not channel.second:  # it is in another block
            return False
        pairs = zip(channel.second, layer.weights, strict=True)
        return all(operator and propagates_first(operator, weight) for operator, weight in pairs)

    def restrict(self, channel: Channel, places: torch.Tensor) -> Operators:
        """Rows of the operators."""
        dtype = channel.first[0].constant.dtype
        return tuple(
            (operator or identity(len(channel.sources), places, dtype)).rows(places)
            for operator in channel.second
        )

    def narrow(self, channel: Channel) -> Channel:
        """Columns of the second layer's operators, and these rows of the first layer's terms."""
        needed = torch.cat([operator.pattern.col for operator in channel.second]).unique()
        if len(needed) > _FEW * len(channel.sources):
            return channel
        return replace(
            channel,
            sources=channel.sources.index_select(0, needed),
            first=tuple(term.rows(needed) for term in channel.first),
            second=tuple(operator.columns(needed) for operator in channel.second),
        )


#: Makes a layer with input and output width that is called as ``layer(x, edge_index)``.
LayerConstructor: TypeAlias = Callable[[int, int], nn.Module]


@dataclass(frozen=True, eq=False)
class ConvInput:
    """What a layer is called with.

    Attributes:
        edges: ``edge_index`` [2, E] among the rows that go in.
        x: The features that go in; None where it is the output of the first layer.
        gather: Which rows of the hidden features go in; None = all.
        keep: Which rows of the output count; None = all.
    """

    edges: torch.Tensor
    x: torch.Tensor | None = None
    gather: torch.Tensor | None = None
    keep: torch.Tensor | None = None


class ConvBackbone(Backbone):
    """A layer that the user names.

    Args:
        constructor: Called as ``constructor(width, hidden)``.
        self_loops: Whether edges from every node to itself are added after masking. Layers that add
            their own, as PyG's ``GCNConv`` and ``GATConv`` do by default, replace them.
        direction: Which edges bring messages: ``incoming`` ones, or those of ``both`` directions.
        kind: Which matrix of :meth:`GraphInputs.messages` holds them.
    """

    def __init__(
        self,
        constructor: LayerConstructor,
        self_loops: bool,
        direction: Direction = "incoming",
        kind: int = 0,
    ) -> None:
        self.constructor, self.self_loops, self.kind = constructor, self_loops, kind
        self.direction: Direction = direction
        self.extra_hops = 0 if self.reach(2) else 1  # as far as PyG's own layers look
        self.adds_up = constructor in (Isomorphism, SumConvolution)

    def reach(self, layers: int) -> int | None:
        """One hop per layer of this package; what another layer normalizes by is not known."""
        own = isinstance(self.constructor, type) and issubclass(self.constructor, EdgeLayer)
        return layers if own else None

    def layer(self, width: int, hidden: int) -> nn.Module:
        """A layer from the constructor."""
        layer, self.hidden = self.constructor(width, hidden), hidden
        if not callable(getattr(layer, "forward", None)):
            raise InputError(
                f"backbone: the constructor gave a {type(layer).__name__}; a torch module that is "
                "called as layer(x, edge_index) is wanted."
            )
        return layer

    def channels(
        self, inputs: GraphInputs, separation: Separation, num_groups: int
    ) -> ConvChannels:
        """Channels of edges."""
        if self.direction == "incoming":
            edges = inputs.edge_index
        else:
            edges = inputs.messages(self.direction)[self.kind].pattern.edge_index
        return ConvChannels(inputs, edges, separation, self.self_loops)

    def first(
        self, layer: Any, channel: Channel, products: SharedProducts, name: str
    ) -> torch.Tensor:
        """The layer on the features."""
        given: ConvInput = channel.first
        if not len(channel.sources):
            return self._nobody(given.edges, layer)
        return _kept(self._check(layer(given.x, given.edges), given.x), given.keep)

    def second(self, layer: Any, channel: Channel, hidden: torch.Tensor) -> torch.Tensor:
        """The layer on hidden features; rows that the channel has none for are zero."""
        given: ConvInput = channel.second
        if not len(channel.targets):
            return hidden.new_zeros(0, self.hidden)
        if given.gather is not None:
            padded = torch.cat([hidden, hidden.new_zeros(1, hidden.shape[1])])
            hidden = padded.index_select(0, given.gather)
        return _kept(self._check(layer(hidden, given.edges), hidden), given.keep)

    def _check(self, output: Any, given: torch.Tensor | None) -> torch.Tensor:
        wanted = [0 if given is None else len(given), self.hidden]
        if not isinstance(output, torch.Tensor) or list(output.shape) != wanted:
            is_tensor = isinstance(output, torch.Tensor)
            found = list(output.shape) if is_tensor else type(output).__name__
            raise InputError(
                f"backbone: the layer gave {found} instead of {wanted}, one row of 'hidden' "
                "numbers per node; heads that are put side by side must share that width."
            )
        return output

    def _nobody(self, edges: torch.Tensor, layer: nn.Module) -> torch.Tensor:
        """What a layer that may not know how to handle no node at all would give."""
        dtype = next((p.dtype for p in layer.parameters()), torch.get_default_dtype())
        return torch.zeros(0, self.hidden, device=edges.device, dtype=dtype)

    def restrict(self, channel: Channel, places: torch.Tensor) -> ConvInput:
        """The same input; fewer rows of the output count."""
        given: ConvInput = channel.second
        return replace(given, keep=places if given.keep is None else given.keep[places])


class TwoWayBackbone(Backbone):
    """Two layers that the user names, one for messages along edges and one against them, added up.

    What such a layer does with a node's own row, each of the two does with weights of its own.
    """

    def __init__(self, constructor: LayerConstructor, self_loops: bool) -> None:
        self.ways = [ConvBackbone(constructor, self_loops, "separate", kind) for kind in (0, 1)]
        self.extra_hops, self.adds_up = self.ways[0].extra_hops, self.ways[0].adds_up

    def reach(self, layers: int) -> int | None:
        """That of one of the layers: receptive fields follow edges both ways."""
        return self.ways[0].reach(layers)

    def layer(self, width: int, hidden: int) -> nn.Module:
        """A layer per direction."""
        return nn.ModuleList(way.layer(width, hidden) for way in self.ways)

    def channels(self, inputs: GraphInputs, separation: Separation, num_groups: int) -> MakeChannel:
        """Channels with the edges of both directions."""
        makers = [way.channels(inputs, separation, num_groups) for way in self.ways]

        def make(
            number: int, nodes: torch.Tensor, ordered: torch.Tensor, only: Layer | None = None
        ) -> Channel:
            along, against = (maker(number, nodes, ordered, only) for maker in makers)
            firsts, seconds = (along.first, against.first), (along.second, against.second)
            return replace(along, first=firsts, second=seconds)

        return make

    def first(
        self, layer: Any, channel: Channel, products: SharedProducts, name: str
    ) -> torch.Tensor:
        """The sum of both first layers."""
        along, against = self._parts(channel)
        return self.ways[0].first(layer[0], along, products, name) + self.ways[1].first(
            layer[1], against, products, name
        )

    def second(self, layer: Any, channel: Channel, hidden: torch.Tensor) -> torch.Tensor:
        """The sum of both second layers."""
        along, against = self._parts(channel)
        first, other = self.ways
        return first.second(layer[0], along, hidden) + other.second(layer[1], against, hidden)

    def restrict(self, channel: Channel, places: torch.Tensor) -> tuple[ConvInput, ...]:
        """The same inputs; fewer rows of the outputs count."""
        parts = zip(self.ways, self._parts(channel), strict=True)
        return tuple(way.restrict(part, places) for way, part in parts)

    def _parts(self, channel: Channel) -> list[Channel]:
        """The channel of each direction."""
        pairs = zip(channel.first, channel.second, strict=True)
        return [replace(channel, first=first, second=second) for first, second in pairs]


class ConvChannels:
    """Makes the channels of a plugged-in layer."""

    def __init__(
        self, inputs: GraphInputs, edges: torch.Tensor, separation: Separation, self_loops: bool
    ) -> None:
        self.inputs, self.edges = inputs, edges
        self.separation, self.self_loops = separation, self_loops

    def __call__(
        self, number: int, nodes: torch.Tensor, ordered: torch.Tensor, only: Layer | None = None
    ) -> Channel:
        """The channel of the group that holds the given nodes."""
        everyone, mode = self.inputs.everyone, self.separation
        reached, kept, rows = everyone, None, nodes
        if self.inputs.num_rows < len(everyone):  # the layer gives more rows than are wanted
            reached = kept = everyone[: self.inputs.num_rows]
            rows = nodes[nodes < len(reached)]
        inside = torch.zeros(len(everyone), dtype=torch.bool, device=everyone.device)
        inside[nodes] = True
        from_group, into_group = inside[self.edges[0]], inside[self.edges[1]]
        first = None
        if mode == "renormalized":
            if only != "second":
                first = ConvInput(self._keep(into_group), self.inputs.x, keep=kept)
            second = ConvInput(self._keep(from_group), keep=kept)
            return Channel(reached, reached, everyone, first, second)
        if only != "second":
            first = self._into(into_group, inside, rows)
        if mode == "source":
            gather = torch.full_like(everyone, len(nodes))  # the row of zeros
            gather[nodes] = torch.arange(len(nodes), device=nodes.device)
            second = ConvInput(self._keep(from_group), gather=gather, keep=kept)
            return Channel(rows, reached, nodes, first, second)
        features = self.inputs.features
        raw = Term(features if len(rows) == len(everyone) else select_rows(features, rows))
        if mode == "target-only":
            place = torch.empty_like(ordered)
            place[ordered] = everyone
            second = ConvInput(self._keep(into_group), gather=place, keep=rows)
            return Channel(rows, rows, ordered, first, second, raw)
        within = self._relabel(from_group & into_group, nodes)
        keep = None if kept is None else torch.arange(len(rows), device=rows.device)
        return Channel(rows, rows, nodes, first, ConvInput(within, keep=keep), raw)

    def _into(self, into: torch.Tensor, inside: torch.Tensor, rows: torch.Tensor) -> ConvInput:
        """The first layer on the group and whoever sends messages into it."""
        taking_part = inside.clone()
        taking_part[self.edges[0][into]] = True
        if 2 * int(taking_part.sum()) > len(taking_part):  # not worth a copy of their features
            return ConvInput(self._keep(into), self.inputs.x, keep=rows)
        nodes = torch.nonzero(taking_part).flatten()
        keep = torch.cumsum(taking_part, 0).index_select(0, rows) - 1
        x = self.inputs.x.index_select(0, nodes)
        return ConvInput(self._relabel(into, nodes), x, keep=keep)

    def _relabel(self, kept: torch.Tensor, nodes: torch.Tensor) -> torch.Tensor:
        """The kept edges, with nodes numbered by their place among the given ones."""
        place = torch.full_like(self.inputs.everyone, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        return self._add_loops(place[self.edges[:, kept]], len(nodes))

    def _keep(self, kept: torch.Tensor) -> torch.Tensor:
        return self._add_loops(self.edges[:, kept], self.inputs.num_nodes)

    def _add_loops(self, edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        if not self.self_loops:
            return edges
        loops = torch.arange(num_nodes, device=edges.device).expand(2, -1)
        return torch.cat([edges, loops], dim=1)


def _kept(output: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
    return output if keep is None else output.index_select(0, keep)


class _Kept(NotCopied):
    """The edges that a layer was last called with, and their adjacency."""

    last: tuple[torch.Tensor, ConstantSparse] | None = None


class EdgeLayer(nn.Module):
    """A layer that is called as ``layer(x, edge_index)`` and multiplies by sparse matrices.

    Args:
        self_loops: Whether every node sees itself, too.
    """

    def __init__(self, self_loops: bool = False) -> None:
        super().__init__()
        self._self_loops, self._kept = self_loops, _Kept()

    def adjacency(self, x: torch.Tensor, edge_index: torch.Tensor) -> ConstantSparse:
        """Row i has ones for the nodes that i sees; made anew when edges have changed."""
        last = self._kept.last
        known = last[1] if last is not None and last[0] is edge_index else None
        if known is None or known.dtype != x.dtype:
            pattern = SparsePattern.from_edge_index(edge_index, len(x))
            known = ConstantSparse(pattern, x.new_ones(pattern.nnz))
            known = add_self_loops(known) if self._self_loops else known
            self._kept.last = edge_index, known  # both at once, as threads may share the layer
        return known


class Attention(EdgeLayer):
    r"""Graph attention, :math:`h_i' = \sum_j α_{ij} W h_j + b` in every head.

    (https://arxiv.org/abs/1710.10903) A node sees itself. There are eight heads where they divide
    the width, otherwise one.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(self_loops=True)
        heads = 8 if hidden % 8 == 0 else 1
        self.linear = nn.Linear(width, hidden, bias=False)
        self.target = nn.Parameter(torch.empty(heads, hidden // heads))
        self.source = nn.Parameter(torch.empty(heads, hidden // heads))
        self.bias = nn.Parameter(torch.zeros(hidden))
        for parameter in (self.linear.weight, self.target, self.source):
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        nodes = self.linear(x).view(-1, *self.target.shape)
        pattern = self.adjacency(x, edge_index).pattern
        return attend(pattern, nodes, self.target, self.source).flatten(1) + self.bias


class Isomorphism(EdgeLayer):
    r"""A GIN layer whose function of the sum is one hidden layer.

    .. math::

        h_i' = W_2 \, ReLU\Big((1 + ε) W_1 h_i + \sum_{j → i} W_1 h_j + b_1\Big) + b_2

    (https://arxiv.org/abs/1810.00826)
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden, bias=False)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.second = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        own = self.first(x)
        summed = (1 + self.epsilon) * own + self.adjacency(x, edge_index) @ own
        return self.second(torch.relu(summed + self.bias))


class SumConvolution(EdgeLayer):
    r"""GraphConv, :math:`h_i' = W_1 h_i + \sum_{j → i} W_2 h_j + b`.

    (https://arxiv.org/abs/1810.02244)
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, hidden)
        self.others = nn.Linear(width, hidden, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """New rows of all nodes."""
        return self.own(x) + self.adjacency(x, edge_index) @ self.others(x)
