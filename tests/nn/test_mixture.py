"""Mixtures of experts: what they answer, what a gate sees, and what they take over."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from drawn_graphs import drawn_graph

from ncgnn.errors import InputError
from ncgnn.nn import Mixture, model_class

EXPERTS = ({"name": "mlp", "hidden": 4}, {"name": "gcn", "hidden": 4})


def mixture(inputs, **options):
    torch.manual_seed(1)
    model = Mixture.for_inputs(inputs, **{"experts": EXPERTS} | options).to(inputs.dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


@pytest.fixture
def inputs():
    return drawn_graph(2).inputs()


def test_answers_are_weighted_means_of_probabilities(inputs):
    model = mixture(inputs, gate="none")
    with torch.no_grad():
        shares = torch.softmax(model.bias, 0)
        wanted = sum(
            share * torch.softmax(expert(inputs), 1)
            for share, expert in zip(shares, model.experts, strict=True)
        )
        assert torch.allclose(model(inputs).exp(), wanted)
        assert torch.allclose(model(inputs).exp().sum(1), torch.ones(13, dtype=torch.float64))


def test_a_new_gate_counts_experts_by_their_bias_alone(inputs):
    model = Mixture.for_inputs(inputs, experts=EXPERTS).double().eval()
    with torch.no_grad():
        model.bias.copy_(torch.tensor([2.0, 0.0]))
        seen = [torch.randn(5, model.first.shape[1], dtype=torch.float64) for _ in range(2)]
        shares = model.log_shares(seen, 5).exp()
    assert torch.allclose(shares[0], torch.full((5,), math.e**2 / (math.e**2 + 1)).double())


def test_what_a_gate_sees_by_hand(inputs):
    model, count = mixture(inputs), inputs.num_nodes
    torch.manual_seed(0)
    P = torch.softmax(torch.randn(count, model.num_classes, dtype=torch.float64), 1)
    seen = model.describe(inputs, P.log()).numpy()
    A = inputs.adjacency.to_dense().numpy() + np.eye(count)
    M = A / A.sum(1, keepdims=True)
    around, size = P.numpy(), math.log(model.num_classes)
    C = model.num_classes
    assert np.allclose(seen[:, :C], np.maximum(P.log().numpy(), -8) / 8)
    assert np.allclose(seen[:, C], (M @ around)[np.arange(count), around.argmax(1)])
    assert np.allclose(seen[:, C + 1], -(around * np.log(around)).sum(1) / size)
    top = np.sort(around, axis=1)
    assert np.allclose(seen[:, C + 2], top[:, -1] - top[:, -2])
    assert np.allclose(seen[:, C + 3], np.log(A.astype(bool).sum(1)) / 8)
    for hop in range(3):
        around = M @ around
        assert np.allclose(seen[:, C + 4 + hop], np.log(1 / around.max(1)) / size)


@pytest.mark.parametrize("gate", ["full", "without-nc", "nc"])
def test_controls_see_parts_of_it(inputs, gate):
    full, part = mixture(inputs), mixture(inputs, gate=gate)
    answer = torch.log_softmax(torch.randn(13, full.num_classes, dtype=torch.float64), 1)
    plain = full.num_classes + 4
    kept = {"full": slice(None), "without-nc": slice(plain), "nc": slice(plain, None)}[gate]
    seen = part.describe(inputs, answer)
    assert torch.equal(seen, full.describe(inputs, answer)[:, kept])
    assert part.first.shape[1] == seen.shape[1]


def test_reach_is_that_of_the_experts_and_of_the_gate(inputs):
    gcn = model_class("gcn").for_inputs(inputs, hidden=4)
    assert mixture(inputs, gate="none").reach == gcn.reach
    assert mixture(inputs, hops=2).reach == gcn.reach + 2
    assert mixture(inputs, experts=({"name": "glognn", "hidden": 4}, EXPERTS[0])).reach is None


def test_groups_are_those_of_the_one_expert_that_has_some(inputs):
    model = mixture(inputs, experts=(EXPERTS[0], {"name": "ncgcn", "hidden": 4}))
    assert model.rule == model.experts[1].rule
    assert torch.equal(model.channel_alpha, model.experts[1].channel_alpha)
    group = torch.arange(13) % 2
    with torch.no_grad():
        assert not torch.allclose(model(inputs, group), model(inputs))
    with pytest.raises(InputError, match="at most one model with groups"):
        mixture(inputs, experts=({"name": "ncgcn"}, {"name": "ncsage"}))


@pytest.mark.parametrize(
    ("experts", "words"),
    [
        ((), "list of tables"),
        (({"hidden": 3},), "name of a model"),
        (({"name": "mixture"},), "other models than mixtures"),
        (({"name": "gcn", "hiden": 3},), "did you mean hidden"),
        (({"name": "gnc"},), "did you mean"),
    ],
)
def test_wrong_experts_are_named(inputs, experts, words):
    with pytest.raises(InputError, match=words):
        Mixture.for_inputs(inputs, experts=experts)
