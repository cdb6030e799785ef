"""Nothing that happens outside changes a graph."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.sparse import csc_array, csr_array

from ncgnn.graph import Graph

DENSE = np.array([[0.0, 1.5], [0.0, 0.0], [2.0, 0.0]], dtype=np.float32)


def full_graph(features=DENSE):
    masks = {key: np.eye(3, dtype=bool)[None, k] for k, key in enumerate(MASKS)}
    return Graph.from_edge_index(
        np.array([[0, 2, 2], [1, 1, 2]]),
        labels=np.array([0, 1, 1]),
        features=features,
        node_ids=np.array([5, 6, 7]),
        shipped_splits=masks,
    )


MASKS = ("train_masks", "val_masks", "test_masks")


def arrays_of(graph):
    arrays = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "labels": graph.labels,
        "node_ids": graph.node_ids,
        "self_loops": graph.self_loops,
        "neighbors": graph.neighbors(2),
        **graph.shipped_splits,
    }
    if isinstance(graph.features, np.ndarray):
        return arrays | {"features": graph.features}
    parts = {name: getattr(graph.features, name) for name in ("data", "indices", "indptr")}
    return arrays | {f"features.{name}": part for name, part in parts.items()}


def long_indices(matrix):
    parts = (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64))
    return csr_array(parts, shape=matrix.shape)


FEATURES = {
    "dense": DENSE,
    "fortran": np.asfortranarray(DENSE),
    "tensor": torch.from_numpy(DENSE.copy()),
    "sparse": csr_array(DENSE),
    "sparse, long indices": long_indices(csr_array(DENSE)),
    "sparse columns": csc_array(DENSE),
}


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(
    "derive",
    [
        lambda g: g,
        lambda g: g.reverse(),
        lambda g: g.with_labels([1, 1, 0]),
        lambda g: dataclasses.replace(g, name="other"),
    ],
    ids=["built", "reversed", "relabelled", "replaced"],
)
def test_no_array_can_be_written_to(features, derive):
    graph = derive(full_graph(FEATURES[features]))
    for name, array in arrays_of(graph).items():
        assert array.size > 0, name
        with pytest.raises(ValueError, match="read-only"):
            array[(0,) * array.ndim] = 0


@pytest.mark.filterwarnings("ignore:Changing the sparsity structure")
def test_sparse_features_take_no_new_entry():
    graph = full_graph(csr_array(DENSE))
    for place in ((0, 1), (0, 0)):
        with pytest.raises(ValueError, match="read-only"):
            graph.features[place] = 9
    assert np.array_equal(graph.features.toarray(), DENSE)


def test_no_attribute_can_be_set():
    graph = full_graph()
    for field in dataclasses.fields(graph):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(graph, field.name, None)
    for field in ("num_nodes", "anything"):
        with pytest.raises(AttributeError):
            setattr(graph, field, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del graph.labels
    with pytest.raises(TypeError):
        graph.shipped_splits["train_masks"] = np.zeros(3)


def snapshot(graph):
    return {name: array.copy() for name, array in arrays_of(graph).items()}


def overwrite(array):
    array[...] = 1 - array if array.dtype != bool else ~array


@pytest.mark.parametrize("read_only_view", [False, True])
def test_the_callers_arrays_are_not_kept(read_only_view):
    owned = {
        "indptr": np.array([0, 0, 2, 3]),
        "indices": np.array([0, 2, 2], dtype=np.int32),
        "labels": np.array([0, 1, 1]),
        "features": DENSE.copy(),
        "node_ids": np.array([5, 6, 7]),
    }
    masks = {key: np.eye(3, dtype=bool)[None, k].copy() for k, key in enumerate(MASKS)}

    def handed_over(array):
        view = array.view()
        view.flags.writeable = not read_only_view
        return view

    graph = Graph.from_csr(
        **{name: handed_over(array) for name, array in owned.items()},
        shipped_splits={name: handed_over(array) for name, array in masks.items()},
    )
    before = snapshot(graph)
    for array in (*owned.values(), *masks.values()):
        overwrite(array)
    for name, array in arrays_of(graph).items():
        assert np.array_equal(array, before[name]), name


def test_the_callers_sparse_features_are_not_kept():
    features = csr_array(DENSE)
    graph = full_graph(features)
    features.data[:] = 9
    features.indices[:] = 0
    assert np.array_equal(graph.features.toarray(), DENSE)


def test_the_callers_sparse_features_behind_a_read_only_view_are_not_kept():
    features = csr_array(DENSE)
    data = features.data
    features.data = data.view()
    features.data.flags.writeable = False
    graph = full_graph(features)
    data[:] = 9
    assert np.array_equal(graph.features.toarray(), DENSE)


def test_the_callers_tensors_are_not_kept():
    edges, labels, features = torch.tensor([[0], [1]]), torch.tensor([0, 1]), torch.ones(2, 2)
    graph = Graph.from_edge_index(edges, labels=labels, features=features)
    edges[:] = 0
    labels[:] = 0
    features[:] = 0
    assert graph.edge_index().tolist() == [[0], [1]]
    assert graph.labels.tolist() == [0, 1]
    assert graph.features.tolist() == [[1, 1], [1, 1]]


def test_building_leaves_the_callers_arrays_alone():
    edges = np.array([[2, 0, 2], [1, 1, 1]])
    starts, sources = np.array([0, 3, 3, 3]), np.array([2, 0, 2])
    features = csr_array((np.array([0.0, 1.0]), np.array([1, 0]), np.array([0, 2, 2, 2])), (3, 2))
    given = [edges, starts, sources, features.data, features.indices, features.indptr]
    before = [array.copy() for array in given]
    Graph.from_edge_index(edges, labels=[0, 1, 1], features=features, self_loops="drop")
    Graph.from_csr(starts, sources, labels=[0, 1, 1], features=features, self_loops="drop")
    for array, old in zip(given, before, strict=True):
        assert np.array_equal(array, old)
        assert array.flags.writeable


def test_results_handed_out_are_the_callers_own():
    graph = full_graph()
    before = snapshot(graph)
    graph.degrees[:] = 0
    graph.targets[:] = 0
    graph.edge_index()[:] = 0
    graph.to_scipy().data[:] = 0
    for name, array in arrays_of(graph).items():
        assert np.array_equal(array, before[name]), name
