"""A hash of what a graph holds."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph._graph import Graph


def fingerprint(graph: Graph) -> str:
    """SHA-256 of edges, labels, number of classes and features, in the form they are stored."""
    digest = hashlib.sha256(b"ncgnn graph 1\n")
    parts: list[tuple[str, NDArray[Any]]] = [
        ("indptr", graph.indptr.astype("<i8")),
        ("indices", graph.indices.astype("<i8")),
        ("labels", graph.labels.astype("<i8")),
        ("num_classes", np.array([graph.num_classes], dtype="<i8")),
    ]
    features = graph.features
    if isinstance(features, np.ndarray):
        parts.append(("features", features))
    elif features is not None:
        parts += [(name, getattr(features, name)) for name in ("indptr", "indices", "data")]
    for name, array in parts:
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
