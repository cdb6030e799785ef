"""Separated learning: weights and message passing of their own for every group of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast, get_args

import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn.base import DirectionOption, Model, ModelOptions, Rate, Width, parse_options
from ncgnn.nn.functional import at, mix_relu_dropout, relu_dropout
from ncgnn.nn.grouping import (
    GroupingRule,
    Guidance,
    ThresholdKind,
    check_threshold_kind,
    find_guidance,
)
from ncgnn.nn.layers import SharedProducts, product
from ncgnn.nn.separated.backbones import (
    Attention,
    ConvBackbone,
    Initialization,
    Isomorphism,
    LinearBackbone,
    SumConvolution,
    TwoWayBackbone,
)
from ncgnn.nn.separated.channels import Layouts, Separation
from ncgnn.options import AddedLater

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Direction, GraphInputs
    from ncgnn.nn.layers import Term
    from ncgnn.nn.separated.backbones import Backbone, LayerConstructor
    from ncgnn.nn.separated.channels import Channel, Layout

BackboneName = Literal["gcn", "sage"]


class SeparatedOptions(ModelOptions):
    """Options of NCGCN, NCSAGE and separated models with other backbones."""

    hidden: Width = 512
    """Width of both layers."""
    separation: Separation = "renormalized"
    """Which messages pass between groups; docs/training.md explains the modes."""
    dropout: tuple[Rate, ...] = (0.5,)
    """Rate after the first layer: one for all groups, or one per group, low NC first."""
    readout_dropout: Rate = 0.5
    """Rate before the last linear layer."""
    self_loops: bool = True
    """Whether every node is its own neighbor too."""
    direction: DirectionOption = "incoming"
    """Which messages count: along stored edges into a node (``incoming``), along edges in ``both``
    directions alike, or ``separate``: along and against edges, with weights of their own for each.
    """
    activation: bool = False
    """Whether ReLU follows the second layer."""
    hops: Annotated[int, Field(ge=1)] = 1
    """Size k of the neighborhood in which NC is counted."""
    threshold: tuple[Annotated[float, Field(ge=0, le=1)], ...] = (0.5,)
    """NC above it is high; several ascending ones make more groups."""
    threshold_kind: ThresholdKind = "value"
    """Whether a threshold is a value or a quantile of NC, or of its share of what is attainable."""
    guidance: Guidance = "nc"
    """Group by ``nc``, by ``nh`` (the ablation), by ``degree``, or by a function of your own."""
    known_labels: bool = False
    """Whether training labels replace predictions when NC is estimated."""
    grouped: Annotated[bool, AddedLater] = True
    """Whether confused nodes leave the first group; false is the control of an experiment: the same
    channels and weights, and nobody in any other group."""

    @field_validator("guidance")
    @classmethod
    def _check_guidance(cls, guidance: Guidance) -> Guidance:
        return find_guidance(guidance)

    @field_validator("threshold", "dropout", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _attainable_is_of_nc(self) -> Self:
        check_threshold_kind(self.threshold_kind, self.guidance)
        return self

    @model_validator(mode="after")
    def _one_rate_per_group(self) -> Self:
        if not self.threshold or list(self.threshold) != sorted(set(self.threshold)):
            given = ", ".join(map(str, self.threshold))
            raise ValueError(f"threshold must be one number, or ascending numbers; got {given}")
        groups = len(self.threshold) + 1
        if len(self.dropout) == 1:
            object.__setattr__(self, "dropout", self.dropout * groups)
        if len(self.dropout) != groups:
            raise ValueError(
                f"dropout: {len(self.dropout)} rates for {groups} groups; give one per group"
            )
        return self

    @property
    def rule(self) -> GroupingRule:
        """How nodes are grouped."""
        return GroupingRule(
            self.hops,
            self.threshold,
            self.guidance,
            self.threshold_kind,
            self.known_labels,
            self.grouped,
        )


class SageOptions(SeparatedOptions):
    """Options of NCSAGE; the authors' code has ``bias = false`` and ``initialization = "pyg"``."""

    bias: Annotated[bool, AddedLater] = True
    """Whether both layers of every channel add a bias."""
    initialization: Annotated[Initialization, AddedLater] = "xavier"
    """How the weights of both layers begin: ``xavier``-uniform with the gain of ReLU, as in NCGCN,
    or as those of ``pyg``'s layers, uniform within ±1/√(number of inputs)."""


class SeparatedGNN(Model):
    r"""The model of "Clarify Confused Nodes via Separated Learning", for any number of groups.

    Every group s of nodes has a channel with its own weights and dropout rate. With
    :math:`P^s_1, P^s_2` the operators that the separation mode allows (see
    :mod:`ncgnn.nn.separated.channels`),

    .. math::

        H^s_1 = dropout(ReLU(P^s_1 X W^s_1)), \qquad H^s_2 = P^s_2 H^s_1 W^s_2

        Z_i = \sum_s α^s H^s_{2,i} + (1 - α^{s(i)}) W_x x_i, \qquad
        logits = W_o\, dropout(ReLU(Z)) + b_o

    where s(i) is the group of node i and :math:`(α^s, 1 - α^s)` is a softmax of two trainable
    numbers.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        backbone: ``"gcn"``, ``"sage"``, or a constructor ``(width, hidden) -> layer`` of any PyG
            message-passing layer that is called as ``layer(x, edge_index)``; by default that of the
            class, :attr:`layer`.
        **options: The fields of :class:`SeparatedOptions`.
    """

    family = "separated"
    paper = "Zhou et al., Clarify Confused Nodes via Separated Learning, arXiv:2306.02285"
    uses_weights = True
    Options = SeparatedOptions
    computes_all = False
    depth = 2
    layer: ClassVar[BackboneName | LayerConstructor] = "gcn"

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        backbone: BackboneName | LayerConstructor | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        chosen = parse_options(self.Options, options)
        self.rule, hidden = chosen.rule, chosen.hidden
        self.separation: Separation = chosen.separation
        self.counts_groups = chosen.separation == "renormalized"
        self.dropout, self.readout_dropout = chosen.dropout, chosen.readout_dropout
        self.num_groups = len(chosen.dropout)
        self.activation = chosen.activation
        self.direction = chosen.direction
        self.backbone = self._make_backbone(backbone or type(self).layer, chosen)
        self.uses_weights = self.maskable = isinstance(self.backbone, LinearBackbone)
        self.reach, self.extra_hops = self.backbone.reach(2), self.backbone.extra_hops
        self.adds_up = self.backbone.adds_up
        channels = 1 if self.separation == "none" else self.num_groups
        self.first = nn.ModuleList(
            self.backbone.layer(num_features, hidden) for _ in range(channels)
        )
        self.second = nn.ModuleList(self.backbone.layer(hidden, hidden) for _ in range(channels))
        self.mixing = nn.Parameter(torch.zeros(channels, 2))
        self.raw = nn.Parameter(torch.empty(num_features, hidden))
        self.readout = nn.Linear(hidden, num_classes)
        nn.init.xavier_uniform_(self.raw, gain=nn.init.calculate_gain("relu"))
        self._products = SharedProducts()
        self._layouts = Layouts(self.backbone, self.separation, self.num_groups)

    @classmethod
    def revision_of(cls, options: Mapping[str, Any]) -> int:
        """2: mixing weights begin at 0, where 0.5 was before, which weight decay acts on."""
        return 2

    def _make_backbone(
        self, backbone: BackboneName | LayerConstructor, chosen: SeparatedOptions
    ) -> Backbone:
        """What passes messages."""
        return _backbone(backbone, chosen.self_loops, chosen.direction)

    @property
    def channel_alpha(self) -> torch.Tensor:
        """The weight α of message passing in each channel; 1 - α is that of raw features."""
        return torch.softmax(self.mixing, dim=1)[:, 0]

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits of the given nodes, None = all; the second layer computes no other rows."""
        single = not (torch.is_grad_enabled() or self._products.active)
        # Where all nodes are asked for, they are grouped anew by the answers.
        regroups = self.rule is not None and self.rule.grouped and len(self.first) > 1
        self._products.last = nodes is None and regroups
        layout = self._layouts.find(
            inputs, group, nodes, narrow=single, forget=self._products.clear
        )
        channels = layout.channels
        pool: torch.Tensor | None = None
        if layout.pooled:
            pool = torch.cat([self._hidden(s, channel, key) for s, channel in enumerate(channels)])
        # One channel after another: without gradients its H_1 is freed before the next one's.
        passed = [
            self.backbone.second(
                self.second[s], channel, self._hidden(s, channel, key) if pool is None else pool
            )
            for s, channel in enumerate(channels)
        ]
        return self._mix(layout, passed, key)

    def compute_layer(
        self,
        number: int,
        inputs: GraphInputs,
        h: torch.Tensor | None,
        group: torch.Tensor | None,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        """H_1, that of all channels side by side where nodes have one in each; then the logits."""
        layout = self._layouts.find(inputs, group, only="first" if h is None else "second")
        channels, width = layout.channels, self.raw.shape[1]
        several = self.separation == "renormalized"
        if h is None:
            parts = [self._hidden(s, channel, key) for s, channel in enumerate(channels)]
            if several:
                return torch.cat(parts, dim=1)
            place = torch.cat([channel.sources for channel in channels]).argsort()
            return torch.cat(parts).index_select(0, place)
        passed: list[torch.Tensor] = []
        for s, channel in enumerate(channels):
            sent = h[:, s * width : (s + 1) * width] if several else h
            if len(channel.senders) < len(h) or layout.pooled:
                sent = sent.index_select(0, channel.senders)
            passed.append(self.backbone.second(self.second[s], channel, sent))
        return self._mix(layout, passed, key)

    def _mix(
        self, layout: Layout, passed: list[torch.Tensor], key: DropoutKey | None
    ) -> torch.Tensor:
        """Logits of a layout's targets, from what every channel passed on and raw features."""
        channels, alpha = layout.channels, self.channel_alpha
        if self.activation:
            passed = [torch.relu(rows) for rows in passed]
        if not layout.disjoint:  # nodes receive from several channels
            raw = product(cast("Term", layout.raw), self.raw)
            own = (1 - alpha).index_select(0, layout.group[: len(raw)])[:, None]
            weights = torch.cat([own, alpha.expand(len(own), -1)], dim=1)
            return self._read([raw, *passed], weights, channels[0].targets, key)
        logits: list[torch.Tensor] = []
        for s, channel in enumerate(channels):
            raw = product(cast("Term", channel.raw), self.raw)
            weights = torch.stack([1 - alpha[s], alpha[s]]).expand(len(raw), 2)
            logits.append(self._read([raw, passed[s]], weights, channel.targets, key))
        return torch.cat(logits).index_select(0, cast("torch.Tensor", layout.position))

    def _hidden(self, s: int, channel: Channel, key: DropoutKey | None) -> torch.Tensor:
        """H_1 of a channel."""
        light = self.backbone.reads_messages(self.second[s], channel)
        before = self.backbone.first(self.first[s], channel, self._products, f"first.{s}")
        return relu_dropout(before, self.dropout[s], at(key, s), channel.sources, light=light)

    def _read(
        self,
        parts: list[torch.Tensor],
        weights: torch.Tensor,
        nodes: torch.Tensor,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        """Logits of a weighted sum of raw features and what channels passed on."""
        place, rate = at(key, self.num_groups), self.readout_dropout
        # Linear layers do not look at what they gave again.
        owned = key is not None and self.maskable and not self.activation
        return self.readout(mix_relu_dropout(parts, weights, rate, place, nodes, owned=owned))

    @torch.no_grad()
    def compute_hidden(
        self, inputs: GraphInputs, group: torch.Tensor | None = None
    ) -> torch.Tensor:
        """ReLU(P_1 X W_1) of every node, by the channel of its own group [n, hidden]."""
        layout = self._layouts.find(inputs, group)
        result = self.raw.new_empty(inputs.num_nodes, self.raw.shape[1])
        for s, channel in enumerate(layout.channels):
            own = layout.group.index_select(0, channel.sources) == s
            result[channel.sources[own]] = self._hidden(s, channel, None)[own]
        return result

    def share_products(self, active: bool) -> None:
        """Let neighboring passes share products of weights; see :class:`SharedProducts`."""
        self._products.active = active


def _backbone(
    backbone: BackboneName | LayerConstructor, self_loops: bool, direction: Direction
) -> Backbone:
    if isinstance(backbone, str):
        if backbone in get_args(BackboneName):
            return LinearBackbone(backbone, self_loops, direction)
        raise InputError(
            f"backbone must be one of {', '.join(get_args(BackboneName))}, or a constructor "
            f"(width, hidden) -> layer; got '{backbone}'."
        )
    if direction == "separate":
        return TwoWayBackbone(backbone, self_loops)
    return ConvBackbone(backbone, self_loops, direction)


class NCGCN(SeparatedGNN):
    """Separated learning with graph convolutions (https://arxiv.org/abs/1609.02907)."""


class NCSAGE(SeparatedGNN):
    """Separated learning with SAGE layers, mean (https://arxiv.org/abs/1706.02216)."""

    Options = SageOptions
    layer = "sage"

    def _make_backbone(
        self, backbone: BackboneName | LayerConstructor, chosen: SeparatedOptions
    ) -> Backbone:
        made = super()._make_backbone(backbone, chosen)
        if isinstance(made, LinearBackbone) and isinstance(chosen, SageOptions):
            made.bias, made.initialization = chosen.bias, chosen.initialization
        return made


class NCGAT(SeparatedGNN):
    """Separated learning with graph attention (https://arxiv.org/abs/1710.10903)."""

    memory = "edges × heads, nodes × features"
    uses_weights = False
    layer = Attention


class NCGIN(SeparatedGNN):
    """Separated learning with GIN layers (https://arxiv.org/abs/1810.00826)."""

    memory = "nodes × features"
    uses_weights = False
    layer = Isomorphism


class NCGraphConv(SeparatedGNN):
    """Separated learning with GraphConv layers (https://arxiv.org/abs/1810.02244)."""

    memory = "nodes × features"
    uses_weights = False
    layer = SumConvolution
