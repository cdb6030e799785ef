"""The public checks: what passes them and what does not."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing

from ncgnn.nn import GCN, MLP, NCGCN, GraphSAGE
from ncgnn.testing import check_backbone, check_model

pytestmark = pytest.mark.usefixtures("one_thread")


def gin(width, hidden):
    return GINConv(nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden)))


def dropping_gat(width, hidden):
    return GATConv(width, hidden // 2, heads=2, dropout=0.5)


class Own(MessagePassing):
    """A layer that holds to everything."""

    def __init__(self, width, hidden):
        super().__init__(aggr="max")
        self.linear = nn.Linear(width, hidden)

    def forward(self, x, edge_index):
        return self.linear(x) + self.propagate(edge_index, x=self.linear(x))


@pytest.mark.parametrize("constructor", ["gcn", "sage", GCNConv, dropping_gat, gin, Own])
def test_sound_layers_pass(constructor):
    check_backbone(constructor)


class Numbered(Own):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) + torch.arange(len(x)).to(x)[:, None]


class Remembering(Own):
    edges = None

    def forward(self, x, edge_index):
        self.edges = edge_index if self.edges is None else self.edges
        return super().forward(x, self.edges)


class Single(Own):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index).float()


class OnlySingle(Own):
    def forward(self, x, edge_index):
        return super().forward(x.float(), edge_index)


class Narrow(Own):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index)[:, :-1]


class Fewer(Own):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index)[edge_index[1].unique()]


class Detached(Own):
    def forward(self, x, edge_index):
        with torch.no_grad():
            return super().forward(x, edge_index)


class Random(Own):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) + torch.rand(len(x), 1).to(x)


class Everyone(Own):
    def forward(self, x, edge_index):
        total = x.sum(0, keepdim=True) / max(len(x), 1)
        return super().forward(x, edge_index) + self.linear(total)


class Hidden(Own):
    def __init__(self, width, hidden):
        super().__init__(width, hidden)
        self.secret = torch.rand(hidden)

    def forward(self, x, edge_index):
        return super().forward(x, edge_index) + self.secret.to(x)


class NeedsNodes(Own):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) / (1 + x.abs().max())


class Infinite(Own):
    def forward(self, x, edge_index):
        degree = edge_index[1].bincount(minlength=len(x)).to(x)
        return super().forward(x, edge_index) / degree[:, None]


@pytest.mark.parametrize(
    ("constructor", "message"),
    [
        (Numbered, "order of the nodes"),
        (Remembering, "remembers the edges"),
        (lambda width, hidden: GCNConv(width, hidden, cached=True), "remembers the edges"),
        (Single, "gives torch.float32 for torch.float64"),
        (OnlySingle, "a call with torch.float64 failed"),
        (Narrow, r"\(14, 7\) instead of a tensor of shape \(14, 8\)"),
        (Fewer, "instead of a tensor of shape"),
        (Detached, "no gradient reaches"),
        (Random, "two calls in evaluation give different logits"),
        (Everyone, "a message between groups that this mode removes"),
        (Hidden, "state_dict|earlier call"),
        (NeedsNodes, "for an empty group: a call .* failed"),
        (Infinite, "infinite or undefined"),
        (lambda width, hidden: None, "no torch module"),
        (lambda width: Own(width, 8), "making the model failed"),
    ],
)
def test_broken_layers_fail_with_the_reason(constructor, message):
    with pytest.raises(AssertionError, match=message):
        check_backbone(constructor)


@pytest.mark.parametrize("kind", [GCN, GraphSAGE, MLP, NCGCN])
def test_models_pass(kind):
    check_model(kind, hidden=8)


def test_three_groups_pass():
    check_model(NCGCN, hidden=8, threshold=(0.2, 0.6), dropout=0.5)


def test_names_and_functions_pass():
    check_model("gcn", hidden=8)
    check_model(lambda inputs: GCN(inputs.num_features, inputs.num_classes, hidden=8))


class PerNode(MLP):
    """Has a weight for every node of its graph, where the order of nodes counts."""

    def __init__(self, num_features, num_classes, *, num_nodes, **options):
        super().__init__(num_features, num_classes, **options)
        self.own = nn.Parameter(torch.arange(1.0 * num_nodes)[:, None])

    @classmethod
    def for_inputs(cls, inputs, **options):
        sizes = (inputs.num_features, inputs.num_classes)
        return cls(*sizes, num_nodes=inputs.num_nodes, **options)

    def forward(self, inputs, group=None, key=None, nodes=None):
        logits = super().forward(inputs, group, key) + self.own
        return logits if nodes is None else logits[nodes]


def test_models_of_one_graph_are_found_and_asked_nothing_of_others():
    check_model(PerNode, hidden=8)


class Unseeded(MLP):
    def forward(self, inputs, group=None, key=None, nodes=None):
        logits = super().forward(inputs, group, None, nodes)
        return logits if key is None else nn.functional.dropout(logits, 0.5, training=True)


class Everywhere(MLP):
    def forward(self, inputs, group=None, key=None):
        return super().forward(inputs, group, key)


class Backwards(MLP):
    def forward(self, inputs, group=None, key=None, nodes=None):
        return super().forward(inputs, group, key, None if nodes is None else nodes.flip(0))


class Stale(MLP):
    kept = None

    def forward(self, inputs, group=None, key=None, nodes=None):
        if group is not None and self.kept is None:
            self.kept = group
        logits = super().forward(inputs, group, key)
        logits = logits if self.kept is None else logits + self.kept[:, None]
        return logits if nodes is None else logits[nodes]


class Idle(MLP):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.idle = nn.Parameter(torch.ones(1))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Unseeded, "two calls with the same key give different logits"),
        (Stale, "groups of an earlier call"),
        (Everywhere, "asked for some nodes, failed"),
        (Backwards, "does not give their rows in order"),
        (Idle, "no gradient reaches the parameter 'idle'"),
    ],
)
def test_broken_models_fail_with_the_reason(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_model(kind, hidden=8)


def test_the_checks_leave_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    check_model(MLP, hidden=8)
    assert torch.equal(torch.rand(3), expected)
