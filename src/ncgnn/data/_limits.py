"""Limits that keep a small hostile file from filling the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncgnn.errors import InputError

if TYPE_CHECKING:
    import zipfile

#: No array of a graph that fits into a machine's memory is larger.
MOST_BYTES = 16 << 30
#: Deflate packs zeros about 1000 : 1, so no honest member of some size exceeds this.
MOST_RATIO = 2000
#: Below this size the ratio does not matter.
HARMLESS_BYTES = 64 << 20


def most_bytes(packed: int) -> int:
    """How many bytes may come out of so many packed ones."""
    return min(MOST_BYTES, max(HARMLESS_BYTES, MOST_RATIO * packed))


def check_member(info: zipfile.ZipInfo, where: str) -> None:
    """Refuse a member of a zip file that would unpack to an absurd size.

    Args:
        info: What the archive says about the member.
        where: File and member, for the message.

    Raises:
        InputError: The size that the archive declares is beyond :func:`most_bytes`.
    """
    limit = most_bytes(info.compress_size)
    if info.file_size > limit:
        raise too_large(where, limit, f"{info.file_size} bytes")


def too_large(where: str, limit: int, found: str) -> InputError:
    """The error for something that unpacks to more than ``limit`` bytes."""
    return InputError(
        f"{where} unpacks to {found}, more than the {limit} bytes that are read; "
        "get a fresh copy of the file from a source that you trust"
    )
