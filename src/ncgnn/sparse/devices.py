"""Looking at numbers where other devices than the CPU compute.

The CPU has computed a tensor when a program goes on. Other devices compute while it does, and
whoever looks at a single number waits until all is done that was asked for before. So numbers are
looked at rarely, and several at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from ncgnn.sparse._backend import PATHS

if TYPE_CHECKING:
    from collections.abc import Mapping


def runs_compiled(device: torch.device) -> bool:
    """Whether compiled loops compute on a device, as on the CPU; elsewhere torch operations do."""
    return PATHS.get(device.type) == "compiled"


def widest_float(device: torch.device) -> torch.dtype:
    """float64, or float32 on Apple's devices, which have no double precision."""
    return torch.float32 if device.type == "mps" else torch.float64


def look_at(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The numbers of tensors on one device, brought to the CPU in one copy.

    Args:
        tensors: Numbers without a dimension, or lists of them, by name.

    Returns:
        A number or a list of numbers for each.
    """
    if not tensors:
        return {}
    flat = [tensor.detach().reshape(-1) for tensor in tensors.values()]
    together = torch.cat([part.to(widest_float(part.device)) for part in flat]).cpu()
    parts = together.split([len(part) for part in flat])
    return {
        name: part.tolist() if tensor.dim() else part.item()
        for (name, tensor), part in zip(tensors.items(), parts, strict=True)
    }


#: Tensors whose bounds were looked at on devices that have to be waited for: version and bounds.
_bounds: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def bounds(tensor: torch.Tensor) -> tuple[int, int]:
    """The smallest and the largest of whole numbers; (0, -1) where there are none.

    On devices that have to be waited for, a tensor is looked at once for as long as it stays as it
    is.
    """
    if not tensor.numel():
        return 0, -1
    seen = Seen.of(tensor)
    if seen is None:
        return _find_bounds(tensor)
    if tensor not in _bounds or _bounds[tensor][0] != seen.version:
        _bounds[tensor] = (seen.version, *_find_bounds(tensor))
    _, lowest, highest = _bounds[tensor]
    return lowest, highest


def _find_bounds(tensor: torch.Tensor) -> tuple[int, int]:
    if runs_compiled(tensor.device):
        lowest, highest = (int(bound) for bound in torch.aminmax(tensor))
    else:
        lowest, highest = torch.stack(torch.aminmax(tensor)).cpu().tolist()
    return lowest, highest


class Seen(NamedTuple):
    """A tensor that was looked at: the same tensor of the same version holds the same numbers.

    Attributes:
        tensor: The tensor; None stands for itself.
        version: How often it had been changed in place.
    """

    tensor: torch.Tensor | None
    version: int = 0

    @classmethod
    def of(cls, tensor: torch.Tensor | None) -> Seen | None:
        """None where nothing counts changes, or looking again costs next to nothing."""
        if tensor is None:
            return cls(None)
        if tensor.is_inference() or runs_compiled(tensor.device):
            return None
        return cls(tensor, tensor._version)

    def is_same(self, tensor: torch.Tensor | None) -> bool:
        """Whether a tensor is this one, unchanged."""
        return tensor is self.tensor and (tensor is None or tensor._version == self.version)
