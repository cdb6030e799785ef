"""Two linear message-passing layers with ReLU and dropout between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ncgnn.nn._backbones import LinearBackbone, LinearLayer
from ncgnn.nn._dropout import relu_dropout, training_key
from ncgnn.nn._inputs import as_inputs
from ncgnn.nn._prepared import Prepared
from ncgnn.nn._products import SharedProducts

if TYPE_CHECKING:
    from ncgnn.graph import GraphLike
    from ncgnn.nn._dropout import DropoutKey
    from ncgnn.nn._inputs import GraphInputs


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
