"""Graphs of other libraries: PyG ``Data`` both ways, NetworkX in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph.checks import (
    is_missing,
    quiet_about_sparse_tensors,
    scipy_from_torch,
    to_numpy,
)

if TYPE_CHECKING:
    from ncgnn.graph.graph import Graph

_MASKS = {"train_masks": "train_mask", "val_masks": "val_mask", "test_masks": "test_mask"}
_EDGE_FIELDS = {"edge_weights": "edge_weight", "edge_directions": "edge_direction"}


def read_pyg(data: Any) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a PyG ``Data`` holds."""
    fields: dict[str, Any] = {"edge_index": _edges_of_pyg(data)}
    # PyG guesses the number of nodes from the edges unless it was set; labels know better.
    if "num_nodes" in data:
        fields["num_nodes"] = data.num_nodes
    for key, attribute in (("labels", "y"), ("features", "x"), ("num_classes", "num_classes")):
        value = getattr(data, attribute, None)
        if value is not None:
            fields[key] = value
    if {"labels", "features"} <= fields.keys() and len(fields["labels"]) != data.x.shape[0]:
        raise InputError(
            f"y has {len(fields['labels'])} entries, but x has {data.x.shape[0]} rows; each node "
            "needs one of both (label -1 = unknown)."
        )
    if isinstance(getattr(data, "name", None), str):
        fields["name"] = data.name
    for key in ("node_ids", "class_names", "feature_names"):
        if getattr(data, key, None) is not None:
            fields[key] = getattr(data, key)
    for key, attribute in _EDGE_FIELDS.items():
        if getattr(data, attribute, None) is not None:
            fields[key] = getattr(data, attribute)
    masks = {key: getattr(data, attribute, None) for key, attribute in _MASKS.items()}
    if all(mask is not None for mask in masks.values()):
        arrays = {key: to_numpy(mask, key) for key, mask in masks.items()}
        fields["shipped_splits"] = {
            key: mask[None] if mask.ndim == 1 else mask.T for key, mask in arrays.items()
        }
    return fields


def _edges_of_pyg(data: Any) -> Any:
    edge_index = getattr(data, "edge_index", None)
    if edge_index is not None:
        return edge_index
    adj_t = getattr(data, "adj_t", None)
    if adj_t is None:
        raise InputError("the Data has neither edge_index nor adj_t; set one of them.")
    if hasattr(adj_t, "to_torch_sparse_csr_tensor"):
        adj_t = adj_t.to_torch_sparse_csr_tensor()
    target, source = scipy_from_torch(adj_t).nonzero()
    return np.stack([source, target])


def write_pyg(graph: Graph, *, sparse_features: bool) -> Any:
    """A PyG ``Data`` that holds copies of the graph's arrays."""
    import torch
    from torch_geometric.data import Data

    data = Data(
        edge_index=torch.from_numpy(graph.edge_index()),
        y=torch.from_numpy(graph.labels.copy()),
        num_nodes=graph.num_nodes,
    )
    if graph.features is not None:
        data.x = _torch_features(graph.features, sparse=sparse_features)
    for key, attribute in _MASKS.items():
        if key in graph.shipped_splits:
            masks = torch.from_numpy(graph.shipped_splits[key].T.copy())
            setattr(data, attribute, masks[:, 0] if masks.shape[1] == 1 else masks)
    data.name, data.num_classes = graph.name, graph.num_classes
    if graph.node_ids is not None:
        data.node_ids = graph.node_ids.tolist()
    for key in ("class_names", "feature_names"):
        if getattr(graph, key) is not None:
            setattr(data, key, list(getattr(graph, key)))
    for key, attribute in _EDGE_FIELDS.items():
        if getattr(graph, key) is not None:
            setattr(data, attribute, torch.from_numpy(getattr(graph, key).copy()))
    return data


def _torch_features(features: Any, *, sparse: bool) -> Any:
    import torch

    if isinstance(features, np.ndarray):
        return torch.from_numpy(features.copy())
    if not sparse:
        return torch.from_numpy(features.toarray())
    with quiet_about_sparse_tensors():
        return torch.sparse_csr_tensor(
            torch.from_numpy(features.indptr.copy()),
            torch.from_numpy(features.indices.copy()),
            torch.from_numpy(features.data.copy()),
            size=features.shape,
            check_invariants=False,
        )


def read_networkx(graph: Any, label: str, feature: str) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a NetworkX graph holds."""
    if not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
        raise InputError(f"graph must be a NetworkX graph; got {type(graph).__name__}.")
    position = {node: i for i, node in enumerate(graph.nodes)}
    edges = np.array([(position[u], position[v]) for u, v in graph.edges()], dtype=np.int64)
    edges = edges.reshape(-1, 2).T
    if not graph.is_directed():
        apart = edges[:, edges[0] != edges[1]]
        edges = np.concatenate([edges, apart[::-1]], axis=1)
    found: dict[str, Any] = {"edge_index": edges, "num_nodes": len(position)}
    found["node_ids"] = np.asarray([str(node) for node in position])
    classes = [attributes.get(label) for _, attributes in graph.nodes(data=True)]
    if any(value is not None for value in classes):
        found["labels"] = classes if all(map(_is_number, classes)) else [*map(_name, classes)]
    vectors = [attributes.get(feature) for _, attributes in graph.nodes(data=True)]
    if any(value is not None for value in vectors):
        missing = [node for node, value in zip(position, vectors, strict=True) if value is None]
        if missing:
            raise InputError(f"node {missing[0]!r} has no attribute '{feature}', but others have.")
        found["features"] = to_numpy(vectors, f"attribute '{feature}'")
    return found


def _is_number(label: Any) -> bool:
    whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
    return whole or is_missing(label)


def _name(label: Any) -> str:
    return "" if is_missing(label) else str(label)
