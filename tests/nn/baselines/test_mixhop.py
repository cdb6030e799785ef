"""MixHop against its formula on dense matrices and against PyG's layer."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import assert_same, dropper, features, make, saved_sizes
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric.nn import MixHopConv

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.mixhop import MixHop, apply_powers
from ncgnn.training import preset

KEY = DropoutKey(3, 4)


def made(**options):
    return make(lambda: MixHop(16, CLASSES, **({"hidden": 6} | options)))


def dense(model, drawn, powers=(0, 1, 2), self_loops=True, rate=0.5, key=None):
    A = drawn.A + torch.eye(drawn.num_nodes) if self_loops else drawn.A
    degree = A.sum(1)
    half = torch.where(degree > 0, degree.clamp(min=1) ** -0.5, 0.0)
    operator = half[:, None] * A * half
    drop = dropper(rate, key)
    hidden = features(drawn, rate, key)
    weights = [model.first.weight, *(linear.weight.t() for linear in model.later)]
    for layer, weight in enumerate(weights):
        parts = [
            torch.matrix_power(operator, power) @ hidden @ part
            for power, part in zip(powers, weight.chunk(len(powers), dim=1), strict=True)
        ]
        hidden = drop(torch.relu(torch.cat(parts, dim=1) + model.biases[layer]), 1 + layer)
    return hidden @ model.last.weight.t() + model.last.bias


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 1}, {"layers": 3}, {"self_loops": False}, {"powers": (1,)}, {"powers": (0, 3)}],
)
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("key", [None, KEY])
def test_logits_and_gradients_are_those_of_the_formula(options, directed, sparse, key):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(dropout=0.3, **options)
    shape = {name: value for name, value in options.items() if name != "layers"}
    found = model(drawn.inputs(), None, key)
    assert_same(model, found, dense(model, drawn, **shape, rate=0.3, key=key))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("powers", [(0, 1, 2), (0, 2), (1, 3)])
def test_layers_are_those_of_pyg(directed, powers):
    drawn = drawn_graph(2, directed=directed)
    model = made(powers=powers)
    hidden = drawn.X
    for layer, weight in enumerate((model.first.weight, model.later[0].weight.t())):
        conv = MixHopConv(hidden.shape[1], 6, powers=list(powers)).double()
        for power, part in zip(powers, weight.chunk(len(powers), dim=1), strict=True):
            conv.lins[power].weight.data = part.data.t()
        conv.bias.data = model.biases.data[layer]
        hidden = torch.relu(conv(hidden, drawn.edge_index))
    expected = model.last(hidden)
    assert (model(drawn.inputs()) - expected).abs().max() < 1e-9


def test_weights_may_come_before_powers():
    operator = drawn_graph(2).inputs().adjacency
    columns, A = torch.randn(13, 8, dtype=torch.float64), operator.to_dense()
    found = apply_powers(operator, columns, (0, 1, 2, 4))
    given = zip((0, 1, 2, 4), columns.chunk(4, dim=1), strict=True)
    parts = [torch.matrix_power(A, power) @ part for power, part in given]
    assert torch.allclose(found, torch.cat(parts, dim=1))


def test_first_weights():
    torch.manual_seed(0)
    model = MixHop(400, 3, hidden=30)
    for weight, inputs in ((model.first.weight, 400), (model.later[0].weight, 90)):
        assert 0.9 * inputs**-0.5 < weight.abs().max() <= inputs**-0.5
    assert not model.biases.any()


@pytest.mark.parametrize("powers", [(), (1, 0), (1, 1), (-1,)])
def test_powers_are_checked(powers):
    with pytest.raises(InputError, match="powers"):
        MixHop(4, 2, powers=powers)


def test_preset():
    model = preset("mixhop", "x")["model"]
    assert model == {"hidden": 512, "layers": 2, "powers": [0, 1, 2]}
    MixHop(4, 2, **model)


@pytest.mark.parametrize("options", [{}, {"powers": (1, 3), "layers": 3}])
def test_nothing_of_entries_times_hidden_is_saved(options):
    drawn, hidden = drawn_graph(4, nodes=60, density=0.6), 16
    model = made(hidden=hidden, dropout=0.3, **options).train()
    sizes = saved_sizes(lambda: model(drawn.inputs(), None, KEY))
    entries = int(drawn.A.sum() + 60)
    assert 60 * hidden <= max(sizes) <= max(entries, 3 * 60 * hidden)
    assert entries * hidden > 2 * max(
        entries, 3 * 60 * hidden
    )  # so that one such array would be seen
