"""FAGCN against its formula on dense matrices and against PyG's layer."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import features, make, saved_sizes
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric.nn import FAConv

from ncgnn.data import list_datasets
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.fagcn import FAGCN
from ncgnn.nn.functional import dropout
from ncgnn.training import preset

KEY = DropoutKey(3, 4)


def made(**options):
    return make(lambda: FAGCN(16, CLASSES, **({"hidden": 6} | options)))


def undirected(drawn):
    return torch.maximum(drawn.A, drawn.A.T)


def dense(model, drawn, eps=0.3, rate=0.5, key=None):
    """The formula, with the gate of all pairs of nodes side by side."""

    def drop(x, place):
        return x if key is None else x * dropout(torch.ones_like(x), rate, key.at(place))

    A, n = undirected(drawn), drawn.num_nodes
    degree = A.sum(1).clamp(min=1)
    X = features(drawn, rate, key)
    first = hidden = drop(torch.relu(X @ model.encode.weight + model.encode.bias), 1)
    for layer, (gate, bias) in enumerate(zip(model.gates, model.gate_biases, strict=True)):
        pairs = torch.cat([hidden[:, None].expand(n, n, -1), hidden[None].expand(n, n, -1)], dim=2)
        weights = torch.tanh(pairs @ gate.t().reshape(-1) + bias)
        weights = A * weights / (degree[:, None] * degree).sqrt()
        if key is not None:
            kept = torch.zeros_like(A)
            places = A.nonzero(as_tuple=True)
            ones = torch.ones(len(places[0]), 1, dtype=A.dtype)
            kept[places] = dropout(ones, rate, key.at(2 + layer)).flatten()
            weights = weights * kept
        hidden = eps * first + weights @ hidden
    return hidden @ model.decode.weight.t() + model.decode.bias


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("key", [None, KEY])
def test_logits_and_gradients_are_those_of_the_formula(layers, directed, sparse, key):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(layers=layers, eps=0.4, dropout=0.3)
    found = model(drawn.inputs(), None, key)
    expected = dense(model, drawn, 0.4, 0.3, key)
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(expected)
    parameters = list(model.parameters())
    mine = torch.autograd.grad(found, parameters, gradient)
    theirs = torch.autograd.grad(expected, parameters, gradient)
    for one, other in zip(mine, theirs, strict=True):
        assert other.abs().max() > 0
        assert (one - other).abs().max() < 1e-9


def test_a_round_of_messages_is_that_of_pyg():
    drawn = drawn_graph(2, directed=False)
    model = made(layers=3)
    with torch.no_grad():
        model.gate_biases.zero_()
    first = hidden = torch.relu(drawn.X @ model.encode.weight + model.encode.bias)
    for gate in model.gates:
        conv = FAConv(6, eps=0.3, add_self_loops=False).double()
        conv.att_r.weight.data, conv.att_l.weight.data = gate.data.t()[:1], gate.data.t()[1:]
        hidden = conv(hidden, first, drawn.edge_index)
    expected = hidden @ model.decode.weight.t() + model.decode.bias
    assert (model(drawn.inputs()) - expected).abs().max() < 1e-9


def test_edges_count_in_both_directions():
    drawn = drawn_graph(2)
    both = type(drawn)(undirected(drawn), drawn.X, drawn.labels)
    assert not torch.equal(both.A, drawn.A)
    model = made()
    assert torch.equal(model(drawn.inputs()), model(both.inputs()))


def test_first_weights():
    torch.manual_seed(0)
    model = FAGCN(400, 3, hidden=300, layers=5)
    for weight, fans in (
        (model.encode.weight, 700),
        (model.gates, 601),
        (model.decode.weight, 303),
    ):
        assert weight.std().item() == pytest.approx(1.414 * (2 / fans) ** 0.5, rel=0.06)
    assert 0 < model.gate_biases.abs().max() <= 600**-0.5


def test_nothing_of_entries_times_hidden_is_saved():
    drawn, hidden = drawn_graph(4, nodes=60, density=0.6), 32
    model = made(hidden=hidden, dropout=0.3, layers=4).train()
    sizes = saved_sizes(lambda: model(drawn.inputs(), None, KEY))
    entries = int(undirected(drawn).sum())
    assert 60 * hidden <= max(sizes) <= max(entries, 60 * hidden)
    assert entries * hidden > 2 * max(entries, 60 * hidden)  # so that one such array would be seen


def test_options_are_checked():
    with pytest.raises(InputError, match="layers"):
        FAGCN(4, 2, layers=0)
    with pytest.raises(InputError, match="did you mean eps"):
        FAGCN(4, 2, epss=0.1)


def test_presets_have_more_layers_on_homophilous_graphs():
    known = [entry.name for entry in list_datasets()]
    layers = {name: preset("fagcn", name)["model"]["layers"] for name in (*known, "x")}
    papers = {"pubmed", "photo", "computers", "coauthor-cs", "coauthor-physics"}
    homophilous = papers | {"cora", "citeseer", "cora-ml", "dblp"}
    assert {name for name, number in layers.items() if number == 4} == homophilous
    assert {layers[name] for name in layers.keys() - homophilous} == {2}
    assert preset("fagcn", "coauthor-physics")["model"] == {"hidden": 512, "eps": 0.3, "layers": 4}
    assert preset("fagcn", "pubmed")["data"] == {"scaling": "row"}
