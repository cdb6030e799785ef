"""Checks at the door: each mistake gets one error that names the field and the remedy.

Reading arrays in whatever form a user holds them.
"""

from __future__ import annotations

import warnings
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError, NcgnnWarning


def to_numpy(values: Any, field: str = "the input") -> np.ndarray[Any, Any]:
    """An array of a tensor on any device, a list, or anything else that numpy takes."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        kind = type(values).__name__
        raise InputError(f"{field} cannot be read as an array from {kind}: {error}.") from error


def whole_number(value: Any, field: str, least: int, most: int) -> int:
    """A whole number within bounds."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InputError(f"{field} is {value!r}; give a whole number from {least} to {most}.")
    return number


def is_scipy_sparse(value: object) -> bool:
    """Whether ``value`` is a scipy sparse matrix or array of any format."""
    from scipy.sparse import issparse

    return issparse(value)


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    Features = csr_array[Any] | NDArray[Any]

_LARGEST_CLASS = (1 << 24) - 1


def check_node_count(num_nodes: int) -> int:
    """A graph has at least one node."""
    if num_nodes < 1:
        raise InputError("the graph is empty: it has no nodes.")
    return num_nodes


def check_edges(edge_index: NDArray[Any]) -> NDArray[Any]:
    """Edges are an integer array [2, E]."""
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise InputError(
            f"edge_index has shape {list(edge_index.shape)}; expected [2, E], "
            "row 0 the sources and row 1 the targets."
        )
    if edge_index.shape[1] and not np.issubdtype(edge_index.dtype, np.integer):
        raise InputError(f"edge_index has type {edge_index.dtype}; expected integers.")
    return edge_index


def check_csr(indptr: NDArray[Any], indices: NDArray[Any]) -> int:
    """CSR arrays describe a square matrix; returns its number of rows."""
    for field, array in (("indptr", indptr), ("indices", indices)):
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"{field} has type {array.dtype}; expected integers.")
    if indptr.ndim != 1 or indices.ndim != 1 or len(indptr) < 1:
        raise InputError(
            "indptr and indices must be vectors, indptr with one entry more than nodes."
        )
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise InputError(
            f"indptr must rise from 0 to the length of indices, {len(indices)}; "
            f"it goes from {indptr[0]} to {indptr[-1]}."
        )
    check_range("indices", indices, len(indptr) - 1)
    return len(indptr) - 1


def check_range(field: str, values: NDArray[Any], num_nodes: int) -> None:
    """Node numbers lie between 0 and the number of nodes."""
    if values.size == 0:
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= num_nodes:
        wrong = low if low < 0 else high
        raise InputError(
            f"{field} names node {wrong}, but the graph has {num_nodes} nodes "
            f"(0 to {num_nodes - 1}); correct the edges or the number of nodes."
        )


def check_labels(labels: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    """Labels are one integer per node, -1 for unlabelled."""
    array = to_numpy(labels, "labels")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        raise InputError(
            f"labels have shape {list(array.shape)}; expected one class per node, "
            "so take the argmax of one-hot rows first (several labels per node are not supported)."
        )
    if array.ndim != 1 or len(array) != num_nodes:
        raise InputError(
            f"labels have shape {list(array.shape)}, but the graph has {num_nodes} nodes; "
            "give one label per node, -1 where there is none."
        )
    if not np.issubdtype(array.dtype, np.integer):
        whole = np.zeros(len(array), dtype=bool)
        if np.issubdtype(array.dtype, np.floating):
            whole = np.isfinite(array) & (array == np.floor(array))
        if not whole.all():
            raise InputError(
                f"labels have type {array.dtype}; expected whole class numbers 0, 1, …, "
                "with -1 for unlabelled nodes."
            )
    if array.min() < -1:
        raise InputError(f"labels contain {array.min()}; only -1 (unlabelled) may be negative.")
    if array.max() > _LARGEST_CLASS:
        raise InputError(f"labels contain {array.max()}; number the classes from 0 on.")
    return array.astype(np.int64)


def check_class_count(
    labels: NDArray[np.int64], num_classes: int | None, class_names: Sequence[str] | None
) -> int:
    """The number of classes covers every label and fits the class names."""
    found = int(labels.max()) + 1
    if num_classes is not None:
        num_classes = whole_number(num_classes, "num_classes", 1, _LARGEST_CLASS + 1)
    elif found > max(1000, len(labels)):
        raise InputError(
            f"labels reach {found - 1} in a graph of {len(labels)} nodes; "
            "number the classes from 0 on, without gaps."
        )
    count = num_classes if num_classes is not None else max(found, len(class_names or ()))
    if found > count:
        raise InputError(f"labels contain class {found - 1}, but num_classes is {count}.")
    if class_names is not None and len(class_names) != count:
        raise InputError(f"{len(class_names)} class names were given for {count} classes.")
    return count


def warn_about_gaps(labels: NDArray[np.int64]) -> None:
    """Warn when class numbers are skipped: every metric that knows C would be off."""
    counts = np.bincount(labels[labels >= 0])
    if np.any(counts == 0):
        warnings.warn(
            f"no node has class {int(np.argmin(counts))}, although labels reach {len(counts) - 1}: "
            f"metrics take the number of classes to be {len(counts)}. Number the classes from 0 "
            "without gaps, or say num_classes=… if this is meant.",
            NcgnnWarning,
            stacklevel=4,
        )


def check_some_labelled(labels: NDArray[np.int64]) -> None:
    """At least one node has a label."""
    if labels.max() < 0:
        raise InputError(
            "the graph has no labels: give one class per node (y or labels=…), "
            "-1 where it is unknown, with at least one known."
        )


def check_features(features: Features, num_nodes: int) -> Features:
    """Features are a finite numeric matrix with one row per node; integers become float32."""
    if features.ndim != 2 or features.shape[0] != num_nodes:
        raise InputError(
            f"features have shape {list(features.shape)}, but the graph has {num_nodes} nodes; "
            "give one row per node."
        )
    if features.dtype.name not in ("float32", "float64"):
        if not (np.issubdtype(features.dtype, np.number) or features.dtype == bool):
            raise InputError(f"features have type {features.dtype}; expected numbers.")
        if np.issubdtype(features.dtype, np.complexfloating):
            raise InputError("features are complex numbers; give real ones.")
        features = features.astype(np.float32)
    values = features if isinstance(features, np.ndarray) else features.data
    finite = np.isfinite(values)
    if not finite.all():
        where = np.argwhere(~finite)[0]
        row = (
            int(where[0]) if isinstance(features, np.ndarray) else _csr_row(features, int(where[0]))
        )
        raise InputError(
            f"features contain {int((~finite).sum())} NaN or infinite values, "
            f"the first in the row of node {row}; fill or drop them."
        )
    return features


def _csr_row(matrix: csr_array[Any], position: int) -> int:
    return int(np.searchsorted(matrix.indptr, position, side="right")) - 1


def check_node_ids(node_ids: Any, num_nodes: int) -> NDArray[Any]:
    """Identifiers are different whole numbers or texts, one per node."""
    ids = to_numpy(node_ids, "node_ids")
    if ids.dtype == object:
        ids = np.asarray([str(value) for value in ids])
    if ids.dtype.kind not in "iuU":
        raise InputError(f"node_ids have type {ids.dtype}; give whole numbers or texts.")
    if ids.shape != (num_nodes,):
        raise InputError(f"node_ids have shape {list(ids.shape)}; expected one per node.")
    if len(np.unique(ids)) != num_nodes:
        raise InputError("node_ids contain the same identifier twice; make them unique.")
    return ids


def check_class_names(class_names: Sequence[str]) -> tuple[str, ...]:
    """Class names are texts."""
    names: list[Any] = [] if isinstance(class_names, str) else list(class_names)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError("class_names must be a list of texts, one per class.")
    return tuple(names)


def check_shipped_splits(splits: Mapping[str, Any], num_nodes: int) -> dict[str, NDArray[Any]]:
    """Masks become [variants, n]; one mask beside several variants counts for all of them."""
    arrays = {key: to_numpy(value, key) for key, value in splits.items()}
    masks = {key: np.atleast_2d(array) for key, array in arrays.items() if key.endswith("_masks")}
    variants = max((len(mask) for mask in masks.values()), default=0)
    for key, mask in masks.items():
        if mask.dtype != bool or mask.shape not in ((variants, num_nodes), (1, num_nodes)):
            raise InputError(
                f"{key} have shape {list(mask.shape)} and type {mask.dtype}; "
                f"expected bool [variants, {num_nodes}]."
            )
        arrays[key] = np.broadcast_to(mask, (variants, num_nodes))
    for key, array in arrays.items():
        if key not in masks and not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"{key} has type {array.dtype}; expected node numbers.")
        if key not in masks:
            check_range(key, array, num_nodes)
    return arrays
