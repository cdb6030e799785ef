"""The Facebook100 networks: a MATLAB file with the matrix ``A`` and the table ``local_info``.

The columns of ``local_info`` are status, gender, major, second major, dormitory, year and high
school, with 0 for what a person did not say. Gender is the class, the others make the features.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.npz import reading, too_large
from ncgnn.data.sources import make_graph, pick_file, whole_numbers
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph import Graph

_COLUMNS = 7
_GENDER = 1
# The number of packed variables in MATLAB's format 5, and how much of one is looked at at a time.
_PACKED = 15
_AT_ONCE = 1 << 20
# All variables of the largest of the hundred networks take a quarter of this.
_MOST_BYTES = 256 << 20


def parse(files: Mapping[str, Path]) -> Graph:
    """Read the undirected graph; the class is gender, -1 where it is unknown."""
    path = pick_file(files, ".mat")
    adjacency, table = _load(path)
    nodes = len(table)
    if adjacency.shape != (nodes, nodes) or not nodes:
        raise InputError(
            f"{path}: 'A' has shape {adjacency.shape} but 'local_info' has {nodes} rows; "
            "get a fresh copy of the file"
        )
    labels = table[:, _GENDER] - 1
    if labels.min() < -1 or labels.max() > 1:
        raise InputError(f"{path}: the gender column of 'local_info' must hold 0, 1 or 2")
    features = _one_hot([table[:, i] for i in range(_COLUMNS) if i != _GENDER])
    return make_graph(adjacency.nonzero(), path, undirected=True, labels=labels, features=features)


def _load(path: Path) -> tuple[Any, NDArray[Any]]:
    from scipy.sparse import coo_array

    with reading(path, "MATLAB file"):
        path.stat()  # scipy does not tell a missing file from a damaged one
        _check_packed(path)
        found = _read_apart(path)
    for key in ("A", "local_info"):
        if not any(name.partition(".")[0] == key for name in found):
            raise InputError(f"{path}: '{key}' is missing; get a fresh copy of the file")
    table = found.get("local_info")
    if table is None or table.ndim != 2 or table.shape[1] != _COLUMNS:
        raise InputError(f"{path}: 'local_info' must be a table of {_COLUMNS} columns")
    if "A.shape" not in found:
        raise InputError(f"{path}: 'A' must be a sparse matrix")
    with reading(path, "MATLAB file"):
        places = found["A.row"], found["A.col"]
        adjacency = coo_array((found["A.data"], places), shape=tuple(found["A.shape"].tolist()))
    return adjacency, whole_numbers(table, f"{path}: 'local_info'")


def _read_apart(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file, read by a process of its own: damaged ones crash scipy's reader."""
    with tempfile.TemporaryDirectory(prefix="ncgnn-") as folder:
        out = Path(folder) / "arrays.npz"
        # Nothing is imported from the folder that the program happens to be in.
        command = [sys.executable, "-P", "-W", "ignore", "-c", _READER, str(path), str(out)]
        done = subprocess.run(  # noqa: S603  this very interpreter, and a text of our own
            command, capture_output=True, text=True, errors="replace"
        )
        if done.returncode < 0 or not out.is_file():
            lines = done.stderr.strip().splitlines()
            raise ValueError(lines[-1] if lines else "its reader crashed")
        with np.load(out, allow_pickle=False) as arrays:
            return dict(arrays)


_READER = """
import sys
import numpy as np
from scipy.io import loadmat
from scipy.sparse import issparse

arrays = {}
content = loadmat(sys.argv[1], variable_names=["A", "local_info"])
for name in ("A", "local_info"):
    value = content.get(name)
    if issparse(value):
        value = value.tocoo()
        parts = {"row": value.row, "col": value.col, "data": value.data, "shape": value.shape}
        arrays |= {f"{name}.{part}": np.asarray(one) for part, one in parts.items()}
    elif isinstance(value, np.ndarray):
        arrays[name] = value
np.savez(sys.argv[2], allow_pickle=False, **arrays)
"""


def _check_packed(path: Path) -> None:
    """Refuse a file that unpacks to an absurd size; scipy would unpack whatever there is."""
    from scipy.io.matlab import matfile_version

    if matfile_version(path)[0] != 1:
        return  # older ones are never packed, and later ones are not read
    with path.open("rb") as stream:
        order, found = "<" if stream.read(128).endswith(b"IM") else ">", 0
        while len(tag := stream.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            end = stream.tell() + size
            if kind == _PACKED:
                unpacker = zlib.decompressobj()
                while not unpacker.eof and (
                    packed := stream.read(min(_AT_ONCE, end - stream.tell()))
                ):
                    while packed:
                        found += len(unpacker.decompress(packed, _AT_ONCE))
                        if found > _MOST_BYTES:
                            raise too_large(str(path), _MOST_BYTES, "more")
                        packed = unpacker.unconsumed_tail
            stream.seek(end)


def _one_hot(columns: list[NDArray[Any]]) -> csr_array[Any]:
    """One block for every column, one feature for every value that occurs, in rising order."""
    from scipy.sparse import csr_array

    nodes = len(columns[0])
    places: list[NDArray[Any]] = []
    width = 0
    for column in columns:
        values, position = np.unique(column, return_inverse=True)
        places.append(position + width)
        width += len(values)
    row_starts = np.arange(nodes + 1) * len(columns)
    ones = np.ones(nodes * len(columns), dtype=np.float32)
    return csr_array((ones, np.stack(places, axis=1).ravel(), row_starts), shape=(nodes, width))
