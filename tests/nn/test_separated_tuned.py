"""Separated learning on the tuned backbone against dense matrices, and against the plain one."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import assert_same
from drawn_graphs import CLASSES, drawn_graph

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.tuned import TunedGCN, TunedSAGE
from ncgnn.nn.functional import dropout
from ncgnn.nn.separated.tuned import NCTunedGCN, NCTunedSAGE
from ncgnn.training import make_config

KINDS = [NCTunedGCN, NCTunedSAGE]
GROUP = torch.tensor([0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1])
RATES = (0.3, 0.6)


def made(kind, **options):
    torch.manual_seed(0)
    model = kind(16, CLASSES, hidden=6, **options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def operator(A, kind, self_loops):
    """norm(A) of the undirected graph."""
    A = ((A + A.t()) > 0).double()
    if self_loops:
        A = A + torch.eye(len(A), dtype=A.dtype)
    degree = A.sum(1)
    if kind is NCTunedSAGE:
        return A / degree.clamp(min=1)[:, None]
    half = torch.where(degree > 0, degree.clamp(min=1) ** -0.5, 0.0)
    return half[:, None] * A * half[None, :]


def weights_of(layer):
    """The weights of every group, common part and deviation together."""
    for group in layer.groups:
        found = {"message": group.message, "bias": group.bias, "own": list(group.own)}
        if layer.common is not None:
            found = {
                "message": layer.common.message + layer.deviation * group.message,
                "bias": layer.common.bias + layer.deviation * group.bias,
                "own": [
                    common + layer.deviation * own
                    for common, own in zip(layer.common.own, group.own, strict=True)
                ],
            }
        yield found


def dense(model, drawn, group, key, *, separation, self_loops, norm):
    """The formula, node by node of its group, with masks instead of slices."""
    S = operator(drawn.A, type(model), self_loops)
    if separation == "none":
        group = torch.zeros_like(group)
    masks = [(group == s).double()[:, None] for s in range(model._channels)]
    rates = torch.tensor(model.dropout, dtype=S.dtype)

    def dropped(x, place, rate_of):
        if key is None:
            return x
        kept = torch.empty_like(x)
        for node in range(len(x)):
            rate = float(rate_of[group[node]])
            ones = torch.ones(1, x.shape[1], dtype=x.dtype)
            kept[node] = dropout(ones, rate, key.at(place), torch.tensor([node]))
        return x * kept

    h = drawn.X
    for place, layer in enumerate(model.layers):
        total = 0
        for mask, weights in zip(masks, weights_of(layer), strict=True):
            P = S if separation != "strict" or place == 0 else S * mask * mask.t()
            mine = P @ h @ weights["message"] + weights["bias"]
            for own in weights["own"]:
                mine = mine + h @ own
            total = total + mask * mine
        h = dropped(torch.relu(layer.norm(total)), place, rates)
    if model.raw is not None:
        alpha = model.channel_alpha[group][:, None]
        h = torch.relu(alpha * h + (1 - alpha) * (drawn.X @ model.raw))
        h = dropped(h, len(model.layers), torch.full((2,), model.readout_dropout))
    return model.readout(h)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separation", ["strict", "target-only", "none"])
@pytest.mark.parametrize(
    ("layers", "residual", "norm", "raw", "self_loops", "sparse", "directed", "shared"),
    [
        (1, False, "none", True, True, True, True, True),
        (2, True, "layer", False, True, False, False, False),
        (3, False, "batch", True, False, True, False, False),
        (4, True, "layer", True, True, True, True, True),
    ],
)
def test_against_dense_matrices(
    kind, separation, layers, residual, norm, raw, self_loops, sparse, directed, shared
):
    drawn = drawn_graph(layers, sparse=sparse, directed=directed)
    options = {"separation": separation, "layers": layers, "residual": residual, "norm": norm}
    options |= {"raw": raw, "self_loops": self_loops, "dropout": RATES, "shared": shared}
    options["readout_dropout"] = 0.4 if raw else 0.0
    model = made(kind, **options).train()
    if norm == "batch":
        model.eval()  # its running statistics must not change between the two passes
    key = None if norm == "batch" else DropoutKey(3, 9)
    found = model(drawn.inputs(), GROUP, key)
    how = {"separation": separation, "self_loops": self_loops, "norm": norm}
    expected = dense(model, drawn, GROUP, key, **how)
    assert_same(model, found, expected)


@pytest.mark.parametrize(("kind", "plain"), [(NCTunedGCN, TunedGCN), (NCTunedSAGE, TunedSAGE)])
@pytest.mark.parametrize("residual", [True, False])
def test_all_nodes_in_one_group_make_the_tuned_model(kind, plain, residual):
    model = made(kind, layers=3, residual=residual, raw=False, separation="strict")
    other = plain(16, CLASSES, hidden=6, layers=3, residual=residual).double().eval()
    with torch.no_grad():
        for mine, theirs in zip(model.layers, other.layers, strict=True):
            weights, conv = next(iter(weights_of(mine))), theirs.convolution
            conv.bias.copy_(weights["bias"])
            own = list(weights["own"])
            if kind is NCTunedSAGE:
                conv.neighbors.copy_(weights["message"])
                conv.own.copy_(own.pop(0))
            else:
                conv.weight.copy_(weights["message"])
            if residual:
                linear = theirs.residual
                like = own[0] if linear.weight.shape == own[0].shape else own[0].t()
                if theirs is not other.layers[0]:
                    like = own[0].t()
                linear.weight.copy_(like)
                linear.bias.zero_()
            theirs.norm.load_state_dict(mine.norm.state_dict())
        other.readout.load_state_dict(model.readout.state_dict())
    inputs = drawn_graph(4).inputs()
    assert torch.allclose(model(inputs), other(inputs), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_that_share_weights_begin_alike(kind):
    torch.manual_seed(0)
    shared, apart = (
        kind(16, CLASSES, hidden=6, separation="target-only", shared=shared).double().eval()
        for shared in (True, False)
    )
    inputs = drawn_graph(1).inputs()
    assert torch.allclose(shared(inputs, GROUP), shared(inputs, 1 - GROUP))
    assert not torch.allclose(apart(inputs, GROUP), apart(inputs, 1 - GROUP))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separation", ["strict", "target-only"])
def test_groups_matter(kind, separation):
    inputs = drawn_graph(1).inputs()
    model = made(kind, separation=separation)
    assert not torch.allclose(model(inputs, GROUP), model(inputs, 1 - GROUP))
    one = model(inputs, torch.ones_like(GROUP))
    assert torch.isfinite(one).all()  # an empty group is fine


def test_strict_keeps_messages_within_groups():
    """After the first layer, nothing of one group reaches the other."""
    drawn = drawn_graph(1, directed=False, density=0.6)
    inputs = drawn.inputs()
    for separation, crosses in (("strict", False), ("target-only", True)):
        model = made(NCTunedGCN, separation=separation, layers=2, raw=False)
        with torch.no_grad():
            before = model(inputs, GROUP)
            model.layers[0].groups[1].message.mul_(2)  # the first layer of the other group
            after = model(inputs, GROUP)
        changed = (before - after).abs().amax(1)[GROUP == 0] > 1e-9
        assert bool(changed.any()) == crosses


def test_modes_that_it_does_not_have():
    with pytest.raises(InputError, match="separation"):
        made(NCTunedGCN, separation="renormalized")


@pytest.mark.parametrize("name", ["nctuned-gcn", "nctuned-sage"])
def test_it_trains_and_has_the_tuned_parameters(name):
    config = make_config(dataset="photo", model=name)
    plain = make_config(dataset="photo", model=name.removeprefix("nc"))
    assert config.training == plain.training
    assert config.data.scaling == plain.data.scaling
    same = ("hidden", "layers", "norm", "residual")
    assert all(config.model.options[k] == plain.model.options[k] for k in same)
    quick = {"hidden": 16, "epochs": 40, "layers": 2, "learning_rate": 0.02}
    trained = ncgnn.fit(ncgnn.load("digits"), name, **quick)
    assert trained.evaluate()["scores"]["test"]["accuracy"] > 0.8
