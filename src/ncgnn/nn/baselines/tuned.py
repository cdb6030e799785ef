"""GCN, GraphSAGE and GAT with residuals, normalisation and depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn._dropout import relu_dropout
from ncgnn.nn._options import ConvolutionOptions, checked
from ncgnn.nn.baselines._baseline import Baseline, at
from ncgnn.nn.baselines._tuned_layers import (
    AttentionConvolution,
    GraphConvolution,
    MeanConvolution,
    Norm,
    TunedLayer,
)

if TYPE_CHECKING:
    from ncgnn.nn._dropout import DropoutKey
    from ncgnn.nn._inputs import GraphInputs


class TunedOptions(ConvolutionOptions):
    """Options of the tuned classic models.

    Attributes:
        hidden: Width of every layer.
        dropout: Rate after every layer.
        layers: Number of convolutions.
        norm: Normalisation before the activation: of every node (``layer``), of every column over
            all nodes (``batch``), or ``none``.
        residual: Whether every layer adds a linear map of its input.
        jumping: Whether the last linear layer sees the sum of all layers, not the last one alone.
    """

    layers: Annotated[int, Field(ge=1)] = 3
    norm: Norm = "layer"
    residual: bool = True
    jumping: bool = False


class TunedGNN(Baseline):
    """What the three models share; they differ in :attr:`convolution`.

    h ← dropout(ReLU(norm(convolution(h) + [h·W + b]))), ``layers`` times, and a linear layer at the
    end. Batch normalisation counts all nodes of the graph in training, labelled or not; its running
    statistics are buffers.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`TunedOptions`.
    """

    Options = TunedOptions
    convolution: type[nn.Module]

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = checked(self.Options, options)
        self.dropout, self.jumping = chosen.dropout, chosen.jumping
        widths = [num_features, *[chosen.hidden] * (chosen.layers - 1)]
        self.layers = nn.ModuleList(
            TunedLayer(
                type(self).convolution(width, chosen.hidden, chosen.self_loops),
                width,
                chosen.hidden,
                norm=chosen.norm,
                residual=chosen.residual,
                first=place == 0,
            )
            for place, width in enumerate(widths)
        )
        self.readout = nn.Linear(chosen.hidden, num_classes)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        h: torch.Tensor | None = None
        total: torch.Tensor | None = None
        for place, layer in enumerate(self.layers):
            h = relu_dropout(layer(inputs, h), self.dropout, at(key, place))
            total = h if total is None or not self.jumping else total + h
        return self.readout(cast("torch.Tensor", total))


class TunedGCN(TunedGNN):
    """GCN with residuals, normalisation and depth (https://arxiv.org/abs/2406.08993).

    Per layer, with Â = D^-½ A D^-½ of the undirected graph,

        h ← dropout(ReLU(norm(Â·h·W + b + [h·W' + b'])))

    and logits h·V + c. As in the released recipe, edges count in both directions and one self-loop
    is added to every node (``self_loops = false`` leaves it out); features are not dropped.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`TunedOptions`.
    """

    convolution = GraphConvolution


class TunedSAGE(TunedGNN):
    """GraphSAGE with residuals, normalisation and depth (https://arxiv.org/abs/2406.08993).

    As :class:`TunedGCN`, but the convolution is h·W + mean(h over neighbours)·W'' + b. As in the
    released recipe, the mean counts the node itself too, because the graph has self-loops.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`TunedOptions`.
    """

    convolution = MeanConvolution


class TunedGAT(TunedGNN):
    """GAT with residuals, normalisation and depth (https://arxiv.org/abs/2406.08993).

    As :class:`TunedGCN`, but the convolution is Σ_j α_ij z_j, where z = h·W and α_ij is the
    softmax, over the neighbours j of i and i itself, of LeakyReLU(⟨a, z_i⟩ + ⟨b, z_j⟩) with slope
    0.2. It has one head, no bias and no dropout of attention, and holds one number per edge.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`TunedOptions`.
    """

    convolution = AttentionConvolution
