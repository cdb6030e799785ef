"""A weighted sum of rows, ReLU and dropout in one pass over memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from ncgnn._compile import compiled, even_blocks, over_blocks
from ncgnn.graph._sparse_backend import empty
from ncgnn.nn._dropout import check_rate, dropout_row, least_and_scale, relu_dropout

if TYPE_CHECKING:
    from collections.abc import Sequence


def mixed_relu_dropout(
    parts: Sequence[torch.Tensor],
    weights: torch.Tensor,
    rate: float,
    key: int | None,
    nodes: torch.Tensor,
) -> torch.Tensor:
    """dropout(ReLU(Σ_p w_ip · part_p,i)) for every row i.

    Args:
        parts: P tensors [rows, width].
        weights: One number per row and part [rows, P].
        rate: Probability that an entry becomes zero, in [0, 1).
        key: From :meth:`DropoutKey.at`; None outside training, then nothing is dropped.
        nodes: The node that each row belongs to.

    Returns:
        [rows, width], differentiable in parts and weights.
    """
    check_rate(rate)
    if key is None:
        rate, key = 0.0, 0
    if weights.device.type != "cpu":
        mixed = sum(w[:, None] * part for w, part in zip(weights.unbind(1), parts, strict=True))
        return relu_dropout(cast("torch.Tensor", mixed), rate, key, nodes)
    return cast("torch.Tensor", _Mixed.apply(weights, rate, key, nodes, *parts))


class _Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        weights, rate, key, nodes, *given = arguments
        least, ctx.scale = least_and_scale(rate)
        parts = [part.detach().contiguous() for part in given]
        weights = weights.detach().contiguous()
        result = empty(tuple(parts[0].shape), parts[0])
        rows = nodes.to(torch.int64).contiguous().numpy()
        arrays = (_arrays(parts), weights.numpy(), rows, np.uint64(key), np.uint64(least))
        over_blocks(
            even_blocks(len(result), 64),
            lambda a, b: _mix(*arrays, ctx.scale, result.numpy(), a, b),
        )
        ctx.save_for_backward(result, weights, *parts)
        return result

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        result, weights, *parts = ctx.saved_tensors
        to_parts = [empty(tuple(part.shape), part) for part in parts]
        to_weights = torch.empty_like(weights)
        gradient = gradients[0].contiguous()
        arrays = (gradient.numpy(), result.numpy(), _arrays(parts), weights.numpy(), ctx.scale)
        outputs = (_arrays(to_parts), to_weights.numpy())
        over_blocks(even_blocks(len(result), 64), lambda a, b: _mix_back(*arrays, *outputs, a, b))
        return to_weights, None, None, None, *to_parts


def _arrays(tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    return tuple(tensor.numpy() for tensor in tensors)


@compiled
def _mix(
    parts: Any,
    weights: Any,
    nodes: Any,
    key: Any,
    least: Any,
    scale: Any,
    result: Any,
    first: int,
    end: int,
) -> None:
    zero = result.dtype.type(0)
    row = np.empty(result.shape[1], dtype=result.dtype)
    for i in range(first, end):
        part, weight = parts[0][i], weights[i, 0]
        for j in range(len(row)):
            row[j] = weight * part[j]
        for p in range(1, len(parts)):
            part, weight = parts[p][i], weights[i, p]
            for j in range(len(row)):
                row[j] += weight * part[j]
        if least == 0:
            for j in range(len(row)):
                result[i, j] = max(row[j], zero)
        else:
            dropout_row(row, nodes[i], key, least, scale, zero, result[i])


@compiled
def _mix_back(
    gradient: Any,
    result: Any,
    parts: Any,
    weights: Any,
    scale: Any,
    to_parts: Any,
    to_weights: Any,
    first: int,
    end: int,
) -> None:
    width = result.shape[1]
    factor = result.dtype.type(scale)
    zero = result.dtype.type(0)
    passed = np.empty(width, dtype=result.dtype)
    for i in range(first, end):
        for j in range(width):
            passed[j] = gradient[i, j] * factor if result[i, j] > zero else zero
        for p in range(len(parts)):
            part, to_part, weight = parts[p][i], to_parts[p][i], weights[i, p]
            for j in range(width):
                to_part[j] = weight * passed[j]
            to_weights[i, p] = _dot(part, passed)


@compiled
def _dot(left: Any, right: Any) -> Any:
    """A sum in eight lanes of fixed order, which the compiler turns into vector instructions."""
    zero = left.dtype.type(0)
    a = b = c = d = e = f = g = h = zero
    whole = len(left) // 8 * 8
    for j in range(0, whole, 8):
        a += left[j] * right[j]
        b += left[j + 1] * right[j + 1]
        c += left[j + 2] * right[j + 2]
        d += left[j + 3] * right[j + 3]
        e += left[j + 4] * right[j + 4]
        f += left[j + 5] * right[j + 5]
        g += left[j + 6] * right[j + 6]
        h += left[j + 7] * right[j + 7]
    for j in range(whole, len(left)):
        a += left[j] * right[j]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))
