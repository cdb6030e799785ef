"""GCN."""

from __future__ import annotations

from typing import Any

from ncgnn.nn._options import ConvolutionOptions, checked
from ncgnn.nn.baselines._two_layer import TwoLayerGNN


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
