"""MLP."""

from __future__ import annotations

from typing import Any

from ncgnn.nn._options import PlainOptions, checked
from ncgnn.nn.baselines._two_layer import TwoLayerGNN


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
