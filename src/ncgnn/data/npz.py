"""The package's own graph file: plain arrays in an ``.npz``, nothing pickled.

Keys: ``edge_index`` [2, E] and ``y`` [n]; features as ``x_data``, ``x_indices``, ``x_indptr`` and
``x_shape`` (a CSR matrix) or ``x`` (dense), or none; the split arrays of ``SHIPPED_SPLITS``;
``class_names``, ``num_classes`` (one integer), ``node_ids``, ``feature_names`` and ``origin``;
``edge_weights`` and ``edge_directions``, one number per column of ``edge_index``. Other keys are
ignored.

Damaged and hostile files give one clear error before memory is spent on them.
"""

from __future__ import annotations

import difflib
import math
import warnings
import zipfile
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from ncgnn._io import atomic_write
from ncgnn.errors import DataNotFoundError, InputError, NcgnnWarning
from ncgnn.graph import Graph, check_csr

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

#: Names under which a file may carry splits, with the keys of its three parts.
#: Masks are boolean [variants, nodes]; the others are index arrays.
SHIPPED_SPLITS: dict[str, tuple[str, str, str]] = {
    "published": ("train_masks", "val_masks", "test_masks"),
    "planetoid": ("planetoid_train", "planetoid_val", "planetoid_test"),
    "uniform": ("uniform_train", "uniform_val", "uniform_test"),
    "time": ("time_train", "time_val", "time_test"),
}
_SPLIT_KEYS = tuple(key for keys in SHIPPED_SPLITS.values() for key in keys)
_TEXTS = ("class_names", "feature_names")
_CSR_PARTS = ("data", "indices", "indptr", "shape")
_KEYS = (
    *("edge_index", "y", "x", *(f"x_{part}" for part in _CSR_PARTS)),
    *(*_SPLIT_KEYS, "class_names", "num_classes", "node_ids", "origin"),
    *("edge_weights", "edge_directions", "feature_names"),
)
# Members carry this date whatever the clock says: equal content gives equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FRESH_COPY = "make it again, or get a fresh copy"

#: Held while numpy reads a header: Python's parser of literals, which it takes for that, counts how
#: deep it is for all threads together (3.11), and fails where two are at it.
HEADERS = Lock()
#: No array of a graph that fits into a machine's memory is larger.
MOST_BYTES = 16 << 30
#: Deflate packs zeros about 1000 : 1, so no honest member of some size exceeds this.
MOST_RATIO = 2000
#: Below this size the ratio does not matter.
HARMLESS_BYTES = 64 << 20
# Bytes after an array that are read at a time.
_REST_AT_ONCE = 1 << 20


def read_npz(path: Path | str) -> Graph:
    """Read a graph file; the graph is named after it.

    Raises:
        DataNotFoundError: There is no such file.
        InputError: The file is damaged or does not hold a graph; the message names the field.
    """
    path = Path(path)
    with NpzArchive(path) as archive:
        members = {key: archive.array(key) for key in _KEYS if key in archive}
        names = archive.keys()
    with errors_in(path):
        for key in (*_TEXTS, "node_ids", "origin"):
            _check_text(members.get(key), key)
        texts = {key: members[key].tolist() for key in _TEXTS if key in members}
        origin = members.get("origin", np.array(""))
        if origin.shape != () or origin.dtype.kind != "U":
            raise InputError("'origin' must be a single unicode text")
        num_classes: Any = members.get("num_classes")
        graph = Graph.from_edge_index(
            _require(members, "edge_index"),
            labels=_require(members, "y"),
            features=_read_features(members),
            num_classes=num_classes,
            class_names=texts.get("class_names"),
            feature_names=texts.get("feature_names"),
            edge_weights=members.get("edge_weights"),
            edge_directions=members.get("edge_directions"),
            node_ids=members.get("node_ids"),
            shipped_splits={key: members[key] for key in _SPLIT_KEYS if key in members},
            name=path.stem,
            origin=str(origin),
        )
        check_splits(graph.shipped_splits)
    _warn_about_unused(path, names - set(_KEYS))
    return graph


@contextmanager
def errors_in(where: Path | str) -> Generator[None]:
    """Put the file before the message of an :class:`InputError` that does not name it."""
    try:
        yield
    except InputError as error:
        if str(where) in str(error):
            raise
        raise InputError(f"{where}: {error}") from error


@contextmanager
def reading(where: Path | str, kind: str) -> Generator[None]:
    """Turn whatever damaged bytes make a reader raise into one error, as all mean the same."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{where} does not exist") from error
    except (InputError, DataNotFoundError, MemoryError):
        raise
    except (PermissionError, IsADirectoryError) as error:
        raise InputError(
            f"{where} cannot be opened ({error.strerror}); check its path and its permissions"
        ) from error
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise InputError(
            f"{where} is not a readable {kind} ({reason}); get a fresh copy of the file"
        ) from error


def _require(members: Mapping[str, NDArray[Any]], key: str) -> NDArray[Any]:
    if key not in members:
        raise InputError(f"key '{key}' is missing; add it or get a fresh copy of the file")
    return members[key]


def _read_features(members: Mapping[str, NDArray[Any]]) -> csr_array[Any] | NDArray[Any] | None:
    sparse = [f"x_{part}" for part in _CSR_PARTS if f"x_{part}" in members]
    if "x" in members and sparse:
        raise InputError(f"features are given twice, as 'x' and as '{sparse[0]}'; keep one of them")
    return csr_from_parts(members, "x_") if sparse else members.get("x")


def csr_from_parts(parts: Mapping[str, NDArray[Any]], prefix: str = "") -> csr_array[Any]:
    """Build a CSR matrix from ``data``, ``indices``, ``indptr`` and ``shape``, checked first."""
    from scipy.sparse import csr_array

    data, indices, indptr, shape = (_require(parts, f"{prefix}{part}") for part in _CSR_PARTS)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise InputError(f"'{prefix}shape' must be two whole numbers, rows and columns")
    rows, columns = (int(size) for size in shape)
    if check_csr(indptr, indices, columns, prefix) != rows:
        raise InputError(f"'{prefix}indptr' has {len(indptr)} entries; {rows} rows need {rows + 1}")
    if data.shape != indices.shape or data.dtype.kind not in "biuf" or data.itemsize > 8:
        raise InputError(
            f"'{prefix}data' is {data.dtype} with shape {data.shape}; it must be one number for "
            f"each of the {indices.size} entries of '{prefix}indices'"
        )
    index = np.int32 if max(columns, data.size) < np.iinfo(np.int32).max else np.int64
    values = data.astype(np.float32) if data.dtype == np.float16 else data
    return csr_array((values, indices.astype(index), indptr.astype(index)), shape=(rows, columns))


def check_splits(splits: Mapping[str, NDArray[Any]]) -> None:
    """Splits are complete, and no node is in two parts of one."""
    for keys in SHIPPED_SPLITS.values():
        if not any(key in splits for key in keys):
            continue
        parts = [_require(splits, key) for key in keys]
        if parts[0].dtype == bool:
            uses = np.sum(parts, axis=0, dtype=np.int8)
        elif any(part.ndim != 1 for part in parts):
            raise InputError(f"{', '.join(keys)} must each be one row of node numbers")
        else:
            uses = np.bincount(np.concatenate(parts).astype(np.int64))
        if (uses > 1).any():
            node = int(np.argwhere(uses > 1)[0][-1])
            raise InputError(
                f"node {node} is more than once in {', '.join(keys)}; put it in one part only"
            )


def _check_text(array: NDArray[Any] | None, key: str) -> None:
    if array is None or array.dtype.kind != "U" or not array.size or not array.dtype.itemsize:
        return
    codes = np.ascontiguousarray(array).view(np.uint32)
    # Python cannot make text of these numbers, and fails in unclear ways when it is asked to.
    if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
        raise InputError(f"'{key}' holds characters that do not exist; {_FRESH_COPY}")


def _warn_about_unused(path: Path, keys: set[str]) -> None:
    """Say which arrays are not used, if one of them may have been meant to be."""
    meant = {key: difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.8) for key in sorted(keys)}
    found = [f"'{key}' (did you mean '{close[0]}'?)" for key, close in meant.items() if close]
    if found:
        warnings.warn(f"{path}: not used: {', '.join(found)}.", NcgnnWarning, stacklevel=3)


def write_npz(path: Path | str, graph: Graph) -> None:
    """Write a graph file atomically, replacing any; equal graphs give equal bytes.

    Raises:
        InputError: Texts or splits that could not be read back; nothing is written.
    """
    with errors_in(path):
        members = _members_of(graph)
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for key in sorted(members):
            info = zipfile.ZipInfo(f"{key}.npy", _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            array = members[key]
            little_endian = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, little_endian, allow_pickle=False)


def _members_of(graph: Graph) -> dict[str, NDArray[Any]]:
    members = {
        "edge_index": _narrow(graph.edge_index()),
        "y": _narrow(graph.labels),
        "num_classes": np.asarray(graph.num_classes),
    }
    features = graph.features
    if isinstance(features, np.ndarray):
        members["x"] = _narrow_values(features)
    elif features is not None:
        members |= {
            "x_data": _narrow_values(features.data),
            "x_indices": _narrow(features.indices),
            "x_indptr": _narrow(features.indptr),
            "x_shape": np.asarray(features.shape, dtype=np.int64),
        }
    check_splits(graph.shipped_splits)
    for key, part in graph.shipped_splits.items():
        if key not in _SPLIT_KEYS:
            raise InputError(f"'{key}' is no key for splits; use one of {', '.join(_SPLIT_KEYS)}")
        members[key] = part
    for key in _TEXTS:
        if getattr(graph, key) is not None:
            members[key] = _as_text(list(getattr(graph, key)), key)
    for key in ("edge_weights", "edge_directions"):
        if getattr(graph, key) is not None:
            members[key] = getattr(graph, key)
    if graph.node_ids is not None:
        members["node_ids"] = graph.node_ids
    if graph.origin:
        members["origin"] = _as_text(graph.origin, "origin")
    return members


def _narrow(integers: NDArray[Any]) -> NDArray[Any]:
    limits = np.iinfo(np.int32)
    fits = not integers.size or (integers.min() >= limits.min and integers.max() <= limits.max)
    return integers.astype(np.int32) if fits else integers


def _narrow_values(values: NDArray[Any]) -> NDArray[Any]:
    """Counts and 0/1 as one byte each; float64 stays, because it is read back as float64."""
    if values.dtype == np.float64:
        return values
    in_a_byte = (values >= 0) & (values <= 255)
    if in_a_byte.all() and (values == np.floor(values)).all():
        return values.astype(np.uint8)
    return values


def _as_text(text: str | list[str], key: str) -> NDArray[Any]:
    array = np.array(text, dtype=np.str_)
    if array.tolist() != text:
        raise InputError(f"'{key}' ends in a NUL character; take it away")
    return array


class NpzArchive:
    """The arrays of an ``.npz`` file, read one at a time and in the machine's byte order."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._zip = _open_zip(self.path)
        self._members = list_members(self._zip, self.path, ending=".npy")

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
        info = self._members[key]
        with reading(where, "array"), self._zip.open(info) as stream:
            array = _decode(stream, where, info.file_size)
            while stream.read(_REST_AT_ONCE):
                pass  # only at its end is the checksum compared
        for part in (array.base, array):  # so that a graph shares it instead of copying it
            if isinstance(part, np.ndarray):
                part.flags.writeable = False
        return array

    def csr(self, prefix: str = "") -> csr_array[Any]:
        """The CSR matrix whose four arrays have keys that begin with ``prefix``."""
        with errors_in(self.path):
            return csr_from_parts(
                {f"{prefix}{part}": self.array(f"{prefix}{part}") for part in _CSR_PARTS}, prefix
            )


def read_npy(path: Path | str) -> NDArray[Any]:
    """Read one ``.npy`` file without unpickling anything."""
    with reading(path, "numpy array"), Path(path).open("rb") as stream:
        return _decode(stream, str(path), Path(path).stat().st_size)


def list_members(
    archive: zipfile.ZipFile, path: Path, *, ending: str = ""
) -> dict[str, zipfile.ZipInfo]:
    """The members of a zip file by name without an ending, each of which must be there once.

    Readers differ in which of two they take, so that one may be checked and another one used.
    """
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(ending)
        if name in found:
            raise InputError(f"{path}: '{info.filename}' is in it twice; {_FRESH_COPY}")
        found[name] = info
    return found


def check_member(info: zipfile.ZipInfo, where: str) -> None:
    """Refuse a member of a zip file that may unpack to an absurd size.

    Python unpacks bzip2 and LZMA in one go, however much comes out and whatever the file declares.
    """
    if info.compress_type not in _PACKINGS:
        raise InputError(
            f"{where} is packed by another method than deflate; save it anew, as np.savez or "
            "np.savez_compressed do"
        )
    limit = most_bytes(info.compress_size)
    if info.file_size > limit:
        raise too_large(where, limit, f"{info.file_size} bytes")


def most_bytes(packed: int) -> int:
    """How many bytes may come out of so many packed ones."""
    return min(MOST_BYTES, max(HARMLESS_BYTES, MOST_RATIO * packed))


def too_large(where: str, limit: int, found: str) -> InputError:
    """The error for something that unpacks to more than ``limit`` bytes."""
    return InputError(
        f"{where} unpacks to {found}, more than the {limit} bytes that are read; "
        "get a fresh copy of the file from a source that you trust"
    )


def _decode(stream: IO[bytes], where: str, size: int) -> NDArray[Any]:
    """An array from a file of so many bytes, read straight into the memory that it stays in."""
    with reading(where, "numpy array"), HEADERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_declared_size(stream, size)
        try:
            array = npy.read_array(stream, allow_pickle=False)
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise InputError(
                f"{where} holds pickled Python objects, which are never loaded; "
                "save it as a plain numeric or unicode array"
            ) from error
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_declared_size(stream: IO[bytes], size: int) -> None:
    """Numpy makes room for what the header declares before it looks for the values."""
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(stream)
    if version not in readers:
        raise ValueError(f"format version {version} is not for plain arrays")
    shape, _, kind = readers[version](stream)
    held = size - stream.tell()
    stream.seek(0)
    # Items without any bytes are not free either: they may be listed one by one.
    declared = math.prod(shape) * max(kind.itemsize, 1)
    if not kind.hasobject and declared > held:
        raise ValueError(f"it declares {declared} bytes and holds {held}")


def _open_zip(path: Path) -> zipfile.ZipFile:
    with reading(path, ".npz file"):
        try:
            return zipfile.ZipFile(path)
        except IsADirectoryError as error:
            raise InputError(f"{path} is a folder; give the path of an .npz file") from error
        except zipfile.BadZipFile as error:
            with path.open("rb") as stream:
                head = stream.read(6)
            found = "is not an .npz file"
            if not head:
                found = "is empty"
            elif head.startswith(b"PK"):
                found = "is a damaged or truncated .npz file"
            elif head == b"\x93NUMPY":
                found = "is a single .npy array, not an .npz file"
            raise InputError(f"{path} {found}; {_FRESH_COPY}") from error
