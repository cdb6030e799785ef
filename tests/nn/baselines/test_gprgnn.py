"""GPRGNN against powers of a dense matrix."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import gradients, make
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric import nn as pyg

from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.spectral import GPRGNN, truncate_page_rank
from ncgnn.nn.functional import dropout
from ncgnn.nn.layers import drop_features

KEY = DropoutKey(3, 4)
VARIANTS = [{}, {"steps": 0}, {"steps": 3, "alpha": 0.1}]


def made(**options):
    return make(lambda: GPRGNN(16, CLASSES, **({"hidden": 7} | options)))


def dense_logits(model, drawn, key=None):
    def drop(x, rate, place):
        return x if key is None else dropout(x, rate, key.at(place))

    X = drawn.X
    if key is not None:
        kept = drop_features(drawn.inputs(), model.dropout, key.at(0))
        X = kept if isinstance(kept, torch.Tensor) else kept.to_dense()
    looped = drawn.A + torch.eye(drawn.num_nodes)
    half = torch.diag(looped.sum(1) ** -0.5)
    S = half @ looped @ half
    hidden = drop(torch.relu(X @ model.first.weight + model.first.bias), model.dropout, 1)
    H = drop(hidden @ model.second.weight.t() + model.second.bias, model.propagation_dropout, 2)
    return sum(gamma * torch.linalg.matrix_power(S, k) @ H for k, gamma in enumerate(model.gamma))


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_logits_and_gradients_are_those_of_dense_powers(options, key, directed, sparse):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(dropout=0.3, propagation_dropout=0.6, **options)
    found, expected = model(drawn.inputs(), None, key), dense_logits(model, drawn, key)
    assert (found - expected).abs().max() < 1e-9
    if key is not None:
        assert (found - model(drawn.inputs())).abs().max() > 1e-3
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("alpha", "steps"), [(0.5, 10), (0.1, 4)])
def test_first_coefficients_are_pagerank(alpha, steps):
    gamma = truncate_page_rank(alpha, steps).double()
    assert torch.isclose(gamma.sum(), torch.tensor(1.0).double())
    assert torch.isclose(gamma[2] / gamma[1], torch.tensor(1 - alpha).double())
    assert torch.isclose(gamma[-1], torch.tensor((1 - alpha) ** steps).double())
    drawn = drawn_graph(4, directed=False)
    model = GPRGNN(16, CLASSES, hidden=7, alpha=alpha, steps=steps).double().eval()
    local = torch.relu(drawn.X @ model.first.weight + model.first.bias)
    local = model.second(local)
    expected = pyg.APPNP(steps, alpha)(local, drawn.edge_index)
    assert (model(drawn.inputs()) - expected).abs().max() < 1e-6  # gamma began as float32


def test_coefficients_are_not_decayed():
    model = made()
    groups = model.parameter_groups(0.01)
    by_decay = {group["weight_decay"]: group["params"] for group in groups}
    assert [id(p) for p in by_decay[0.0]] == [id(model.gamma)]
    everything = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(everything) == sorted(id(parameter) for parameter in model.parameters())
    assert len(by_decay[0.01]) == 4


def test_defaults():
    model = GPRGNN(16, CLASSES)
    assert model.gamma.shape == (11,)
    assert torch.isclose(model.gamma[1], torch.tensor(0.25))
    assert model.propagation_dropout == 0.5
