"""Operations of models that are one pass over memory, differentiable, on any device.

Dropout draws its random numbers by place: a node's mask is a function of a key (seed, step and
place in the model), of the node and of the column. It does not depend on the order of nodes, on
threads or on the device, so that a resumed run repeats it without any stored random state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from ncgnn._numba import compiled, even_blocks, over_blocks
from ncgnn._random import GOLDEN, MIX_1, MIX_2, key_of, random_word
from ncgnn.errors import InputError
from ncgnn.sparse import edge_softmax, empty, gather_columns, gather_rows, weighted_matmul

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.sparse import SparsePattern


def sum_of_products(
    rows: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Σ_t H_t · W_t + b, without a pass over memory for each sum.

    Args:
        rows: One H_t [n, d_t] or more.
        weights: W_t [d_t, width].
        bias: b [width].
    """
    if rows[0].device.type == "cpu":
        return cast("torch.Tensor", _SumOfProducts.apply(bias, *rows, *weights))
    total = rows[0] @ weights[0] if bias is None else torch.addmm(bias, rows[0], weights[0])
    for hidden, weight in zip(rows[1:], weights[1:], strict=True):
        total = torch.addmm(total, hidden, weight)
    return total


class _SumOfProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        bias, *factors = arguments
        ctx.save_for_backward(*factors)
        rows, weights = factors[: len(factors) // 2], factors[len(factors) // 2 :]
        out = empty((len(rows[0]), weights[0].shape[1]), rows[0])
        if bias is None:
            torch.mm(rows[0], weights[0], out=out)
        else:
            torch.addmm(bias, rows[0], weights[0], out=out)
        for hidden, weight in zip(rows[1:], weights[1:], strict=True):
            out.addmm_(hidden, weight)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,), needed, terms = gradients, ctx.needs_input_grad, len(ctx.saved_tensors) // 2
        back: list[torch.Tensor | None] = [gradient.sum(0) if needed[0] else None]
        for place, weight in enumerate(ctx.saved_tensors[terms:]):
            out = None  # so that second derivatives are possible
            if needed[1 + place] and not torch.is_grad_enabled():
                out = empty((len(gradient), len(weight)), gradient)
            back.append(torch.mm(gradient, weight.t(), out=out) if needed[1 + place] else None)
        for place, hidden in enumerate(ctx.saved_tensors[:terms]):
            back.append(hidden.t() @ gradient if needed[1 + terms + place] else None)
        return tuple(back)


# Each 64-bit random word decides on four columns, so a rate is rounded to 1/65536.
_LANES, _LANE_BITS = 4, 16


@dataclass(frozen=True)
class DropoutKey:
    """Which dropout masks to draw.

    Attributes:
        seed: Seed of the run.
        step: Number of the training step.
        rows: The numbers of rows, where these are a part of those that are drawn for.
    """

    seed: int
    step: int
    rows: torch.Tensor | None = field(default=None, compare=False)

    @classmethod
    def draw(cls) -> DropoutKey:
        """A key from torch's own random numbers."""
        return cls(*torch.randint(1 << 62, (2,)).tolist())

    def at(self, place: int) -> int:
        """The 64-bit key of one place in the model."""
        word = key_of(self.seed, self.step, place)
        return word if self.rows is None else PartKey(word, self.rows)


class PartKey(int):
    """The key of one place for a part of the rows, which are known by other numbers.

    Attributes:
        rows: The numbers of rows.
    """

    rows: torch.Tensor

    def __new__(cls, word: int, rows: torch.Tensor) -> Self:
        """The key of the place for all rows, and which of them these are."""
        key = super().__new__(cls, word)
        key.rows = rows
        return key


def number_rows(key: int, nodes: torch.Tensor) -> torch.Tensor:
    """The numbers by which dropout knows some rows."""
    return key.rows.index_select(0, nodes) if isinstance(key, PartKey) else nodes


def at(key: DropoutKey | None, place: int) -> int | None:
    """The key of one place in the model, where anything is dropped at all."""
    return None if key is None else key.at(place)


def relu_dropout(
    x: torch.Tensor,
    rate: float,
    key: int | None,
    nodes: torch.Tensor | None = None,
    *,
    light: bool = False,
) -> torch.Tensor:
    """dropout(ReLU(x)): kept entries are divided by the probability of being kept.

    Args:
        x: Activations [rows, width].
        rate: Probability that an entry becomes zero, in [0, 1).
        key: From :meth:`DropoutKey.at`; None outside training, then only ReLU is applied.
        nodes: The node that each row belongs to; by default rows are nodes.
        light: Whether to keep one byte per entry for the backward pass, in place of the result.
            That is less where nobody else keeps the result, and more otherwise.
    """
    check_rate(rate)
    if key is None or rate == 0:
        if torch.is_grad_enabled() and x.requires_grad:
            return torch.relu(x)
        return torch.clamp_min(x, 0, out=empty(tuple(x.shape), x))
    if nodes is None:
        nodes = torch.arange(len(x), device=x.device)
    nodes = number_rows(key, nodes)
    return cast("torch.Tensor", _ReluDropout.apply(x, rate, int(key), nodes, light))


def dropout(
    x: torch.Tensor, rate: float, key: int | None, nodes: torch.Tensor | None = None
) -> torch.Tensor:
    """Dropout without an activation, see :func:`relu_dropout`."""
    check_rate(rate)
    if key is None or rate == 0:
        return x
    if nodes is None:
        nodes = torch.arange(len(x), device=x.device)
    return cast("torch.Tensor", _Dropout.apply(x, rate, int(key), number_rows(key, nodes)))


def check_rate(rate: float) -> None:
    """Refuse a rate that is no probability of dropping something but not all."""
    if not 0 <= rate < 1:
        raise InputError(f"dropout must be at least 0 and below 1; got {rate}.")


class _Dropout(torch.autograd.Function):
    """Linear, and its own transpose: the gradient is dropped as the input was."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        x, *ctx.place = arguments
        rate, key, nodes = ctx.place
        least, scale = least_and_scale(rate)
        if x.device.type == "cpu":
            return _drop_rows(x, least, scale, key, nodes, -np.inf)
        return x * kept_entries(nodes, x.shape[1], least, key) * scale

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _Dropout.apply(gradients[0], *ctx.place), None, None, None


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        x, rate, key, nodes, light = arguments
        least, scale = least_and_scale(rate)
        if x.device.type == "cpu":
            result = _drop_rows(x, least, scale, key, nodes, 0.0)
        else:
            kept = kept_entries(nodes, x.shape[1], least, key)
            result = torch.relu(x) * kept * scale
        ctx.save_for_backward(_positive(result) if light else result)
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
            return gradient * (result > 0) * ctx.scale, None, None, None, None
        passed = empty(tuple(gradient.shape), gradient)
        arrays = (gradient.contiguous().numpy(), result.numpy(), passed.numpy(), ctx.scale)
        over_blocks(even_blocks(len(result), 64), lambda a, b: _pass_back(*arrays, a, b))
        return passed, None, None, None, None


def least_and_scale(rate: float) -> tuple[int, float]:
    """The least 16-bit random number that keeps an entry, and the factor of what is kept."""
    least = min(round(rate * (1 << _LANE_BITS)), (1 << _LANE_BITS) - 1)
    return least, (1 << _LANE_BITS) / ((1 << _LANE_BITS) - least)


def _drop_rows(
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
    counter = key + np.uint64(node) * np.uint64(words) * np.uint64(GOLDEN)
    for w in range(full_words):
        counter += np.uint64(GOLDEN)
        word = random_word(counter)
        for lane in range(4):  # a constant, so that the compiler unrolls it
            scaled = factor if _lane(word, lane) >= least else zero
            kept[4 * w + lane] = max(row[4 * w + lane], lowest) * scaled
    word = random_word(counter + np.uint64(GOLDEN))
    for column in range(4 * full_words, width):
        scaled = factor if _lane(word, column - 4 * full_words) >= least else zero
        kept[column] = max(row[column], lowest) * scaled


@compiled
def _lane(word: Any, lane: Any) -> Any:
    return (word >> np.uint64(16 * lane)) & np.uint64(0xFFFF)


@compiled
def _pass_back(gradient: Any, result: Any, passed: Any, scale: Any, first: int, end: int) -> None:
    factor = passed.dtype.type(scale)
    zero, nothing = passed.dtype.type(0), result.dtype.type(0)
    for i in range(first, end):
        for j in range(result.shape[1]):
            passed[i, j] = gradient[i, j] * factor if result[i, j] > nothing else zero


def _positive(result: torch.Tensor) -> torch.Tensor:
    """Which entries are above zero, one byte each."""
    if result.device.type != "cpu":
        return result > 0
    signs = torch.empty(result.shape, dtype=torch.uint8)
    arrays = (result.numpy(), signs.numpy())
    over_blocks(even_blocks(len(result), 64), lambda a, b: _mark_positive(*arrays, a, b))
    return signs


@compiled
def _mark_positive(result: Any, signs: Any, first: int, end: int) -> None:
    zero = result.dtype.type(0)
    for i in range(first, end):
        for j in range(result.shape[1]):
            signs[i, j] = result[i, j] > zero


def kept_entries(nodes: torch.Tensor, width: int, least: int, key: int) -> torch.Tensor:
    """Which entries dropout keeps, [rows, width], with torch operations for any device."""
    words = (width + _LANES - 1) // _LANES
    place = torch.arange(1, words + 1, device=nodes.device)
    counter = nodes.to(torch.int64)[:, None] * words + place
    word = counter * _signed(GOLDEN) + _signed(key)
    word = (word ^ _shifted(word, 30)) * _signed(MIX_1)
    word = (word ^ _shifted(word, 27)) * _signed(MIX_2)
    word = word ^ _shifted(word, 31)
    shifts = torch.arange(0, 64, _LANE_BITS, device=nodes.device)
    lanes = (word[..., None] >> shifts) & 0xFFFF
    return lanes.flatten(1)[:, :width] >= least


def _shifted(word: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical right shift of a signed word."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def mix_relu_dropout(
    parts: Sequence[torch.Tensor],
    weights: torch.Tensor,
    rate: float,
    key: int | None,
    nodes: torch.Tensor,
    *,
    owned: bool = False,
) -> torch.Tensor:
    """dropout(ReLU(Σ_p w_ip · part_p,i)) for every row i.

    Args:
        parts: P tensors [rows, width].
        weights: One number per row and part [rows, P].
        rate: Probability that an entry becomes zero, in [0, 1).
        key: From :meth:`DropoutKey.at`; None outside training, then nothing is dropped.
        nodes: The node that each row belongs to.
        owned: Whether nobody else looks at the parts again, so that the backward pass, of which
            there can be one only, may write their gradients in their place.

    Returns:
        [rows, width], differentiable in parts and weights.
    """
    check_rate(rate)
    if key is None:
        rate, key = 0.0, 0
    nodes, key = number_rows(key, nodes), int(key)
    if weights.device.type != "cpu":
        mixed = sum(w[:, None] * part for w, part in zip(weights.unbind(1), parts, strict=True))
        return relu_dropout(cast("torch.Tensor", mixed), rate, key, nodes)
    return cast("torch.Tensor", _Mixed.apply(weights, rate, key, nodes, owned, *parts))


class _Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        weights, rate, key, nodes, owned, *given = arguments
        least, ctx.scale = least_and_scale(rate)
        parts = [part.detach().contiguous() for part in given]
        weights = weights.detach().contiguous()
        result = empty(tuple(parts[0].shape), parts[0])
        rows = nodes.to(torch.int64).contiguous().numpy()
        values = tuple(part.numpy() for part in parts)
        arrays = (values, weights.numpy(), rows, np.uint64(key), np.uint64(least))
        over_blocks(
            even_blocks(len(result), 64),
            lambda a, b: _mix(*arrays, ctx.scale, result.numpy(), a, b),
        )
        ctx.save_for_backward(result, weights)
        ctx.parts, ctx.owned = parts, owned
        return result

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        (result, weights), parts = ctx.saved_tensors, ctx.parts
        if parts is None:
            raise RuntimeError("mix_relu_dropout: with owned parts there is one backward pass.")
        to_parts = parts
        if ctx.owned:
            ctx.parts = None
        else:
            to_parts = [empty(tuple(part.shape), part) for part in parts]
        to_weights = torch.empty_like(weights)
        gradient = gradients[0].contiguous()
        values = tuple(part.numpy() for part in parts)
        arrays = (gradient.numpy(), result.numpy(), values, weights.numpy(), ctx.scale)
        outputs = (tuple(part.numpy() for part in to_parts), to_weights.numpy())
        over_blocks(even_blocks(len(result), 64), lambda a, b: _mix_back(*arrays, *outputs, a, b))
        return to_weights, None, None, None, None, *to_parts


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
            to_weights[i, p] = _dot(part, passed)  # before the part may be written to
            for j in range(width):
                to_part[j] = weight * passed[j]


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


_SLOPE = 0.2


def attend(
    pattern: SparsePattern,
    nodes: torch.Tensor,
    target: torch.Tensor,
    source: torch.Tensor,
    rate: float = 0.0,
    key: int | None = None,
    entries: torch.Tensor | None = None,
) -> torch.Tensor:
    """Σ_j α_ij z_j with α_ij = softmax_j LeakyReLU(⟨a, z_i⟩ + ⟨b, z_j⟩), in every head.

    Memory grows with entries × heads and with nodes × width, never with entries × width.

    Args:
        pattern: Row i has an entry in column j where i sees j.
        nodes: z [n, heads, width]; of a pattern with fewer rows, the first nodes are those.
        target: a [heads, width].
        source: b [heads, width].
        rate: Rate of dropout of α.
        key: Key of this dropout.
        entries: The number of every entry, for dropout; by default its place.

    Returns:
        [rows, heads, width].
    """
    count = pattern.shape[0]
    receiving = nodes if len(nodes) == count else nodes[:count]
    of_target = torch.einsum("nhd,hd->nh", receiving, target)
    of_source = torch.einsum("nhd,hd->nh", nodes, source)
    scores = gather_rows(pattern, of_target) + gather_columns(pattern, of_source)
    attention = edge_softmax(pattern, leaky_relu(scores, _SLOPE))
    whole = None if key is None else int(key)
    attention = pattern.weigh(dropout(attention, rate, whole, entries))
    if len(target) == 1:  # products without heads are faster
        return weighted_matmul(pattern, attention[:, 0], nodes[:, 0]).unsqueeze(1)
    return weighted_matmul(pattern, attention, nodes)


#: Rows that are shorter have no direction.
_SHORTEST = 1e-12


def unit_rows(x: torch.Tensor) -> torch.Tensor:
    """Rows divided by their Euclidean length; those that have next to none stay as they are."""
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / length.masked_fill(length < _SHORTEST, 1)
