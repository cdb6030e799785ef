"""WRGAT against dense matrices and plain Python."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from drawn_graphs import CLASSES, drawn_graph
from test_wrgat_structure import plain_relations
from torch.nn.functional import leaky_relu

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.wrgat import WRGAT
from ncgnn.sparse.matrix import ConstantSparse
from ncgnn.testing import check_model


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def made(**options):
    torch.manual_seed(0)
    model = WRGAT(16, CLASSES, **{"hidden": 6, "relations": 4, **options}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def reference_layer(layer, x, relations):
    """Straight from the formula, edge by edge."""
    total = x @ layer.root + layer.bias
    for r, (targets, sources, weights) in enumerate(relations):
        h, a = x @ layer.weight[r], layer.attention[r].flatten()
        rows = []
        for i in range(len(x)):
            edges = np.flatnonzero(targets == i)
            if not len(edges):
                rows.append(torch.zeros_like(h[0]))
                continue
            h_j = h[sources[edges]]
            pairs = torch.cat([h[i].expand_as(h_j), h_j], dim=1)
            shares = torch.softmax(leaky_relu(pairs @ a, 0.2), dim=0)
            w = torch.from_numpy(weights[edges])
            rows.append(((w * shares)[:, None] * h_j).mean(0))
        total = total + torch.stack(rows)
    return total


def reference(model, drawn, depth, original=False):
    relations = plain_relations(drawn.A, depth)
    if original:
        targets, sources = torch.nonzero(drawn.A).t().numpy()
        relations = [(targets, sources, np.ones(len(targets))), *relations]
    hidden = torch.relu(reference_layer(model.first, drawn.X, relations))
    return reference_layer(model.second, hidden, relations)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("options", "depth"),
    [
        ({}, 4),
        ({"relations": 9}, 9),
        ({"rings": 2}, 2),
        ({"hidden": 40}, 4),
        ({"hidden": 5, "relations": 3}, 3),
        ({"original_edges": True}, 4),
    ],
)
def test_logits_and_gradients(directed, sparse, options, depth):
    drawn = drawn_graph(5, directed=directed, sparse=sparse)
    model = made(**options)
    expected = reference(model, drawn, depth, options.get("original_edges", False))
    found = model(drawn.inputs())
    assert (found - expected).abs().max() < 1e-9
    weights = torch.randn_like(expected)
    parameters = list(model.parameters())
    wanted = torch.autograd.grad((expected * weights).sum(), parameters)
    for mine, theirs in zip(
        torch.autograd.grad((found * weights).sum(), parameters), wanted, strict=True
    ):
        assert (mine - theirs).abs().max() < 1e-9


@pytest.mark.parametrize("hidden", [6, 40])
def test_frozen_parameters_get_no_gradient(hidden):
    drawn = drawn_graph(5)
    model = made(hidden=hidden)
    expected = torch.autograd.grad(model(drawn.inputs()).square().sum(), model.first.attention)[0]
    model.requires_grad_(False)
    model.first.attention.requires_grad_(True)
    model(drawn.inputs()).square().sum().backward()
    assert torch.allclose(model.first.attention.grad, expected)
    assert model.first.weight.grad is None


@pytest.mark.parametrize("options", [{}, {"original_edges": True}, {"relations": 1}])
def test_conformance(options):
    # Nodes of one degree are chosen in their order.
    check_model(WRGAT, hidden=5, **options, ordered=True)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_graph_without_relations_is_seen_by_its_features_alone(sparse):
    drawn = drawn_graph(5, sparse=sparse)
    layer = made(relations=3).first.double()
    found = layer(drawn.inputs().features, ())
    assert (found - (drawn.X @ layer.root + layer.bias)).abs().max() < 1e-9


def test_relations_that_a_graph_lacks_get_zero_gradients():
    model = made(relations=10)
    inputs = drawn_graph(5).inputs()
    there = len(model.relations(inputs))
    assert 1 < there < 10
    model(inputs).square().sum().backward()
    assert (model.first.weight.grad[there:] == 0).all()
    assert (model.first.weight.grad[:there] != 0).any(dim=2).any(dim=1).all()


def test_training_keeps_the_activations_of_no_relation():
    # So many features that the products of all relations together are narrower.
    inputs = drawn_graph(2, nodes=60, density=0.05, features=200).inputs()

    def kept(relations):
        sizes = {}

        def pack(tensor):
            if tensor.shape == (60, 31):
                sizes[tensor.data_ptr()] = True
            return tensor

        model = WRGAT(inputs.num_features, CLASSES, hidden=31, relations=relations).double()
        assert len(model.relations(inputs)) == relations
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = model(inputs, key=DropoutKey(0, 0))
            assert logits.requires_grad
            return len(sizes)

    assert kept(5) == kept(1)


def test_sparse_features_stay_sparse(monkeypatch):
    inputs = drawn_graph(5).inputs()
    assert isinstance(inputs.features, ConstantSparse)

    def refuse(*_):
        raise AssertionError("dense")

    monkeypatch.setattr(ConstantSparse, "to_dense", refuse)
    made()(inputs).sum().backward()


def test_dropout_is_keyed_and_copies_agree():
    model, inputs = made(), drawn_graph(5).inputs()
    keyed = [model(inputs, None, DropoutKey(0, step)) for step in (1, 1, 2)]
    assert torch.equal(keyed[0], keyed[1])
    assert not torch.equal(keyed[0], keyed[2])
    expected = model(inputs)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(inputs), expected)


def test_initialisation():
    layer = WRGAT(40, CLASSES, hidden=50, relations=4).first
    for parameter, fans in ((layer.weight, 90), (layer.root, 90), (layer.attention, 104)):
        bound = (6 / fans) ** 0.5
        assert 0.9 * bound < parameter.abs().max() <= bound
    assert (layer.bias == 0).all()


def test_options():
    assert WRGAT.Options().model_dump() == {
        "hidden": 512,
        "dropout": 0.5,
        "relations": 10,
        "rings": None,
        "original_edges": False,
    }
    assert made(original_edges=True).first.weight.shape[0] == 5
    with pytest.raises(InputError, match="relations"):
        WRGAT(4, 2, relations=0)


def test_it_trains():
    trained = ncgnn.fit(ncgnn.load("digits"), "wrgat", hidden=16, epochs=5)
    assert len(trained.history) == 5
    assert trained.history[-1]["loss"] < trained.history[0]["loss"]


@pytest.mark.slow
def test_it_learns_digits():
    trained = ncgnn.fit(ncgnn.load("digits"), "wrgat", hidden=16, epochs=60)
    assert trained.evaluate()["scores"]["test"]["accuracy"] > 0.4
