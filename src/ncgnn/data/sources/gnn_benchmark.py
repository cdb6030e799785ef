"""The ``.npz`` files of gnn-benchmark and graph2gauss: adjacency and attributes as CSR parts.

A second file ``*_split.npz`` may come along, with the arrays train, valid and test of one split.
Arrays of names in these files are pickled Python objects; they are never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.npz import SHIPPED_SPLITS, NpzArchive
from ncgnn.data.sources import make_graph, pick_file, shrink_features, whole_numbers
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph import Graph

_SPLIT_ENDING = "_split.npz"
# The same four arrays go by different names in different releases.
_SPELLINGS = ("{}_", "{}_matrix.", "{}_matrix_")


def parse(files: Mapping[str, Path]) -> Graph:
    """Read the graph as undirected and without self-loops, and the split if there is one."""
    graphs = {name: path for name, path in files.items() if not name.endswith(_SPLIT_ENDING)}
    path = pick_file(graphs, ".npz")
    with NpzArchive(path) as archive:
        adjacency = _read_matrix(archive, "adj")
        features = _read_attributes(archive)
        labels = whole_numbers(archive.array("labels"), f"{path}: 'labels'")
    nodes = labels.size
    if labels.ndim != 1 or adjacency.shape != (nodes, nodes) or features.shape[0] != nodes:
        raise InputError(
            f"{path}: adjacency {adjacency.shape}, attributes {features.shape} and labels "
            f"{labels.shape} do not fit together; get a fresh copy of the file"
        )
    return make_graph(
        adjacency.nonzero(),
        path,
        undirected=True,
        labels=labels,
        features=features,
        shipped_splits=_read_split(files),
    )


def _read_matrix(archive: NpzArchive, name: str) -> csr_array[Any]:
    spellings = [spelling.format(name) for spelling in _SPELLINGS]
    prefix = next((text for text in spellings if f"{text}data" in archive), spellings[0])
    return archive.csr(prefix)


def _read_attributes(archive: NpzArchive) -> csr_array[Any] | NDArray[Any]:
    if "attr_matrix" not in archive:
        return _read_matrix(archive, "attr").astype(np.float32)
    return shrink_features(archive.array("attr_matrix"), f"{archive.path}: 'attr_matrix'")


def _read_split(files: Mapping[str, Path]) -> dict[str, NDArray[Any]]:
    if not any(name.endswith(_SPLIT_ENDING) for name in files):
        return {}
    with NpzArchive(pick_file(files, _SPLIT_ENDING)) as archive:
        return {
            key: archive.array(part)
            for key, part in zip(SHIPPED_SPLITS["uniform"], ("train", "valid", "test"), strict=True)
        }
