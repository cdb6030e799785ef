"""The package's own graph file: plain arrays in an ``.npz``, nothing pickled.

Keys: ``edge_index`` [2, E] and ``y`` [n]; features as ``x_data``, ``x_indices``, ``x_indptr`` and
``x_shape`` (a CSR matrix) or ``x`` (dense), or none; the split arrays of ``SHIPPED_SPLITS``;
``class_names``, ``num_classes`` (one integer), ``node_ids`` and ``origin``. Other keys are ignored.

What a data file says about a graph, as plain arrays, before any validation.

A CSR matrix from the four arrays of a file, checked before anything indexes with them.

Limits that keep a small hostile file from filling the memory.

Arrays out of ``.npy`` and ``.npz`` files, never unpickled, with errors for people.

From the arrays of a graph file to :class:`GraphArrays`, with one clear error for each fault.
"""

from __future__ import annotations

import io
import math
import os
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ncgnn._io import atomic_write
from ncgnn.errors import DataNotFoundError, InputError, NcgnnWarning

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import IO

    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

#: Names under which a file may carry splits, with the keys of its three parts.
#: Masks are boolean [variants, nodes]; the others are index arrays.
SHIPPED_SPLITS: dict[str, tuple[str, str, str]] = {
    "published": ("train_masks", "val_masks", "test_masks"),
    "planetoid": ("planetoid_train", "planetoid_val", "planetoid_test"),
    "uniform": ("uniform_train", "uniform_val", "uniform_test"),
}


@dataclass(frozen=True)
class GraphArrays:
    """The content of a data file.

    Attributes:
        edge_index: Integers [2, E]; row 0 holds sources, row 1 targets. An undirected graph lists
            both directions.
        labels: Integers [n]; -1 marks an unlabelled node.
        features: Node features [n, d], sparse CSR or dense, or None.
        splits: Arrays under the keys of :data:`SHIPPED_SPLITS`, where the authors publish splits.
        class_names: One name per class, or None.
        node_ids: One identifier per node (strings or integers), or None.
        origin: Where the content came from, for people.
        num_classes: Number of classes, where the labels alone do not tell, or None.
    """

    edge_index: NDArray[np.integer[Any]]
    labels: NDArray[np.integer[Any]]
    features: csr_array[Any] | NDArray[Any] | None = None
    splits: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    class_names: tuple[str, ...] | None = None
    node_ids: NDArray[Any] | None = None
    origin: str = ""
    num_classes: int | None = None


CSR_PARTS = ("data", "indices", "indptr", "shape")


def csr_from_parts(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: NDArray[Any],
    *,
    where: str,
    prefix: str,
) -> csr_array[Any]:
    """Build a CSR matrix with sorted columns; an :class:`InputError` names what is wrong.

    Args:
        data: Values [nnz].
        indices: Column of each value [nnz].
        indptr: Where each row starts [rows + 1].
        shape: The two numbers rows and columns.
        where: The file, for messages.
        prefix: What stands before ``data`` in the file's key, for messages.

    Returns:
        The matrix, float32 or (for float64 input) float64.
    """
    import numpy as np
    from scipy.sparse import csr_array

    def name(part: str) -> str:
        return f"{where}: '{prefix}{part}'"

    rows, columns = _two_sizes(shape, name("shape"))
    starts = _integers(indptr, name("indptr"))
    column_of = _integers(indices, name("indices"))
    if data.ndim != 1:
        raise InputError(f"{name('data')} has {data.ndim} dimensions; it must have one")
    values = real_values(data, name("data"))
    if len(column_of) != len(values):
        raise InputError(
            f"{name('indices')} has {len(column_of)} entries but '{prefix}data' has "
            f"{len(values)}; give every value one column"
        )
    _check_row_starts(starts, rows, len(values), name("indptr"))
    if len(column_of) and (column_of.min() < 0 or column_of.max() >= columns):
        raise InputError(
            f"{name('indices')} holds a column outside 0..{columns - 1}; "
            f"number the columns from 0 and make '{prefix}shape' large enough"
        )
    fits = max(columns, len(values)) < np.iinfo(np.int32).max
    index_type = np.int32 if fits else np.int64
    matrix = csr_array(
        (values, column_of.astype(index_type), starts.astype(index_type)), shape=(rows, columns)
    )
    matrix.sort_indices()
    return matrix


def reject_repeated_columns(matrix: csr_array[Any], where: str, key: str) -> None:
    """Raise an :class:`InputError` if a row lists the same column twice (columns are sorted)."""
    import numpy as np

    same_as_next = matrix.indices[1:] == matrix.indices[:-1]
    first_of_row = matrix.indptr[1:-1]
    same_as_next[first_of_row[(first_of_row > 0) & (first_of_row < matrix.nnz)] - 1] = False
    if same_as_next.any():
        entry = int(np.argmax(same_as_next))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise InputError(
            f"{where}: '{key}' lists column {int(matrix.indices[entry])} twice in row {row}; "
            "add the two values up before saving"
        )


def real_values(values: NDArray[Any], where: str) -> NDArray[Any]:
    """Numbers as float32, or float64 where the file has float64; all of them finite."""
    import numpy as np

    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise InputError(
            f"{where} has dtype {values.dtype}; save it as float32, float64 or integers"
        )
    wide = values.dtype.kind == "f" and values.dtype.itemsize == 8
    real = np.ascontiguousarray(values, dtype=np.float64 if wide else np.float32)
    if not np.isfinite(real).all():
        raise InputError(f"{where} holds NaN or infinite values; replace them with finite numbers")
    return real


def _two_sizes(shape: NDArray[Any], where: str) -> tuple[int, int]:
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise InputError(f"{where} must be two integers, rows and columns, not negative")
    return int(shape[0]), int(shape[1])


def _integers(array: NDArray[Any], where: str) -> NDArray[Any]:
    import numpy as np

    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{where} is {array.dtype} with {array.ndim} dimensions; it must be a "
            "one-dimensional integer array"
        )
    return array.astype(np.int64)


def _check_row_starts(starts: NDArray[Any], rows: int, count: int, where: str) -> None:
    import numpy as np

    if len(starts) != rows + 1:
        raise InputError(f"{where} has {len(starts)} entries; {rows} rows need {rows + 1}")
    if starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise InputError(
            f"{where} does not rise from 0 to {count}, the number of values; "
            "save the matrix again from a valid CSR matrix"
        )


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


#: Every key that a graph file may use.
MEMBER_KEYS = (
    "edge_index",
    "y",
    "x",
    *(f"x_{part}" for part in CSR_PARTS),
    *(key for keys in SHIPPED_SPLITS.values() for key in keys),
    "class_names",
    "num_classes",
    "node_ids",
    "origin",
)


def graph_from_members(members: Mapping[str, NDArray[Any]], where: str) -> GraphArrays:
    """Check the arrays of a graph file and put them together.

    Args:
        members: The arrays under their keys.
        where: The file, for messages.

    Raises:
        InputError: A key is missing, or an array has a wrong type, shape or value.
    """
    labels = _labels(_required(members, "y", where), where)
    nodes = len(labels)
    class_names = _class_names(members.get("class_names"), labels, where)
    return GraphArrays(
        edge_index=_edges(_required(members, "edge_index", where), nodes, where),
        labels=labels,
        features=_features(members, nodes, where),
        splits=_splits(members, nodes, where),
        class_names=class_names,
        node_ids=_node_ids(members.get("node_ids"), nodes, where),
        origin=_origin(members.get("origin"), where),
        num_classes=_num_classes(members.get("num_classes"), labels, class_names, where),
    )


def _required(members: Mapping[str, NDArray[Any]], key: str, where: str) -> NDArray[Any]:
    if key not in members:
        raise InputError(f"{where}: key '{key}' is missing; add it or get a fresh copy of the file")
    return members[key]


def _labels(y: NDArray[Any], where: str) -> NDArray[Any]:
    import numpy as np

    if y.ndim != 1 or y.dtype.kind not in "iuf":
        raise InputError(
            f"{where}: 'y' is {y.dtype} with shape {y.shape}; it must be one integer class per node"
        )
    if len(y) == 0:
        raise InputError(f"{where}: 'y' is empty; a graph needs at least one node")
    if y.dtype.kind == "f" and not (np.isfinite(y) & (np.floor(y) == y)).all():
        raise InputError(
            f"{where}: 'y' holds values that are not integers; number the classes 0, 1, 2, ... "
            "and mark unlabelled nodes with -1"
        )
    with np.errstate(invalid="ignore"):
        labels = y.astype(np.int64)
    if labels.min() < -1 or (labels != y).any():
        raise InputError(
            f"{where}: 'y' holds a class outside -1..2^63; number the classes 0, 1, 2, ... and "
            "mark unlabelled nodes with -1"
        )
    return labels


def _edges(edge_index: NDArray[Any], nodes: int, where: str) -> NDArray[Any]:
    import numpy as np

    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise InputError(
            f"{where}: 'edge_index' is {edge_index.dtype} with shape {edge_index.shape}; it must "
            "be integers [2, edges], sources in row 0 and targets in row 1"
        )
    edges = edge_index.astype(np.int64)
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        raise InputError(
            f"{where}: 'edge_index' names a node outside 0..{nodes - 1}, the nodes that 'y' has; "
            "number the nodes from 0"
        )
    return edges


def _features(
    members: Mapping[str, NDArray[Any]], nodes: int, where: str
) -> csr_array[Any] | NDArray[Any] | None:
    sparse_keys = [f"x_{part}" for part in CSR_PARTS]
    given = [key for key in sparse_keys if key in members]
    if "x" in members and given:
        raise InputError(
            f"{where}: features are given twice, as 'x' and as '{given[0]}'; keep one of them"
        )
    if "x" in members:
        return _dense_features(members["x"], nodes, where)
    if not given:
        return None
    data, indices, indptr, shape = (_required(members, key, where) for key in sparse_keys)
    matrix = csr_from_parts(data, indices, indptr, shape, where=where, prefix="x_")
    if matrix.shape[0] != nodes:
        raise InputError(
            f"{where}: 'x_shape' says {matrix.shape[0]} rows but 'y' has {nodes} nodes; "
            "give every node one row"
        )
    reject_repeated_columns(matrix, where, "x_indices")
    return matrix


def _dense_features(x: NDArray[Any], nodes: int, where: str) -> NDArray[Any]:
    if x.ndim != 2 or x.shape[0] != nodes:
        raise InputError(
            f"{where}: 'x' has shape {x.shape} but 'y' has {nodes} nodes; "
            f"it must be [{nodes}, features]"
        )
    return real_values(x, f"{where}: 'x'")


def _splits(members: Mapping[str, NDArray[Any]], nodes: int, where: str) -> dict[str, NDArray[Any]]:
    splits: dict[str, NDArray[Any]] = {}
    for family, keys in SHIPPED_SPLITS.items():
        if not any(key in members for key in keys):
            continue
        parts = [_required(members, key, where) for key in keys]
        check = _check_masks if family == "published" else _check_indices
        check(parts, keys, nodes, where)
        splits.update(zip(keys, parts, strict=True))
    return splits


def _check_masks(parts: list[NDArray[Any]], keys: tuple[str, ...], nodes: int, where: str) -> None:
    for key, mask in zip(keys, parts, strict=True):
        if mask.dtype.kind != "b" or mask.ndim != 2 or mask.shape[1] != nodes or not len(mask):
            raise InputError(
                f"{where}: '{key}' is {mask.dtype} with shape {mask.shape}; it must be boolean "
                f"[variants, {nodes}]"
            )
        if mask.shape != parts[0].shape:
            raise InputError(
                f"{where}: '{key}' has {len(mask)} variants but '{keys[0]}' has {len(parts[0])}; "
                "give all three parts the same number"
            )
    taken = parts[0]
    for key, mask in zip(keys[1:], parts[1:], strict=True):
        if (taken & mask).any():
            variant, node = (int(place[0]) for place in (taken & mask).nonzero())
            raise InputError(
                f"{where}: '{key}' overlaps with another part (variant {variant}, node {node}); "
                "put every node in one part only"
            )
        taken = taken | mask


def _check_indices(
    parts: list[NDArray[Any]], keys: tuple[str, ...], nodes: int, where: str
) -> None:
    import numpy as np

    uses = np.zeros(nodes, dtype=np.int64)
    for key, part in zip(keys, parts, strict=True):
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise InputError(
                f"{where}: '{key}' is {part.dtype} with shape {part.shape}; it must be a "
                "one-dimensional array of node numbers"
            )
        if part.size and (part.min() < 0 or part.max() >= nodes):
            raise InputError(
                f"{where}: '{key}' names a node outside 0..{nodes - 1}; number the nodes from 0"
            )
        np.add.at(uses, part.astype(np.int64), 1)
        if (uses > 1).any():
            raise InputError(
                f"{where}: '{key}' repeats node {int(np.argmax(uses > 1))}, or shares it with "
                "another part; put every node in one part only"
            )


def _class_names(
    names: NDArray[Any] | None, labels: NDArray[Any], where: str
) -> tuple[str, ...] | None:
    if names is None:
        return None
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{where}: 'class_names' must be a one-dimensional unicode array")
    if len(names) <= labels.max():
        raise InputError(
            f"{where}: 'class_names' has {len(names)} names but 'y' uses class "
            f"{int(labels.max())}; give every class a name"
        )
    return tuple(_texts(names, "class_names", where))


def _num_classes(
    number: NDArray[Any] | None,
    labels: NDArray[Any],
    class_names: tuple[str, ...] | None,
    where: str,
) -> int | None:
    if number is None:
        return None
    if number.shape != () or number.dtype.kind not in "iu" or number < 1:
        raise InputError(f"{where}: 'num_classes' must be a single integer, 1 or more")
    count = int(number)
    if count <= labels.max():
        raise InputError(
            f"{where}: 'num_classes' is {count} but 'y' uses class {int(labels.max())}; "
            "count all classes"
        )
    if class_names is not None and len(class_names) != count:
        raise InputError(
            f"{where}: 'num_classes' is {count} but 'class_names' has {len(class_names)} names; "
            "give every class one name"
        )
    return count


def _node_ids(ids: NDArray[Any] | None, nodes: int, where: str) -> NDArray[Any] | None:
    if ids is not None and (ids.shape != (nodes,) or ids.dtype.kind not in "iuU"):
        raise InputError(
            f"{where}: 'node_ids' is {ids.dtype} with shape {ids.shape}; it must be integers or "
            f"unicode text, one for each of the {nodes} nodes"
        )
    if ids is not None and ids.dtype.kind == "U":
        _texts(ids, "node_ids", where)
    return ids


def _origin(origin: NDArray[Any] | None, where: str) -> str:
    if origin is None:
        return ""
    if origin.shape != () or origin.dtype.kind != "U":
        raise InputError(f"{where}: 'origin' must be a single unicode text")
    return _texts(origin.reshape(1), "origin", where)[0]


def _texts(array: NDArray[Any], key: str, where: str) -> list[str]:
    import numpy as np

    if array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).view(np.uint32)
        # Python cannot make text of these numbers, and fails in unclear ways when it is asked to.
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise InputError(
                f"{where}: '{key}' holds characters that do not exist; get a fresh copy of the file"
            )
    return array.tolist()


# Members carry this date whatever the clock says: equal content gives equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def read_npz(path: Path | str) -> GraphArrays:
    """Read a graph file.

    Features come back as float32, or as float64 where the file has float64.

    Args:
        path: The ``.npz`` file.

    Raises:
        DataNotFoundError: There is no such file.
        InputError: The file is damaged or does not hold a graph; the message names the key.
    """
    with NpzArchive(path) as archive:
        members = {key: archive.array(key) for key in MEMBER_KEYS if key in archive}
        others = sorted(archive.keys() - set(MEMBER_KEYS))
    arrays = graph_from_members(members, str(path))
    _warn_of_others(path, others)
    return arrays


def _warn_of_others(path: Path | str, keys: list[str]) -> None:
    """Say which arrays are not used, if one of them may have been meant to be."""
    import difflib

    meant = {key: difflib.get_close_matches(key, MEMBER_KEYS, n=1, cutoff=0.8) for key in keys}
    found = [f"'{key}' (did you mean '{close[0]}'?)" for key, close in meant.items() if close]
    if found:
        words = f"{path}: not used: {', '.join(found)}."
        warnings.warn(words, NcgnnWarning, stacklevel=4)


def write_npz(path: Path | str, arrays: GraphArrays) -> None:
    """Write a graph file atomically; equal arrays give equal bytes.

    Args:
        path: Where to write; an existing file is replaced.
        arrays: The graph. It is checked first, so whatever is written can be read again.

    Raises:
        InputError: The arrays do not make a graph; nothing is written.
    """
    members = check_arrays(arrays, str(path))
    with atomic_write(path) as stream:
        _write_zip(stream, members)


def check_arrays(arrays: GraphArrays, where: str) -> dict[str, NDArray[Any]]:
    """Raise an :class:`InputError` unless the arrays make a graph; else give them as stored."""
    members = _members(arrays, where)
    graph_from_members(members, where)
    return members


def _members(arrays: GraphArrays, where: str) -> dict[str, NDArray[Any]]:
    import numpy as np

    members: dict[str, NDArray[Any]] = {
        "edge_index": _narrow(np.asarray(arrays.edge_index)),
        "y": _narrow(np.asarray(arrays.labels)),
        **_feature_members(arrays),
    }
    for key, value in arrays.splits.items():
        if key not in MEMBER_KEYS:
            raise InputError(f"{where}: '{key}' is not a key for splits; see SHIPPED_SPLITS")
        members[key] = np.asarray(value)
    if arrays.class_names is not None:
        members["class_names"] = _text(list(arrays.class_names), "class_names", where)
    if arrays.num_classes is not None:
        members["num_classes"] = np.asarray(arrays.num_classes)
    if arrays.node_ids is not None:
        members["node_ids"] = np.asarray(arrays.node_ids)
    if arrays.origin:
        members["origin"] = _text(arrays.origin, "origin", where)
    return members


def _feature_members(arrays: GraphArrays) -> dict[str, NDArray[Any]]:
    import numpy as np
    from scipy.sparse import csr_array, issparse

    if arrays.features is None:
        return {}
    if not issparse(arrays.features):
        return {"x": _small_values(np.asarray(arrays.features))}
    matrix = csr_array(arrays.features)
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return {
        "x_data": _small_values(np.asarray(matrix.data)),
        "x_indices": _narrow(np.asarray(matrix.indices)),
        "x_indptr": _narrow(np.asarray(matrix.indptr)),
        "x_shape": np.asarray(matrix.shape, dtype=np.int64),
    }


def _narrow(integers: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    if integers.dtype.kind not in "iu":
        return integers
    limits = np.iinfo(np.int32)
    fits = not integers.size or (integers.min() >= limits.min and integers.max() <= limits.max)
    return integers.astype(np.int32) if fits else integers


def _small_values(values: NDArray[Any]) -> NDArray[Any]:
    """Counts and 0/1 as one byte each; float64 stays, because it is read back as float64."""
    import numpy as np

    if values.dtype.kind not in "biuf" or values.dtype == np.float64:
        return values
    in_a_byte = (values >= 0) & (values <= 255)
    if in_a_byte.all() and (values == np.floor(values)).all():
        return values.astype(np.uint8)
    return values.astype(np.float32)


def _text(text: str | list[str], key: str, where: str) -> NDArray[Any]:
    import numpy as np

    array = np.array(text, dtype=np.str_)
    if array.tolist() != text:
        raise InputError(f"{where}: '{key}' ends in a NUL character; take it away")
    return array


def _write_zip(stream: IO[bytes], members: dict[str, NDArray[Any]]) -> None:
    from numpy.lib import format as npy

    with zipfile.ZipFile(stream, "w") as archive:
        for key in sorted(members):
            info = zipfile.ZipInfo(f"{key}.npy", _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            array = members[key]
            little_endian = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, little_endian, allow_pickle=False)
