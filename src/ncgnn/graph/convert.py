"""From and to PyTorch Geometric, NetworkX and torch sparse tensors.

Accepting a graph in whatever form a user holds it.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.graph.checks import check_some_labelled, is_scipy_sparse, to_numpy
from ncgnn.graph.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable

    from numpy.typing import ArrayLike
    from scipy.sparse import csr_array

#: A ``Graph``, a PyG ``Data``, a NetworkX graph, a scipy sparse matrix, or an edge index [2, E].
GraphLike: TypeAlias = "Graph | Any"


def as_graph(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    require_labels: bool = True,
    features: bool = True,
) -> Graph:
    """Turn any known form of a graph into a :class:`Graph`.

    Args:
        graph: ``Graph``, PyG ``Data``, NetworkX graph, scipy sparse matrix (entry (i, j) is an edge
            from i to j), or an array or tensor [2, E] of sources and targets.
        labels: Class per node; wins over the labels that ``graph`` holds. Those still say how many
            classes there are, so that predictions which miss a class change no metric's scale.
        num_classes: Number of classes; by default what the graph says, or the largest label plus
            one.
        require_labels: Whether a graph without any label is an error.
        features: Whether to take the features along; a ``Graph`` keeps them anyway.
    """
    if labels is not None:
        labels = to_numpy(labels, "labels")
    if isinstance(graph, Graph):
        found = graph
        if require_labels and labels is None:
            check_some_labelled(graph.labels)
    else:
        needed = require_labels and labels is None
        found = _convert(graph, labels, num_classes, require_labels=needed, features=features)
    if labels is None and num_classes in (None, found.num_classes):
        return found
    return found.with_labels(found.labels if labels is None else labels, num_classes)


def _convert(
    graph: Any, labels: Any, num_classes: int | None, *, require_labels: bool, features: bool
) -> Graph:
    if hasattr(graph, "node_types") and hasattr(graph, "edge_types"):
        raise InputError("graphs with several node types are not supported; use to_homogeneous().")
    own: dict[str, Any] = {"require_labels": require_labels}
    if num_classes is not None:
        own |= {"num_classes": num_classes, "class_names": None}
    if not features:
        own["features"] = None
    given = own if labels is None else own | {"labels": labels}
    if hasattr(graph, "edge_index") or hasattr(graph, "adj_t"):
        unlabelled = getattr(graph, "y", None) is None
        return Graph.from_pyg(graph, **(given if unlabelled else own))
    if hasattr(graph, "nodes") and hasattr(graph, "is_directed"):
        return Graph.from_networkx(graph, **own)
    if is_scipy_sparse(graph):
        return Graph.from_scipy(graph, **given)
    if isinstance(graph, str | Path):
        raise InputError(f"a graph is wanted; ncgnn.load('{graph}') gives it by name or file.")
    edges = to_numpy(graph, "the graph")
    if edges.dtype == object or edges.ndim != 2:
        raise InputError(
            f"cannot read a graph from {type(graph).__name__}; give a Graph, a PyG Data, a "
            "NetworkX graph, a scipy sparse matrix, or an edge index [2, E]."
        )
    return Graph.from_edge_index(edges, **given)


_MASKS = {"train_masks": "train_mask", "val_masks": "val_mask", "test_masks": "test_mask"}


def scipy_of_torch(tensor: Any) -> csr_array[Any]:
    """A torch sparse tensor of any layout as a scipy CSR matrix."""
    from scipy.sparse import csr_array

    with _quiet_about_sparse():
        pairs = tensor.detach().cpu().to_sparse_coo().coalesce()
    rows, columns = pairs.indices().numpy()
    return csr_array((pairs.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))


def fields_of_pyg(data: Any) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a PyG ``Data`` holds."""
    fields: dict[str, Any] = {"edge_index": _edges_of_pyg(data)}
    if getattr(data, "edge_weight", None) is not None:
        words = "edge_weight of the Data is not used: edges have no weights here."
        warnings.warn(words, NcgnnWarning, stacklevel=4)
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
        return to_numpy(edge_index, "edge_index")
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
    arrays = {key: to_numpy(mask, key) for key, mask in found.items()}
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
    data.name, data.num_classes = graph.name, graph.num_classes
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
    with _quiet_about_sparse():
        return torch.sparse_csr_tensor(
            torch.from_numpy(features.indptr.copy()),
            torch.from_numpy(features.indices.copy()),
            torch.from_numpy(features.data.copy()),
            size=features.shape,
            check_invariants=False,
        )


@contextmanager
def _quiet_about_sparse() -> Generator[None]:
    """Without torch's remarks that sparse tensors are new and not checked by default."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        yield


def fields_of_networkx(
    graph: Any, *, label: str = "y", feature: str = "x", **fields: Any
) -> dict[str, Any]:
    """The arguments of :meth:`Graph.from_edge_index` that a NetworkX graph holds."""
    if not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
        raise InputError(f"expected a NetworkX graph, got {type(graph).__name__}.")
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
        found["labels"], names = _numbered(classes)
        if names is not None:
            found["class_names"] = names
    vectors = [attributes.get(feature) for _, attributes in graph.nodes(data=True)]
    if any(value is not None for value in vectors):
        missing = [node for node, value in zip(position, vectors, strict=True) if value is None]
        if missing:
            raise InputError(f"node {missing[0]!r} has no attribute '{feature}', but others have.")
        found["features"] = to_numpy(vectors, f"attribute '{feature}'")
    return found | fields


def _numbered(classes: list[Hashable | None]) -> tuple[list[int], list[str] | None]:
    """Class numbers; names are numbered in sorted order, whole numbers stay as they are."""
    classes = [None if value != value else value for value in classes]  # NaN differs from itself
    known = [value for value in classes if value is not None]
    whole = (isinstance(value, int | np.integer) and not isinstance(value, bool) for value in known)
    if all(whole):
        numbers: list[Any] = classes
        return [-1 if value is None else int(value) for value in numbers], None
    names = sorted({str(value) for value in known})
    number = {name: i for i, name in enumerate(names)}
    return [-1 if value is None else number[str(value)] for value in classes], names
