"""BernNet against its formula with dense matrices."""

from __future__ import annotations

import math

import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph

from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.spectral import BernNet, apply_bernstein
from ncgnn.nn.functional import dropout, relu_dropout
from ncgnn.nn.layers import drop_features


def made(**options):
    model = make(lambda: BernNet(16, CLASSES, **{"hidden": 6, **options}), 0.5)
    model.theta.data[1] = -0.3
    return model


def laplacian(A):
    A = torch.maximum(A, A.T)
    half = torch.where(A.sum(1) > 0, A.sum(1).clamp(min=1) ** -0.5, 0.0)
    return torch.eye(len(A), dtype=A.dtype) - half[:, None] * A * half


def direct(A, theta, h):
    """The sum as it is written."""
    L, degree = laplacian(A), len(theta) - 1
    other = 2 * torch.eye(len(A), dtype=A.dtype) - L
    terms = (
        math.comb(degree, k)
        / 2**degree
        * theta[k]
        * torch.linalg.matrix_power(other, degree - k)
        @ torch.linalg.matrix_power(L, k)
        @ h
        for k in range(degree + 1)
    )
    return sum(terms)


def dense_logits(model, drawn):
    hidden = torch.relu(drawn.X @ model.first.weight + model.first.bias)
    h = hidden @ model.second.weight.T + model.second.bias
    return direct(drawn.A, torch.relu(model.theta), h)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("degree", [1, 2, 10])
def test_logits_and_gradients_are_those_of_the_formula(directed, sparse, degree):
    drawn, model = drawn_graph(4, directed=directed, sparse=sparse), made(degree=degree)
    found, expected = model(drawn.inputs()), dense_logits(model, drawn)
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(found)
    parameters = list(model.parameters())
    mine = torch.autograd.grad(found, parameters, gradient)
    theirs = torch.autograd.grad(expected, parameters, gradient)
    for one, other in zip(mine, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)
    assert mine[0].shape == model.theta.shape
    assert mine[0][1] == 0


@pytest.mark.parametrize(("degree", "error"), [(3, 1e-6), (10, 4e-6), (20, 2e-4)])
def test_the_filter_in_single_precision(degree, error):
    torch.manual_seed(0)
    drawn = drawn_graph(5, nodes=60)
    operator = (torch.eye(60) - laplacian(drawn.A)).float()
    theta, h = torch.rand(degree + 1, dtype=torch.float64), torch.randn(60, 4).double()
    expected = direct(drawn.A, theta, h)
    found = apply_bernstein(operator, theta.float(), h.float())
    assert (found - expected).abs().max() < error


def test_every_filter_of_the_basis():
    """θ = e_k answers to an eigenvalue x of L with C(K, k)·(x/2)^k·(1 - x/2)^(K-k)."""
    L = laplacian(drawn_graph(6).A)
    values, vectors = torch.linalg.eigh(L)
    degree = 5
    for k in range(degree + 1):
        theta = torch.eye(degree + 1, dtype=torch.float64)[k]
        found = apply_bernstein(torch.eye(len(L)) - L, theta, vectors)
        answer = math.comb(degree, k) * (values / 2) ** k * (1 - values / 2) ** (degree - k)
        assert (found - vectors * answer).abs().max() < 1e-9


def test_the_first_filter_changes_nothing():
    drawn = drawn_graph(4)
    torch.manual_seed(0)
    model = BernNet(16, CLASSES, hidden=6).double().eval()
    assert torch.equal(model.theta, torch.ones(11).double())
    hidden = torch.relu(drawn.X @ model.first.weight + model.first.bias)
    assert (model(drawn.inputs()) - model.second(hidden)).abs().max() < 1e-9


def test_dropout_at_three_places():
    inputs, key = drawn_graph(4, sparse=False).inputs(), DropoutKey(3, 4)
    model = made(dropout=0.3, propagation_dropout=0.6)
    x = drop_features(inputs, 0.3, key.at(0))
    hidden = relu_dropout(x @ model.first.weight + model.first.bias, 0.3, key.at(1))
    h = dropout(model.second(hidden), 0.6, key.at(2))
    expected = direct(inputs.adjacency.to_dense(), torch.relu(model.theta), h)
    assert (model(inputs, None, key) - expected).abs().max() < 1e-9
    assert not torch.allclose(model(inputs), expected)


def test_the_filter_is_not_decayed():
    model = made()
    decayed, free = model.parameter_groups(0.1)
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert free["params"] == [model.theta]
    assert len(decayed["params"]) + 1 == len(list(model.parameters()))
