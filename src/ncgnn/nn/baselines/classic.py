"""GCN, GraphSAGE and MLP: two linear layers with ReLU and dropout between them.

The three differ in the operators of their layers alone. Features are not dropped, only hidden rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from ncgnn.nn.base import ConvolutionOptions, Model, PlainOptions, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import SharedProducts
from ncgnn.nn.separated.backbones import LinearBackbone, LinearLayer
from ncgnn.nn.separated.channels import Layouts

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.nn.separated.channels import Channel


class TwoLayerGNN(Model):
    """logits = Σ_t P_t · dropout(ReLU(Σ_t P_t · X · W_t + b)) · V_t + c.

    Attributes:
        operators: Which P_t: those of ``gcn`` or ``sage``, or ``identity`` for no neighbors at all.
    """

    computes_all = False
    maskable = True
    depth = 2
    Options = PlainOptions
    operators: ClassVar[Literal["gcn", "sage", "identity"]]

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = parse_options(self.Options, options)
        if isinstance(chosen, ConvolutionOptions):
            self.direction = chosen.direction
            self.backbone = LinearBackbone(self.operators, chosen.self_loops, chosen.direction)
        else:
            self.backbone = LinearBackbone(self.operators, self_loops=True)
        self.reach, self.layer_hops = self.backbone.reach(2), self.backbone.operators.hops
        terms = self.backbone.terms
        self.first = LinearLayer(num_features, chosen.hidden, terms, bias=True)
        self.second = LinearLayer(chosen.hidden, num_classes, terms, bias=True)
        self.dropout = chosen.dropout
        self._products = SharedProducts()
        self._layouts = Layouts(self.backbone, "none", 1)

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits of the given nodes, None = all; the second layer computes no other rows."""
        single = not (torch.is_grad_enabled() or self._products.active)
        layout = self._layouts.find(inputs, None, nodes, narrow=single)
        channel = layout.channels[0]
        hidden = relu_dropout(self._before(channel), self.dropout, at(key, 0))
        logits = self.backbone.second(self.second, channel, hidden)
        return logits if layout.position is None else logits.index_select(0, layout.position)

    def compute_layer(
        self,
        number: int,
        inputs: GraphInputs,
        h: torch.Tensor | None,
        group: torch.Tensor | None,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        """The hidden layer, and the logits."""
        only = "first" if h is None else "second"
        channel = self._layouts.find(inputs, None, only=only).channels[0]
        if h is None:
            return relu_dropout(self._before(channel), self.dropout, at(key, 0))
        return self.backbone.second(self.second, channel, h)

    @torch.no_grad()
    def compute_hidden(
        self, inputs: GraphInputs, group: torch.Tensor | None = None
    ) -> torch.Tensor:
        """ReLU(Σ_t P_t · X · W_t + b) [n, hidden]."""
        return torch.relu(self._before(self._layouts.find(inputs, None).channels[0]))

    def _before(self, channel: Channel) -> torch.Tensor:
        """The hidden layer before its activation."""
        return self.backbone.first(self.first, channel, self._products, "first")

    def share_products(self, active: bool) -> None:
        """Let neighboring passes share products of weights; see :class:`SharedProducts`."""
        self._products.active = active


class GCN(TwoLayerGNN):
    """Graph convolutional network (https://arxiv.org/abs/1609.02907): P = D^-½ A D^-½.

    Unlike in that paper, features are not dropped.
    """

    paper = (
        "Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, "
        "ICLR 2017, arXiv:1609.02907"
    )
    family = "spatial"
    uses_weights = True
    Options = ConvolutionOptions
    operators = "gcn"


class SAGEOptions(ConvolutionOptions):
    """Options of GraphSAGE."""

    self_loops: bool = False
    """Whether every node is one of its own neighbors in the mean too."""


class GraphSAGE(TwoLayerGNN):
    """GraphSAGE with the mean of all neighbors (https://arxiv.org/abs/1706.02216).

    P₁ = I and P₂ = D^-1 A: a node's own row has weights of its own, and is no part of the mean
    unless ``self_loops`` say so.
    """

    paper = (
        "Hamilton et al., Inductive Representation Learning on Large Graphs, NeurIPS 2017, "
        "arXiv:1706.02216"
    )
    family = "spatial"
    uses_weights = True
    Options = SAGEOptions
    operators = "sage"


class MLP(TwoLayerGNN):
    """A perceptron that sees features only, never a neighbor: P = I."""

    family = "features"
    edges = "none"
    operators = "identity"
