"""From the arrays of a graph file to :class:`GraphArrays`, with one clear error for each fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.data._arrays import SHIPPED_SPLITS, GraphArrays
from ncgnn.data._csr_parts import CSR_PARTS, csr_from_parts, real_values, reject_repeated_columns
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array


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
