"""What separated models let through, what they drop and what they refuse."""

from __future__ import annotations

import pytest
import torch
from drawn_graphs import CLASSES, drawn_graph, groups_of, model_for

from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import DropoutKey
from ncgnn.nn.inputs import GraphInputs
from ncgnn.nn.separated.channels import SEPARATIONS
from ncgnn.nn.separated.model import SeparatedGNN

both = pytest.mark.parametrize("backbone", ["gcn", "sage"])
every_mode = pytest.mark.parametrize("separation", SEPARATIONS)


def influence(separation, backbone, group, source, target, edges):
    """Whether the features of one node reach the logits of another."""
    torch.manual_seed(0)
    nodes = 1 + max(map(max, edges))
    X = torch.rand(nodes, 5, dtype=torch.float64)
    model = model_for(5, backbone=backbone, separation=separation, activation=False)
    # Weights above zero, so that ReLU cuts nothing.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
    before, after = (
        model(
            GraphInputs(
                Graph.from_edge_index(
                    torch.tensor(edges).t(), features=x.numpy(), require_labels=False
                ),
                dtype=torch.float64,
            ),
            torch.tensor(group),
        )
        for x in (X, X + (torch.arange(nodes) == source).double()[:, None])
    )
    changed = (before - after).abs().max(1).values > 1e-9
    assert changed[source]
    return bool(changed[target])


CHAIN = [(0, 1), (1, 2)]


@both
@pytest.mark.parametrize(
    ("separation", "passes"),
    [
        ("strict", False),
        ("source", True),
        ("renormalized", True),
        ("target-only", True),
        ("none", True),
    ],
)
def test_a_second_message_from_another_group(separation, passes, backbone):
    # Node 0 reaches node 2 by way of node 1 alone: its second step is a message of the second
    # layer, from the group of node 1 to that of node 2.
    assert influence(separation, backbone, [1, 1, 0], 0, 2, CHAIN) == passes


@both
@every_mode
def test_a_second_message_within_a_group_always_passes(separation, backbone):
    assert influence(separation, backbone, [0, 0, 0], 0, 2, CHAIN)
    assert influence(separation, backbone, [1, 1, 1], 0, 2, CHAIN)


@both
@every_mode
def test_the_first_layer_hears_all_neighbours(separation, backbone):
    # The first step crosses groups, the second does not.
    assert influence(separation, backbone, [1, 0, 0], 0, 2, CHAIN)


@both
@every_mode
def test_no_message_goes_against_an_edge(separation, backbone):
    assert not influence(separation, backbone, [0, 0, 0], 2, 0, CHAIN)
    assert not influence(separation, backbone, [0, 1, 0], 2, 1, CHAIN)


@both
@every_mode
def test_dropout_follows_its_key(separation, backbone):
    drawn = drawn_graph(0)
    inputs, (group, _) = drawn.inputs(), groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, backbone=backbone, separation=separation, hidden=32)
    logits = [model(inputs, group, DropoutKey(3, 4)) for _ in range(2)]
    assert torch.equal(*logits)
    assert torch.equal(model(inputs, group), model(inputs, group))
    others = [None, DropoutKey(3, 5), DropoutKey(4, 4)]
    assert not any(torch.equal(model(inputs, group, key), logits[0]) for key in others)


def test_without_rates_training_is_evaluation():
    drawn = drawn_graph(0)
    model = model_for(16, dropout=(0.0, 0.0), readout_dropout=0.0)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    inputs = drawn.inputs()
    assert torch.equal(model(inputs, group, DropoutKey(0, 0)), model(inputs, group))


def test_the_readout_has_a_dropout_rate_of_its_own():
    drawn = drawn_graph(0)
    model = model_for(16, dropout=(0.0, 0.0), readout_dropout=0.9)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    inputs = drawn.inputs()
    assert not torch.allclose(model(inputs, group, DropoutKey(0, 0)), model(inputs, group))


@pytest.mark.parametrize(
    "wrong", [{"hidden": 0}, {"dropout": ()}, {"dropout": (0.5, 1.0)}, {"readout_dropout": -0.1}]
)
def test_arguments_are_checked_when_the_model_is_made(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        SeparatedGNN(4, 3, **({"hidden": 8} | wrong))


def test_groups_have_dropout_rates_of_their_own():
    drawn = drawn_graph(0, sparse=False)
    inputs = drawn.inputs()
    model = model_for(16, separation="strict", dropout=(0.0, 0.9), readout_dropout=0.0, hidden=32)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    changed = (model(inputs, group, DropoutKey(0, 0)) != model(inputs, group)).any(1)
    assert torch.equal(changed, group == 1)


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int32, torch.int64])
@every_mode
def test_groups_come_in_any_whole_number_type(separation, kind):
    drawn = drawn_graph(0)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model, inputs = model_for(16, separation=separation), drawn.inputs()
    expected = model(inputs, group)
    model = model_for(16, separation=separation)
    assert torch.equal(model(inputs, group.to(kind)), expected)


def test_a_group_vector_that_changes_in_place_is_noticed():
    drawn = drawn_graph(0)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model, inputs = model_for(16), drawn.inputs()
    before = model(inputs, group)
    group[:] = 1 - group
    after = model(inputs, group)
    assert not torch.equal(before, after)
    assert torch.equal(after, model_for(16)(inputs, group))


@every_mode
def test_a_pyg_data_will_do(separation):
    drawn = drawn_graph(0)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, separation=separation)
    expected = model(drawn.inputs(), group)
    assert (model(drawn.graph().to_pyg(), group) - expected).abs().max() < 1e-9
    unlabelled = drawn.graph().to_pyg()
    unlabelled.y = None
    assert (model(unlabelled, group) - expected).abs().max() < 1e-9


@every_mode
def test_the_first_group_is_the_default(separation):
    drawn = drawn_graph(0)
    model, inputs = model_for(16, separation=separation), drawn.inputs()
    nobody = torch.zeros(drawn.num_nodes, dtype=torch.int64)
    assert torch.equal(model(inputs), model(inputs, nobody))


@pytest.mark.parametrize(
    "group",
    [
        torch.zeros(3, dtype=torch.int64),
        torch.zeros(13, 1, dtype=torch.int64),
        torch.full((13,), 2),
        torch.full((13,), -1),
        torch.full((13,), 0.5),
    ],
)
def test_groups_are_checked(group):
    with pytest.raises(InputError, match="group"):
        model_for(16)(drawn_graph(0).inputs(), group)


def test_options_are_checked():
    with pytest.raises(InputError, match="separation must be 'strict'"):
        SeparatedGNN(4, CLASSES, separation="stric")
    with pytest.raises(InputError, match="backbone must be one of gcn, sage"):
        SeparatedGNN(4, CLASSES, backbone="gnc")
    with pytest.raises(InputError, match="dropout"):
        model_for(16, dropout=(0.5, 1.0))(drawn_graph(0).inputs())
