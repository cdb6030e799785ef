"""Plugged-in layers against the built-in backbones."""

from __future__ import annotations

import pytest
import torch
from drawn_graphs import drawn_graph, groups_of, model_for
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, MessagePassing, SAGEConv

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.separated.channels import SEPARATIONS

every_mode = pytest.mark.parametrize("separation", SEPARATIONS)
kinds = pytest.mark.parametrize("which", ["mixed", "all low", "all high", "three"])


def gcn(width, hidden):
    return GCNConv(width, hidden, bias=False)


def gcn_without_loops(width, hidden):
    return GCNConv(width, hidden, bias=False, add_self_loops=False)


class SumOfNeighbours(MessagePassing):
    """What a user may write: W · Σ_j x_j, with a bias."""

    def __init__(self, width, hidden):
        super().__init__(aggr="add")
        self.linear = nn.Linear(width, hidden)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.linear(x))


CONSTRUCTORS = {
    "gcn": gcn,
    "sage": SAGEConv,
    "gat": lambda width, hidden: GATConv(width, hidden // 2, heads=2),
    "gin": lambda width, hidden: GINConv(nn.Linear(width, hidden), train_eps=True),
    "graphconv": GraphConv,
    "own": SumOfNeighbours,
}


def with_weights_of(linear, plugged):
    """The plugged-in model, with the weights of the one with a built-in backbone."""
    named = dict(linear.named_parameters())
    with torch.no_grad():
        for name, parameter in plugged.named_parameters():
            if not name.startswith(("first", "second")):
                parameter.copy_(named[name])
        for layers in ("first", "second"):
            for own, other in zip(getattr(linear, layers), getattr(plugged, layers), strict=True):
                if isinstance(other, GCNConv):
                    other.lin.weight.copy_(own.weights[0].t())
                else:
                    other.lin_r.weight.copy_(own.weights[0].t())
                    other.lin_l.weight.copy_(own.weights[1].t())
                    other.lin_l.bias.copy_(own.bias)
    return plugged


def difference(backbone, constructor, separation, which, **options):
    worst = 0.0
    for directed in (True, False):
        drawn = drawn_graph(1, directed=directed)
        group, groups = groups_of(drawn.num_nodes)[which]
        linear = model_for(
            16, groups=groups, backbone=backbone, separation=separation, hidden=6, **options
        )
        plugged = model_for(
            16, groups=groups, backbone=constructor, separation=separation, hidden=6, **options
        )
        with_weights_of(linear, plugged)
        inputs = drawn.inputs()
        worst = max(worst, (linear(inputs, group) - plugged(inputs, group)).abs().max().item())
    return worst


@kinds
@pytest.mark.parametrize("separation", ["renormalized", "none"])
@pytest.mark.parametrize(
    ("constructor", "self_loops"),
    [(gcn, True), (gcn_without_loops, True), (gcn_without_loops, False)],
)
def test_pyg_gcn_is_the_built_in_one(constructor, self_loops, separation, which):
    assert difference("gcn", constructor, separation, which, self_loops=self_loops) < 1e-9


@kinds
@pytest.mark.parametrize("separation", ["strict", "renormalized", "target-only", "none"])
@pytest.mark.parametrize("self_loops", [True, False])
def test_pyg_sage_is_the_built_in_one(self_loops, separation, which):
    assert difference("sage", SAGEConv, separation, which, self_loops=self_loops) < 1e-9


@every_mode
@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_any_layer_runs_and_learns_in_every_mode(separation, name):
    drawn = drawn_graph(2, sparse=False)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, backbone=CONSTRUCTORS[name], separation=separation, hidden=6)
    inputs = drawn.inputs()
    logits = model(inputs, group, DropoutKey(0, 0))
    assert logits.shape == (drawn.num_nodes, 3)
    assert logits.dtype == torch.float64
    logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name


@every_mode
@pytest.mark.parametrize("name", CONSTRUCTORS)
@pytest.mark.parametrize("self_loops", [True, False])
def test_renaming_nodes_renames_logits(separation, name, self_loops):
    drawn = drawn_graph(4)
    group, groups = groups_of(drawn.num_nodes)["one of three empty"]
    model = model_for(
        16,
        groups=groups,
        backbone=CONSTRUCTORS[name],
        separation=separation,
        hidden=6,
        self_loops=self_loops,
    )
    order = torch.randperm(drawn.num_nodes)
    expected = model(drawn.inputs(), group)[order]
    found = model(drawn.permuted(order).inputs(), group[order])
    assert (found - expected).abs().max() < 1e-9


def reference_of_sums(model, separation, drawn, group):
    """The user's layer in dense matrices: edges are removed, and sums need no normalisation."""
    eye = torch.eye(drawn.num_nodes, dtype=torch.float64)
    if separation == "none":
        group = torch.zeros_like(group)
    masks = [torch.diag((group == s).double()) for s in range(len(model.mixing))]
    A = drawn.A

    def applied(layer, operator, H):
        return operator @ (H @ layer.linear.weight.t() + layer.linear.bias)

    own_rows = separation in ("strict", "source", "target-only")
    hidden = []
    for M, layer in zip(masks, model.first, strict=True):
        rows = torch.relu(applied(layer, M @ A + eye, drawn.X))
        hidden.append(M @ rows if own_rows else rows)
    if separation == "target-only":
        hidden = [sum(hidden)] * len(hidden)
    alpha = torch.softmax(model.mixing, 1)[:, 0]
    Z = (1 - alpha[group])[:, None] * (drawn.X @ model.raw)
    for M, layer, H, a in zip(masks, model.second, hidden, alpha, strict=True):
        operator = {
            "strict": M @ (A + eye) @ M,
            "source": A @ M + eye,
            "renormalized": A @ M + eye,
            "target-only": M @ (A + eye),
            "none": A + eye,
        }[separation]
        Z = Z + a * applied(layer, operator, H)
    return model.readout(torch.relu(Z))


@every_mode
@kinds
def test_a_layer_of_the_users_own_sees_the_edges_of_the_table(separation, which):
    drawn = drawn_graph(3)
    group, groups = groups_of(drawn.num_nodes)[which]
    model = model_for(16, groups=groups, backbone=SumOfNeighbours, separation=separation)
    expected = reference_of_sums(model, separation, drawn, group)
    assert (model(drawn.inputs(), group) - expected).abs().max() < 1e-9


class OneRow(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.linear = nn.Linear(width, hidden)

    def forward(self, x, edge_index):
        return self.linear(x.mean(0, keepdim=True))


class WithAttention(OneRow):
    def forward(self, x, edge_index):
        return self.linear(x), edge_index


@every_mode
@pytest.mark.parametrize("layer", [OneRow, WithAttention])
def test_a_layer_that_gives_something_else_is_refused(layer, separation):
    model = model_for(16, backbone=layer, separation=separation)
    with pytest.raises(InputError, match="one row of 'hidden' numbers per node"):
        model(drawn_graph(0).inputs())


def test_a_constructor_that_makes_no_layer_is_refused():
    with pytest.raises(InputError, match="constructor gave a tuple"):
        model_for(16, backbone=lambda width, hidden: (width, hidden))
