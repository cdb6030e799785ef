"""The only validator of labels, edges, CSR arrays, features and whole numbers.

Each mistake gets one error that names the field and the remedy. Arrays are taken in whatever form a
user holds them: lists, numpy arrays, tensors on any device, scipy and torch sparse matrices.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError, NcgnnWarning

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    Features = csr_array[Any] | NDArray[Any]

_LARGEST_CLASS = (1 << 24) - 1


def to_numpy(values: Any, field: str = "the input") -> NDArray[Any]:
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


def is_scipy_sparse(value: object) -> bool:
    """Whether a value is a scipy sparse matrix or array of any format."""
    from scipy.sparse import issparse

    return issparse(value)


def scipy_from_torch(tensor: Any) -> csr_array[Any]:
    """A torch sparse tensor of any layout as a scipy CSR matrix."""
    from scipy.sparse import csr_array

    with quiet_about_sparse_tensors():
        pairs = tensor.detach().cpu().to_sparse_coo().coalesce()
    rows, columns = pairs.indices().numpy()
    return csr_array((pairs.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))


@contextmanager
def quiet_about_sparse_tensors() -> Generator[None]:
    """Silence torch's remarks that sparse tensors are new and not checked by default."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        yield


def whole_number(value: Any, field: str, least: int = 0, most: int = 2**63 - 1) -> int:
    """A whole number within bounds."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InputError(f"{field} must be a whole number from {least} to {most}; got {value!r}.")
    return number


def is_whole(text: str) -> bool:
    """Whether a text is a whole number, as ``int`` reads it."""
    return text.removeprefix("-").isdecimal()


def check_edges(edge_index: Any) -> NDArray[Any]:
    """Edges are an integer array [2, E]."""
    edges = to_numpy(edge_index, "edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(
            "edge_index must have shape [2, E], row 0 the sources and row 1 the targets; "
            f"got {list(edges.shape)}."
        )
    if edges.shape[1] and not np.issubdtype(edges.dtype, np.integer):
        raise InputError(f"edge_index must hold integers; got {edges.dtype}.")
    return edges


def check_csr(
    indptr: NDArray[Any], indices: NDArray[Any], num_columns: int | None = None, field: str = ""
) -> int:
    """CSR arrays are consistent; returns the number of rows.

    Args:
        indptr: Row starts.
        indices: Column of each entry.
        num_columns: Number of columns; by default as many as rows, the nodes of a graph.
        field: Put before the names ``indptr`` and ``indices`` in errors.
    """
    for name, array in (("indptr", indptr), ("indices", indices)):
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"{field}{name} must hold integers; got {array.dtype}.")
    if indptr.ndim != 1 or indices.ndim != 1 or len(indptr) < 1:
        raise InputError(
            f"{field}indptr and {field}indices must be vectors, indptr with one entry more than "
            "rows."
        )
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise InputError(
            f"{field}indptr must rise from 0 to the length of {field}indices, {len(indices)}; "
            f"got {indptr[0]} to {indptr[-1]}."
        )
    num_rows = len(indptr) - 1
    if num_columns is None:
        check_nodes(indices, f"{field}indices", num_rows)
    elif indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < num_columns:
        wrong = int(indices.min()) if int(indices.min()) < 0 else int(indices.max())
        raise InputError(
            f"{field}indices names column {wrong}, but there are {num_columns} columns "
            f"(0 to {num_columns - 1}); correct the indices or the shape."
        )
    return num_rows


def check_nodes(nodes: NDArray[Any], field: str, num_nodes: int) -> None:
    """Node numbers lie between 0 and the number of nodes."""
    if nodes.size == 0:
        return
    low, high = int(nodes.min()), int(nodes.max())
    if low < 0 or high >= num_nodes:
        raise InputError(
            f"{field} names node {low if low < 0 else high}, but the graph has {num_nodes} nodes "
            f"(0 to {num_nodes - 1}); correct the edges or the number of nodes."
        )


def check_labels(
    labels: ArrayLike, num_nodes: int | None = None, field: str = "labels"
) -> NDArray[np.int64]:
    """Labels as a new int64 array [n]; -1, NaN, None and an empty text mean unlabeled, -1.

    Args:
        labels: Class per node, in any form.
        num_nodes: Number of nodes; by default as many as there are labels.
        field: Name in errors.
    """
    array = to_numpy(labels, field)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        raise InputError(
            f"{field} have shape {list(array.shape)}; expected one class per node, "
            "so take the argmax of one-hot rows first (several labels per node are not supported)."
        )
    if array.ndim != 1 or (num_nodes is not None and len(array) != num_nodes):
        nodes = "n" if num_nodes is None else num_nodes
        raise InputError(
            f"{field} have shape {list(array.shape)}, but the graph has {nodes} nodes; "
            "give one label per node, -1 where there is none."
        )
    if array.dtype == object:
        array = np.array([-1 if is_missing(value) else value for value in array.tolist()])
    if np.issubdtype(array.dtype, np.floating):
        array = np.where(np.isnan(array), -1, array)
    whole = np.issubdtype(array.dtype, np.integer) or (
        np.issubdtype(array.dtype, np.floating)
        and bool((np.isfinite(array) & (array == np.floor(array))).all())
    )
    if not whole:
        raise InputError(
            f"{field} must be whole class numbers 0, 1, …, with -1 for unlabeled nodes; "
            f"got {array.dtype}."
        )
    if array.size and array.min() < -1:
        raise InputError(f"{field} contain {array.min()}; only -1 (unlabeled) may be negative.")
    if array.size and array.max() > _LARGEST_CLASS:
        raise InputError(f"{field} contain {array.max()}; number the classes from 0 on.")
    return array.astype(np.int64)


def is_missing(label: Any) -> bool:
    """Whether a label says that there is none: None, NaN, pandas' NA or an empty text."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return label == "" or bool(label != label)  # NaN differs from itself


def number_classes(
    labels: ArrayLike, class_names: tuple[str, ...] | None = None
) -> tuple[Any, tuple[str, ...] | None]:
    """Labels that are names as class numbers, with the names; numbers as they are.

    Names are numbered in sorted order, or as ``class_names`` lists them if it holds them all.
    """
    if isinstance(labels, list | tuple) and any(isinstance(value, str) for value in labels):
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
    else:
        array = to_numpy(labels, "labels")
    values: list[Any] = array.tolist() if array.dtype.kind in "OTU" and array.ndim == 1 else []
    if not any(isinstance(value, str) and value for value in values):
        return (array if array.dtype.kind in "OTU" else labels), class_names
    texts = ["" if is_missing(value) else str(value) for value in values]
    known = {text for text in texts if text}
    names = class_names if known <= set(class_names or ()) else tuple(sorted(known))
    number = {name: place for place, name in enumerate(names or ())}
    return np.array([number.get(text, -1) for text in texts], dtype=np.int64), names


def check_some_labeled(labels: NDArray[np.int64]) -> None:
    """At least one node has a label."""
    if labels.max() < 0:
        raise InputError(
            "the graph has no labels: name their column at the import (--label), or give one class "
            "per node (y or labels=…), "
            "-1 where it is unknown, with at least one known."
        )


def check_class_count(
    labels: NDArray[np.int64], num_classes: int | None, class_names: Sequence[str] | None = None
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
            "without gaps, or set num_classes=… if this is intended.",
            NcgnnWarning,
            stacklevel=4,
        )


def check_features(features: Any, num_nodes: int) -> Features:
    """Features are a finite numeric matrix with one row per node.

    Returns:
        A dense array, or CSR with sorted columns and no stored zeros; float32 or float64. Whole
        numbers become float32 where that is exact.
    """
    from scipy.sparse import csr_array

    if not is_scipy_sparse(features) and "sparse" in str(getattr(features, "layout", "")):
        features = scipy_from_torch(features)
    matrix: Any
    if is_scipy_sparse(features):
        matrix = csr_array(features, copy=True)
        if matrix.dtype.kind in "biu":
            matrix = matrix.astype(np.float64)  # repeated entries add up, which could overflow
            matrix.sum_duplicates()
            matrix.data = _floats(matrix.data.astype(np.int64))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    else:
        matrix = _floats(to_numpy(features, "features"))
    if matrix.ndim != 2 or matrix.shape[0] != num_nodes:
        raise InputError(
            f"features have shape {list(matrix.shape)}, but the graph has {num_nodes} nodes; "
            "give one row per node."
        )
    if matrix.dtype.name not in ("float32", "float64"):
        if not np.issubdtype(matrix.dtype, np.number):
            raise InputError(f"features must be numbers; got {matrix.dtype}.")
        if np.issubdtype(matrix.dtype, np.complexfloating):
            raise InputError(f"features must be real numbers; got {matrix.dtype}.")
        matrix = matrix.astype(np.float32)
    dense = isinstance(matrix, np.ndarray)
    finite = np.isfinite(matrix if dense else matrix.data)
    if not finite.all():
        first = int(np.argwhere(~finite)[0][0])
        row = first if dense else int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        raise InputError(
            f"features contain {int((~finite).sum())} NaN or infinite values, "
            f"the first in the row of node {row}; fill or drop them."
        )
    return matrix


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as float32 where that is exact, as float64 otherwise."""
    if values.dtype.kind not in "biu":
        return values
    large = values.size > 0 and max(abs(int(values.min())), abs(int(values.max()))) > 1 << 24
    return values.astype(np.float64 if large else np.float32)


def check_node_ids(node_ids: Any, num_nodes: int) -> NDArray[Any]:
    """Identifiers are different whole numbers or texts, one per node."""
    ids = to_numpy(node_ids, "node_ids")
    if ids.dtype == object:
        ids = np.asarray([str(value) for value in ids])
    if ids.dtype.kind not in "iuU":
        raise InputError(f"node_ids must be whole numbers or texts; got {ids.dtype}.")
    if ids.shape != (num_nodes,):
        raise InputError(f"node_ids must have shape [{num_nodes}]; got {list(ids.shape)}.")
    if len(np.unique(ids)) != num_nodes:
        raise InputError("node_ids contain the same identifier twice; make them unique.")
    return ids


def check_class_names(class_names: Sequence[str]) -> tuple[str, ...]:
    """Class names are texts."""
    names: list[Any] = [] if isinstance(class_names, str) else list(class_names)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError("class_names must be a list of texts, one per class.")
    return tuple(names)


def check_feature_names(
    feature_names: Sequence[str] | None, num_features: int
) -> tuple[str, ...] | None:
    """Feature names are texts, one per feature."""
    if feature_names is None:
        return None
    names: list[Any] = [] if isinstance(feature_names, str) else list(feature_names)
    if len(names) != num_features or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"feature_names must be {num_features} texts, one per feature; got {len(names)}."
        )
    return tuple(names)


def check_shipped_splits(splits: Mapping[str, Any], num_nodes: int) -> dict[str, NDArray[Any]]:
    """Masks become [variants, n]; one mask beside several variants counts for all of them."""
    arrays = {key: to_numpy(value, key) for key, value in splits.items()}
    masks = {key: np.atleast_2d(array) for key, array in arrays.items() if key.endswith("_masks")}
    variants = max((len(mask) for mask in masks.values()), default=0)
    for key, array in arrays.items():
        mask = masks.get(key)
        if mask is None:
            if not np.issubdtype(array.dtype, np.integer):
                raise InputError(f"{key} must be node numbers; got {array.dtype}.")
            check_nodes(array, key, num_nodes)
        elif mask.dtype != bool or mask.shape not in ((variants, num_nodes), (1, num_nodes)):
            raise InputError(
                f"{key} must be bool [variants, {num_nodes}]; got {mask.dtype} {list(mask.shape)}."
            )
        else:
            arrays[key] = np.broadcast_to(mask, (variants, num_nodes))
    return arrays
