"""The errors and warnings of the package.

Each message is one sentence or two for a person: what is wrong, where, and what to do about it.
The command line prints it as it is, without a traceback.
"""

from __future__ import annotations

import re

# What moves a terminal's cursor, its colors or the order of what it shows; line ends are kept.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class NcgnnError(Exception):
    """Base of every error that the package raises on purpose."""


class InputError(NcgnnError, ValueError):
    """What was given cannot be used: the message names the field and the remedy."""


class UnknownNameError(InputError, KeyError):
    """A name is in no registry: the message lists what is known."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        import difflib

        self.kind, self.name, self.known = kind, name, known
        close = difflib.get_close_matches(str(name).lower(), known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}."
        self.message = f"unknown {kind} '{name}'; {hint}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.name, self.known)


class DataNotFoundError(NcgnnError, FileNotFoundError):
    """A dataset was not found and could not be downloaded."""


class DataMismatchError(NcgnnError, ValueError):
    """A data file does not hold what its entry promises (counts or checksum)."""


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says, in one of torch's ways, that memory does not suffice."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate" in str(error)


def visible(text: str) -> str:
    r"""A text for a terminal, to which names from a file give no orders: escape is ``\u001b``."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def sentence(error: Exception) -> str:
    """An error in words; one that was not raised on purpose is named."""
    return str(error) if isinstance(error, NcgnnError) else f"{type(error).__name__}: {error}"


class NcgnnWarning(UserWarning):
    """Something that does not stop the work but that a person should know."""
