"""GraphSAGE.

Two linear message-passing layers with ReLU and dropout between them.

GCN.

MLP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ncgnn.nn.base import ConvolutionOptions, Model, PlainOptions, checked
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import SharedProducts
from ncgnn.nn.separated.backbones import LinearBackbone, LinearLayer
from ncgnn.nn.separated.channels import Prepared

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.nn.separated.channels import Channel, Layout


class TwoLayerGNN(Model):
    """logits = Σ_t P_t · dropout(ReLU(Σ_t P_t · X · W_t + b)) · V_t + c.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        operators: ``"gcn"``, ``"sage"``, or ``"identity"`` for no neighbours at all.
        hidden: Width of the hidden layer.
        dropout: Rate after the hidden layer.
        self_loops: Whether every node is its own neighbour too.
    """

    computes_all = False

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        operators: str,
        hidden: int = 512,
        dropout: float = 0.5,
        self_loops: bool = True,
    ) -> None:
        super().__init__()
        self.backbone = LinearBackbone(operators, self_loops)
        terms = self.backbone.operators.terms
        self.first = LinearLayer(num_features, hidden, terms, bias=True)
        self.second = LinearLayer(hidden, num_classes, terms, bias=True)
        self.dropout = dropout
        self._products = SharedProducts()
        self._prepared = Prepared(self.backbone, "none", 1)

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits of the given nodes, None = all; the second layer computes no other rows."""
        layout = self._layout(inputs, nodes)
        channel = layout.channels[0]
        hidden = relu_dropout(self._before(channel), self.dropout, at(key, 0))
        logits = self.backbone.second(self.second, channel, hidden)
        return logits if layout.position is None else logits.index_select(0, layout.position)

    @torch.no_grad()
    def compute_hidden(
        self, inputs: GraphInputs, group: torch.Tensor | None = None
    ) -> torch.Tensor:
        """ReLU(Σ_t P_t · X · W_t + b) [n, hidden]."""
        return torch.relu(self._before(self._layout(inputs).channels[0]))

    def _layout(self, inputs: GraphInputs, nodes: torch.Tensor | None = None) -> Layout:
        with torch.inference_mode(False):  # what is kept serves later training too
            return self._prepared.layout(inputs, torch.zeros_like(inputs.everyone), nodes)

    def _before(self, channel: Channel) -> torch.Tensor:
        """The hidden layer before its activation."""
        return self.backbone.first(self.first, channel, self._products, "first")

    def share_products(self, active: bool) -> None:
        """Let neighbouring passes share products of weights; see :class:`SharedProducts`."""
        self._products.active = active


class GCN(TwoLayerGNN):
    """Graph convolutional network (https://arxiv.org/abs/1609.02907).

    Unlike in that paper, features are not dropped, only hidden rows are.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`ConvolutionOptions`.
    """

    paper = (
        "Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, "
        "ICLR 2017, arXiv:1609.02907"
    )
    family = "spatial"
    Options = ConvolutionOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = checked(self.Options, options)
        super().__init__(num_features, num_classes, operators="gcn", **chosen.model_dump())


class MLP(TwoLayerGNN):
    """A perceptron that sees features only, never a neighbour; features are not dropped.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`PlainOptions`.
    """

    family = "features"
    edges = "none"
    Options = PlainOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = checked(self.Options, options)
        super().__init__(num_features, num_classes, operators="identity", **chosen.model_dump())


class SAGEOptions(ConvolutionOptions):
    """Options of GraphSAGE."""

    self_loops: bool = False
    """Whether every node is one of its own neighbours in the mean too."""


class GraphSAGE(TwoLayerGNN):
    """GraphSAGE with the mean of all neighbours (https://arxiv.org/abs/1706.02216).

    A node's own row has weights of its own, and is no part of the mean unless ``self_loops`` say
    so. Features are not dropped.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`SAGEOptions`.
    """

    paper = (
        "Hamilton et al., Inductive Representation Learning on Large Graphs, NeurIPS 2017, "
        "arXiv:1706.02216"
    )
    family = "spatial"
    Options = SAGEOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = checked(self.Options, options)
        super().__init__(num_features, num_classes, operators="sage", **chosen.model_dump())
