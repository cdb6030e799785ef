"""Separated learning on the tuned classic backbone: residuals, normalization and depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import nn

from ncgnn.nn.base import DirectionOption, Model, Rate, Width, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.inputs import as_nodes
from ncgnn.nn.layers import Norm, make_norm, product
from ncgnn.nn.separated.backbones import LinearBackbone
from ncgnn.nn.separated.channels import Layouts
from ncgnn.nn.separated.model import SeparatedOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.nn.layers import Term
    from ncgnn.nn.separated.channels import Layout


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
    direction: DirectionOption = "both"
    """Which messages count: along stored edges into a node (``incoming``), along edges in ``both``
    directions alike, or ``separate``: along and against edges, with weights of their own for each.
    """
    layers: Annotated[int, Field(ge=1, le=1000)] = 3
    """Number of convolutions."""
    norm: Norm = "layer"
    """Normalization before the activation, shared by the groups: ``layer``, ``batch`` or ``none``.
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

    Every group s has weights in every layer, and normalization is shared. For the rows of group s,
    with S = norm(A) of the undirected graph (or as ``direction`` says),

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
    uses_weights = True
    maskable = True
    Options = SeparatedTunedOptions
    #: Whether a node's own row has weights of its own beside the mean of its neighbors.
    has_own: bool = False

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = parse_options(self.Options, options)
        self.rule, self.dropout = chosen.rule, chosen.dropout
        self.readout_dropout = chosen.readout_dropout
        self.num_groups = len(chosen.dropout)
        groups = self._channels = 1 if chosen.separation == "none" else len(chosen.dropout)
        widths = [num_features, *[chosen.hidden] * (chosen.layers - 1)]
        self.direction = chosen.direction
        separate = chosen.direction == "separate"
        # Self-loops have no direction: a node's own row has weights of its own in their place.
        own = (self.has_own or (separate and chosen.self_loops)) + chosen.residual
        kinds = 2 if separate else 1
        self.layers = nn.ModuleList(
            _GroupedLayer(width, chosen.hidden, groups, (kinds, own), chosen.norm, chosen.common)
            for width in widths
        )
        self.mixing = nn.Parameter(torch.zeros(groups, 2)) if chosen.raw else None
        self.raw = nn.Parameter(torch.empty(num_features, chosen.hidden)) if chosen.raw else None
        if self.raw is not None:
            nn.init.xavier_uniform_(self.raw, gain=nn.init.calculate_gain("relu"))
        self.readout = nn.Linear(chosen.hidden, num_classes)
        backbone = LinearBackbone(
            "mean" if self.has_own else "gcn",
            chosen.self_loops and not separate,
            chosen.direction,
        )
        self.depth, self.reach = chosen.layers, backbone.reach(chosen.layers)
        self._layouts = Layouts(backbone, chosen.separation, self.num_groups)

    @classmethod
    def revision_of(cls, options: Mapping[str, Any]) -> int:
        """2 where mixing weights begin at 0, as in :class:`ncgnn.nn.SeparatedGNN`."""
        return 2 if options.get("raw", True) else 1

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
        layout = self._layouts.find(inputs, group)
        rows: list[torch.Tensor] | None = None
        for number in range(len(self.layers)):
            sent = rows
            if rows is not None and layout.pooled:
                sent = [torch.cat(rows)] * len(rows)
            rows = self._rows(number, layout, sent, rows, key)
        wanted = cast("torch.Tensor", layout.position)
        if nodes is not None:
            wanted = wanted.index_select(0, as_nodes(nodes, inputs.everyone))
        return self._read(layout, rows or [], key).index_select(0, wanted)

    def compute_layer(
        self,
        number: int,
        inputs: GraphInputs,
        h: torch.Tensor | None,
        group: torch.Tensor | None,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        """The rows of a layer, those of each node by the weights of its group."""
        layout = self._layouts.find(inputs, group, only="first" if h is None else "second")
        sent = own = None
        if h is not None:
            sent = [h.index_select(0, channel.senders) for channel in layout.channels]
            own = [h.index_select(0, channel.targets) for channel in layout.channels]
        rows = self._rows(number, layout, sent, own, key)
        last = number == len(self.layers) - 1
        found = self._read(layout, rows, key) if last else torch.cat(rows)
        return found.index_select(0, cast("torch.Tensor", layout.position))

    def _rows(
        self,
        number: int,
        layout: Layout,
        sent: list[torch.Tensor] | None,
        own: list[torch.Tensor] | None,
        key: DropoutKey | None,
    ) -> list[torch.Tensor]:
        """The rows of a layer per channel, after the activation."""
        sizes = [len(channel.targets) for channel in layout.channels]
        parts = self.layers[number](layout, sent, own).split(sizes)
        return [
            relu_dropout(part, rate, at(key, number), channel.targets)
            for part, rate, channel in zip(parts, self.dropout, layout.channels, strict=False)
        ]

    def _read(
        self, layout: Layout, rows: list[torch.Tensor], key: DropoutKey | None
    ) -> torch.Tensor:
        """Logits of all nodes, in the order of their groups."""
        if self.raw is None:
            return self.readout(torch.cat(rows))
        alpha, place = self.channel_alpha, at(key, len(self.layers))
        mixed: list[torch.Tensor] = []
        for s, (part, channel) in enumerate(zip(rows, layout.channels, strict=True)):
            total = alpha[s] * part + (1 - alpha[s]) * product(cast("Term", channel.raw), self.raw)
            mixed.append(relu_dropout(total, self.readout_dropout, place, channel.targets))
        return self.readout(torch.cat(mixed))


class NCTunedGCN(SeparatedTunedGNN):
    """Separated learning on tuned GCN; see :class:`SeparatedTunedGNN`."""


class NCTunedSAGE(SeparatedTunedGNN):
    """Separated learning on tuned GraphSAGE: a node's own row has weights of its own."""

    has_own = True


class _GroupedLayer(nn.Module):
    """norm(Σ_t P_t·h·W_t + b) with weights for every group and one normalization.

    Args:
        width: Number of columns of h.
        hidden: Number of columns of the result.
        groups: Number of groups.
        terms: Number of weight matrices per group: of messages, one or two, and of a node's own row
            and its residual.
        norm: Which normalization.
        deviation: Factor of the groups' deviations from common weights; None: there are none.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        groups: int,
        terms: tuple[int, int],
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

    def forward(
        self,
        layout: Layout,
        sent: list[torch.Tensor] | None,
        rows: list[torch.Tensor] | None,
    ) -> torch.Tensor:
        """[n, hidden] in the order of the groups, before the activation.

        Args:
            layout: The channels.
            sent: Per channel, the rows that messages are made of; None: the features.
            rows: Per channel, those of its targets themselves.
        """
        parts: list[torch.Tensor] = []
        for s, channel in enumerate(layout.channels):
            message, bias, *rest = self._combine(cast("_Weights", self.groups[s]))
            kinds = max(len(channel.first), len(channel.second))
            against, own = rest[: kinds - 1], rest[kinds - 1 :]
            if sent is None or rows is None:
                raw = cast("Term", channel.raw)
                total = product(channel.first[0], message) + bias
                more = [product(channel.first[1], weight) for weight in against]
                more += [product(raw, weight) for weight in own]
            else:
                total = (channel.second[0] @ sent[s]) @ message + bias
                more = [(channel.second[1] @ sent[s]) @ weight for weight in against]
                more += [rows[s] @ weight for weight in own]
            for extra in more:
                total = total + extra
            parts.append(total)
        return self.norm(torch.cat(parts))

    def _combine(self, group: _Weights) -> list[torch.Tensor]:
        """Weights of a group in the order of :attr:`_Weights.all`."""
        if self.common is None or self.deviation is None:
            return group.all
        return [
            torch.add(common, own, alpha=self.deviation)
            for common, own in zip(self.common.all, group.all, strict=True)
        ]


class _Weights(nn.Module):
    """The weights of one group in one layer, as torch's ``Linear`` begins them."""

    def __init__(self, width: int, hidden: int, terms: tuple[int, int]) -> None:
        super().__init__()
        kinds, own = terms
        self.message = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, hidden)))
        self.own = nn.ParameterList(torch.empty(width, hidden) for _ in range(own))
        self.bias = nn.Parameter(torch.zeros(hidden))
        bound = max(1, width) ** -0.5
        for parameter in self.own:
            nn.init.uniform_(parameter, -bound, bound)
        self.against = nn.ParameterList(
            nn.init.xavier_uniform_(torch.empty(width, hidden)) for _ in range(kinds - 1)
        )

    @property
    def all(self) -> list[torch.Tensor]:
        """Weights of messages, bias, weights of messages against edges, weights of own rows."""
        return [self.message, self.bias, *self.against, *self.own]
