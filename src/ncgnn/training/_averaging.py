"""A running mean of the weights, by which a model is judged instead of by its latest step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch.autograd.graph import increment_version

from ncgnn.training._state import copied

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    import torch
    from torch import nn


def averaged_step(
    mean: Mapping[str, torch.Tensor], model: nn.Module, decay: float, steps: int
) -> Mapping[str, torch.Tensor]:
    r"""The running mean of a model's weights after one more step.

    .. math::

        \bar θ ← d \bar θ + (1 - d) θ, \qquad d = \min(\text{decay}, (1 + t) / (10 + t))

    as an exponential moving average (Polyak and Juditsky, SIAM Journal on Control and Optimization
    30, 1992, average the same steps with equal weights) whose memory grows with the number of steps
    t, so that the first weights, which are random, are soon forgotten. Running statistics of batch
    normalisation are averaged as well; counters are copied.

    Args:
        mean: The mean so far, changed in place; empty before the first step.
        model: The weights after the step.
        decay: Share that the mean keeps of itself in the long run.
        steps: Number of steps before this one.
    """
    now = model.state_dict()
    if not mean:
        return copied(now, {})
    kept = min(decay, (1 + steps) / (10 + steps))
    for name, value in now.items():
        if value.is_floating_point():
            mean[name].lerp_(value, 1 - kept)
        else:
            mean[name].copy_(value)
    return mean


@contextmanager
def weights_in_force(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> Generator[None]:
    """Give a model other weights for a while, without copies; none means its own.

    The optimiser's tensors stay the same ones, and so do gradients.
    """
    _swap(model, weights)
    try:
        yield
    finally:
        _swap(model, weights)


def _swap(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    if not weights:
        return
    # A tensor that a model holds under two names is one tensor.
    own = {id(value): (name, value) for name, value in model.state_dict(keep_vars=True).items()}
    for name, value in own.values():
        other = weights[name]
        value.data, other.data = other.data, value.data
    increment_version([value for _, value in own.values()])  # products that were kept are stale
