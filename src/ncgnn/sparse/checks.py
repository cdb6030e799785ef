"""Checks at the door of the sparse kernels: every failure names the argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    ArrayLike = torch.Tensor | NDArray[Any] | Sequence[int] | Sequence[float] | Sequence[bool]

INT32_MAX = int(np.iinfo(np.int32).max)
FLOATS = (torch.float32, torch.float64)


def as_tensor(array: ArrayLike, name: str) -> torch.Tensor:
    """A detached tensor of an array; it may share its memory."""
    if isinstance(array, torch.Tensor):
        return array.detach()
    plain = np.asarray(array)
    if plain.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers, not {plain.dtype}.")
    if not plain.flags.writeable or not plain.dtype.isnative or plain.dtype.kind == "u":
        # torch warns about read-only memory and knows neither foreign byte orders nor all
        # unsigned types.
        signed = np.dtype(np.int64) if plain.dtype.kind == "u" else plain.dtype.newbyteorder("=")
        plain = plain.astype(signed)
    return torch.from_numpy(np.ascontiguousarray(plain))


def as_integers(array: ArrayLike, name: str, dimensions: int = 1) -> torch.Tensor:
    """An integer tensor of an array; an empty array of any type counts as integers."""
    tensor = as_tensor(array, name)
    if tensor.dim() != dimensions:
        raise InputError(f"{name} must have {dimensions} dimension(s), not {tensor.dim()}.")
    if tensor.numel() == 0:
        return tensor.to(torch.int64)
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool:
        raise InputError(f"{name} must hold integers, not {tensor.dtype}.")
    return tensor


def as_values(array: ArrayLike, name: str, size: int) -> torch.Tensor:
    """A float vector of a given size; integers and booleans become float32."""
    tensor = as_tensor(array, name)
    if isinstance(array, torch.Tensor) and array.requires_grad:
        raise InputError(f"{name} requires a gradient; use weighted_matmul for trainable values.")
    if tensor.dim() != 1 or tensor.shape[0] != size:
        raise InputError(f"{name} must have shape [{size}], not {list(tensor.shape)}.")
    if not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        return tensor.to(torch.float32)
    check_float(tensor, name)
    return tensor


def as_index(selection: ArrayLike, name: str, size: int, device: torch.device) -> torch.Tensor:
    """Positions 0 .. size - 1 as int64, from positions or from a mask; negatives are refused."""
    tensor = as_tensor(selection, name)
    if tensor.dtype == torch.bool:
        if tensor.shape != (size,):
            raise InputError(f"the mask {name} must have shape [{size}], not {list(tensor.shape)}.")
        if tensor.device == device and device.type == "cpu":
            # One thread: starting those of torch takes longer than looking at a mask.
            return torch.from_numpy(np.flatnonzero(tensor.numpy()))
        return torch.nonzero(tensor.to(device)).view(-1)
    index = as_integers(tensor, name).to(device=device, dtype=torch.int64).contiguous()
    check_range(index, name, size)
    return index


def check_range(index: torch.Tensor, name: str, size: int) -> None:
    """Refuse positions outside 0 .. size - 1."""
    if index.numel() == 0:
        return
    lowest, highest = (int(bound) for bound in torch.aminmax(index))
    if lowest < 0 or highest >= size:
        wrong = lowest if lowest < 0 else highest
        raise InputError(f"{name} holds {wrong}, which is outside 0 .. {size - 1}.")


def check_float(tensor: torch.Tensor, name: str) -> None:
    """Refuse other types than float32 and float64."""
    if tensor.dtype not in FLOATS:
        raise InputError(f"{name} must be float32 or float64, not {tensor.dtype}.")


def check_match(tensor: Any, name: str, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse what is no tensor of a given type on a given device."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{name} must be a torch tensor, not {type(tensor).__name__}.")
    if tensor.layout != torch.strided:
        raise InputError(f"{name} must be dense, not {tensor.layout}.")
    if tensor.dtype != dtype:
        raise InputError(f"{name} is {tensor.dtype}, but the matrix is {dtype}; convert one.")
    if tensor.device != device:
        raise InputError(f"{name} is on {tensor.device}, but the matrix is on {device}.")


def as_shape(shape: tuple[int, int], name: str = "shape") -> tuple[int, int]:
    """Two plain non-negative integers."""
    sizes = tuple(int(size) for size in shape)
    if len(sizes) != 2 or min(sizes) < 0:
        raise InputError(f"{name} must be two non-negative integers, not {tuple(shape)}.")
    return sizes[0], sizes[1]


def index_dtype(*largest: int) -> torch.dtype:
    """Int32 where every number fits, otherwise int64."""
    return torch.int32 if max(largest) <= INT32_MAX else torch.int64
