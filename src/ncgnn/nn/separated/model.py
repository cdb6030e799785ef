"""Separated learning: weights and message passing of their own for every group of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast, get_args

import torch
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn.functional import check_rate, mixed_relu_dropout, relu_dropout, training_key
from ncgnn.nn.inputs import as_inputs, checked_group
from ncgnn.nn.products import SharedProducts, product
from ncgnn.nn.separated.backbones import ConvBackbone, LinearBackbone
from ncgnn.nn.separated.channels import Prepared, check_separation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.graph import GraphLike
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.nn.products import Term
    from ncgnn.nn.separated.backbones import Backbone, LayerConstructor
    from ncgnn.nn.separated.channels import Layout, Separation

BackboneName = Literal["gcn", "sage"]


class SeparatedGNN(nn.Module):
    r"""The model of "Clarify Confused Nodes via Separated Learning", for any number of groups.

    Every group s of nodes has a channel with its own weights and dropout rate. With
    :math:`P^s_1, P^s_2` the operators that the separation mode allows (see
    :mod:`ncgnn.nn._channels`),

    .. math::

        H^s_1 = dropout(ReLU(P^s_1 X W^s_1)), \qquad H^s_2 = P^s_2 H^s_1 W^s_2

        Z_i = \sum_s α^s H^s_{2,i} + (1 - α^{s(i)}) W_x x_i, \qquad
        logits = W_o\, dropout(ReLU(Z)) + b_o

    where s(i) is the group of node i and :math:`(α^s, 1 - α^s)` is a softmax of two trainable
    numbers.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        hidden: Width of both layers.
        backbone: ``"gcn"``, ``"sage"``, or a constructor ``(width, hidden) -> layer`` of any PyG
            message-passing layer that is called as ``layer(x, edge_index)``.
        separation: ``"strict"``, ``"source"``, ``"renormalised"``, ``"ego"``, ``"target-only"``,
            ``"unmasked"`` or ``"none"``.
        dropout: One rate per group, from the least confused one on; their number is the number of
            groups.
        readout_dropout: Dropout rate before the last linear layer.
        self_loops: Whether every node is its own neighbour too.
        activation: Whether ReLU follows the second layer.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        hidden: int = 512,
        backbone: BackboneName | LayerConstructor = "gcn",
        separation: Separation = "renormalised",
        dropout: Sequence[float] = (0.5, 0.5),
        readout_dropout: float = 0.5,
        self_loops: bool = True,
        activation: bool = False,
    ) -> None:
        super().__init__()
        check_separation(separation)
        if hidden < 1 or not dropout:
            raise InputError("hidden must be at least 1, and dropout hold one rate per group.")
        for rate in (*dropout, readout_dropout):
            check_rate(rate)
        self.separation: Separation = separation
        self.dropout, self.readout_dropout = tuple(dropout), readout_dropout
        self.activation = activation
        self.backbone = _backbone(backbone, self_loops)
        channels = 1 if separation == "none" else len(self.dropout)
        self.first = nn.ModuleList(
            self.backbone.layer(num_features, hidden) for _ in range(channels)
        )
        self.second = nn.ModuleList(self.backbone.layer(hidden, hidden) for _ in range(channels))
        self.mixing = nn.Parameter(torch.full((channels, 2), 0.5))
        self.raw = nn.Parameter(torch.empty(num_features, hidden))
        self.readout = nn.Linear(hidden, num_classes)
        nn.init.xavier_uniform_(self.raw, gain=nn.init.calculate_gain("relu"))
        self._products = SharedProducts()
        self._prepared = Prepared(self.backbone, self.separation, channels)

    @property
    def num_groups(self) -> int:
        """Number of groups of nodes."""
        return len(self.dropout)

    @property
    def alpha(self) -> torch.Tensor:
        """The weight α of message passing in each channel; 1 - α is that of raw features."""
        return torch.softmax(self.mixing, dim=1)[:, 0]

    def forward(
        self,
        inputs: GraphInputs | GraphLike,
        group: torch.Tensor | None = None,
        key: DropoutKey | None = None,
        nodes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits of every node [n, classes], or of the given nodes alone.

        Args:
            inputs: The graph; keep one :class:`GraphInputs` for many calls.
            group: Group of every node, 0 for the least confused; by default 0 for all.
            key: Seed and step of dropout; by default random ones in training mode.
            nodes: Whose logits are wanted, each at most once. The same numbers up to rounding, but
                the second layer computes no others.
        """
        inputs = as_inputs(inputs, self.raw)
        with torch.inference_mode(False):  # what is kept serves later training too
            layout = self._prepared.layout(
                inputs, checked_group(inputs, group, self.num_groups), nodes
            )
        key = training_key(self.training, key)
        passed = self._passed(layout, key)
        if self.activation:
            passed = [torch.relu(rows) for rows in passed]
        if layout.disjoint:
            return self._read_disjoint(layout, passed, key)
        return self._read_added(layout, passed, key)

    def share_products(self, active: bool) -> None:
        """Let neighbouring passes share products of weights; see :class:`SharedProducts`."""
        self._products.active = active

    def _passed(self, layout: Layout, key: DropoutKey | None) -> list[torch.Tensor]:
        """H_2 of every channel."""
        if layout.pooled:
            pool = torch.cat([self._hidden(layout, s, key) for s in range(len(layout.channels))])
            return [self._second(layout, s, pool) for s in range(len(layout.channels))]
        # One channel after another: without gradients its H_1 is freed before the next one's.
        return [
            self._second(layout, s, self._hidden(layout, s, key))
            for s in range(len(layout.channels))
        ]

    def _hidden(self, layout: Layout, s: int, key: DropoutKey | None) -> torch.Tensor:
        """H_1 of a channel."""
        channel = layout.channels[s]
        before = self.backbone.first(self.first[s], channel, self._products, f"first.{s}")
        place = None if key is None else key.at(s)
        return relu_dropout(before, self.dropout[s], place, channel.sources)

    def _second(self, layout: Layout, s: int, hidden: torch.Tensor) -> torch.Tensor:
        return self.backbone.second(self.second[s], layout.channels[s], hidden)

    def _read_disjoint(
        self, layout: Layout, passed: list[torch.Tensor], key: DropoutKey | None
    ) -> torch.Tensor:
        """Every node belongs to one channel: mix and read group by group, then reorder."""
        alpha = self.alpha
        logits: list[torch.Tensor] = []
        for s, channel in enumerate(layout.channels):
            raw = product(cast("Term", channel.raw), self.raw)
            weights = torch.stack([1 - alpha[s], alpha[s]]).expand(len(raw), 2)
            logits.append(self._read([raw, passed[s]], weights, channel.targets, key))
        position = cast("torch.Tensor", layout.position)
        return torch.cat(logits).index_select(0, position)

    def _read_added(
        self, layout: Layout, passed: list[torch.Tensor], key: DropoutKey | None
    ) -> torch.Tensor:
        """Nodes receive from several channels: add them up."""
        raw = product(cast("Term", layout.raw), self.raw)
        alpha = self.alpha
        own = (1 - alpha).index_select(0, layout.group)[:, None]
        weights = torch.cat([own, alpha.expand(len(own), -1)], dim=1)
        return self._read([raw, *passed], weights, layout.channels[0].targets, key)

    def _read(
        self,
        parts: list[torch.Tensor],
        weights: torch.Tensor,
        nodes: torch.Tensor,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        place = None if key is None else key.at(self.num_groups)
        rate = self.readout_dropout
        return self.readout(mixed_relu_dropout(parts, weights, rate, place, nodes))


def _backbone(backbone: BackboneName | LayerConstructor, self_loops: bool) -> Backbone:
    if isinstance(backbone, str):
        if backbone in get_args(BackboneName):
            return LinearBackbone(backbone, self_loops)
        raise InputError(
            f"backbone is '{backbone}'; give one of {', '.join(get_args(BackboneName))}, or a "
            "constructor (width, hidden) -> layer."
        )
    return ConvBackbone(backbone, self_loops)
