"""Refusing what does not fit into memory, before anything large is made."""

from __future__ import annotations

import torch

from ncgnn._memory import available_gib
from ncgnn.errors import InputError

GIB = 2**30


def free_gib(device: torch.device) -> float:
    """GiB that are free now, where the tensors go."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / GIB
    return available_gib()


def refuse_beyond(limit: float | None, there: float, needed: float, found: str, less: str) -> None:
    """Complain if more memory is needed than may be used.

    Args:
        limit: GiB that the user allows; None = all that is there.
        there: GiB that are there.
        needed: GiB that are needed.
        found: What was found in the graph and what needs the memory, up to the word "needs".
        less: What would need less.
    """
    most = there if limit is None else limit
    if needed > most:
        raise InputError(
            f"{found} needs about {_gib(needed)}, and {_gib(most)} are "
            f"{'available' if limit is None else 'allowed'}. Use {less}, another model or a "
            "machine with more memory; memory_limit sets how many GiB are allowed."
        )


def _gib(amount: float) -> str:
    """GiB in words, with a digit that says something of small amounts too."""
    return f"{amount:.1f} GiB" if amount >= 0.1 else f"{amount:.2g} GiB"
