"""The errors and warnings of the package.

Each message is one sentence or two for a person: what is wrong, where, and what to do about it.
The command line prints it as it is, without a traceback.
"""

from __future__ import annotations


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


def sentence(error: Exception) -> str:
    """An error in words; one that was not raised on purpose is named."""
    return str(error) if isinstance(error, NcgnnError) else f"{type(error).__name__}: {error}"


class NcgnnWarning(UserWarning):
    """Something that does not stop the work but that a person should know."""
