"""Separated learning on the tuned classic backbone: residuals, normalisation and depth.

A graph whose nodes stand in the order of their groups, so that groups are slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, cast

import torch
from pydantic import Field, model_validator
from torch import nn

from ncgnn.nn.base import Model, Rate, Width, checked
from ncgnn.nn.baselines.tuned import Norm, make_norm
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.inputs import checked_group, checked_nodes, select_rows
from ncgnn.nn.layers import Term, product
from ncgnn.nn.separated.model import SeparatedOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.nn.separated.channels import Separation
    from ncgnn.sparse import ConstantSparse

#: The rows of every group.
Rows: TypeAlias = "list[torch.Tensor]"
Weights: TypeAlias = "Sequence[torch.Tensor]"


class GroupedGraph:
    """The messages that groups of nodes may receive.

    Args:
        inputs: The graph.
        group: Group of every node.
        num_groups: Number of groups, also empty ones.
        operator: S = norm(A).
        strict: Whether messages pass within groups only, after the first layer.
    """

    def __init__(
        self,
        inputs: GraphInputs,
        group: torch.Tensor,
        num_groups: int,
        operator: ConstantSparse,
        *,
        strict: bool,
    ) -> None:
        self.group, self._strict = group, strict
        self.members = [torch.nonzero(group == s).flatten() for s in range(num_groups)]
        ordered = torch.cat(self.members)
        self.position = torch.empty_like(ordered)
        self.position[ordered] = inputs.everyone
        self._operators = [
            operator.block(rows, rows if strict else ordered) for rows in self.members
        ]
        self._own = [Term(select_rows(inputs.features, rows)) for rows in self.members]
        passed = inputs.propagated(operator, uses=num_groups)
        self._passed = [
            Term(inputs.features, operator.rows(rows))
            if passed is None
            else Term(select_rows(passed, rows))
            for rows in self.members
        ]

    def split(self, rows: torch.Tensor) -> Rows:
        """Rows of all nodes in the order of their groups, as one part per group."""
        return list(rows.split([len(members) for members in self.members]))

    def features_times(self, weights: Weights) -> Rows:
        """X·W_s for the nodes of every group s."""
        return [product(term, weight) for term, weight in zip(self._own, weights, strict=True)]

    def messages_of_features(self, weights: Weights) -> Rows:
        """M_s·S·X·W_s."""
        return [product(term, weight) for term, weight in zip(self._passed, weights, strict=True)]

    def messages(self, rows: Rows, weights: Weights) -> Rows:
        """M_s·S·M_s·H·W_s where groups are kept apart, and M_s·S·H·W_s otherwise."""
        sources = rows if self._strict else [torch.cat(rows)] * len(rows)
        return [
            (operator @ source) @ weight
            for operator, source, weight in zip(self._operators, sources, weights, strict=True)
        ]


class Ordered:
    """The latest graph and grouping of a model, rebuilt only when one of them changes.

    Args:
        separation: ``strict``, ``target-only`` or ``none``.
        num_groups: Number of groups.
        self_loops: Whether every node is its own neighbour too.
        mean: Whether S is the mean over neighbours, and not D^-½ A D^-½.
    """

    def __init__(
        self, separation: Separation, num_groups: int, *, self_loops: bool, mean: bool
    ) -> None:
        self._separation: Separation = separation
        self._num_groups, self._self_loops, self._mean = num_groups, self_loops, mean
        self._inputs: GraphInputs | None = None
        self._graph: GroupedGraph | None = None

    def graph(self, inputs: GraphInputs, group: torch.Tensor) -> GroupedGraph:
        """The graph in the order of its groups."""
        if self._separation == "none":
            group = torch.zeros_like(group)
        known = self._graph
        if inputs is self._inputs and known is not None and torch.equal(known.group, group):
            return known
        self._graph = None  # free the memory before the new one is made
        make = inputs.mean_operator if self._mean else inputs.gcn_operator
        operator = make(self_loops=self._self_loops, undirected=True)
        strict = self._separation == "strict"
        self._graph = GroupedGraph(inputs, group.clone(), self._num_groups, operator, strict=strict)
        self._inputs = inputs
        return self._graph

    def __deepcopy__(self, memo: dict[int, object]) -> Ordered:
        return self._anew()

    def _anew(self) -> Ordered:
        return Ordered(
            self._separation, self._num_groups, self_loops=self._self_loops, mean=self._mean
        )

    def __getstate__(self) -> dict[str, object]:
        """A copy in another process makes its own."""
        return vars(self._anew())


class SeparatedTunedOptions(SeparatedOptions):
    """Options of the separated tuned models."""

    hidden: Width = 512
    """Width of every layer."""
    dropout: tuple[Rate, ...] = (0.5,)
    """Rate after every layer: one for all groups, or one per group, low NC first."""
    separation: Literal["strict", "target-only", "none"] = "target-only"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Which messages pass between groups after the first layer: those within groups (``strict``),
    all (``target-only``); ``none`` makes no groups.
    """
    activation: Literal[False] = False  # pyright: ignore[reportIncompatibleVariableOverride]
    """ReLU follows every layer, so this cannot be chosen."""
    readout_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout rate of the rows that raw features are mixed into, before the last linear layer."""
    layers: Annotated[int, Field(ge=1)] = 3
    """Number of convolutions."""
    norm: Norm = "layer"
    """Normalisation before the activation, shared by the groups: ``layer``, ``batch`` or ``none``.
    """
    residual: bool = True
    """Whether every layer adds a linear map of its input."""
    raw: bool = True
    """Whether raw features are mixed in before the last layer, by α as in NCGCN."""
    shared: bool = True
    """Whether the groups' weights are one common matrix with a deviation for each group, or have
    nothing in common.
    """
    deviation: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.3
    """Factor of the deviations; the smaller, the more slowly groups part."""

    @model_validator(mode="after")
    def _readout_dropout_has_a_place(self) -> Self:
        if self.readout_dropout and not self.raw:
            raise ValueError("readout_dropout: it acts on mixed-in raw features; set raw = true")
        return self

    @property
    def common(self) -> float | None:
        """The factor of deviations from common weights; None where there are no common ones."""
        return self.deviation if self.shared and self.separation != "none" else None


class SeparatedTunedGNN(Model):
    r"""A deep message-passing model whose weights and messages are separated by groups of nodes.

    Every group s has weights in every layer, and normalisation is shared. For the rows of group s,
    with S = norm(A) of the undirected graph,

    .. math::

        h ← dropout(ReLU(norm(P^s h W^s + b^s + [h V^s + c^s])))

    ``layers`` times. With ``shared``, :math:`W^s = W + c Δ^s`, and so for all of its parameters,
    where c is ``deviation`` and Δ begins at 0: groups begin alike and part as far as it helps.
    Without, they have nothing in common.

    In the first layer :math:`P^s = M_s S`; after it :math:`M_s S M_s` in mode ``strict`` and
    :math:`M_s S` in ``target-only``. With ``raw``, the last layer sees
    :math:`α^s h + (1 - α^s) W_x x`, as in :class:`ncgnn.nn.SeparatedGNN`. With one group, or all
    nodes in the first, and ``raw = False`` it is the tuned classic model of
    https://arxiv.org/abs/2406.08993.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`SeparatedTunedOptions`.
    """

    family = "separated"
    paper = "Ours, after arXiv:2306.02285 and arXiv:2406.08993"
    edges = "both"
    Options = SeparatedTunedOptions
    #: Whether a node's own row has weights of its own beside the mean of its neighbours.
    has_own: bool = False

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = checked(self.Options, options)
        self.rule, self.dropout = chosen.rule, chosen.dropout
        self.readout_dropout = chosen.readout_dropout
        groups = self._channels = 1 if chosen.separation == "none" else len(chosen.dropout)
        widths = [num_features, *[chosen.hidden] * (chosen.layers - 1)]
        terms = 1 + self.has_own + chosen.residual
        self.layers = nn.ModuleList(
            _GroupedLayer(width, chosen.hidden, groups, terms, chosen.norm, chosen.common)
            for width in widths
        )
        self.mixing = nn.Parameter(torch.full((groups, 2), 0.5)) if chosen.raw else None
        self.raw = nn.Parameter(torch.empty(num_features, chosen.hidden)) if chosen.raw else None
        if self.raw is not None:
            nn.init.xavier_uniform_(self.raw, gain=nn.init.calculate_gain("relu"))
        self.readout = nn.Linear(chosen.hidden, num_classes)
        self._ordered = Ordered(
            chosen.separation, groups, self_loops=chosen.self_loops, mean=self.has_own
        )

    @property
    def num_groups(self) -> int:
        """Number of groups of nodes."""
        return len(self.dropout)

    @property
    def channel_alpha(self) -> torch.Tensor:
        """The weight of message passing per group, beside that of raw features; 1 without them."""
        if self.mixing is None:
            return self.readout.weight.new_ones(self._channels)
        return torch.softmax(self.mixing, dim=1)[:, 0]

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits of the given nodes, None = all."""
        with torch.inference_mode(False):  # what is kept serves later training too
            graph = self._ordered.graph(inputs, checked_group(inputs, group, self.num_groups))
        rows: Rows | None = None
        for place, layer in enumerate(self.layers):
            total = layer(graph, rows)
            rows = [
                relu_dropout(part, rate, at(key, place), members)
                for part, rate, members in zip(
                    graph.split(total), self.dropout, graph.members, strict=False
                )
            ]
        logits = self._read(graph, cast("Rows", rows), key)
        wanted = graph.position
        if nodes is not None:
            wanted = wanted.index_select(0, checked_nodes(nodes, inputs.everyone))
        return logits.index_select(0, wanted)

    def _read(self, graph: GroupedGraph, rows: Rows, key: DropoutKey | None) -> torch.Tensor:
        """Logits of all nodes, in the order of their groups."""
        if self.raw is None:
            return self.readout(torch.cat(rows))
        alpha, place = self.channel_alpha, at(key, len(self.layers))
        mixed = [
            relu_dropout(
                alpha[s] * part + (1 - alpha[s]) * raw, self.readout_dropout, place, members
            )
            for s, (part, raw, members) in enumerate(
                zip(rows, graph.features_times([self.raw] * len(rows)), graph.members, strict=True)
            )
        ]
        return self.readout(torch.cat(mixed))


class NCTunedGCN(SeparatedTunedGNN):
    """Separated learning on tuned GCN; see :class:`SeparatedTunedGNN`."""


class NCTunedSAGE(SeparatedTunedGNN):
    """Separated learning on tuned GraphSAGE: a node's own row has weights of its own."""

    has_own = True


class _GroupedLayer(nn.Module):
    """norm(Σ_t P_t·h·W_t + b) with weights for every group and one normalisation.

    Args:
        width: Number of columns of h.
        hidden: Number of columns of the result.
        groups: Number of groups.
        terms: Number of weight matrices per group: of messages, of a node's own row, of a residual.
        norm: Which normalisation.
        deviation: Factor of the groups' deviations from common weights; None: there are none.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        groups: int,
        terms: int,
        norm: Norm,
        deviation: float | None = None,
    ) -> None:
        super().__init__()
        self.deviation = deviation
        self.common = None if deviation is None else _Weights(width, hidden, terms)
        self.groups = nn.ModuleList(_Weights(width, hidden, terms) for _ in range(groups))
        self.norm = make_norm(norm, hidden)
        if self.common is not None:
            for parameter in self.groups.parameters():
                nn.init.zeros_(parameter)

    def forward(self, graph: GroupedGraph, rows: Rows | None) -> torch.Tensor:
        """[n, hidden] in the order of the groups, before the activation; None: the features."""
        weights = [self._in_force(cast("_Weights", group)) for group in self.groups]
        message = [one[0] for one in weights]
        if rows is None:
            parts = graph.messages_of_features(message)
        else:
            parts = graph.messages(rows, message)
        parts = [part + one[1] for part, one in zip(parts, weights, strict=True)]
        for place in range(2, len(weights[0])):
            own = [one[place] for one in weights]
            if rows is None:
                more = graph.features_times(own)
            else:
                more = [part @ weight for part, weight in zip(rows, own, strict=True)]
            parts = [part + extra for part, extra in zip(parts, more, strict=True)]
        return self.norm(torch.cat(parts))

    def _in_force(self, group: _Weights) -> list[torch.Tensor]:
        """Weights of messages, bias and weights of own rows of a group."""
        if self.common is None or self.deviation is None:
            return group.all
        return [
            torch.add(common, own, alpha=self.deviation)
            for common, own in zip(self.common.all, group.all, strict=True)
        ]


class _Weights(nn.Module):
    """The weights of one group in one layer, as torch's ``Linear`` begins them."""

    def __init__(self, width: int, hidden: int, terms: int) -> None:
        super().__init__()
        self.message = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, hidden)))
        self.own = nn.ParameterList(torch.empty(width, hidden) for _ in range(terms - 1))
        self.bias = nn.Parameter(torch.zeros(hidden))
        bound = max(1, width) ** -0.5
        for parameter in self.own:
            nn.init.uniform_(parameter, -bound, bound)

    @property
    def all(self) -> list[torch.Tensor]:
        """Weights of messages, bias, weights of own rows."""
        return [self.message, self.bias, *self.own]
