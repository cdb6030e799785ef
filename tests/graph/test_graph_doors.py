"""Round trips, other processes and other devices."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.sparse import csc_array, csr_array

import ncgnn
from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph import Graph, as_graph

EDGES = np.array([[0, 1, 2], [1, 2, 2]])


def graph_of_five_classes() -> Graph:
    keys = ("train_masks", "val_masks", "test_masks")
    masks = {key: np.eye(3, dtype=bool)[[k, (k + 1) % 3]] for k, key in enumerate(keys)}
    return Graph.from_edge_index(
        EDGES, labels=[0, 1, 1], num_classes=5, features=csr_array(np.eye(3)), shipped_splits=masks
    )


def test_the_number_of_classes_survives_round_trips(tmp_path):
    graph = graph_of_five_classes()
    assert Graph.from_pyg(graph.to_pyg()).num_classes == 5
    assert ncgnn.load(ncgnn.save(graph, tmp_path / "five.npz")).num_classes == 5


@pytest.mark.parametrize("way", [copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_graphs_go_to_other_processes(way):
    graph = graph_of_five_classes()
    again = way(graph)
    assert np.array_equal(again.indices, graph.indices)
    assert again.num_classes == 5
    assert set(again.shipped_splits) == set(graph.shipped_splits)
    with pytest.raises(ValueError, match="read-only"):
        again.labels[0] = 1


def test_errors_go_to_other_processes():
    error = pickle.loads(pickle.dumps(UnknownNameError("dataset", "cra", ["cora"])))
    assert "did you mean cora" in str(error)


def test_the_callers_csc_matrix_stays_as_it_is():
    matrix = csc_array((np.array([1.0, 0.0, 2.0]), ([0, 1, 2], [1, 1, 2])), shape=(3, 3))
    indptr = matrix.indptr.copy()
    Graph.from_scipy(matrix, labels=[0, 1, 1])
    assert np.array_equal(matrix.indptr, indptr)


def test_views_of_arrays_that_can_be_written_to_are_copied():
    labels = np.array([0, 1, 1])
    view = labels[:]
    view.flags.writeable = False
    graph = Graph.from_edge_index(EDGES, labels=view)
    labels[0] = 1
    assert graph.labels.tolist() == [0, 1, 1]


def test_whole_number_features_do_not_overflow():
    parts = (np.array([200, 100], dtype=np.uint8), np.array([0, 0]), np.array([0, 2, 2, 2]))
    graph = Graph.from_edge_index(EDGES, labels=[0, 1, 1], features=csr_array(parts, shape=(3, 1)))
    assert graph.features.toarray().tolist() == [[300], [0], [0]]
    wide = np.array([[2**24 + 1], [0], [0]])
    graph = Graph.from_edge_index(EDGES, labels=[0, 1, 1], features=wide)
    assert graph.features[0, 0] == 2**24 + 1


def test_masks_of_different_shapes_are_brought_together():
    from torch_geometric.data import Data

    many = torch.tensor([[True, False], [False, True], [False, False]])
    rest = torch.tensor([[False, True], [True, False], [False, False]])
    data = Data(edge_index=torch.from_numpy(EDGES), y=torch.tensor([0, 1, 1]))
    data.train_mask, data.val_mask = many, rest
    data.test_mask = torch.tensor([False, False, True])
    graph = Graph.from_pyg(data)
    assert {mask.shape for mask in graph.shipped_splits.values()} == {(2, 3)}
    assert ncgnn.make_split(graph, "published", seed=1, warn=False).train.tolist() == [1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"labels": np.array([0, 1, 2**64 - 1], dtype=np.uint64)}, "labels contain"),
        ({"labels": [0, 1, 1], "num_classes": 10**9}, "num_classes"),
        ({"labels": [0, 1, 1], "class_names": "ab"}, "class_names"),
        ({"labels": [0, 1, 1], "class_names": [1, 2]}, "class_names"),
        ({"labels": [0, 1, 1], "node_ids": [0.5, 1.5, 2.5]}, "node_ids"),
        ({"labels": [0, 1, 1], "self_loops": "remove"}, "self_loops"),
        ({"labels": [0, 1, 1], "num_nodes": 3.0}, "num_nodes"),
        ({"labels": [0, 1, 1], "shipped_splits": {"uniform_train": [7]}}, "uniform_train"),
        ({"labels": [0, 1, 1], "shipped_splits": {"train_masks": [[1, 0, 0]]}}, "train_masks"),
    ],
)
def test_odd_fields_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Graph.from_edge_index(EDGES, **fields)


def test_fractions_of_nodes_are_refused():
    with pytest.raises(InputError, match="indices must hold integers; got float64"):
        Graph.from_csr([0, 1, 2], [1.0, 0.9], labels=[0, 1])


def test_trainable_and_half_precision_tensors_are_read():
    features = torch.eye(3, dtype=torch.bfloat16).requires_grad_()
    graph = Graph.from_edge_index(torch.from_numpy(EDGES), labels=[0, 1, 1], features=features)
    assert np.array_equal(graph.features, np.eye(3))


def test_graphs_with_several_node_types_are_refused():
    from torch_geometric.data import HeteroData

    with pytest.raises(InputError, match="to_homogeneous"):
        as_graph(HeteroData())
