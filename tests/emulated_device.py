"""A device that is not there: tensors that claim to be on it, and are computed by the CPU.

Inside ``with Emulator() as device`` torch knows a device ``emulated``. As with an accelerator, its
tensors do not mix with those of the CPU, have no NumPy array, and must be copied to be read. What a
program would have to wait for there is counted: copies to the CPU, numbers that are looked at, and
operations whose result has a size that depends on numbers.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

NAME = "emulated"

# Operations after which CUDA waits: for a number, or for the size of a result.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::equal",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::bincount",
    "aten::histc",
    "aten::_unique",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::_linalg_check_errors",
}
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
COPIES = {"aten::_to_copy", "aten::copy_"}


@cache
def _register() -> None:
    """Tell torch of the device, once per process."""
    backend_registration._setup_privateuseone_for_python_backend(NAME)


class Remote(torch.Tensor):
    """A tensor on the device; ``held`` is where its numbers really are."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Remote:
        strided = held.layout == torch.strided
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            dtype=held.dtype,
            device=torch.device(NAME, 0),
            strides=held.stride() if strided else None,
            storage_offset=held.storage_offset() if strided else 0,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} on the emulated device, outside of it.")

    def __repr__(self) -> str:
        return f"Remote({list(self.shape)}, {self.dtype})"


class Emulator(TorchDispatchMode):
    """Runs everything on the device while it is entered.

    Attributes:
        waits: How often each operation had to be waited for since :meth:`restart`.
        sent: How many copies went to the device.
        largest: Numbers in the largest copy to the CPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.restart()

    def restart(self) -> None:
        """Count from zero."""
        self.waits, self.sent, self.largest = Counter[str](), 0, 0

    @property
    def total(self) -> int:
        """How often something had to be waited for."""
        return self.waits.total()

    def __enter__(self) -> Emulator:
        _register()
        self._stack = ExitStack()
        # Torch starts threads for devices with the first gradient; this one may come later.
        self._stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._stack.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket._qualified_op_name
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        remote = [tensor for tensor in tensors if isinstance(tensor, Remote)]
        wanted = kwargs.get("device")
        wanted = None if wanted is None else torch.device(wanted).type
        if not remote and wanted != NAME:
            return func(*args, **kwargs)
        if remote and name not in COPIES:
            self._check_places(name, tensors)
        given, named = tree_map(_held, args), tree_map(_held, kwargs)
        if wanted is not None:
            named["device"] = "cpu"
        self._count(func, name, args, kwargs, wanted)
        result = func(*given, **named)
        if wanted == "cpu":
            return result.clone() if result is given[0] else result
        if name == "aten::copy_":
            return args[0]
        wrapped = tree_map(
            lambda one: Remote(one) if isinstance(one, torch.Tensor) else one, result
        )
        if remote and wanted is None:
            return return_and_correct_aliasing(func, args, kwargs, wrapped)
        return wrapped

    def _check_places(self, name: str, tensors: list[torch.Tensor]) -> None:
        """Refuse to compute with tensors of two places; single numbers may come from the CPU."""
        if any(tensor.dim() and not isinstance(tensor, Remote) for tensor in tensors):
            raise RuntimeError(f"{name}: expected all tensors to be on the same device.")

    def _count(self, func: Any, name: str, args: Any, kwargs: Any, wanted: str | None) -> None:
        into = args[0] if name == "aten::copy_" else None
        source = args[1] if name == "aten::copy_" else args[0] if args else None
        if name in COPIES and isinstance(source, Remote):
            if wanted == "cpu" or (into is not None and not isinstance(into, Remote)):
                self.waits["copy to the CPU"] += 1
                self.largest = max(self.largest, source.numel())
        elif name in COPIES:
            self.sent += 1
        elif name in WAITING:
            self.waits[name] += 1
        elif name in INDEXING:
            masks = (index for index in args[1] if index is not None)
            if any(index.dtype in (torch.bool, torch.uint8) for index in masks):
                self.waits["mask"] += 1
        elif name == "aten::repeat_interleave" and kwargs.get("output_size") is None:
            self.waits[name] += 1


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, Remote) else leaf
