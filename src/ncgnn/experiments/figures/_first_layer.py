"""What a two-layer model makes of nodes in its first layer, drawn on a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ncgnn.nn._channels import Separation
    from ncgnn.training import TrainedModel

PERPLEXITY = 30.0
#: Principal components that are handed to t-SNE, as its authors do.
COMPONENTS = 50


def check_first_layer(model: str) -> None:
    """Complain of a model that is not made of two layers of a backbone.

    Raises:
        InputError: There is nothing to draw.
    """
    from ncgnn.nn import SeparatedGNN, model_class
    from ncgnn.nn.baselines._two_layer import TwoLayerGNN

    if not issubclass(model_class(model), SeparatedGNN | TwoLayerGNN):
        raise InputError(
            f"{model} has no first layer that could be drawn; choose mlp, gcn, sage or a separated "
            "model of two layers, like ncgcn."
        )


def first_layer(trained: TrainedModel) -> NDArray[np.float32]:
    r"""Output of the first layer for every node, :math:`ReLU(P_1 X W_1)` [n, hidden].

    A separated model has one such layer per group; each node's row is that of its own group.
    """
    import torch
    from torch import nn

    from ncgnn.nn._channels import arrange
    from ncgnn.nn._products import SharedProducts, Term

    model, inputs = trained.model, trained.inputs
    layers: list[Any] = (
        list(model.first) if isinstance(model.first, nn.ModuleList) else [model.first]
    )
    separation: Separation = getattr(model, "separation", "none")
    group = trained.grouping.group.to(inputs.device) if len(layers) > 1 else inputs.everyone * 0
    with torch.no_grad():
        channel_of = model.backbone.channels(inputs, separation, len(layers))
        raw = Term(inputs.features)
        layout = arrange(inputs, separation, group, len(layers), channel_of, raw)
        places: list[torch.Tensor] = []
        rows: list[torch.Tensor] = []
        for s, (layer, channel) in enumerate(zip(layers, layout.channels, strict=True)):
            before = model.backbone.first(layer, channel, SharedProducts(), f"first.{s}")
            own = layout.group.index_select(0, channel.sources) == s
            places.append(channel.sources[own])
            rows.append(torch.relu(before[own]))
        ordered = torch.argsort(torch.cat(places))
        return torch.cat(rows).index_select(0, ordered).float().cpu().numpy()


def plane(rows: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Points on a plane that keep neighbours together, the same for the same rows and seed.

    t-SNE ("Visualizing Data using t-SNE", van der Maaten and Hinton, JMLR 2008) of the first
    principal components, with one thread, so that sums are always added in one order.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    count, width = rows.shape
    if count < 4:
        raise InputError(f"{count} nodes are too few to draw; t-SNE needs at least 4.")
    with threadpool_limits(limits=1):
        components = min(COMPONENTS, width, count)
        reduced = PCA(components, random_state=seed).fit_transform(rows)
        perplexity = min(PERPLEXITY, (count - 1) / 3)
        method = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
        return method.fit_transform(reduced)
