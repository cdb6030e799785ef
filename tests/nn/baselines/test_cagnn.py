"""CAGNN against its formula on dense matrices."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import assert_same, dropper, features, make
from drawn_graphs import CLASSES, drawn_graph

from ncgnn.data import list_datasets
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.cagnn import CAGNN, unit_rows
from ncgnn.training import preset

KEY = DropoutKey(3, 4)


def made(**options):
    return make(lambda: CAGNN(16, CLASSES, hidden=6, **options))


def unit(x):
    return torch.stack([row / row.norm() if row.norm() > 0 else row for row in x])


def dense(model, drawn, self_loops=False, rate=0.5, key=None):
    A = drawn.A + torch.eye(drawn.num_nodes) if self_loops else drawn.A
    P = A / A.sum(1, keepdim=True).clamp(min=1)
    drop = dropper(rate, key)
    X = features(drawn, rate, key)
    S = C = unit(torch.relu(X @ model.encode.weight + model.encode.bias))
    for layer, linear in enumerate(model.convolutions, start=1):
        C = P @ drop(C, layer) @ linear.weight.t() + linear.bias
        gate = torch.sigmoid(torch.cat([S, C], dim=1) @ model.gate.weight.t() + model.gate.bias)
        assert gate.shape == (drawn.num_nodes, 1)
        S, C = unit(gate * S + (1 - gate) * C), unit(C)
    return drop(S, len(model.convolutions) + 1) @ model.decode.weight.t() + model.decode.bias


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("key", [None, KEY])
def test_logits_and_gradients_are_those_of_the_formula(self_loops, layers, directed, sparse, key):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(self_loops=self_loops, layers=layers, dropout=0.3)
    found = model(drawn.inputs(), None, key)
    assert_same(model, found, dense(model, drawn, self_loops, 0.3, key))


def test_self_loops_are_off_by_default():
    drawn, model = drawn_graph(2), made()
    found = model(drawn.inputs())
    assert (found - dense(model, drawn, False)).abs().max() < 1e-9
    assert (found - dense(model, drawn, True)).abs().max() > 1e-3


def test_all_layers_have_one_gate():
    names = {name for name, _ in made(layers=3).named_parameters() if name.startswith("gate")}
    assert names == {"gate.weight", "gate.bias"}


def test_rows_of_unit_length():
    x = torch.randn(5, 3, dtype=torch.float64)
    x[2], x[3] = 0, 1e-200
    x.requires_grad_()
    found = unit_rows(x)
    assert torch.allclose(found[[0, 1, 4]].norm(dim=1), torch.ones(3, dtype=torch.float64))
    assert torch.equal(found[2:4], x[2:4])
    found.sum().backward()
    assert torch.equal(x.grad[2], torch.ones(3, dtype=torch.float64))
    assert x.grad.abs().max() < 10


def test_nodes_of_zeros_have_finite_gradients():
    """Without features, edges and biases everything about a node is zero."""
    drawn, model = drawn_graph(2), made()
    drawn.X[-1] = 0
    with torch.no_grad():
        model.encode.bias.zero_()
        for linear in model.convolutions:
            linear.bias.zero_()
    found = model(drawn.inputs())
    assert torch.equal(found[-1], model.decode.bias)
    found.square().sum().backward()
    assert all(parameter.grad.abs().max() < 1e4 for parameter in model.parameters())


def test_options_are_checked():
    with pytest.raises(InputError, match="layers"):
        CAGNN(4, 2, layers=0)


def test_presets_have_self_loops_on_the_graphs_of_the_released_rule():
    known = [entry.name for entry in list_datasets()]
    looped = {name for name in (*known, "x") if preset("cagnn", name)["model"]["self_loops"]}
    assert looped == {"cora", "citeseer", "pubmed"}
