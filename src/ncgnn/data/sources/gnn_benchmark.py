"""The ``.npz`` files of gnn-benchmark and graph2gauss: adjacency and attributes as CSR parts.

A second file ``*_split.npz`` may come along, with the arrays train, valid and test of one split.
Arrays of names in these files are pickled Python objects; they are never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.data.npz import (
    CSR_PARTS,
    SHIPPED_SPLITS,
    GraphArrays,
    NpzArchive,
    csr_from_parts,
    real_values,
)
from ncgnn.data.sources import checked, pick, smaller_form, undirected_edges, whole_numbers
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

_SPLIT_ENDING = "_split.npz"
# The same four arrays go by different names in different releases.
_SPELLINGS = ("{}_", "{}_matrix.", "{}_matrix_")


def parse(files: Mapping[str, Path]) -> GraphArrays:
    """Read the graph as undirected and without self-loops, and the split if there is one."""
    graphs = {name: path for name, path in files.items() if not name.endswith(_SPLIT_ENDING)}
    path = pick(graphs, ".npz")
    with NpzArchive(path) as archive:
        adjacency = _matrix(archive, "adj")
        features = _attributes(archive)
        labels = whole_numbers(archive.array("labels"), f"{path}: 'labels'")
    nodes = labels.size
    if labels.ndim != 1 or adjacency.shape != (nodes, nodes) or features.shape[0] != nodes:
        raise InputError(
            f"{path}: adjacency {adjacency.shape}, attributes {features.shape} and labels "
            f"{labels.shape} do not fit together; get a fresh copy of the file"
        )
    source, target = adjacency.nonzero()
    arrays = GraphArrays(
        edge_index=undirected_edges(source, target, nodes, str(path)),
        labels=labels,
        features=features,
        splits=_split(files),
    )
    return checked(arrays, path)


def _matrix(archive: NpzArchive, name: str) -> csr_array[Any]:
    spellings = [spelling.format(name) for spelling in _SPELLINGS]
    prefix = next((text for text in spellings if f"{text}data" in archive), spellings[0])
    data, indices, indptr, shape = (archive.array(f"{prefix}{part}") for part in CSR_PARTS)
    return csr_from_parts(data, indices, indptr, shape, where=str(archive.path), prefix=prefix)


def _attributes(archive: NpzArchive) -> csr_array[Any] | NDArray[Any]:
    import numpy as np

    if "attr_matrix" not in archive:
        matrix = _matrix(archive, "attr")
        matrix.sum_duplicates()
        return matrix.astype(np.float32)
    dense = archive.array("attr_matrix")
    where = f"{archive.path}: 'attr_matrix'"
    if dense.ndim != 2:
        raise InputError(f"{where} must have two dimensions; get a fresh copy of the file")
    return smaller_form(real_values(dense, where))


def _split(files: Mapping[str, Path]) -> dict[str, NDArray[Any]]:
    if not any(name.endswith(_SPLIT_ENDING) for name in files):
        return {}
    with NpzArchive(pick(files, _SPLIT_ENDING)) as archive:
        return {
            key: archive.array(part)
            for key, part in zip(SHIPPED_SPLITS["uniform"], ("train", "valid", "test"), strict=True)
        }
