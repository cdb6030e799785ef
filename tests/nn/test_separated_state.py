"""Parameters that change, are stored, copied and shared."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from drawn_graphs import copied, drawn_graph, groups_of, model_for

from ncgnn.nn import model_class
from ncgnn.nn.separated.channels import SEPARATIONS

both = pytest.mark.parametrize("backbone", ["gcn", "sage"])
every_mode = pytest.mark.parametrize("separation", SEPARATIONS)


def stepped(model, inputs, group, *, counted, steps=2):
    """Logits and gradients of some steps of fused Adam, each with an evaluation after it."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        logits = model(inputs, group)
        logits.square().sum().backward()
        found += [logits.detach(), *(p.grad.clone() for p in model.parameters())]
        optimiser.step()
        if counted:
            torch.autograd.graph.increment_version(list(model.parameters()))
        with torch.no_grad():
            found.append(model(inputs, group))
    return found


@every_mode
@both
def test_shared_products_change_nothing(separation, backbone):
    drawn = drawn_graph(0)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    options = {"backbone": backbone, "separation": separation}
    sharing, plain = model_for(16, **options), model_for(16, **options)
    sharing.share_products(True)
    mine = stepped(sharing, inputs, group, counted=True)
    theirs = stepped(plain, inputs, group, counted=False)
    assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))


def test_shared_products_are_made_anew_when_groups_or_graphs_change():
    model, fresh = model_for(16, separation="strict"), model_for(16, separation="strict")
    model.share_products(True)
    for seed in range(2):
        drawn = drawn_graph(seed)
        inputs = drawn.inputs()
        for group in (groups_of(drawn.num_nodes, s)["mixed"][0] for s in (0, 1, 1, 0)):
            assert torch.equal(model(inputs, group), fresh(inputs, group))


@every_mode
@both
def test_evaluation_after_a_fused_step_sees_the_new_weights(separation, backbone):
    # Fused optimisers change weights without torch counting it as a change.
    drawn = drawn_graph(0)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, backbone=backbone, separation=separation)
    before = model(inputs, group).detach()
    after = stepped(model, inputs, group, counted=False, steps=1)[-1]
    other = model_for(16, backbone=backbone, separation=separation, seed=9)
    assert torch.equal(copied(model, other)(inputs, group), after)
    assert not torch.equal(before, after)


@every_mode
@both
def test_state_dicts_bring_logits_along(separation, backbone):
    drawn = drawn_graph(1)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    options = {"backbone": backbone, "separation": separation}
    model, other = model_for(16, **options), model_for(16, seed=1, **options)
    assert not torch.equal(other(inputs, group), model(inputs, group))
    stored = io.BytesIO()
    torch.save(model.state_dict(), stored)
    stored.seek(0)
    other.load_state_dict(torch.load(stored, weights_only=True))
    assert torch.equal(other(inputs, group), model(inputs, group))
    assert all(isinstance(value, torch.Tensor) for value in model.state_dict().values())


@pytest.mark.parametrize("sharing", [False, True])
def test_loading_into_a_model_in_use_takes_effect(sharing):
    drawn = drawn_graph(1)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    model, other = model_for(16), model_for(16, seed=1)
    other.share_products(sharing)
    other(inputs, group)
    assert torch.equal(copied(model, other)(inputs, group), model(inputs, group))


@every_mode
@both
@pytest.mark.parametrize("used", [False, True])
def test_copies_and_pickles_give_the_same_logits(separation, backbone, used):
    drawn = drawn_graph(1)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, backbone=backbone, separation=separation)
    model.share_products(True)
    if used:
        model(inputs, group).sum().backward()
    expected = model(inputs, group)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for one in copies:
        assert torch.equal(one(inputs, group), expected)
    with torch.no_grad():
        copies[0].raw.add_(1)
    assert torch.equal(model(inputs, group), expected)
    assert not torch.equal(copies[0](inputs, group), expected)


@every_mode
def test_without_gradients_nothing_is_recorded(separation):
    drawn = drawn_graph(1)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, separation=separation)
    with torch.no_grad():
        logits = model(inputs, group)
    assert not logits.requires_grad
    with torch.inference_mode():
        assert torch.equal(model(inputs, group), logits)


@every_mode
@pytest.mark.parametrize("sharing", [False, True])
def test_a_model_first_used_in_inference_mode_can_be_trained(separation, sharing):
    drawn = drawn_graph(1)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, separation=separation)
    model.share_products(sharing)
    with torch.inference_mode():
        model(inputs, group)
    model(inputs, group).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("model", ["ncgcn", "ncsage", "nctuned-gcn", "nctuned-sage"])
def test_raw_features_and_messages_weigh_the_same_at_first(model):
    made = model_class(model)(4, 3, hidden=8)
    assert not made.mixing.detach().any()
    assert made.channel_alpha.tolist() == [0.5, 0.5]


def test_revisions_tell_models_that_begin_otherwise_than_before():
    assert model_class("gcn").revision_of({}) == 1
    assert model_class("ncgcn").revision_of({"separation": "none"}) == 2
    assert [model_class("nctuned-gcn").revision_of({"raw": raw}) for raw in (True, False)] == [2, 1]


def test_ncsage_may_begin_as_the_layers_of_pyg():
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(0)
    ours = model_class("ncsage")(100, 3, hidden=64, initialization="pyg", bias=False)
    theirs = SAGEConv(100, 64, bias=False)
    names = {name for name, _ in ours.named_parameters()}
    assert not [name for name in names if name.startswith(("first", "second")) and "bias" in name]
    for layer in ours.first:
        for weight in layer.weights:
            for other in (theirs.lin_l.weight, theirs.lin_r.weight):
                mine, pyg = weight.detach(), other.detach()
                assert mine.abs().max() <= 0.1
                assert float(mine.std()) == pytest.approx(float(pyg.std()), rel=0.05)
                assert float(mine.abs().max()) == pytest.approx(float(pyg.abs().max()), rel=0.01)
    usual = model_class("ncsage")(100, 3, hidden=64)
    assert usual.first[0].bias is not None
    assert usual.first[0].weights[0].abs().max() > 0.2
