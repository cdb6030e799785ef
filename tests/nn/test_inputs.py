"""What a model sees of a graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_graphs import drawn_graph
from scipy.sparse import csr_array
from torch_geometric.nn import SAGEConv
from torch_geometric.transforms import NormalizeFeatures

from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn.inputs import SPARSE_COST, GraphInputs, cost, select_rows
from ncgnn.sparse.matrix import ConstantSparse
from ncgnn.sparse.normalize import gcn_normalize


def with_features(features):
    return Graph.from_edge_index(
        np.array([[0, 1], [1, 2]]), features=features, require_labels=False
    )


def features_with(count, shape=(10, 21)):
    """Features with a number of entries that are not zero."""
    flat = np.zeros(shape[0] * shape[1], dtype=np.float32)
    flat[np.random.default_rng(0).permutation(len(flat))[:count]] = 2
    return flat.reshape(shape)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_features_are_kept_in_the_form_that_multiplies_faster(form, distance):
    features = features_with(int(210 / SPARSE_COST) + distance)
    inputs = GraphInputs(with_features(form(features)))
    assert isinstance(inputs.features, ConstantSparse) == (distance < 0)
    assert torch.equal(inputs.x, torch.from_numpy(features))
    assert cost(inputs.features) <= 210
    rows = torch.tensor([3, 0, 7])
    selected = select_rows(inputs.features, rows)
    dense = selected.to_dense() if isinstance(selected, ConstantSparse) else selected
    assert torch.equal(dense, inputs.x[rows])


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("count", [20, 120])
def test_row_scaling_is_that_of_pyg(form, count):
    features = features_with(count)
    features[0] *= 0.1  # a row with a sum below one
    graph = with_features(form(features))
    expected = NormalizeFeatures()(with_features(features).to_pyg()).x
    found = GraphInputs(graph, scaling="row")
    assert torch.allclose(found.x, expected, atol=1e-7)
    assert isinstance(found.features, ConstantSparse) == (count == 20)
    assert torch.equal(GraphInputs(graph).x, torch.from_numpy(features))


def test_rows_without_features_stay_zero():
    features = np.zeros((3, 2), dtype=np.float32)
    assert torch.equal(GraphInputs(with_features(features), scaling="row").x, torch.zeros(3, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everything_is_in_one_precision(dtype):
    inputs = drawn_graph(0).inputs(dtype)
    for matrix in (inputs.features, inputs.adjacency, inputs.looped_adjacency):
        assert matrix.dtype == dtype


@pytest.mark.parametrize("loops", [[0, 4], range(13)])
@pytest.mark.parametrize("directed", [True, False])
def test_rows_of_the_adjacency_are_targets_and_loops_are_left_out(directed, loops):
    drawn = drawn_graph(1, directed=directed)
    assert max(loops) < drawn.num_nodes == 13
    looped = torch.cat([drawn.edge_index, torch.tensor([[*loops], [*loops]])], dim=1)
    inputs = GraphInputs(
        Graph.from_edge_index(looped, features=drawn.X.numpy(), require_labels=False),
        dtype=torch.float64,
    )
    assert torch.equal(inputs.adjacency.to_dense(), drawn.A)
    eye = torch.eye(drawn.num_nodes, dtype=torch.float64)
    assert torch.equal(inputs.looped_adjacency.to_dense(), drawn.A + eye)
    assert torch.equal(inputs.everyone, torch.arange(drawn.num_nodes))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_layers_of_pyg_find_features_and_edges_as_they_take_them(sparse, directed):
    drawn = drawn_graph(1, sparse=sparse, directed=directed)
    inputs = drawn.inputs()
    assert isinstance(inputs.features, ConstantSparse) == sparse
    with torch.inference_mode():  # what is kept must serve training too
        assert torch.equal(inputs.x, drawn.X)
        assert inputs.edge_index.dtype == torch.int64
    assert inputs.x is inputs.x
    assert inputs.edge_index is inputs.edge_index
    assert {*zip(*inputs.edge_index.tolist(), strict=True)} == {
        *zip(*drawn.edge_index.tolist(), strict=True)
    }
    layer = SAGEConv(16, 2, aggr="sum", bias=False).double()
    found = layer(inputs.x, inputs.edge_index)
    found.sum().backward()
    expected = layer.lin_l(drawn.A @ drawn.X) + layer.lin_r(drawn.X)
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("loops", [[0, 4], range(13)])
def test_edges_for_pyg_have_no_self_loops(loops):
    drawn = drawn_graph(1)
    looped = torch.cat([drawn.edge_index, torch.tensor([[*loops], [*loops]])], dim=1)
    graph = Graph.from_edge_index(looped, features=drawn.X.numpy(), require_labels=False)
    edges = GraphInputs(graph).edge_index
    assert edges.shape == drawn.edge_index.shape
    assert (edges[0] != edges[1]).all()


@pytest.mark.parametrize("sparse", [True, False])
def test_propagated_features_are_the_product(sparse):
    drawn = drawn_graph(2, sparse=sparse)
    inputs = drawn.inputs()
    operator = gcn_normalize(inputs.adjacency)
    product, left = inputs.propagate(operator, uses=10)
    assert left == 0
    assert product is inputs.propagate(operator, uses=10)[0]
    dense = product.to_dense() if isinstance(product, ConstantSparse) else product
    assert torch.allclose(dense, operator.to_dense() @ drawn.X)


def test_nodes_without_features_are_all_alike():
    graph = Graph.from_edge_index(np.array([[0], [1]]), num_nodes=3, require_labels=False)
    inputs = GraphInputs(graph)
    assert torch.equal(inputs.x, torch.ones(3, 1))
    assert inputs.num_features == 1
    assert graph.features is None


def test_unknown_scaling_is_refused():
    with pytest.raises(InputError, match="scaling must be 'raw' or 'row'; got 'rows'"):
        drawn_graph(0).inputs(scaling="rows")
