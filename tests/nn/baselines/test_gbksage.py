"""GBKSage against dense matrices."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph
from torch.nn.functional import cross_entropy, leaky_relu

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.gbksage import GBKSage
from ncgnn.sparse.matrix import ConstantSparse

KEY = DropoutKey(0, 1)
VARIANTS = [
    {"gate_target": target, "center": center, "hidden": hidden}
    for target in ("released", "paper")
    for center in ("released", "paper")
    for hidden in (6, 5)
]


def made(**options):
    return make(lambda: GBKSage(16, CLASSES, **{"hidden": 6, "dropout": 0.0, **options}))


def reference_layer(layer, x, A, center):
    """Straight from the formula: features of every edge are added up before the kernels."""
    q = x @ layer.gate
    s = leaky_relu((q @ layer.attention[1])[:, None] + (q @ layer.attention[0])[None, :], 0.2)
    s = torch.sigmoid(s)  # s[i, j] for the edge from j to i
    mean = A / A.sum(1, keepdim=True).clamp(min=1)
    p = ((mean * s)[:, :, None] * x[None, :, :]).sum(1)
    seen = x[None, :, :] if center == "paper" else x[:, None, :]
    u = ((mean * (1 - s))[:, :, None] * seen).sum(1)
    first = p @ layer.kernels[0] + layer.biases[0]
    second = u @ layer.kernels[1] + layer.biases[1]
    even = layer.root.shape[1] % 2 == 0
    both = torch.cat([first, second], 1) if even else first + second
    return both + x @ layer.root, s


def reference(model, drawn):
    center = model.options.center
    hidden, first = reference_layer(model.first, drawn.X, drawn.A, center)
    logits, second = reference_layer(model.second, torch.relu(hidden), drawn.A, center)
    return logits, (first, second)


def reference_loss(model, drawn, gates, train):
    total, labels = 0, drawn.labels
    for s in gates:
        logits, targets = [], []
        for i, j in torch.nonzero(drawn.A).tolist():
            if i in train and j in train:
                logits.append(torch.stack([1 - s[i, j], s[i, j]]))
                if model.options.gate_target == "paper":
                    targets.append(int(labels[i] == labels[j]))
                else:
                    targets.append(int(labels[i] != 0 and labels[j] != 0))
        assert {0, 1} == set(targets)
        total = total + cross_entropy(torch.stack(logits), torch.tensor(targets))
    return model.options.gate_weight * total


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("options", VARIANTS)
def test_logits_losses_and_gradients(directed, sparse, options):
    drawn = drawn_graph(11, nodes=17, directed=directed, sparse=sparse, density=0.35)
    model, inputs = made(gate_weight=3.0, **options), drawn.inputs()
    train = torch.tensor([0, 2, 3, 5, 6, 8, 9, 12])
    expected, gates = reference(model, drawn)
    assert (model(inputs) - expected).abs().max() < 1e-9
    found = model(inputs, None, KEY)
    loss = model.extra_loss(train, inputs.labels[train])
    expected_loss = reference_loss(model, drawn, gates, train.tolist())
    assert (loss - expected_loss).abs() < 1e-9
    weights = torch.randn_like(expected)
    parameters = list(model.parameters())
    wanted = torch.autograd.grad((expected * weights).sum() + expected_loss, parameters)
    for mine, theirs in zip(
        torch.autograd.grad((found * weights).sum() + loss, parameters), wanted, strict=True
    ):
        assert (mine - theirs).abs().max() < 1e-9


def test_gates_are_those_of_the_last_training_step():
    drawn = drawn_graph(2, nodes=30)
    model, inputs = made(dropout=0.5), drawn.inputs()
    train = torch.arange(20)
    labels = inputs.labels[train]

    def loss_at(step):
        model(inputs, None, DropoutKey(0, step))
        with torch.no_grad():
            model(inputs, None, DropoutKey(0, 7))
        model(inputs)
        return model.extra_loss(train, labels)

    assert torch.equal(loss_at(1), loss_at(1))
    assert not torch.equal(loss_at(1), loss_at(2))
    with pytest.raises(InputError, match="a training pass of the model right before it"):
        model.extra_loss(train, labels)


def test_the_loss_keeps_nothing_of_earlier_graphs_nodes_and_labels():
    drawn, other = drawn_graph(2, nodes=30), drawn_graph(3, nodes=30)
    model, graphs = made(), [drawn.inputs(), other.inputs()]

    def loss(inputs, train, of):
        of(inputs, None, KEY)
        return of.extra_loss(train, inputs.labels[train])

    train = torch.arange(20)
    for inputs, nodes in ((graphs[0], train + 2), (graphs[1], train + 2), (graphs[0], train)):
        assert torch.equal(loss(inputs, nodes, model), loss(inputs, nodes, made()))
    graphs[0].labels[0] = (graphs[0].labels[0] + 1) % CLASSES
    assert torch.equal(loss(graphs[0], train, model), loss(graphs[0], train, made()))
    # A model keeps no graph from being freed.
    pattern = weakref.ref(graphs[0].adjacency.pattern)
    del inputs
    graphs.clear()
    gc.collect()
    assert pattern() is None


def test_no_edge_between_training_nodes_means_no_loss():
    drawn = drawn_graph(2)
    model, inputs = made(), drawn.inputs()
    model(inputs, None, KEY)
    loss = model.extra_loss(torch.tensor([12]), inputs.labels[12:])
    assert loss == 0
    loss.backward()


def test_a_model_can_be_copied_between_a_pass_and_its_loss():
    model, inputs = made(), drawn_graph(2).inputs()
    expected = model(inputs)
    model(inputs, None, KEY)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(inputs), expected)
        with pytest.raises(InputError, match="a training pass of the model right before it"):
            other.extra_loss(torch.arange(4), inputs.labels[:4])
    model.extra_loss(torch.arange(4), inputs.labels[:4]).backward()


def test_dropout_is_keyed():
    model, inputs = made(dropout=0.5), drawn_graph(2).inputs()
    keyed = [model(inputs, None, DropoutKey(0, step)) for step in (1, 1, 2)]
    assert torch.equal(keyed[0], keyed[1])
    assert not torch.equal(keyed[0], keyed[2])


def test_sparse_features_stay_sparse(monkeypatch):
    inputs = drawn_graph(5).inputs()
    assert isinstance(inputs.features, ConstantSparse)

    def refuse(*_):
        raise AssertionError("dense")

    monkeypatch.setattr(ConstantSparse, "to_dense", refuse)
    made()(inputs).sum().backward()


def test_initialisation():
    layer = GBKSage(40, CLASSES, hidden=50).first
    bounds = [
        (layer.gate, (6 / 90) ** 0.5),
        (layer.attention, (6 / 51) ** 0.5),
        *((kernel, (6 / 65) ** 0.5) for kernel in layer.kernels),
        *((parameter, 40**-0.5) for parameter in (layer.root, *layer.biases)),
    ]
    for parameter, bound in bounds:
        assert 0.8 * bound < parameter.abs().max() <= bound


def test_options():
    assert GBKSage.Options().model_dump() == {
        "hidden": 512,
        "dropout": 0.5,
        "gate_weight": 30.0,
        "gate_target": "released",
        "center": "released",
    }
    with pytest.raises(InputError, match="center"):
        GBKSage(4, 2, center="other")
