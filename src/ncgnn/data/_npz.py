"""The package's own graph file: plain arrays in an ``.npz``, nothing pickled.

Keys: ``edge_index`` [2, E] and ``y`` [n]; features as ``x_data``, ``x_indices``, ``x_indptr`` and
``x_shape`` (a CSR matrix) or ``x`` (dense), or none; the split arrays of ``SHIPPED_SPLITS``;
``class_names``, ``num_classes`` (one integer), ``node_ids`` and ``origin``. Other keys are ignored.
"""

from __future__ import annotations

import warnings
import zipfile
from typing import TYPE_CHECKING, Any

from ncgnn._files import atomic_write
from ncgnn.data._npz_archive import NpzArchive
from ncgnn.data._npz_members import MEMBER_KEYS, graph_from_members
from ncgnn.errors import InputError, NcgnnWarning

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from ncgnn.data._arrays import GraphArrays

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
