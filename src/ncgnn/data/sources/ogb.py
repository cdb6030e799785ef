"""The zip files of the Open Graph Benchmark's node datasets.

Compressed tables without heading under ``raw/`` and ``split/time/``; members are read in place
and never extracted.
"""

from __future__ import annotations

import gzip
import io
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.npz import check_member, list_members, most_bytes, reading, too_large
from ncgnn.data.sources import make_graph, masks_from_indices, pick_file, shrink_features
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.graph import Graph


def parse(files: Mapping[str, Path]) -> Graph:
    """Read the directed graph as it is listed, and the time split as its one published split."""
    path = pick_file(files, ".zip")
    with reading(path, "zip file"):
        archive = zipfile.ZipFile(path)
    with archive:
        labels = _read_table(archive, path, "raw/node-label.csv.gz", np.int64, width=1)[:, 0]
        edges = _read_table(archive, path, "raw/edge.csv.gz", np.int64, width=2)
        features = _read_table(archive, path, "raw/node-feat.csv.gz", np.float32)
        parts = {
            name: _read_table(archive, path, f"split/time/{stem}.csv.gz", np.int64, width=1)[:, 0]
            for name, stem in (("train", "train"), ("val", "valid"), ("test", "test"))
        }
    nodes = len(labels)
    if len(features) != nodes or not nodes:
        raise InputError(
            f"{path}: node-feat.csv.gz has {len(features)} rows but node-label.csv.gz has {nodes}; "
            "get a fresh copy of the file"
        )
    return make_graph(
        edges.T,
        path,
        undirected=False,
        labels=labels,
        features=shrink_features(features, f"{path}: node-feat.csv.gz"),
        shipped_splits=masks_from_indices(parts, nodes, path),
    )


def _read_table(
    archive: zipfile.ZipFile, path: Path, ending: str, kind: Any, width: int | None = None
) -> NDArray[Any]:
    named = list_members(archive, path)
    members = [info for name, info in named.items() if f"/{name}".endswith(f"/{ending}")]
    if len(members) != 1:
        raise InputError(f"{path}: {ending} is missing; get a fresh copy of the file")
    with reading(f"{path}: {ending}", "table"), warnings.catch_warnings():
        # numpy warns about a table without rows, which is an empty part of a split here.
        warnings.simplefilter("ignore")
        text = io.BytesIO(_unpack(archive, members[0], f"{path}: {ending}"))
        table = np.loadtxt(text, delimiter=",", comments=None, dtype=kind, ndmin=2)
    if table.size == 0:
        return np.empty((0, width or 0), dtype=kind)
    if width is not None and table.shape[1] != width:
        raise InputError(f"{path}: {ending} has {table.shape[1]} columns, expected {width}")
    return table


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> bytes:
    check_member(member, where)
    # Measured by what it takes in the zip file, as both packings may be hostile.
    limit = most_bytes(member.compress_size)
    with gzip.GzipFile(fileobj=io.BytesIO(archive.read(member))) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise too_large(where, limit, "more")
    return content
