"""Tensors on disk: safetensors with a checksum, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ncgnn._files import atomic_write
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch


class DamagedFileError(InputError):
    """A file of a run does not hold what was written to it."""


def write_tensors(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    about: Mapping[str, Any],
    *,
    durable: bool = True,
) -> None:
    """Write tensors and a JSON record about them."""
    from safetensors.torch import save

    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    # One entry only: safetensors writes several in any order, and equal runs are equal files.
    said = dict(about)
    record = {"ncgnn": json.dumps({"about": said, "sha256": _digest(plain, said)})}
    with atomic_write(path, durable=durable) as stream:
        stream.write(save(plain, metadata=record))


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote.

    Raises:
        DamagedFileError: The file cannot be read, or its bytes have changed.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stored:
            record: dict[str, str] = stored.metadata() or {}
            tensors: dict[str, torch.Tensor] = {
                name: stored.get_tensor(name)
                for name in stored.keys()  # noqa: SIM118
            }
        about, stated = (json.loads(record["ncgnn"])[name] for name in ("about", "sha256"))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{path}: cannot be read ({error}).") from None
    if _digest(tensors, about) != stated:
        raise DamagedFileError(f"{path}: its bytes have changed since it was written.")
    return tensors, about


def _digest(tensors: Mapping[str, torch.Tensor], about: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(value.view(-1).numpy().data if value.numel() else b"")
    return digest.hexdigest()
