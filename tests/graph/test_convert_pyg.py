"""Graphs from and to PyTorch Geometric."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, issparse

from ncgnn.errors import InputError
from ncgnn.graph import Graph

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    # What torch says, once per process, when a test makes a sparse tensor.
    pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC) tensor support:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),
]

EDGES = torch.tensor([[0, 1, 2], [1, 2, 2]])
DENSE = torch.tensor([[0.0, 1.5], [0.0, 0.0], [2.0, 0.0]])


def data_of(**fields):
    from torch_geometric.data import Data

    labels = torch.tensor([0, 1, -1])
    fields = {"edge_index": EDGES, "y": labels, "num_nodes": 3} | fields
    return Data(**{key: value for key, value in fields.items() if value is not None})


def edges_of(graph):
    return {tuple(edge) for edge in graph.edge_index().T.tolist()}


def dense_features(graph):
    return graph.features.toarray() if issparse(graph.features) else graph.features


def test_edges_labels_features_and_name():
    graph = Graph.from_pyg(data_of(x=DENSE, name="three"))
    assert edges_of(graph) == {(0, 1), (1, 2), (2, 2)}
    assert graph.labels.tolist() == [0, 1, -1]
    assert np.array_equal(graph.features, DENSE.numpy())
    assert graph.name == "three"
    assert graph.num_self_loops == 1


def test_isolated_nodes_at_the_end():
    graph = Graph.from_pyg(data_of(y=None, num_nodes=7), require_labels=False)
    assert graph.num_nodes == 7
    graph = Graph.from_pyg(data_of(y=torch.tensor([0] * 5), num_nodes=None, x=torch.ones(5, 1)))
    assert graph.num_nodes == 5


def test_labels_say_how_many_nodes_there_are():
    # PyTorch Geometric itself guesses from the edges when there are no features, and warns.
    assert Graph.from_pyg(data_of(num_nodes=None)).num_nodes == 3
    graph = Graph.from_pyg(data_of(y=torch.tensor([0] * 5), num_nodes=None))
    assert graph.num_nodes == 5


def test_fields_given_win():
    graph = Graph.from_pyg(data_of(x=DENSE), labels=[1, 0, 1], features=None, name="mine")
    assert graph.labels.tolist() == [1, 0, 1]
    assert graph.features is None
    assert graph.name == "mine"


@pytest.mark.parametrize("labels", [[0, 1, 0], torch.tensor([0, 1, 0])])
def test_labels_given_for_data_that_hold_edges_alone(labels):
    data = data_of(edge_index=torch.tensor([[0], [1]]), y=None, num_nodes=None)
    graph = Graph.from_pyg(data, labels=labels)
    assert graph.num_nodes == 3
    assert graph.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([[0], [1], [-1]]),
        torch.tensor([0.0, 1.0, -1.0]),
        torch.tensor([0, 1, -1]).int(),
    ],
)
def test_forms_of_labels(labels):
    assert Graph.from_pyg(data_of(y=labels)).labels.tolist() == [0, 1, -1]


def test_one_hot_labels_are_refused():
    with pytest.raises(InputError, match="argmax"):
        Graph.from_pyg(data_of(y=torch.eye(3)))


def test_missing_labels_are_refused():
    with pytest.raises(InputError, match="no labels"):
        Graph.from_pyg(data_of(y=None, num_nodes=3))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_sparse_features_stay_sparse(layout):
    graph = Graph.from_pyg(data_of(x=DENSE.to_sparse(layout=layout)))
    assert issparse(graph.features)
    assert np.array_equal(graph.features.toarray(), DENSE.numpy())


def test_trainable_features():
    graph = Graph.from_pyg(data_of(x=DENSE.clone().requires_grad_()))
    assert np.array_equal(graph.features, DENSE.numpy())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_transposed_adjacency(layout):
    # Row = target, as PyTorch Geometric's ToSparseTensor makes it.
    matrix = torch.zeros(3, 3)
    matrix[EDGES[1], EDGES[0]] = 1
    graph = Graph.from_pyg(data_of(edge_index=None, adj_t=matrix.to_sparse(layout=layout)))
    assert edges_of(graph) == {(0, 1), (1, 2), (2, 2)}
    assert graph.num_nodes == 3


def test_the_adjacency_of_a_transform():
    from torch_geometric.transforms import ToSparseTensor

    data = ToSparseTensor(layout=torch.sparse_csr)(data_of())
    assert "edge_index" not in data
    assert edges_of(Graph.from_pyg(data)) == {(0, 1), (1, 2), (2, 2)}


def test_data_without_edges_are_refused():
    with pytest.raises(InputError, match=r"edge_index nor adj_t"):
        Graph.from_pyg(data_of(edge_index=None, num_nodes=3))


MASKS = ("train_mask", "val_mask", "test_mask")
KEYS = ("train_masks", "val_masks", "test_masks")


def test_one_mask_per_part():
    masks = {name: torch.arange(3) == k for k, name in enumerate(MASKS)}
    graph = Graph.from_pyg(data_of(**masks))
    assert {key: value.tolist() for key, value in graph.shipped_splits.items()} == {
        key: [[node == k for node in range(3)]] for k, key in enumerate(KEYS)
    }


def test_several_masks_per_part():
    masks = {name: torch.eye(3, dtype=torch.bool)[:, :2].roll(k, 0) for k, name in enumerate(MASKS)}
    graph = Graph.from_pyg(data_of(**masks))
    for key, name in zip(KEYS, MASKS, strict=True):
        assert graph.shipped_splits[key].shape == (2, 3)
        assert np.array_equal(graph.shipped_splits[key], masks[name].T.numpy())


def test_incomplete_masks_are_no_split():
    assert not Graph.from_pyg(data_of(train_mask=torch.ones(3, dtype=torch.bool))).shipped_splits


@pytest.mark.parametrize("sparse_features", [False, True])
def test_data_of_a_graph(sparse_features):
    graph = Graph.from_edge_index(
        EDGES, labels=[0, 1, -1], features=csr_array(DENSE.numpy()), name="three"
    )
    data = graph.to_pyg(sparse_features=sparse_features)
    assert data.validate()
    assert data.edge_index.dtype == torch.int64
    assert sorted(data.edge_index.T.tolist()) == [[0, 1], [1, 2], [2, 2]]
    assert data.y.tolist() == [0, 1, -1]
    assert data.num_nodes == 3
    assert data.name == "three"
    assert (data.x.layout == torch.sparse_csr) == sparse_features
    assert torch.equal(data.x.to_dense(), DENSE)
    assert "train_mask" not in data


def test_sparse_tensors_come_and_go_without_warnings():
    graph = Graph.from_edge_index(EDGES, labels=[0, 1, -1], features=csr_array(DENSE.numpy()))
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            data = graph.to_pyg(sparse_features=True)
            assert issparse(Graph.from_pyg(data).features)
    finally:
        torch.set_warn_always(always)


def test_data_are_copies():
    graph = Graph.from_edge_index(EDGES, labels=[0, 1, -1], features=DENSE.numpy())
    data = graph.to_pyg()
    for tensor in (data.edge_index, data.y, data.x):
        tensor.zero_()
    assert edges_of(graph) == {(0, 1), (1, 2), (2, 2)}
    assert graph.labels.tolist() == [0, 1, -1]
    assert np.array_equal(graph.features, DENSE.numpy())


@st.composite
def graphs(draw):
    nodes = draw(st.integers(1, 6))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges = np.array(draw(st.lists(ends, max_size=12)), dtype=np.int64).reshape(-1, 2).T
    labels = draw(st.lists(st.integers(-1, 3), min_size=nodes, max_size=nodes))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    dense = np.arange(nodes * 2, dtype=kind).reshape(nodes, 2) % 3
    variants = draw(st.integers(0, 3))
    masks = {}
    if variants:
        part = draw(
            st.lists(
                st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes),
                min_size=variants,
                max_size=variants,
            )
        )
        masks = {key: np.array(part) == k for k, key in enumerate(KEYS)}
    return Graph.from_edge_index(
        edges,
        labels=labels,
        features=draw(st.sampled_from([None, dense, csr_array(dense)])),
        node_ids=draw(
            st.sampled_from([None, [f"n{v}" for v in range(nodes)], range(7, 7 + nodes)])
        ),
        class_names=draw(st.sampled_from([None, ["a", "b", "c", "d"]])),
        num_classes=4,
        name=draw(st.sampled_from(["graph", "other"])),
        shipped_splits=masks,
        require_labels=False,
    )


@given(graph=graphs(), sparse_features=st.booleans())
@settings(deadline=None, max_examples=80)
def test_there_and_back(graph, sparse_features):
    data = graph.to_pyg(sparse_features=sparse_features)
    again = Graph.from_pyg(data, require_labels=False)
    assert np.array_equal(again.indptr, graph.indptr)
    assert np.array_equal(again.indices, graph.indices)
    assert np.array_equal(again.labels, graph.labels)
    assert again.num_classes == graph.num_classes
    assert (again.name, again.class_names) == (graph.name, graph.class_names)
    assert (again.node_ids is None) == (graph.node_ids is None)
    if graph.node_ids is not None:
        assert np.array_equal(again.node_ids, graph.node_ids)
    assert (again.features is None) == (graph.features is None)
    if graph.features is not None:
        assert again.features.dtype == graph.features.dtype
        assert issparse(again.features) == (sparse_features and issparse(graph.features))
        assert np.array_equal(dense_features(again), dense_features(graph))
    assert set(again.shipped_splits) == set(graph.shipped_splits)
    for key, masks in graph.shipped_splits.items():
        assert np.array_equal(again.shipped_splits[key], masks)
        assert again.shipped_splits[key].dtype == bool


def test_edge_weights_and_directions_come_along():
    from torch_geometric.data import Data

    weights = torch.tensor([0.5, 2.0, 1.0])
    data = Data(edge_index=EDGES, y=torch.tensor([0, 1, 1]), edge_weight=weights)
    data.edge_direction = torch.tensor([1, 2, 3])
    graph = Graph.from_pyg(data)
    order = np.lexsort((EDGES[0].numpy(), EDGES[1].numpy()))
    assert np.array_equal(graph.edge_weights, weights.numpy()[order])
    assert np.array_equal(graph.edge_directions, np.array([1, 2, 3])[order])
    again = Graph.from_pyg(graph.to_pyg())
    assert again.fingerprint == graph.fingerprint
