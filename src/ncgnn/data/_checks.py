"""Is this the data set that its catalogue entry describes?"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from ncgnn.data._edge_order import distinct_edges
from ncgnn.errors import DataMismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data._arrays import GraphArrays
    from ncgnn.data._catalog import DatasetEntry


def content_sha256(arrays: GraphArrays) -> str:
    """SHA-256 of what the arrays say, however they say it.

    The order and repetition of edges, integer types, explicit zeros, the order of columns in a
    sparse row and whether the features are sparse or dense make no difference. Feature values
    count as float32. Names, identifiers, the origin and ``num_classes`` are not part of it.

    Args:
        arrays: A valid graph.

    Returns:
        64 hexadecimal digits.
    """
    return _content_sha256(arrays, _distinct_edges(arrays))


def _content_sha256(arrays: GraphArrays, edges: NDArray[Any]) -> str:
    import numpy as np

    digest = hashlib.sha256(b"ncgnn graph content 1\n")

    def add(name: str, array: NDArray[Any], kind: str) -> None:
        plain = np.ascontiguousarray(array, dtype=kind)
        digest.update(f"{name} {kind} {plain.shape}\n".encode())
        digest.update(plain.data)

    add("edges", edges, "<i8")
    add("labels", np.asarray(arrays.labels), "<i8")
    for name, (array, kind) in _feature_parts(arrays).items():
        add(name, array, kind)
    for key in sorted(arrays.splits):
        part = np.asarray(arrays.splits[key])
        if part.dtype.kind == "b":
            add(key, part, "|u1")
        else:
            add(key, np.sort(part), "<i8")
    return digest.hexdigest()


def check_entry(
    arrays: GraphArrays, entry: DatasetEntry, where: str, *, downloaded: bool = False
) -> None:
    """Raise an error if the arrays are not the data set of the entry.

    Args:
        arrays: What was read.
        entry: What the catalogue says; counts and checksums that it leaves open are not compared.
        where: The file, for the message.
        downloaded: The arrays were parsed just now from the authors' files.

    Raises:
        DataMismatchError: A count or the checksum differs.
    """
    edges = _distinct_edges(arrays)
    for field, expected, found in _counts(arrays, entry, len(edges)):
        if expected is not None and expected not in found:
            raise DataMismatchError(
                f"data set '{entry.name}': {where} has {found[0]} {field}, expected {expected}; "
                + _remedy(entry, downloaded)
            )
    if entry.content_sha256 is None:
        return
    checksum = _content_sha256(arrays, edges)
    if checksum != entry.content_sha256:
        raise DataMismatchError(
            f"data set '{entry.name}': the counts of {where} are right but its content is not "
            f"(content SHA-256 {checksum}, expected {entry.content_sha256}): edges, labels, "
            "feature values or shipped splits differ; " + _remedy(entry, downloaded)
        )


def _remedy(entry: DatasetEntry, downloaded: bool) -> str:
    if entry.parser is None:
        return "the package that ships it was changed: install it again"
    if downloaded:
        return (
            f"the authors' files may have changed since they were recorded (see {entry.homepage}): "
            "delete them to download them again, or use them under another name as your own data"
        )
    return f"move the file away and load the data set again, or get a fresh copy ({entry.homepage})"


def _counts(
    arrays: GraphArrays, entry: DatasetEntry, distinct: int
) -> list[tuple[str, int | None, tuple[int, ...]]]:
    import numpy as np

    labels = np.asarray(arrays.labels)
    if entry.directed:
        # Authors count the edges that they list; a file may hold repeated ones only once.
        edges = ("directed edges", entry.edges, (distinct, int(arrays.edge_index.shape[1])))
    else:
        both = None if entry.edges is None else 2 * entry.edges
        edges = ("edges, counting both directions", both, (distinct,))
    return [
        ("nodes", entry.nodes, (len(labels),)),
        edges,
        ("features", entry.features, (_feature_count(arrays),)),
        ("classes", entry.classes, (len(np.unique(labels[labels >= 0])),)),
        ("unlabelled nodes", entry.unlabelled, (int((labels < 0).sum()),)),
    ]


def _feature_count(arrays: GraphArrays) -> int:
    return 0 if arrays.features is None else int(arrays.features.shape[1])


def _distinct_edges(arrays: GraphArrays) -> NDArray[Any]:
    """Pairs (target, source), each once, sorted."""
    import numpy as np

    listed = np.asarray(arrays.edge_index)
    source, target = distinct_edges(listed[0], listed[1], len(arrays.labels))
    return np.stack([target, source], axis=1)


def _feature_parts(arrays: GraphArrays) -> dict[str, tuple[NDArray[Any], str]]:
    import numpy as np
    from scipy.sparse import csr_array

    if arrays.features is None:
        return {}
    features: Any = arrays.features
    matrix = csr_array(features).astype(np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return {
        "feature shape": (np.asarray(matrix.shape), "<i8"),
        "feature rows": (np.asarray(matrix.indptr), "<i8"),
        "feature columns": (np.asarray(matrix.indices), "<i8"),
        "feature values": (np.asarray(matrix.data), "<f4"),
    }
