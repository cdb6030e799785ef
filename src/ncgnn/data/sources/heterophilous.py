"""The ``.npz`` files of the heterophilous-graphs collection: dense features and ten masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ncgnn.data.npz import SHIPPED_SPLITS, NpzArchive
from ncgnn.data.sources import make_graph, pick_file, shrink_features, whole_numbers
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from ncgnn.graph import Graph


class Content(NamedTuple):
    """What a file holds: features [n, d], labels [n], edges [E, 2] and masks [10, n]."""

    path: Path
    features: NDArray[Any]
    labels: NDArray[np.int64]
    edges: NDArray[np.int64]
    splits: dict[str, NDArray[Any]]


def parse(files: Mapping[str, Path]) -> Graph:
    """Read a graph whose edges are listed once each; they come back in both directions."""
    path, features, labels, edges, splits = read_content(files)
    return make_graph(
        edges.T,
        path,
        undirected=True,
        labels=labels,
        features=shrink_features(features, f"{path}: 'node_features'"),
        shipped_splits=splits,
    )


def read_content(files: Mapping[str, Path]) -> Content:
    """The arrays of the one file; their lengths fit together."""
    path = pick_file(files, ".npz")
    with NpzArchive(path) as archive:
        features = archive.array("node_features")
        labels = whole_numbers(archive.array("node_labels"), f"{path}: 'node_labels'")
        edges = whole_numbers(archive.array("edges"), f"{path}: 'edges'")
        splits = {key: archive.array(key).astype(bool) for key in SHIPPED_SPLITS["published"]}
    nodes = len(labels) if labels.ndim == 1 else -1
    if features.ndim != 2 or len(features) != nodes or edges.ndim != 2 or edges.shape[1] != 2:
        raise InputError(
            f"{path}: 'node_features' {features.shape}, 'node_labels' {labels.shape} and 'edges' "
            f"{edges.shape} do not fit together; get a fresh copy of the file"
        )
    return Content(path, features, labels, edges, splits)
