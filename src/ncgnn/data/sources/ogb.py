"""The zip files of the Open Graph Benchmark's node data sets.

Compressed tables without heading under ``raw/`` and ``split/time/``; members are read in place
and never extracted.
"""

from __future__ import annotations

import gzip
import io
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

from ncgnn.data.npz import GraphArrays, check_member, most_bytes, real_values, too_large
from ncgnn.data.sources import checked, masks_from_indices, pick, smaller_form
from ncgnn.errors import DataNotFoundError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray


def parse(files: Mapping[str, Path]) -> GraphArrays:
    """Read the directed graph as it is listed, and the time split as its one published split."""
    import numpy as np

    path = pick(files, ".zip")
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{path} does not exist") from error
    except Exception as error:
        raise InputError(
            f"{path} is not a readable zip file ({error}); get a fresh copy"
        ) from error
    with archive:
        labels = _table(archive, path, "raw/node-label.csv.gz", np.int64, width=1)[:, 0]
        edges = _table(archive, path, "raw/edge.csv.gz", np.int64, width=2)
        features = _table(archive, path, "raw/node-feat.csv.gz", np.float32)
        parts = {
            name: _table(archive, path, f"split/time/{stem}.csv.gz", np.int64, width=1)[:, 0]
            for name, stem in (("train", "train"), ("val", "valid"), ("test", "test"))
        }
    nodes = len(labels)
    if len(features) != nodes or not nodes:
        raise InputError(
            f"{path}: node-feat.csv.gz has {len(features)} rows but node-label.csv.gz has {nodes}; "
            "get a fresh copy of the file"
        )
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        raise InputError(f"{path}: edge.csv.gz names a node outside 0..{nodes - 1}")
    arrays = GraphArrays(
        edge_index=np.ascontiguousarray(edges.T),
        labels=labels,
        features=smaller_form(real_values(features, f"{path}: node-feat.csv.gz")),
        splits=masks_from_indices(parts, nodes, str(path)),
    )
    return checked(arrays, path)


def _table(
    archive: zipfile.ZipFile, path: Path, ending: str, kind: Any, width: int | None = None
) -> NDArray[Any]:
    import numpy as np

    members = [info for info in archive.infolist() if f"/{info.filename}".endswith(f"/{ending}")]
    if len(members) != 1:
        raise InputError(f"{path}: {ending} is missing; get a fresh copy of the file")
    try:
        text = io.BytesIO(_unpacked(archive, members[0], f"{path}: {ending}"))
        with warnings.catch_warnings():
            # numpy warns about a table without rows, which is an empty part of a split here.
            warnings.simplefilter("ignore")
            table = np.loadtxt(text, delimiter=",", comments=None, dtype=kind, ndmin=2)
    except InputError:
        raise
    except Exception as error:
        # Bad bytes fail in zipfile, gzip, zlib or numpy, each in its own way.
        raise InputError(
            f"{path}: {ending} is not a readable table ({error}); get a fresh copy of the file"
        ) from error
    if table.size == 0:
        return np.empty((0, width or 0), dtype=kind)
    if width is not None and table.shape[1] != width:
        raise InputError(f"{path}: {ending} has {table.shape[1]} columns, expected {width}")
    return table


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> bytes:
    check_member(member, where)
    # Measured by what it takes in the zip file, as both packings may be hostile.
    limit = most_bytes(member.compress_size)
    with gzip.GzipFile(fileobj=io.BytesIO(archive.read(member))) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise too_large(where, limit, "more")
    return content
