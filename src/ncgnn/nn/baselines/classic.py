"""GraphSAGE.

Two linear message-passing layers with ReLU and dropout between them.

GCN.

MLP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ncgnn.nn.base import ConvolutionOptions, PlainOptions, checked
from ncgnn.nn.functional import relu_dropout, training_key
from ncgnn.nn.inputs import as_inputs
from ncgnn.nn.products import SharedProducts
from ncgnn.nn.separated.backbones import LinearBackbone, LinearLayer
from ncgnn.nn.separated.channels import Prepared

if TYPE_CHECKING:
    from ncgnn.graph import GraphLike
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs


class TwoLayerGNN(nn.Module):
    """logits = Σ_t P_t · dropout(ReLU(Σ_t P_t · X · W_t + b)) · V_t + c.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        operators: ``"gcn"``, ``"sage"``, or ``"identity"`` for no neighbours at all.
        hidden: Width of the hidden layer.
        dropout: Rate after the hidden layer.
        self_loops: Whether every node is its own neighbour too.
    """

    rule = None

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

    def forward(
        self,
        inputs: GraphInputs | GraphLike,
        group: torch.Tensor | None = None,
        key: DropoutKey | None = None,
        nodes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits of every node, or of the given ones, [n, classes]; ``group`` plays no part."""
        inputs = as_inputs(inputs, self.first.weights[0])
        with torch.inference_mode(False):  # what is kept serves later training too
            layout = self._prepared.layout(inputs, torch.zeros_like(inputs.everyone), nodes)
        channel, key = layout.channels[0], training_key(self.training, key)
        before = self.backbone.first(self.first, channel, self._products, "first")
        hidden = relu_dropout(before, self.dropout, None if key is None else key.at(0))
        logits = self.backbone.second(self.second, channel, hidden)
        return logits if layout.position is None else logits.index_select(0, layout.position)

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

    Options = PlainOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = checked(self.Options, options)
        super().__init__(num_features, num_classes, operators="identity", **chosen.model_dump())


class SAGEOptions(ConvolutionOptions):
    """Options of GraphSAGE.

    Attributes:
        self_loops: Whether every node is one of its own neighbours in the mean too.
    """

    self_loops: bool = False


class GraphSAGE(TwoLayerGNN):
    """GraphSAGE with the mean of all neighbours (https://arxiv.org/abs/1706.02216).

    A node's own row has weights of its own, and is no part of the mean unless ``self_loops`` say
    so. Features are not dropped.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`SAGEOptions`.
    """

    Options = SAGEOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = checked(self.Options, options)
        super().__init__(num_features, num_classes, operators="sage", **chosen.model_dump())
