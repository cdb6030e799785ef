"""ReLU and dropout in one pass, with random numbers that depend on their place alone.

A node's dropout mask is a function of a key (seed, step and place in the model), of the node and of
the column. It does not depend on the order of nodes, on threads or on the device, so that a resumed
run repeats it without any stored random state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from ncgnn._compile import compiled, even_blocks, over_blocks
from ncgnn.errors import InputError
from ncgnn.graph._sparse_backend import empty

_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1
# Each 64-bit random word decides on four columns, so a rate is rounded to 1/65536.
_LANES, _LANE_BITS = 4, 16


@dataclass(frozen=True)
class DropoutKey:
    """Which dropout masks to draw.

    Attributes:
        seed: Seed of the run.
        step: Number of the training step.
    """

    seed: int
    step: int

    def at(self, place: int) -> int:
        """The 64-bit key of one place in the model."""
        key = _mixed((self.seed * _GOLDEN) & _MASK)
        key = _mixed((key ^ self.step) + _GOLDEN & _MASK)
        return _mixed((key ^ place) + _GOLDEN & _MASK)


def training_key(training: bool, key: DropoutKey | None) -> DropoutKey | None:
    """The key that was given, or in training mode one from torch's own random numbers."""
    if key is not None or not training:
        return key
    seed, step = torch.randint(1 << 62, (2,)).tolist()
    return DropoutKey(seed, step)


def _mixed(word: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    word = ((word ^ (word >> 30)) * _MIX_1) & _MASK
    word = ((word ^ (word >> 27)) * _MIX_2) & _MASK
    return word ^ (word >> 31)


def relu_dropout(
    x: torch.Tensor, rate: float, key: int | None, nodes: torch.Tensor | None = None
) -> torch.Tensor:
    """dropout(ReLU(x)): kept entries are divided by the probability of being kept.

    Args:
        x: Activations [rows, width].
        rate: Probability that an entry becomes zero, in [0, 1).
        key: From :meth:`DropoutKey.at`; None outside training, then only ReLU is applied.
        nodes: The node that each row belongs to; by default rows are nodes.
    """
    check_rate(rate)
    if key is None or rate == 0:
        return _relu(x)
    if nodes is None:
        nodes = torch.arange(len(x), device=x.device)
    return cast("torch.Tensor", _ReluDropout.apply(x, rate, key, nodes))


def _relu(x: torch.Tensor) -> torch.Tensor:
    if torch.is_grad_enabled() and x.requires_grad:
        return torch.relu(x)
    return torch.clamp_min(x, 0, out=empty(tuple(x.shape), x))


def dropout(
    x: torch.Tensor, rate: float, key: int | None, nodes: torch.Tensor | None = None
) -> torch.Tensor:
    """Dropout without an activation, see :func:`relu_dropout`."""
    check_rate(rate)
    if key is None or rate == 0:
        return x
    if nodes is None:
        nodes = torch.arange(len(x), device=x.device)
    return cast("torch.Tensor", _Dropout.apply(x, rate, key, nodes))


def check_rate(rate: float) -> None:
    """Complain about a rate that is no probability of dropping something but not all."""
    if not 0 <= rate < 1:
        raise InputError(f"dropout is {rate}; it must be at least 0 and below 1.")


class _Dropout(torch.autograd.Function):
    """Linear, and its own transpose: the gradient is dropped as the input was."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        x, *ctx.place = arguments
        rate, key, nodes = ctx.place
        least, scale = least_and_scale(rate)
        if x.device.type == "cpu":
            return _on_cpu(x, least, scale, key, nodes, -np.inf)
        return x * kept_entries(nodes, x.shape[1], least, key) * scale

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _Dropout.apply(gradients[0], *ctx.place), None, None, None


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        x, rate, key, nodes = arguments
        least, scale = least_and_scale(rate)
        if x.device.type == "cpu":
            result = _on_cpu(x, least, scale, key, nodes, 0.0)
        else:
            kept = kept_entries(nodes, x.shape[1], least, key)
            result = torch.relu(x) * kept * scale
        ctx.save_for_backward(result)
        ctx.scale = scale
        return result

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        (result,) = ctx.saved_tensors
        gradient = gradients[0]
        if gradient.device.type != "cpu":
            return gradient * (result > 0) * ctx.scale, None, None, None
        passed = empty(tuple(result.shape), result)
        arrays = (gradient.contiguous().numpy(), result.numpy(), passed.numpy(), ctx.scale)
        over_blocks(even_blocks(len(result), 64), lambda a, b: _pass_back(*arrays, a, b))
        return passed, None, None, None


def least_and_scale(rate: float) -> tuple[int, float]:
    """The least 16-bit random number that keeps an entry, and the factor of what is kept."""
    least = min(round(rate * (1 << _LANE_BITS)), (1 << _LANE_BITS) - 1)
    return least, (1 << _LANE_BITS) / ((1 << _LANE_BITS) - least)


def _on_cpu(
    x: torch.Tensor, least: int, scale: float, key: int, nodes: torch.Tensor, floor: float
) -> torch.Tensor:
    """Entries below ``floor`` count as it; 0 makes it ReLU."""
    x = x.detach().contiguous()
    result = empty(tuple(x.shape), x)
    rows = nodes.to(torch.int64).contiguous().numpy()
    arrays = (x.numpy(), rows, np.uint64(key), np.uint64(least), scale, floor, result.numpy())
    over_blocks(even_blocks(len(x), 64), lambda a, b: _relu_dropout(*arrays, a, b))
    return result


@compiled
def _relu_dropout(
    x: Any,
    nodes: Any,
    key: Any,
    least: Any,
    scale: Any,
    floor: Any,
    result: Any,
    first: int,
    end: int,
) -> None:
    for i in range(first, end):
        dropout_row(x[i], nodes[i], key, least, scale, floor, result[i])


@compiled
def dropout_row(
    row: Any, node: Any, key: Any, least: Any, scale: Any, floor: Any, kept: Any
) -> None:
    """One row of dropout, of entries that are at least ``floor``, written to ``kept``."""
    width = len(row)
    full_words = width // 4
    words = (width + 3) // 4
    factor = row.dtype.type(scale)
    zero, lowest = row.dtype.type(0), row.dtype.type(floor)
    counter = key + np.uint64(node) * np.uint64(words) * np.uint64(_GOLDEN)
    for w in range(full_words):
        counter += np.uint64(_GOLDEN)
        word = _random_word(counter)
        for lane in range(4):  # a constant, so that the compiler unrolls it
            scaled = factor if _lane(word, lane) >= least else zero
            kept[4 * w + lane] = max(row[4 * w + lane], lowest) * scaled
    word = _random_word(counter + np.uint64(_GOLDEN))
    for column in range(4 * full_words, width):
        scaled = factor if _lane(word, column - 4 * full_words) >= least else zero
        kept[column] = max(row[column], lowest) * scaled


@compiled
def _random_word(counter: Any) -> Any:
    word = (counter ^ (counter >> np.uint64(30))) * np.uint64(_MIX_1)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(_MIX_2)
    return word ^ (word >> np.uint64(31))


@compiled
def _lane(word: Any, lane: Any) -> Any:
    return (word >> np.uint64(16 * lane)) & np.uint64(0xFFFF)


@compiled
def _pass_back(gradient: Any, result: Any, passed: Any, scale: Any, first: int, end: int) -> None:
    factor = result.dtype.type(scale)
    zero = result.dtype.type(0)
    for i in range(first, end):
        for j in range(result.shape[1]):
            passed[i, j] = gradient[i, j] * factor if result[i, j] > zero else zero


def kept_entries(nodes: torch.Tensor, width: int, least: int, key: int) -> torch.Tensor:
    """Which entries dropout keeps, [rows, width], with torch operations for any device."""
    words = (width + _LANES - 1) // _LANES
    place = torch.arange(1, words + 1, device=nodes.device)
    counter = nodes.to(torch.int64)[:, None] * words + place
    word = counter * _signed(_GOLDEN) + _signed(key)
    word = (word ^ _shifted(word, 30)) * _signed(_MIX_1)
    word = (word ^ _shifted(word, 27)) * _signed(_MIX_2)
    word = word ^ _shifted(word, 31)
    shifts = torch.arange(0, 64, _LANE_BITS, device=nodes.device)
    lanes = (word[..., None] >> shifts) & 0xFFFF
    return lanes.flatten(1)[:, :width] >= least


def _shifted(word: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical right shift of a signed word."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
