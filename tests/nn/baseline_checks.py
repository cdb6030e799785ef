"""What tests of models against dense references share."""

from __future__ import annotations

import torch

from ncgnn.nn.functional import dropout
from ncgnn.nn.layers import drop_features


def make(build, alpha=0.3):
    """A model whose parameters are all different from their first values."""
    torch.manual_seed(0)
    model = build().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=alpha)
    return model


def make_fitted(build, inputs, alpha=0.3):
    """The same, fitted to the known labels if it is a model that is fitted at once."""
    model = make(build, alpha)
    if model.fits_at_once:
        model.begin_phase(0, inputs, inputs.everyone, inputs.known)
    return model


def saved_sizes(forward):
    """Numbers of entries of the tensors that a forward pass saves for its gradients."""
    sizes = []
    hooks = (lambda saved: sizes.append(saved.numel()) or saved, lambda saved: saved)
    with torch.autograd.graph.saved_tensors_hooks(*hooks):
        forward()
    return sizes


def features(drawn, rate, key):
    """The features as a model sees them when their dropout is at place 0."""
    kept = drop_features(drawn.inputs(), rate, None if key is None else key.at(0))
    return kept if isinstance(kept, torch.Tensor) else kept.to_dense()


def dropper(rate, key):
    """Dropout of rows at a place, with the masks of a key."""
    return lambda x, place: (
        x if key is None else x * dropout(torch.ones_like(x), rate, key.at(place))
    )


def assert_same(model, found, expected):
    """Logits and the gradients of all parameters."""
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(expected)
    parameters = list(model.parameters())
    mine = torch.autograd.grad(found, parameters, gradient)
    theirs = torch.autograd.grad(expected, parameters, gradient)
    for one, other in zip(mine, theirs, strict=True):
        assert other.abs().max() > 0
        assert (one - other).abs().max() < 1e-9


def gradients(model, logits):
    """Of all parameters, for a fixed weighted sum of the logits."""
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(logits.shape, generator=draw, dtype=logits.dtype)
    return torch.autograd.grad((logits * weight).sum(), list(model.parameters()))
