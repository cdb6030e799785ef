"""What a model computed with groups that are no longer in force is freed, and nothing changes."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
import torch

import ncgnn
from ncgnn.nn import NCGCN, DropoutKey, GraphInputs


@pytest.fixture
def inputs():
    return GraphInputs(
        ncgnn.generate(nodes=200, edges=900, classes=3, features=8, homophily=0.6, seed=4)
    )


@pytest.mark.parametrize("separation", ["renormalized", "strict", "source", "target-only"])
def test_operators_of_earlier_groups_are_gone_at_once(inputs, separation):
    torch.manual_seed(0)
    model = NCGCN(8, 3, hidden=6, separation=separation)
    model.share_products(True)
    groups = [
        torch.randint(0, 2, (200,), generator=torch.Generator().manual_seed(s)) for s in (1, 2)
    ]
    some = torch.arange(0, 200, 2)
    gc.disable()  # cycles would wait for it
    try:
        model(inputs, groups[0], DropoutKey(0, 0), some).sum().backward()
        with torch.no_grad():
            model.eval()(inputs, groups[0], None, some)
        layout = model._layouts.find(inputs, groups[0])
        kept = [ref(channel.second[0]) for channel in layout.channels]
        kept += [ref(channel.first[0]) for channel in layout.channels]
        del layout
        model.train()(inputs, groups[1], DropoutKey(0, 1), some).sum().backward()
        assert [one() for one in kept] == [None] * len(kept)
    finally:
        gc.enable()


def test_the_graph_shares_its_features_and_edges_with_the_inputs(inputs):
    graph = inputs.graph
    assert inputs.features.data_ptr() == graph.features.__array_interface__["data"][0]
    where = inputs.adjacency.pattern.col.data_ptr()
    assert where == graph.indices.__array_interface__["data"][0]


def test_an_operator_with_loops_needs_no_other_one(inputs):
    assert inputs.messages(self_loops=True)[0] is inputs.looped_adjacency
    assert "adjacency" not in vars(inputs)
    dense = inputs.adjacency.to_dense() + torch.eye(200)
    assert torch.equal(inputs.looped_adjacency.to_dense(), dense)


def test_an_answer_for_all_nodes_is_the_same_whether_sums_are_kept_or_not(inputs):
    model, group = NCGCN(8, 3, hidden=6).eval(), torch.arange(200) % 2
    with torch.no_grad():
        alone = model(inputs, group)
        model.share_products(True)
        model(inputs, group, None, torch.arange(50))
        shared = model(inputs, group)
        again = model(inputs, group)
    assert torch.equal(alone, shared)
    assert torch.equal(alone, again)
