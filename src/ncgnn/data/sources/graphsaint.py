"""GraphSAINT's files: ``adj_full.npz``, ``feats.npy``, ``class_map.json`` and ``role.json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ncgnn.data.npz import NpzArchive, read_npy, reading
from ncgnn.data.sources import make_graph, masks_from_indices, pick_file, shrink_features
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.graph import Graph


def parse(files: Mapping[str, Path]) -> Graph:
    """Read the undirected graph and its one published split."""
    adjacency_file = pick_file(files, "adj_full.npz")
    with NpzArchive(adjacency_file) as archive:
        adjacency = archive.csr()
    nodes = adjacency.shape[0]
    feature_file = pick_file(files, "feats.npy")
    features = read_npy(feature_file)
    if adjacency.shape != (nodes, nodes) or features.ndim != 2 or len(features) != nodes:
        raise InputError(
            f"{feature_file}: features {features.shape} do not fit the adjacency matrix "
            f"{adjacency.shape} of {adjacency_file.name}; get fresh copies of both files"
        )
    return make_graph(
        adjacency.nonzero(),
        adjacency_file.parent,
        undirected=True,
        labels=_read_labels(pick_file(files, "class_map.json"), nodes),
        features=shrink_features(features, str(feature_file)),
        shipped_splits=_read_split(pick_file(files, "role.json"), nodes),
    )


def _read_labels(path: Path, nodes: int) -> NDArray[Any]:
    labels = np.full(nodes, -1, dtype=np.int64)
    for name, label in _read_object(path).items():
        if not (name.isascii() and name.isdigit() and len(name) < 10 and int(name) < nodes):
            raise InputError(f"{path}: '{name[:40]}' is not a node in 0..{nodes - 1}")
        if not isinstance(label, int) or not 0 <= label < 2**31:
            raise InputError(f"{path}: the class of node {name} is not a whole number from 0 on")
        labels[int(name)] = label
    return labels


def _read_split(path: Path, nodes: int) -> dict[str, NDArray[Any]]:
    roles = _read_object(path)
    parts: dict[str, NDArray[Any]] = {}
    for name, key in (("train", "tr"), ("val", "va"), ("test", "te")):
        numbers = roles.get(key)
        if not isinstance(numbers, list):
            raise InputError(f"{path}: the list '{key}' is missing; get a fresh copy of the file")
        listed = cast("list[Any]", numbers)
        if not all(isinstance(number, int) and 0 <= number < nodes for number in listed):
            raise InputError(f"{path}: '{key}' must list nodes in 0..{nodes - 1}")
        parts[name] = np.array(listed, dtype=np.int64)
    return masks_from_indices(parts, nodes, path)


def _read_object(path: Path) -> dict[str, Any]:
    with reading(path, "JSON file"):
        content = json.loads(path.read_text("utf-8"))
    if not isinstance(content, dict):
        raise InputError(f"{path} does not hold a JSON object; get a fresh copy of the file")
    return cast("dict[str, Any]", content)
