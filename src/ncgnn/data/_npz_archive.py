"""Arrays out of ``.npy`` and ``.npz`` files, never unpickled, with errors for people."""

from __future__ import annotations

import io
import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ncgnn.data._limits import check_member
from ncgnn.errors import DataNotFoundError, InputError

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

_FRESH_COPY = "make it again, or get a fresh copy"


class NpzArchive:
    """The arrays of an ``.npz`` file, read one at a time.

    Args:
        path: The file.

    Raises:
        DataNotFoundError: There is no such file.
        InputError: The file is not a readable zip archive.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._zip = _open_zip(self.path)
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    def __enter__(self) -> NpzArchive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    def __contains__(self, key: object) -> bool:
        return key in self._members

    def keys(self) -> set[str]:
        """The names of all arrays."""
        return set(self._members)

    def array(self, key: str) -> NDArray[Any]:
        """The array under ``key``; an :class:`InputError` if it is missing or unreadable."""
        if key not in self:
            found = ", ".join(sorted(self._members)) or "nothing"
            raise InputError(
                f"{self.path}: key '{key}' is missing (the file holds {found}); {_FRESH_COPY} "
                "or add the key"
            )
        where = f"{self.path}: '{key}'"
        check_member(self._members[key], where)
        try:
            # The whole member at once: only then is its checksum compared.
            content = self._zip.read(self._members[key])
        except Exception as error:
            raise InputError(f"{where} is damaged ({_reason(error)}); {_FRESH_COPY}") from error
        return _decode(io.BytesIO(content), where)


def read_npy(path: Path | str) -> NDArray[Any]:
    """Read one ``.npy`` file without unpickling anything."""
    path = Path(path)
    try:
        stream = path.open("rb")
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{path} does not exist") from error
    except OSError as error:
        raise InputError(f"{path} cannot be opened ({_reason(error)})") from error
    with stream:
        return _decode(stream, str(path))


def _decode(stream: BinaryIO, where: str) -> NDArray[Any]:
    from numpy.lib import format as npy

    # Damaged bytes make zipfile, zlib and numpy raise a dozen kinds of errors, which all mean the
    # same to the reader of the message: hence the broad clauses here and above.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _check_declared_size(stream)
            return npy.read_array(stream, allow_pickle=False)
        except Exception as error:
            if "allow_pickle" in str(error):
                raise InputError(
                    f"{where} holds pickled Python objects, which are never loaded; "
                    "save it as a plain numeric or unicode array"
                ) from error
            raise InputError(
                f"{where} is not a readable numpy array ({_reason(error)}); {_FRESH_COPY}"
            ) from error


def _check_declared_size(stream: BinaryIO) -> None:
    """Numpy makes room for what the header declares before it looks for the values."""
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(stream)
    if version not in readers:
        raise ValueError(f"format version {version} is not for plain arrays")
    shape, _, kind = readers[version](stream)
    start = stream.tell()
    held = stream.seek(0, os.SEEK_END) - start
    stream.seek(0)
    # Items without any bytes are not free either: somebody will list them.
    declared = math.prod(shape) * max(kind.itemsize, 1)
    if not kind.hasobject and declared > held:
        raise ValueError(f"it declares {declared} bytes and holds {held}")


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; give the path of an .npz file") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({_reason(error)})") from error
    except Exception as error:
        raise InputError(f"{path} {_what_it_is(path)}; {_FRESH_COPY}") from error


def _what_it_is(path: Path) -> str:
    with path.open("rb") as stream:
        head = stream.read(6)
    if not head:
        return "is empty"
    if head.startswith(b"PK"):
        return "is a damaged or truncated .npz file"
    if head == b"\x93NUMPY":
        return "is a single .npy array, not an .npz file"
    return "is not an .npz file"


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
