"""GloGNN against its closed form with dense matrices."""

from __future__ import annotations

import copy

import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph
from scipy.sparse import csr_array

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.glognn import GloGNN
from ncgnn.nn.functional import relu_dropout
from ncgnn.sparse.matrix import ConstantSparse
from ncgnn.training import preset


def made(inputs, **options):
    return make(lambda: GloGNN.for_inputs(inputs, **{"hidden": 6, **options}))


def mean_with_self(A):
    looped = A + torch.eye(len(A))
    return looped / looped.sum(1, keepdim=True)


def hops(model, B, h):
    """Σ_k λ_k B^k, n × n."""
    kind, orders = model.options.order_weights, model.options.orders
    powers = [torch.linalg.matrix_power(B, k) for k in range(orders + 1)]
    if kind == "equal":
        return sum(powers)
    if kind == "shared":
        return sum(model.order_weights[k - 1] * powers[k] for k in range(1, orders + 1))
    weights = torch.relu(h @ model.order_first) @ model.order_second
    return sum(torch.diag(weights[:, k - 1]) @ powers[k] for k in range(1, orders + 1))


def closed_round(model, B, h, start):
    """(1 - γ)·Z·H + γ·H₀ with Z as the paper writes it, for ++ with the diagonal Λ."""
    options = model.options
    keep, identity = 1 - options.gamma, torch.eye(len(B), dtype=B.dtype)
    middle = torch.eye(h.shape[1], dtype=B.dtype)
    if options.variant == "glognn++":
        middle = torch.diag(model.diagonal)
    left = keep * h @ middle @ h.T + options.beta * hops(model, B, h)
    left = left - options.gamma * keep * start @ middle @ h.T
    Z = left @ torch.linalg.inv(keep**2 * h @ h.T + (options.alpha + options.beta) * identity)
    return keep * Z @ h @ middle + options.gamma * start


def dense_logits(model, drawn, key=None):
    delta, B = model.options.delta, mean_with_self(drawn.A)
    hidden = 0
    if delta > 0:
        hidden = hidden + delta * (drawn.X @ model.features.weight + model.features.bias)
    if delta < 1:
        hidden = hidden + (1 - delta) * (B @ model.nodes.weight + model.nodes.bias)
    hidden = relu_dropout(hidden, model.options.dropout, None if key is None else key.at(0))
    h = start = model.second(hidden)
    for _ in range(model.options.layers):
        h = closed_round(model, B, h, start)
    return h


CASES = [
    {},
    {"delta": 0.0, "gamma": 0.0},
    {"delta": 0.3, "layers": 3},
    {"order_weights": "equal", "orders": 3, "delta": 0.5},
    {"order_weights": "per_node", "orders": 4},
    {"variant": "glognn++", "order_weights": "per_node", "delta": 0.5},
    {"variant": "glognn++", "alpha": 0.0, "beta": 3.0, "gamma": 0.7},
    {"alpha": 0.0, "beta": 2000.0, "gamma": 0.8, "layers": 1, "orders": 4},
    {"alpha": 2.0, "beta": 0.0},
]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("options", CASES)
def test_logits_and_gradients_are_those_of_the_closed_form(directed, sparse, options):
    drawn = drawn_graph(3, directed=directed, sparse=sparse)
    inputs = drawn.inputs()
    model = made(inputs, **options)
    found, expected = model(inputs), dense_logits(model, drawn)
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(found)
    parameters = list(model.parameters())
    mine = torch.autograd.grad(found, parameters, gradient)
    theirs = torch.autograd.grad(expected, parameters, gradient, allow_unused=True)
    for one, other in zip(mine, theirs, strict=True):
        assert torch.allclose(one, torch.zeros_like(one) if other is None else other, atol=1e-9)


@pytest.mark.parametrize("size", [0.1, 30.0])
@pytest.mark.parametrize("dependent", [True, False])
@pytest.mark.parametrize("beta", [0.001, 0.1, 1.0, 1000.0, 5000.0])
def test_single_precision_is_enough(size, dependent, beta):
    """Also where logits are nearly dependent, so that HᵀH cannot be inverted by itself."""
    drawn = drawn_graph(5, nodes=300, density=0.02)
    model = made(drawn.inputs(), alpha=0.0, beta=beta)
    torch.manual_seed(1)
    h, start = (size * torch.randn(300, CLASSES).double() for _ in range(2))
    if dependent:
        h = h[:, :1] * torch.tensor([1.0, -2.0, 3.0]) + 1e-3 * h
    B = mean_with_self(drawn.A)
    expected = closed_round(model, B, h, start)
    operator = ConstantSparse.from_scipy(csr_array(B.numpy()))
    found = model.float()._round(operator.to(torch.float32), h.float(), start.float())
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() < 2e-6 * expected.abs().max()


def test_nothing_raises_where_training_diverges():
    inputs = drawn_graph(3).inputs()
    model = made(inputs)
    model.second.weight.data.fill_(float("inf"))
    assert model(inputs).isnan().any()


def test_features_are_not_dropped_but_the_hidden_layer_is():
    drawn, key = drawn_graph(3), DropoutKey(1, 2)
    model = made(drawn.inputs(), dropout=0.4, delta=0.4)
    found = model(drawn.inputs(), None, key)
    assert (found - dense_logits(model, drawn, key)).abs().max() < 1e-9
    assert not torch.allclose(found, model(drawn.inputs()))


def test_renamed_nodes_with_renamed_weights():
    drawn = drawn_graph(2)
    model = made(drawn.inputs(), delta=0.5)
    order = torch.randperm(drawn.num_nodes)
    renamed = copy.deepcopy(model)
    renamed.nodes.weight.data = model.nodes.weight.data[order]
    moved = drawn.permuted(order).inputs()
    expected = model(drawn.inputs())[order]
    assert (renamed(moved) - expected).abs().max() < 1e-9
    assert (model(moved) - expected).abs().max() > 1e-3


def test_another_number_of_nodes_is_refused():
    model = made(drawn_graph(2).inputs(), delta=0.5)
    with pytest.raises(InputError, match="weights for the 13 nodes of its graph; this graph has 9"):
        model(drawn_graph(2, nodes=9).inputs())
    made(drawn_graph(2).inputs(), delta=1.0)(drawn_graph(2, nodes=9).inputs())


def test_weights_without_effect_are_left_out():
    assert GloGNN(4, 2, delta=1).nodes is None
    assert GloGNN(4, 2, num_nodes=9, delta=0).features is None
    with pytest.raises(InputError, match="num_nodes"):
        GloGNN(4, 2, delta=0.5)
    with pytest.raises(InputError, match="alpha, beta"):
        GloGNN(4, 2, alpha=0, beta=0)


def test_first_values():
    model = GloGNN(4, 5, variant="glognn++", orders=4)
    assert torch.equal(model.order_weights, torch.full((4,), 0.25))
    assert torch.equal(model.diagonal, torch.full((5,), 0.2))


@pytest.mark.parametrize("dataset", ["pubmed", "actor", "chameleon-filtered", "squirrel-filtered"])
def test_published_parameters_work(dataset):
    options = preset("glognn", dataset)["model"]
    assert options["hidden"] == 512
    drawn = drawn_graph(2)
    model = made(drawn.inputs(), **options)
    assert (model(drawn.inputs()) - dense_logits(model, drawn)).abs().max() < 1e-8
