"""ACM-GCN against its formula on dense matrices."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import assert_same, dropper, features, make, saved_sizes
from drawn_graphs import CLASSES, drawn_graph

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.acmgcn import ACMGCN
from ncgnn.training import preset

KEY = DropoutKey(3, 4)


def made(**options):
    return make(lambda: ACMGCN(16, CLASSES, **({"hidden": 6} | options)))


def dense_layer(layer, U, P, variant, scaled):
    """The three channels one by one, with I − P as a matrix."""
    of_low, of_high, of_own = layer.weight.chunk(3, dim=1)
    if variant == 0:
        low, high = torch.relu(P @ U @ of_low), torch.relu((torch.eye(len(P)) - P) @ U @ of_high)
    else:
        low, high = P @ torch.relu(U @ of_low), (torch.eye(len(P)) - P) @ torch.relu(U @ of_high)
    own = torch.relu(U @ of_own)
    a = layer.scores
    scores = torch.sigmoid(torch.cat([low @ a[:, :1], high @ a[:, 1:2], own @ a[:, 2:]], dim=1))
    alpha = torch.softmax(scores @ layer.mix / 3, dim=1)
    assert alpha.shape == (len(P), 3)
    mixed = alpha[:, :1] * low + alpha[:, 1:2] * high + alpha[:, 2:] * own
    return 3 * mixed if scaled else mixed


def dense(model, drawn, variant=0, scaled=True, rate=0.5, key=None):
    looped = drawn.A + torch.eye(drawn.num_nodes)
    P = looped / looped.sum(1, keepdim=True)
    drop = dropper(rate, key)
    hidden = dense_layer(model.first, features(drawn, rate, key), P, variant, scaled)
    return dense_layer(model.second, drop(torch.relu(hidden), 1), P, variant, scaled)


@pytest.mark.parametrize("variant", [0, 1])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("key", [None, KEY])
def test_logits_and_gradients_are_those_of_the_formula(variant, scaled, directed, sparse, key):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(variant=variant, scaled=scaled, dropout=0.3)
    found = model(drawn.inputs(), None, key)
    assert_same(model, found, dense(model, drawn, variant, scaled, 0.3, key))


def test_defaults_are_those_of_the_released_code():
    drawn, model = drawn_graph(2), made()
    found = model(drawn.inputs())
    assert (found - dense(model, drawn, 0, True)).abs().max() < 1e-9
    assert (found - dense(model, drawn, 0, False)).abs().max() > 1e-3
    assert (found - dense(model, drawn, 1, True)).abs().max() > 1e-3
    assert found.min() >= 0  # ReLU in the last layer too


def test_first_weights():
    torch.manual_seed(0)
    model = ACMGCN(50, 4, hidden=100)
    for layer, width in ((model.first, 100), (model.second, 4)):
        for weight, bound in ((layer.weight, width**-0.5), (layer.scores, 1), (layer.mix, 3**-0.5)):
            assert 0.6 * bound < weight.abs().max() <= bound


def test_options_are_checked():
    with pytest.raises(InputError, match="variant"):
        ACMGCN(4, 2, variant=2)


def test_preset():
    assert preset("acmgcn", "x")["model"] == {"hidden": 512, "variant": 0, "scaled": True}
    assert preset("acmgcn", "actor")["data"] == {"scaling": "row"}


@pytest.mark.parametrize("options", [{}, {"variant": 1}])
def test_nothing_of_entries_times_hidden_is_saved(options):
    drawn, hidden = drawn_graph(4, nodes=60, density=0.6), 32
    model = made(hidden=hidden, dropout=0.3, **options).train()
    sizes = saved_sizes(lambda: model(drawn.inputs(), None, KEY))
    entries = int(drawn.A.sum() + 60)
    assert 60 * hidden <= max(sizes) <= max(entries, 3 * 60 * hidden)
    assert entries * hidden > 2 * max(
        entries, 3 * 60 * hidden
    )  # so that one such array would be seen
