from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import ChebConv, GATConv

from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import GCN, MLP, DropoutKey, GraphInputs, GraphSAGE, SeparatedGNN
from ncgnn.nn.separated.backbones import Isomorphism
from ncgnn.nn.separated.channels import SEPARATIONS

NODES = torch.tensor([11, 3, 4, 19, 0, 7])


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(3)
    graph = Graph.from_edge_index(
        rng.integers(0, 24, (2, 70)),
        num_nodes=24,
        labels=rng.integers(0, 3, 24),
        features=rng.normal(size=(24, 6)),
    )
    return GraphInputs(graph, dtype=torch.float64)


def separated(separation, backbone):
    torch.manual_seed(0)
    layer = (lambda i, o: GATConv(i, o)) if backbone == "gat" else backbone
    model = SeparatedGNN(
        6,
        3,
        layer,
        hidden=8,
        separation=separation,
        dropout=(0.3, 0.4, 0.2),
        threshold=(0.3, 0.6),
    )
    return model.double()


@pytest.mark.parametrize("separation", SEPARATIONS)
@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("empty", [False, True])
def test_asking_for_some_nodes_gives_their_rows_and_gradients(inputs, separation, backbone, empty):
    model = separated(separation, backbone)
    group = torch.arange(24) % (1 if empty else 3)
    gradients = []
    for nodes in (None, NODES):
        model.zero_grad()
        logits = model(inputs, group, DropoutKey(1, 2), nodes)
        chosen = logits[NODES] if nodes is None else logits
        chosen.square().sum().backward()
        rows = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        gradients.append([chosen.detach(), *rows])
    for whole, part in zip(*gradients, strict=True):
        torch.testing.assert_close(part, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [GCN, GraphSAGE, MLP])
def test_plain_models_take_nodes_too(inputs, kind):
    model = kind(6, 3, hidden=8).double().eval()
    torch.testing.assert_close(model(inputs, nodes=NODES), model(inputs)[NODES])


def test_another_selection_and_another_group_are_not_mixed_up(inputs):
    model = separated("strict", "gcn").eval()
    low, mixed = torch.zeros(24, dtype=torch.int64), torch.arange(24) % 3
    for group in (low, mixed, low):
        for nodes in (NODES, NODES[:2].clone(), NODES.flip(0), NODES[1:], NODES[2:], NODES[3:]):
            expected = model(inputs, group)[nodes]
            torch.testing.assert_close(model(inputs, group, nodes=nodes), expected)


def test_a_selection_that_changes_in_place_is_noticed(inputs):
    model, nodes = separated("strict", "gcn").eval(), torch.arange(5)
    before = model(inputs, nodes=nodes)
    nodes += 5
    torch.testing.assert_close(model(inputs, nodes=nodes), model(inputs)[5:10])
    assert not torch.equal(before, model(inputs, nodes=nodes))


def test_a_mask_selects_and_bad_selections_are_named(inputs):
    model = separated("strict", "gcn").eval()
    mask = torch.arange(24) % 2 == 0
    torch.testing.assert_close(model(inputs, nodes=mask), model(inputs)[mask])
    for wrong in (torch.tensor([-1]), torch.tensor([24]), torch.tensor([0.5]), mask[:3]):
        with pytest.raises(InputError, match="nodes"):
            model(inputs, nodes=wrong)


def test_training_mode_without_a_key_drops_at_random(inputs):
    for model in (separated("strict", "gcn"), GCN(6, 3, hidden=8).double()):
        torch.manual_seed(1)
        one, two = model(inputs), model(inputs)
        torch.manual_seed(1)
        assert torch.equal(model(inputs), one)
        assert not torch.equal(one, two)
        assert torch.equal(model.eval()(inputs), model(inputs))


def test_operators_are_made_once_for_all_models(inputs):
    fresh = GraphInputs(inputs.graph, dtype=torch.float64)
    for _ in range(4):
        separated("strict", "gcn")(fresh)
    assert len(fresh._propagated) == 1


@pytest.mark.parametrize("separation", ["strict", "source"])
def test_layers_that_cannot_handle_no_node_work_beside_an_empty_group(inputs, separation):
    model = SeparatedGNN(
        6, 3, hidden=8, separation=separation, backbone=lambda i, o: ChebConv(i, o, K=2)
    )
    model.double()(inputs, torch.zeros(24, dtype=torch.int64)).sum().backward()


@pytest.mark.parametrize("separation", ["renormalized", "source", "strict"])
def test_nodes_that_change_later_change_no_kept_layout(inputs, separation):
    model = SeparatedGNN(6, 3, hidden=8, separation=separation, backbone=Isomorphism)
    model = model.double().eval()
    nodes = torch.arange(5)
    expected = model(inputs, nodes=nodes.clone()).detach()
    model(inputs, nodes=nodes)
    nodes += 5
    assert torch.equal(model(inputs, nodes=torch.arange(5)), expected)


def test_what_inference_mode_has_seen_first_can_be_trained_on(inputs):
    fresh = GraphInputs(inputs.graph, dtype=torch.float64)
    model = SeparatedGNN(6, 3, hidden=8, backbone=Isomorphism).double()
    with torch.inference_mode():
        nodes = torch.arange(5)
        model(fresh, nodes=nodes)
    for kept in (fresh.everyone, fresh.adjacency.values, fresh.looped_adjacency.values):
        assert not kept.is_inference()
    model(fresh, nodes=torch.arange(5)).sum().backward()
