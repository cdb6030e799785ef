"""Blocks: with all edges they equal the whole graph, and inference by layers is exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

import ncgnn
from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import (
    BlockMaker,
    DropoutKey,
    GraphInputs,
    SeparatedGNN,
    compute_block,
    infer,
    minibatch,
    model_class,
)
from ncgnn.nn.registry import BUILT_IN

SMALL = {"hidden": 8, "dropout": 0.0}
SEPARATIONS = ("strict", "source", "renormalized", "target-only", "none")
#: Models that are computed layer by layer, with options that matter to blocks.
LAYERED = {
    "mlp": [{}],
    "gcn": [{}, {"self_loops": False}, {"direction": "both"}, {"direction": "separate"}],
    "sage": [{}, {"self_loops": True}, {"direction": "both"}, {"direction": "separate"}],
    "gat": [{"heads": 2}, {"heads": 2, "direction": "separate"}, {"heads": 2, "direction": "both"}],
    "tuned-gcn": [{}, {"layers": 2, "jumping": True}, {"direction": "separate"}],
    "tuned-sage": [{}, {"layers": 2, "residual": False}, {"direction": "separate"}],
    "tuned-gat": [{}, {"layers": 2, "jumping": True}, {"direction": "separate"}],
    "ncgcn": [{"separation": one} for one in SEPARATIONS]
    + [{"separation": one, "direction": "separate"} for one in SEPARATIONS]
    + [{"self_loops": False}, {"direction": "both"}, {"threshold": (0.2, 0.5)}],
    "ncsage": [{"separation": one} for one in SEPARATIONS]
    + [{"separation": one, "direction": "separate"} for one in SEPARATIONS],
    "ncgat": [{"separation": one} for one in SEPARATIONS] + [{"direction": "separate"}],
    "ncgin": [{"separation": one} for one in SEPARATIONS],
    "ncgraphconv": [{"separation": "strict"}, {"separation": "renormalized"}],
    "nctuned-gcn": [{"separation": one} for one in ("strict", "target-only", "none")]
    + [{"direction": "separate"}, {"raw": False}],
    "nctuned-sage": [{"separation": one} for one in ("strict", "target-only", "none")],
}
CASES = [(name, options) for name, every in LAYERED.items() for options in every]


def make_graph(*, weighted=False, sparse=False, loops=False):
    rng = np.random.default_rng(5)
    n = 150
    edges = rng.integers(0, n, (2, 600))
    if not loops:
        edges = edges[:, edges[0] != edges[1]]
    edges = np.unique(edges[:, (edges < n - 3).all(0)], axis=1)  # some nodes are alone
    features = rng.normal(size=(n, 6)).astype(np.float32)
    if sparse:
        features = np.where(rng.random(size=(n, 40)) < 0.05, 1.0, 0.0).astype(np.float32)
    weights = rng.uniform(0.5, 2, edges.shape[1]).astype(np.float32) if weighted else None
    return Graph.from_edge_index(
        edges, features=features, labels=rng.integers(0, 3, n), num_nodes=n, edge_weights=weights
    )


@pytest.fixture(scope="module")
def whole():
    return GraphInputs(make_graph(), dtype=torch.float64)


def made(inputs, name, options, seed=3):
    torch.manual_seed(seed)
    kind = model_class(name)
    known = SMALL if "dropout" in kind.Options.model_fields else {"hidden": 8}
    model = kind.for_inputs(inputs, **known, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and mixing weights begin at 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def groups_of(model, inputs):
    count = int(getattr(model, "num_groups", 1))
    return torch.from_numpy(np.random.default_rng(1).integers(0, count, inputs.num_nodes))


def gradients(model, logits, labels):
    model.zero_grad()
    loss = cross_entropy(logits, labels)
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def check_batch(inputs, model):
    group = groups_of(model, inputs)
    nodes = np.array([7, 149, 3, 100, 42])
    labels = inputs.labels[torch.from_numpy(nodes)]
    model.train()
    wanted = gradients(
        model, model.node_logits(inputs, group, None, torch.from_numpy(nodes)), labels
    )
    maker = BlockMaker(inputs, model)
    maker.use_groups(group)
    block = maker.make(nodes, maker.sample(nodes, [None] * maker.hops))
    assert block.num_nodes < inputs.num_nodes or maker.hops > 1
    found = gradients(model, compute_block(model, block, maker.group_of(block)), labels)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    return maker, group


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: str(value))
def test_a_batch_with_all_edges_has_the_loss_and_gradients_of_its_nodes(whole, name, options):
    model = made(whole, name, options)
    maker, group = check_batch(whole, model)
    exact = model.eval()(whole, group)
    torch.testing.assert_close(infer(maker, group), exact, rtol=1e-9, atol=1e-10)


def test_all_layered_models_are_compared():
    inputs = GraphInputs(ncgnn.load("digits"))
    layered = set()
    for name in BUILT_IN:
        kind = model_class(name)
        if name != "mixture" and kind.for_inputs(inputs).depth is not None:
            layered.add(name)
    assert layered == set(LAYERED)


@pytest.mark.parametrize("name", ["gcn", "sage", "tuned-gcn", "ncgcn", "ncsage", "nctuned-gcn"])
@pytest.mark.parametrize("kind", ["weighted", "sparse", "loops"])
def test_weights_sparse_features_and_self_loops(name, kind):
    inputs = GraphInputs(make_graph(**{kind: True}), dtype=torch.float64)
    model = made(inputs, name, {})
    maker, group = check_batch(inputs, model)
    torch.testing.assert_close(infer(maker, group), model.eval()(inputs, group))


@pytest.mark.parametrize("separation", SEPARATIONS)
@pytest.mark.parametrize("layer", [GCNConv, SAGEConv, GATConv])
def test_layers_of_pyg(whole, layer, separation):
    torch.manual_seed(2)
    model = SeparatedGNN(
        6, 3, backbone=lambda i, o: layer(i, o), hidden=8, dropout=0.0, separation=separation
    ).double()
    maker, group = check_batch(whole, model)
    torch.testing.assert_close(infer(maker, group), model.eval()(whole, group))


def test_sampled_sums_are_unbiased(whole):
    model = made(whole, "gcn", {}).eval()
    maker, nodes = BlockMaker(whole, model), np.arange(20)

    def before_relu(block):
        channel = model._layouts.find(block, None, only="first").channels[0]
        return model._before(channel).detach()

    exact = before_relu(maker.make(nodes, maker.sample(nodes, [None])))
    for method in ("uniform", "labor"):
        draws = torch.stack([
            before_relu(
                maker.make(nodes, maker.sample(nodes, [2], method=method, key=(0, 0, batch)))
            )
            for batch in range(3000)
        ])  # fmt: skip
        error = (draws.mean(0) - exact).abs() / (draws.std(0) / 3000**0.5 + 1e-9)
        assert float(error.max()) < 5


def test_dropout_of_a_batch_depends_on_its_key_alone(whole):
    model = made(whole, "ncgcn", {})
    model.dropout = (0.5, 0.5)
    maker, nodes = BlockMaker(whole, model.train()), np.arange(9)
    group = groups_of(model, whole)
    maker.use_groups(group)
    block = maker.make(nodes, maker.sample(nodes, [3, 3], key=(1, 2, 3)))
    again = maker.make(nodes, maker.sample(nodes, [3, 3], key=(1, 2, 3)))
    one, other, third = (
        compute_block(model, part, maker.group_of(part), DropoutKey(4, step))
        for part, step in ((block, 5), (again, 5), (block, 6))
    )
    assert torch.equal(one, other)
    assert not torch.equal(one, third)


def test_a_model_without_layers_is_refused(whole):
    with pytest.raises(InputError, match="needs the whole graph at a time"):
        BlockMaker(whole, model_class("linkx").for_inputs(whole))


def test_rows_between_layers_may_be_in_a_file(whole, monkeypatch):
    model = made(whole, "ncgcn", {}).eval()
    maker, group = BlockMaker(whole, model), groups_of(model, whole)
    wanted = infer(maker, group)
    monkeypatch.setattr(minibatch, "LARGEST_SHARE", 0.0)
    monkeypatch.setattr(minibatch, "_EDGES_AT_ONCE", 64)  # several parts
    assert torch.allclose(infer(maker, group), wanted, rtol=1e-12)
