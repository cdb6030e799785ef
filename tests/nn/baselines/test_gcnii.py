"""GCNII against its formula on dense matrices and against PyG's layer."""

from __future__ import annotations

import math

import pytest
import torch
from baseline_checks import assert_same, dropper, features, make
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric.nn import GCN2Conv

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.gcnii import GCNII
from ncgnn.training import preset

KEY = DropoutKey(3, 4)


def made(**options):
    return make(lambda: GCNII(16, CLASSES, **({"hidden": 6} | options)))


def dense(model, drawn, alpha=0.1, theta=0.5, rate=0.5, key=None):
    looped = drawn.A + torch.eye(drawn.num_nodes)
    half = looped.sum(1) ** -0.5
    operator = half[:, None] * looped * half
    drop = dropper(rate, key)
    X = features(drawn, rate, key)
    first = torch.relu(X @ model.encode.weight + model.encode.bias)
    hidden = drop(first, 1)
    for layer, weight in enumerate(model.weights, start=1):
        beta = math.log(theta / layer + 1)
        identity = (1 - beta) * torch.eye(len(weight), dtype=weight.dtype)
        passed = (1 - alpha) * operator @ hidden
        if len(model.initial_weights):
            of_first = identity + beta * model.initial_weights[layer - 1]
            before = passed @ (identity + beta * weight) + alpha * first @ of_first
        else:
            before = (passed + alpha * first) @ (identity + beta * weight)
        hidden = drop(torch.relu(before), 1 + layer)
    return hidden @ model.decode.weight.t() + model.decode.bias


@pytest.mark.parametrize("shared_weights", [True, False])
@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("key", [None, KEY])
def test_logits_and_gradients_are_those_of_the_formula(
    shared_weights, layers, directed, sparse, key
):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    chosen = {"alpha": 0.3, "theta": 0.8}
    model = made(shared_weights=shared_weights, layers=layers, dropout=0.3, **chosen)
    found = model(drawn.inputs(), None, key)
    assert_same(model, found, dense(model, drawn, **chosen, rate=0.3, key=key))


def test_defaults():
    drawn, model = drawn_graph(2), made()
    assert len(model.weights) == 8
    assert not len(model.initial_weights)
    assert (model(drawn.inputs()) - dense(model, drawn)).abs().max() < 1e-9


@pytest.mark.parametrize("shared_weights", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_layers_are_those_of_pyg(shared_weights, directed):
    drawn = drawn_graph(2, directed=directed)
    model = made(shared_weights=shared_weights, layers=5)
    first = hidden = torch.relu(drawn.X @ model.encode.weight + model.encode.bias)
    for layer in range(5):
        conv = GCN2Conv(6, 0.1, theta=0.5, layer=1 + layer, shared_weights=shared_weights).double()
        conv.weight1.data = model.weights[layer].data
        if not shared_weights:
            conv.weight2.data = model.initial_weights[layer].data
        hidden = torch.relu(conv(hidden, first, drawn.edge_index))
    expected = model.decode(hidden)
    assert (model(drawn.inputs()) - expected).abs().max() < 1e-9


def test_first_weights():
    torch.manual_seed(0)
    model = GCNII(50, 3, hidden=100, layers=3, shared_weights=False)
    for weight in (*model.weights, *model.initial_weights):
        assert 0.09 < weight.abs().max() <= 0.1
    assert not torch.equal(model.weights[0], model.weights[1])


def test_options_are_checked():
    for wrong in ({"layers": 0}, {"alpha": 1.5}, {"theta": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            GCNII(4, 2, **wrong)


def test_preset():
    model = preset("gcnii", "x")["model"]
    assert model == {"hidden": 512, "layers": 8, "alpha": 0.1, "theta": 0.5}
    chameleon = preset("gcnii", "chameleon-filtered")["model"]
    assert chameleon == {"hidden": 512, "layers": 8, "alpha": 0.2, "theta": 1.5}


@pytest.mark.parametrize("shared_weights", [True, False])
def test_every_layer_saves_two_arrays_of_nodes_times_hidden(shared_weights):
    drawn, hidden, layers = drawn_graph(4, nodes=60, density=0.6), 32, 5
    options = {"hidden": hidden, "layers": layers, "shared_weights": shared_weights}
    model = made(dropout=0.3, **options).train()
    saved = {}
    hooks = (lambda given: saved.setdefault(given.data_ptr(), given), lambda given: given)
    with torch.autograd.graph.saved_tensors_hooks(*hooks):
        logits = model(drawn.inputs(), None, KEY)
    of_model = {parameter.data_ptr() for parameter in model.parameters()}
    sizes = [given.numel() for place, given in saved.items() if place not in of_model]
    assert logits.requires_grad
    assert max(sizes) == 60 * hidden
    assert drawn.A.sum() > 10 * 60  # so that one array of entries × hidden would be seen
    # Beside them the first layer's, of which one is passed on and one is added.
    assert sum(sizes) <= (2 * layers + 1) * 60 * hidden
