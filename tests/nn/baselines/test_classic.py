"""Models without separation against stacks of PyG's layers."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric.nn import GCNConv, SAGEConv

from ncgnn.nn import GCN, MLP, DropoutKey, GraphSAGE

MODELS = [GCN, GraphSAGE, MLP]


def made(kind, **options):
    return make(lambda: kind(16, CLASSES, hidden=6, **options))


def gcn_layer(layer, self_loops):
    conv = GCNConv(*layer.weights[0].shape, add_self_loops=self_loops).double()
    conv.lin.weight.data = layer.weights[0].data.t()
    conv.bias.data = layer.bias.data
    return conv


def sage_layer(layer, self_loops):
    conv = SAGEConv(*layer.weights[0].shape).double()
    conv.lin_r.weight.data = layer.weights[0].data.t()
    conv.lin_l.weight.data = layer.weights[1].data.t()
    conv.lin_l.bias.data = layer.bias.data
    return conv


@pytest.mark.parametrize(("kind", "layer"), [(GCN, gcn_layer), (GraphSAGE, sage_layer)])
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_logits_and_gradients_are_those_of_pyg(kind, layer, self_loops, directed, sparse):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(kind, self_loops=self_loops)
    edges = drawn.edge_index
    if kind is GraphSAGE and self_loops:
        edges = torch.cat([edges, torch.arange(drawn.num_nodes).expand(2, -1)], dim=1)
    first, second = layer(model.first, self_loops), layer(model.second, self_loops)
    expected = second(torch.relu(first(drawn.X, edges)), edges)
    found = model(drawn.inputs())
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(expected)
    found.backward(gradient)
    expected.backward(gradient)
    for mine, theirs in ((model.first, first), (model.second, second)):
        root = theirs.lin if kind is GCN else theirs.lin_r
        assert torch.allclose(mine.weights[0].grad, root.weight.grad.t())
        bias = theirs.bias if kind is GCN else theirs.lin_l.bias
        assert torch.allclose(mine.bias.grad, bias.grad)
        if kind is GraphSAGE:
            assert torch.allclose(mine.weights[1].grad, theirs.lin_l.weight.grad.t())


@pytest.mark.parametrize("sparse", [True, False])
def test_a_perceptron_sees_features_alone(sparse):
    drawn, other = drawn_graph(2, sparse=sparse), drawn_graph(3, sparse=sparse)
    model = made(MLP)
    hidden = torch.relu(drawn.X @ model.first.weights[0] + model.first.bias)
    expected = hidden @ model.second.weights[0] + model.second.bias
    assert (model(drawn.inputs()) - expected).abs().max() < 1e-9
    rewired = type(drawn)(other.A, drawn.X, drawn.labels)
    assert torch.equal(model(rewired.inputs()), model(drawn.inputs()))


@pytest.mark.parametrize("kind", MODELS)
def test_models_without_separation_take_groups_and_keys(kind):
    drawn = drawn_graph(2)
    model, inputs = made(kind), drawn.inputs()
    assert model.rule is None
    group = torch.ones(drawn.num_nodes, dtype=torch.int64)
    assert torch.equal(model(inputs, group, None), model(inputs))
    keyed = [model(inputs, group, DropoutKey(0, step)) for step in (1, 1, 2)]
    assert torch.equal(keyed[0], keyed[1])
    assert not torch.equal(keyed[0], keyed[2])
    assert (model(drawn.graph().to_pyg()) - model(inputs)).abs().max() < 1e-9


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("sharing", [False, True])
def test_copies_pickles_and_inference_mode(kind, sharing):
    model, inputs = made(kind), drawn_graph(2).inputs()
    model.share_products(sharing)
    with torch.inference_mode():
        model(inputs)
    expected = model(inputs)
    expected.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(inputs), expected)
