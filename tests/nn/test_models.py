"""The registry of models and the options they are made from."""

from __future__ import annotations

import copy

import pytest
import torch
from drawn_graphs import CLASSES, drawn_graph, groups_of
from pydantic import ValidationError
from torch_geometric.nn import GraphConv

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.nn import (
    NCGCN,
    NCSAGE,
    DropoutKey,
    GroupingRule,
    SeparatedGNN,
    SeparatedOptions,
    model_class,
    model_names,
    register_backbone,
)
from ncgnn.nn import registry as _models
from ncgnn.nn.separated.channels import SEPARATIONS

SEPARATED = ["ncgcn", "ncsage", "ncgat", "ncgin", "ncgraphconv"]
PLAIN = ["gcn", "sage", "mlp"]


@pytest.fixture
def _own_registry(monkeypatch):
    monkeypatch.setattr(_models, "_registered", {})


def made(name, **options):
    torch.manual_seed(0)
    return model_class(name)(16, CLASSES, hidden=8, **options).double().eval()


@pytest.mark.parametrize("name", SEPARATED + PLAIN)
@pytest.mark.parametrize("sparse", [True, False])
def test_every_model_of_the_registry_runs_and_learns(name, sparse):
    drawn = drawn_graph(1, sparse=sparse)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model = made(name)
    logits = model(drawn.inputs(), group, DropoutKey(0, 0))
    assert logits.shape == (drawn.num_nodes, CLASSES)
    logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name


@pytest.mark.parametrize("name", SEPARATED)
@pytest.mark.parametrize("separation", SEPARATIONS)
def test_separated_models_take_every_mode(name, separation):
    drawn = drawn_graph(1)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model = made(name, separation=separation)
    assert model.separation == separation
    assert model(drawn.inputs(), group).isfinite().all()


def test_names_lead_to_classes():
    assert {*SEPARATED, *PLAIN} <= set(model_names())
    assert model_names()[: len(SEPARATED)] == SEPARATED
    assert model_class("ncgcn") is NCGCN
    assert model_class("ncsage") is NCSAGE
    with pytest.raises(UnknownNameError, match="model 'ncgnc'; did you mean"):
        model_class("ncgnc")


@pytest.mark.usefixtures("_own_registry")
def test_a_registered_backbone_is_a_model():
    kind = register_backbone("graph-convolution", GraphConv)
    assert model_class("graph-convolution") is kind
    assert "graph-convolution" in model_names()
    drawn = drawn_graph(1)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    torch.manual_seed(0)
    model = kind(16, CLASSES, hidden=8, separation="strict").double().eval()
    torch.manual_seed(0)
    plain = (
        SeparatedGNN(16, CLASSES, hidden=8, backbone=GraphConv, separation="strict").double().eval()
    )
    assert torch.equal(model(drawn.inputs(), group), plain(drawn.inputs(), group))
    assert model.rule == GroupingRule()
    assert torch.equal(copy.deepcopy(model)(drawn.inputs()), model(drawn.inputs()))


@pytest.mark.usefixtures("_own_registry")
def test_built_in_names_are_taken():
    with pytest.raises(InputError, match="there is a model 'gcn' already"):
        register_backbone("gcn", GraphConv)


def test_options_make_the_model_and_the_rule():
    model = NCGCN(
        5,
        CLASSES,
        hidden=4,
        threshold=(0.2, 0.6),
        dropout=0.3,
        hops=2,
        guidance="nh",
        threshold_kind="quantile",
        known_labels=True,
    )
    assert model.dropout == (0.3, 0.3, 0.3)
    assert model.num_groups == len(model.first) == len(model.mixing) == 3
    assert model.rule == GroupingRule(2, (0.2, 0.6), "nh", "quantile", True)
    assert torch.allclose(model.channel_alpha, torch.full((3,), 0.5))


@pytest.mark.parametrize(
    "options",
    [
        {"hiden": 4},
        {"hidden": 0},
        {"separation": "stric"},
        {"dropout": 1.0},
        {"dropout": (0.1, 0.2, 0.3)},
        {"threshold": (0.5, 0.2)},
        {"threshold": ()},
        {"threshold": 1.5},
        {"hops": 0},
        {"guidance": "xy"},
    ],
)
def test_options_are_checked(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        SeparatedOptions(**options)


def test_the_mean_of_sage_is_over_neighbours_alone():
    drawn = drawn_graph(1, density=0.4)
    model, around = made("sage"), drawn.A / drawn.A.sum(1, keepdim=True).clamp(min=1)
    x = drawn.X
    for number, layer in enumerate((model.first, model.second)):
        own, mean = layer.weights
        x = torch.relu(x) if number else x
        x = x @ own + around @ x @ mean + layer.bias
    assert (model(drawn.inputs()) - x).abs().max() < 1e-9
