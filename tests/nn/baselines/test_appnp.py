"""APPNP against dense power iteration and against PyG's propagation."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import gradients, make, saved_sizes
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric import nn as pyg

from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.spectral import APPNP
from ncgnn.nn.functional import dropout
from ncgnn.nn.layers import drop_features

KEY = DropoutKey(3, 4)
VARIANTS = [{}, {"steps": 0}, {"steps": 3, "alpha": 0.4}, {"bias": True}, {"edge_dropout": 0.0}]


def made(**options):
    return make(lambda: APPNP(16, CLASSES, **({"hidden": 7} | options)))


def local_logits(model, drawn, key):
    X = drawn.X
    if key is not None:
        kept = drop_features(drawn.inputs(), model.dropout, key.at(0))
        X = kept if isinstance(kept, torch.Tensor) else kept.to_dense()
    hidden = X @ model.first.weight
    hidden = torch.relu(hidden if model.first.bias is None else hidden + model.first.bias)
    if key is not None:
        hidden = dropout(hidden, model.dropout, key.at(1))
    return model.second(hidden)


def dense_logits(model, drawn, key=None):
    looped = drawn.A + torch.eye(drawn.num_nodes)
    half = torch.diag(looped.sum(1) ** -0.5)
    S = half @ looped @ half
    start = current = local_logits(model, drawn, key)
    for step in range(model.steps):
        dropped = S.clone()
        if key is not None:
            entries = dropout(S[S > 0][:, None], model.edge_dropout, key.at(2 + step))
            dropped[S > 0] = entries.flatten()
        current = (1 - model.alpha) * dropped @ current + model.alpha * start
    return current


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_logits_and_gradients_are_those_of_dense_iteration(options, key, directed, sparse):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(dropout=0.3, **options)
    found, expected = model(drawn.inputs(), None, key), dense_logits(model, drawn, key)
    assert (found - expected).abs().max() < 1e-9
    if key is not None:
        assert (found - model(drawn.inputs())).abs().max() > 1e-3
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("directed", [True, False])
def test_propagation_is_that_of_pyg(directed):
    drawn, model = drawn_graph(4, directed=directed), made(steps=6, alpha=0.2)
    expected = pyg.APPNP(6, 0.2)(local_logits(model, drawn, None), drawn.edge_index)
    assert (model(drawn.inputs()) - expected).abs().max() < 1e-9


def test_entries_are_dropped_anew_in_every_step():
    drawn, model = drawn_graph(2, directed=False), made(dropout=0.0, steps=2, alpha=0.0)
    looped = drawn.A + torch.eye(drawn.num_nodes)
    half = torch.diag(looped.sum(1) ** -0.5)
    S = half @ looped @ half
    masks = []
    for place in (2, 3):
        mask = torch.zeros_like(S)
        mask[S > 0] = dropout(S[S > 0][:, None], 0.5, KEY.at(place)).flatten()
        masks.append(mask)
    assert not torch.equal(*masks)
    expected = masks[1] @ masks[0] @ local_logits(model, drawn, None)
    assert (model(drawn.inputs(), None, KEY) - expected).abs().max() < 1e-9


def test_the_first_layer_alone_is_decayed():
    model = made(bias=True)
    groups = model.parameter_groups(0.01)
    by_decay = {group["weight_decay"]: group["params"] for group in groups}
    assert {id(p) for p in by_decay[0.01]} == {id(p) for p in model.first.parameters()}
    assert {id(p) for p in by_decay[0.0]} == {id(p) for p in model.second.parameters()}


def test_defaults():
    model = APPNP(16, CLASSES)
    assert (model.steps, model.alpha, model.dropout, model.edge_dropout) == (10, 0.1, 0.5, 0.5)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {"first.weight": (16, 512), "second.weight": (CLASSES, 512)}


def test_nothing_of_entries_times_hidden_is_saved():
    drawn, hidden = drawn_graph(4, nodes=60, density=0.6), 32
    model = made(hidden=hidden, dropout=0.3).train()
    sizes = saved_sizes(lambda: model(drawn.inputs(), None, KEY))
    entries = int(drawn.A.sum() + 60)
    assert 60 * hidden <= max(sizes) <= max(entries, 60 * hidden)
    assert entries * hidden > 2 * max(entries, 60 * hidden)  # so that one such array would be seen
