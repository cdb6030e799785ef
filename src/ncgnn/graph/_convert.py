"""From and to PyTorch Geometric, NetworkX and torch sparse tensors."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scipy.sparse import csr_array

    from ncgnn.graph._graph import Graph

_MASKS = {"train_masks": "train_mask", "val_masks": "val_mask", "test_masks": "test_mask"}


def scipy_of_torch(tensor: Any) -> csr_array[Any]:
    """A torch sparse tensor of any layout as a scipy CSR matrix."""
    from scipy.sparse import csr_array

    pairs = tensor.detach().cpu().to_sparse_coo().coalesce()
    rows, columns = pairs.indices().numpy()
    return csr_array((pairs.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))


def fields_of_pyg(data: Any) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a PyG ``Data`` holds."""
    fields: dict[str, Any] = {"edge_index": _edges_of_pyg(data), "num_nodes": data.num_nodes}
    if getattr(data, "y", None) is not None:
        fields["labels"] = data.y.detach().cpu().numpy()
    x = getattr(data, "x", None)
    if x is not None:
        dense = str(x.layout) == "torch.strided"
        fields["features"] = x.detach().cpu().numpy() if dense else scipy_of_torch(x)
    if isinstance(getattr(data, "name", None), str):
        fields["name"] = data.name
    for key in ("node_ids", "class_names"):
        if getattr(data, key, None) is not None:
            fields[key] = getattr(data, key)
    masks = _masks_of_pyg(data)
    if masks:
        fields["shipped_splits"] = masks
    return fields


def _edges_of_pyg(data: Any) -> Any:
    edge_index = getattr(data, "edge_index", None)
    if edge_index is not None:
        return edge_index.detach().cpu().numpy()
    adj_t = getattr(data, "adj_t", None)
    if adj_t is None:
        raise InputError("the Data has neither edge_index nor adj_t; set one of them.")
    if hasattr(adj_t, "to_torch_sparse_csr_tensor"):
        adj_t = adj_t.to_torch_sparse_csr_tensor()
    target, source = scipy_of_torch(adj_t).nonzero()
    return np.stack([source, target])


def _masks_of_pyg(data: Any) -> dict[str, Any]:
    found = {key: getattr(data, attribute, None) for key, attribute in _MASKS.items()}
    if any(mask is None for mask in found.values()):
        return {}
    arrays = {key: mask.detach().cpu().numpy() for key, mask in found.items() if mask is not None}
    return {key: mask[None] if mask.ndim == 1 else mask.T for key, mask in arrays.items()}


def pyg_of_graph(graph: Graph, *, sparse_features: bool) -> Any:
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
    data.name = graph.name
    if graph.node_ids is not None:
        data.node_ids = graph.node_ids.tolist()
    if graph.class_names is not None:
        data.class_names = list(graph.class_names)
    return data


def _torch_features(features: Any, *, sparse: bool) -> Any:
    import torch

    if isinstance(features, np.ndarray):
        return torch.from_numpy(features.copy())
    if not sparse:
        return torch.from_numpy(features.toarray())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(
            torch.from_numpy(features.indptr.copy()),
            torch.from_numpy(features.indices.copy()),
            torch.from_numpy(features.data.copy()),
            size=features.shape,
        )


def fields_of_networkx(
    graph: Any, *, label: str = "y", feature: str = "x", **fields: Any
) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a NetworkX graph holds.

    Nodes keep their order; their names become ``node_ids``. An undirected graph is stored in both
    directions.

    Args:
        graph: Any NetworkX graph; parallel edges are merged.
        label: Node attribute with the class: a whole number, a name, or absent for unlabelled.
        feature: Node attribute with a vector of numbers, on all nodes or on none.
        **fields: Arguments that win over what the graph holds.
    """
    position = {node: i for i, node in enumerate(graph.nodes)}
    edges = np.array([(position[u], position[v]) for u, v in graph.edges()], dtype=np.int64)
    edges = edges.reshape(-1, 2).T
    if not graph.is_directed():
        edges = np.concatenate([edges, edges[::-1]], axis=1)
    found: dict[str, Any] = {"edge_index": edges, "num_nodes": len(position)}
    found["node_ids"] = np.asarray([str(node) for node in position])
    classes = [attributes.get(label) for _, attributes in graph.nodes(data=True)]
    if any(value is not None for value in classes):
        found["labels"], names = _numbered(classes)
        if names is not None:
            found["class_names"] = names
    vectors = [attributes.get(feature) for _, attributes in graph.nodes(data=True)]
    if any(value is not None for value in vectors):
        missing = [node for node, value in zip(position, vectors, strict=True) if value is None]
        if missing:
            raise InputError(f"node {missing[0]!r} has no attribute '{feature}', but others have.")
        found["features"] = np.asarray(vectors)
    return found | fields


def _numbered(classes: list[Hashable | None]) -> tuple[list[int], list[str] | None]:
    """Class numbers; names are numbered in sorted order, whole numbers stay as they are."""
    known = [value for value in classes if value is not None]
    if all(isinstance(value, (int, np.integer)) for value in known):
        return [-1 if value is None else int(str(value)) for value in classes], None
    names = sorted({str(value) for value in known})
    number = {name: i for i, name in enumerate(names)}
    return [-1 if value is None else number[str(value)] for value in classes], names
