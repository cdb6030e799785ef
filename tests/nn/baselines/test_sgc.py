"""SGC against powers of a dense matrix, and how often it propagates beforehand."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import gradients, make
from drawn_graphs import CLASSES, Drawn, drawn_graph
from torch_geometric.nn import SGConv

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn import inputs as nn_inputs
from ncgnn.nn.baselines.spectral import SGC
from ncgnn.sparse.matrix import ConstantSparse


def made(**options):
    return make(lambda: SGC(16, CLASSES, **options))


def operator_of(drawn):
    looped = drawn.A + torch.eye(drawn.num_nodes)
    half = torch.diag(looped.sum(1) ** -0.5)
    return half @ looped @ half


def dense_logits(model, drawn):
    power = torch.linalg.matrix_power(operator_of(drawn), model.steps)
    return power @ drawn.X @ model.linear.weight + model.linear.bias


def dense(matrix):
    return matrix if isinstance(matrix, torch.Tensor) else matrix.to_dense()


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_logits_and_gradients_are_those_of_dense_powers(steps, directed, sparse):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(steps=steps)
    found, expected = model(drawn.inputs()), dense_logits(model, drawn)
    assert (found - expected).abs().max() < 1e-9
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("directed", [True, False])
def test_logits_are_those_of_pyg(directed):
    drawn, model = drawn_graph(3, directed=directed), made(steps=3)
    layer = SGConv(16, CLASSES, K=3).double()
    layer.lin.weight.data = model.linear.weight.data.t()
    layer.lin.bias.data = model.linear.bias.data
    assert (model(drawn.inputs()) - layer(drawn.X, drawn.edge_index)).abs().max() < 1e-9


@pytest.mark.parametrize("before", [0, 1, 2, 3])
@pytest.mark.parametrize("sparse", [True, False])
def test_both_orders_give_the_same(before, sparse, monkeypatch):
    drawn, model = drawn_graph(2, sparse=sparse), made(steps=3)
    power = torch.linalg.matrix_power(operator_of(drawn), before)
    parts = (power @ drawn.X, 3 - before)
    monkeypatch.setattr(nn_inputs, "_propagate", lambda *given: parts)
    assert (model(drawn.inputs()) - dense_logits(model, drawn)).abs().max() < 1e-9


def chain(nodes, width, sparse_features):
    """A path of nodes, of which few have a feature, or all have all."""
    A = torch.zeros(nodes, nodes, dtype=torch.float64)
    A[torch.arange(1, nodes), torch.arange(nodes - 1)] = 1
    X = torch.zeros(nodes, width, dtype=torch.float64)
    X[0, 0] = 1
    if not sparse_features:
        X = torch.randn(nodes, width, dtype=torch.float64)
    return Drawn(A + A.T, X, torch.arange(nodes).remainder(CLASSES).numpy())


def propagate(inputs, steps):
    return inputs.propagate(inputs.gcn_operator(), steps=steps)


def test_features_that_stay_cheap_are_propagated_beforehand():
    for drawn in (chain(40, 5, False), chain(40, 50, True)):
        constant, left = propagate(drawn.inputs(), 3)
        assert left == 0
        power = torch.linalg.matrix_power(operator_of(drawn), 3)
        assert (dense(constant) - power @ drawn.X).abs().max() < 1e-12
    assert isinstance(constant, ConstantSparse)


def test_features_that_fill_up_are_propagated_after_the_weights():
    nodes, width = 12, 400
    A = torch.ones(nodes, nodes, dtype=torch.float64) - torch.eye(nodes)
    X = torch.zeros(nodes, width, dtype=torch.float64)
    X[torch.arange(nodes)[:, None], torch.randperm(width)[: nodes * 30].view(nodes, 30)] = 1
    inputs = Drawn(A, X, torch.arange(nodes).remainder(CLASSES).numpy()).inputs()
    assert propagate(inputs, 2) == (inputs.features, 2)


def test_too_large_products_are_never_formed(monkeypatch):
    inputs = chain(40, 50, True).inputs()
    monkeypatch.setattr(nn_inputs, "MOST_ENTRIES", 0)
    monkeypatch.setattr(nn_inputs, "sparse_product", None)
    assert propagate(inputs, 3) == (inputs.features, 3)


def test_propagated_features_are_kept_with_the_graph(monkeypatch):
    drawn = drawn_graph(2)
    inputs = drawn.inputs()
    models = [made(steps=2), made(steps=2), made(steps=3)]
    calls, made_once = [], nn_inputs._propagate
    monkeypatch.setattr(
        nn_inputs, "_propagate", lambda *given: calls.append(given) or made_once(*given)
    )
    for model in models * 2:
        assert (model(inputs) - dense_logits(model, drawn)).abs().max() < 1e-9
    assert [steps for _, _, steps, _ in calls] == [2, 3, 2, 3]  # the latest alone is kept


def test_there_is_no_hidden_layer_and_no_dropout():
    model, inputs = made(), drawn_graph(2).inputs()
    assert torch.equal(model(inputs, None, DropoutKey(1, 2)), model(inputs))
    assert {tuple(p.shape) for p in model.parameters()} == {(16, CLASSES), (CLASSES,)}
    with pytest.raises(InputError, match="hidden: there is no such option"):
        SGC(16, CLASSES, hidden=8)
