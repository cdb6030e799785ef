"""GraphSAGE."""

from __future__ import annotations

from typing import Any

from ncgnn.nn._options import ConvolutionOptions, checked
from ncgnn.nn.baselines._two_layer import TwoLayerGNN


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
