"""What the models to compare with are made of."""

from __future__ import annotations

import pytest
import torch
from drawn_graphs import drawn_graph

from ncgnn.nn import DropoutKey
from ncgnn.nn.layers import FeatureLinear, drop_features

KEY = DropoutKey(1, 2).at(0)


def dense(matrix):
    return matrix if isinstance(matrix, torch.Tensor) else matrix.to_dense()


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_features_times_weights(sparse, bias):
    drawn = drawn_graph(1, sparse=sparse)
    linear = FeatureLinear(16, 5, bias=bias).double()
    expected = drawn.X @ linear.weight + (linear.bias if bias else 0)
    assert torch.allclose(linear(drawn.inputs()), expected)
    kept = dense(drop_features(drawn.inputs(), 0.4, KEY))
    found = linear(drawn.inputs(), 0.4, KEY)
    assert torch.allclose(found, kept @ linear.weight + (linear.bias if bias else 0))
    gradient = torch.randn_like(found)
    (back,) = torch.autograd.grad(found, linear.weight, gradient)
    assert torch.allclose(back, kept.T @ gradient)


@pytest.mark.parametrize("sparse", [True, False])
def test_drop_features(sparse):
    inputs = drawn_graph(1, nodes=300, sparse=sparse).inputs()
    features = dense(inputs.features)
    kept = dense(drop_features(inputs, 0.25, KEY))
    ratio = (kept / features)[features != 0]
    assert ((ratio - 4 / 3).abs() < 1e-6).logical_or(ratio == 0).all()
    assert 0.6 < (ratio != 0).double().mean() < 0.9
    assert torch.equal(dense(drop_features(inputs, 0.25, KEY)), kept)
    other = DropoutKey(1, 3).at(0)
    assert not torch.equal(dense(drop_features(inputs, 0.25, other)), kept)
    assert drop_features(inputs, 0.25, None) is inputs.features


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("undirected", [True, False])
def test_operators(directed, self_loops, undirected):
    drawn = drawn_graph(3, directed=directed)
    inputs = drawn.inputs()
    A = torch.maximum(drawn.A, drawn.A.T) if undirected else drawn.A
    A = A + torch.eye(len(A)) if self_loops else A
    degree = A.sum(1)
    safe = degree.clamp(min=1)
    options = {"self_loops": self_loops, "undirected": undirected}
    found = inputs.gcn_operator(**options)
    half = torch.where(degree > 0, safe**-0.5, 0.0)
    assert torch.allclose(found.to_dense(), half[:, None] * A * half)
    assert inputs.gcn_operator(**options) is found
    assert torch.allclose(inputs.mean_operator(**options).to_dense(), A / safe[:, None])
