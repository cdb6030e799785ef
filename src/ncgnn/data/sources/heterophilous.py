"""The ``.npz`` files of the heterophilous-graphs collection: dense features and ten masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncgnn.data.npz import SHIPPED_SPLITS, GraphArrays, NpzArchive, real_values
from ncgnn.data.sources import checked, pick, smaller_form, undirected_edges, whole_numbers
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def parse(files: Mapping[str, Path]) -> GraphArrays:
    """Read a graph whose edges are listed once each; they come back in both directions."""
    path = pick(files, ".npz")
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
    arrays = GraphArrays(
        edge_index=undirected_edges(edges[:, 0], edges[:, 1], nodes, f"{path}: 'edges'"),
        labels=labels,
        features=smaller_form(real_values(features, f"{path}: 'node_features'")),
        splits=splits,
    )
    return checked(arrays, path)
