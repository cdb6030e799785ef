"""Bringing edges and features into their canonical form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph._numpy import is_scipy_sparse, to_numpy, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array


def count_nodes(edges: NDArray[Any], num_nodes: int | None, labels: Any, features: Any) -> int:
    """Number of nodes: as given, else from labels or features, else from the edges."""
    if num_nodes is not None:
        return whole_number(num_nodes, "num_nodes", 0, np.iinfo(np.int64).max)
    for field, sized in (("labels", labels), ("features", features)):
        if sized is not None:
            shape = sized.shape if hasattr(sized, "shape") else to_numpy(sized, field).shape
            if not shape:
                raise InputError(f"{field} are a single value; give one per node.")
            return int(shape[0])
    return int(edges.max()) + 1 if edges.size else 0


def csr_from_edges(edges: NDArray[Any], num_nodes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """CSR over incoming edges of edges [2, E], rows sorted and repeated edges merged."""
    from scipy.sparse import coo_array

    ones = np.ones(edges.shape[1], dtype=bool)
    matrix = coo_array((ones, (edges[1], edges[0])), shape=(num_nodes, num_nodes)).tocsr()
    return matrix.indptr, matrix.indices


def edges_of_scipy(adjacency: Any) -> NDArray[Any]:
    """Edges [2, E] of a scipy matrix whose entry (i, j) is an edge from i to j; zeros are none."""
    if not is_scipy_sparse(adjacency):
        raise InputError(f"expected a scipy sparse matrix, got {type(adjacency).__name__}.")
    if adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"the adjacency has shape {list(adjacency.shape)}; it must be square.")
    entries = adjacency.tocoo()
    return np.stack([entries.row, entries.col])[:, entries.data != 0]


def canonical_csr(
    indptr: NDArray[Any], indices: NDArray[Any], *, drop_self_loops: bool
) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    """Sort the rows and merge repeated edges; returns row starts, sources and merged count."""
    num_nodes = len(indptr) - 1
    kind = np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64
    starts, sources = indptr.astype(np.int64, copy=False), indices.astype(kind, copy=False)
    duplicates = 0
    if not _rows_rise(starts, sources):
        starts, sources, duplicates = _sorted_and_merged(starts, sources)
    if drop_self_loops:
        rows = np.repeat(np.arange(num_nodes, dtype=kind), np.diff(starts))
        kept = sources != rows
        starts = np.concatenate([[0], np.cumsum(kept)])[starts]
        sources = sources[kept]
    return starts, sources, duplicates


def _rows_rise(starts: NDArray[np.int64], sources: NDArray[Any]) -> bool:
    """Whether every row is strictly increasing already."""
    rises = sources[1:] > sources[:-1]
    boundaries = starts[1:-1]
    inside = boundaries[(boundaries > 0) & (boundaries < len(sources))] - 1
    rises[inside] = True
    return bool(rises.all())


def _sorted_and_merged(
    starts: NDArray[np.int64], sources: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    from scipy.sparse import csr_array

    shape = (len(starts) - 1, len(starts) - 1)
    matrix = csr_array(
        (np.ones(len(sources), dtype=bool), sources.copy(), starts.copy()), shape=shape
    )
    matrix.sum_duplicates()
    merged = len(sources) - matrix.nnz
    return matrix.indptr.astype(np.int64), matrix.indices.astype(sources.dtype), merged


def canonical_features(features: Any) -> csr_array[Any] | NDArray[Any]:
    """Features as a dense array or as CSR with sorted columns and no stored zeros."""
    from scipy.sparse import csr_array

    if (
        not is_scipy_sparse(features)
        and hasattr(features, "layout")
        and "sparse" in str(features.layout)
    ):
        from ncgnn.graph._convert import scipy_of_torch

        features = scipy_of_torch(features)
    if not is_scipy_sparse(features):
        return _floats(to_numpy(features, "features"))
    matrix = csr_array(features, copy=True)
    if matrix.dtype.kind in "biu":
        matrix = matrix.astype(np.float64)  # repeated entries are added up, which could overflow
        matrix.sum_duplicates()
        matrix.data = _floats(matrix.data.astype(np.int64))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as float32 where that is exact, as float64 otherwise."""
    if values.dtype.kind not in "biu":
        return values
    large = values.size > 0 and max(abs(int(values.min())), abs(int(values.max()))) > 1 << 24
    return values.astype(np.float64 if large else np.float32)


def compact_classes(labels: NDArray[np.int64], num_classes: int) -> NDArray[Any]:
    """Labels in the smallest type the kernels know, with ``num_classes`` for unlabelled."""
    classes = labels.astype(np.uint8 if num_classes <= 255 else np.int32)
    if labels.size and labels.min() < 0:
        classes[labels < 0] = num_classes
    return classes
