"""LINKX against PyG's."""

from __future__ import annotations

import copy

import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric.nn import LINKX as PyGLINKX  # noqa: N811

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.linkx import LINKX
from ncgnn.nn.functional import dropout


def made(inputs, **options):
    model = make(lambda: LINKX.for_inputs(inputs, **{"hidden": 6, **options}))
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    return model


def pairs(model, theirs):
    """Our tensors, beside PyG's."""
    found = [(model.adjacency, theirs.edge_lin), (model.features, theirs.node_mlp.lins[0])]
    found += [(model.mix_adjacency, theirs.cat_lin1), (model.mix_features, theirs.cat_lin2)]
    found += [(model.final, theirs.final_mlp.lins[0])]
    if theirs.edge_mlp is not None:
        first, *norms = model.more_adjacency.norms
        found += [(first, theirs.edge_norm)]
        found += list(zip(norms, theirs.edge_mlp.norms, strict=False))
        found += list(zip(model.more_adjacency.layers, theirs.edge_mlp.lins, strict=True))
    for mine, other in (
        (model.more_features, theirs.node_mlp),
        (model.more_final, theirs.final_mlp),
    ):
        found += list(zip(mine.norms, other.norms, strict=False))
        found += list(zip(mine.layers, list(other.lins)[1:], strict=True))
    return found


def pyg_like(model, drawn, layers, adjacency_layers, feature_layers):
    numbers = (layers, adjacency_layers, feature_layers)
    theirs = PyGLINKX(drawn.num_nodes, 16, 6, CLASSES, *numbers).double().eval()
    for mine, other in pairs(model, theirs):
        for name, value in [*mine.named_parameters(), *mine.named_buffers()]:
            target = getattr(getattr(other, "module", other), name)
            target.data.copy_(value if value.shape == target.shape else value.T)
    return theirs


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("numbers", [(1, 1, 1), (2, 1, 1), (3, 2, 3), (1, 3, 2)])
@pytest.mark.parametrize("training", [True, False])
def test_logits_and_gradients_are_those_of_pyg(directed, sparse, numbers, training):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    inputs = drawn.inputs()
    layers, adjacency_layers, feature_layers = numbers
    model = made(
        inputs,
        layers=layers,
        adjacency_layers=adjacency_layers,
        feature_layers=feature_layers,
        dropout=0.0,
    )
    theirs = pyg_like(model, drawn, *numbers)
    model.train(training)
    theirs.train(training)
    found, expected = model(inputs), theirs(drawn.X, drawn.edge_index)
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(found)
    found.backward(gradient)
    expected.backward(gradient)
    compared = 0
    for mine, other in pairs(model, theirs):
        for name, value in mine.named_parameters():
            back = getattr(getattr(other, "module", other), name).grad
            back = back if back.shape == value.shape else back.T
            assert torch.allclose(value.grad, back, rtol=1e-9, atol=1e-9)
            compared += 1
        for name, value in mine.named_buffers():
            assert torch.allclose(value, getattr(getattr(other, "module", other), name))
    assert compared == len(list(model.parameters()))


def test_renamed_nodes_with_renamed_weights():
    drawn = drawn_graph(2)
    model = made(drawn.inputs(), adjacency_layers=2)
    order = torch.randperm(drawn.num_nodes)
    renamed = copy.deepcopy(model)
    renamed.adjacency.weight.data = model.adjacency.weight.data[order]
    moved = drawn.permuted(order).inputs()
    expected = model(drawn.inputs())[order]
    assert (renamed(moved) - expected).abs().max() < 1e-9
    assert (model(moved) - expected).abs().max() > 1e-3


def test_dropout_is_between_the_last_layers():
    inputs, key = drawn_graph(2).inputs(), DropoutKey(1, 2)
    model = made(inputs, layers=3, adjacency_layers=2, feature_layers=2, dropout=0.4)
    seen = []
    hook = model.more_final.norms[0].register_forward_hook(lambda *call: seen.append(call[2]))
    model(inputs)
    hook.remove()
    first, second = model.more_final.layers
    x = first(dropout(seen[0], 0.4, key.at(0)))
    expected = second(dropout(model.more_final.norms[1](torch.relu(x)), 0.4, key.at(1)))
    assert (model(inputs, None, key) - expected).abs().max() < 1e-9


def test_another_number_of_nodes_is_refused():
    model = made(drawn_graph(2).inputs())
    with pytest.raises(InputError, match="weights for the 13 nodes of its graph; this graph has 9"):
        model(drawn_graph(2, nodes=9).inputs())
