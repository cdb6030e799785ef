"""GAT against dense attention and against PyG's layers."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import gradients, make, saved_sizes
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric.nn import GATConv

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.gat import GAT
from ncgnn.nn.functional import dropout
from ncgnn.nn.layers import drop_features

KEY = DropoutKey(3, 4)
VARIANTS = [{}, {"heads": 1}, {"heads": 3, "output_heads": 2}]


def made(**options):
    return make(lambda: GAT(16, CLASSES, **({"hidden": 24} | options)))


def dense_layer(drawn, x, attention, entry_dropout):
    """Heads one by one on the dense matrix of scores; x [n, heads * width]."""
    edge = drawn.A + torch.eye(drawn.num_nodes) > 0
    parts = x.reshape(len(x), *attention.target.shape).unbind(1)
    sums = []
    weights = []
    for part, target, source in zip(parts, attention.target, attention.source, strict=True):
        scores = (part @ target)[:, None] + (part @ source)[None]
        scores = torch.where(scores > 0, scores, 0.2 * scores)
        weights.append(torch.softmax(scores.masked_fill(~edge, -torch.inf), dim=1))
    entries = entry_dropout(torch.stack([weight[edge] for weight in weights], dim=1))
    for part, values in zip(parts, entries.unbind(1), strict=True):
        weight = torch.zeros_like(drawn.A).masked_scatter(edge, values)
        sums.append(weight @ part)
    return torch.stack(sums, dim=1)


def dense_logits(model, drawn, key=None):
    def drop(x, rate, place):
        return x if key is None else dropout(x, rate, key.at(place))

    X, attention = drawn.X, model.attention_dropout
    if key is not None:
        kept = drop_features(drawn.inputs(), model.dropout, key.at(0))
        X = kept if isinstance(kept, torch.Tensor) else kept.to_dense()
    first = dense_layer(
        drawn, X @ model.first.weight, model.first_heads, lambda e: drop(e, attention, 1)
    )
    hidden = torch.nn.functional.elu(first.flatten(1) + model.first_bias)
    before = drop(hidden, model.dropout, 2) @ model.second.weight.t()
    second = dense_layer(drawn, before, model.second_heads, lambda e: drop(e, attention, 3))
    return second.mean(1) + model.second_bias


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_logits_and_gradients_are_those_of_dense_attention(options, key, directed, sparse):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(dropout=0.3, attention_dropout=0.6, **options)
    found, expected = model(drawn.inputs(), None, key), dense_logits(model, drawn, key)
    assert (found - expected).abs().max() < 1e-9
    if key is not None:
        assert (found - model(drawn.inputs())).abs().max() > 1e-3
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("directed", [True, False])
def test_logits_and_gradients_are_those_of_pyg(options, directed):
    drawn = drawn_graph(5, directed=directed)
    model = made(**options)
    heads, width = model.first_heads.target.shape
    outputs = len(model.second_heads.target)
    layers = [
        GATConv(16, width, heads=heads).double(),
        GATConv(heads * width, CLASSES, heads=outputs, concat=False).double(),
    ]
    mine = [
        (model.first.weight.t(), model.first_heads, model.first_bias),
        (model.second.weight, model.second_heads, model.second_bias),
    ]
    for layer, (weight, attention, bias) in zip(layers, mine, strict=True):
        layer.lin.weight.data = weight.data.clone()
        layer.att_dst.data = attention.target.data[None].clone()
        layer.att_src.data = attention.source.data[None].clone()
        layer.bias.data = bias.data.clone()
    hidden = torch.nn.functional.elu(layers[0](drawn.X, drawn.edge_index))
    expected, found = layers[1](hidden, drawn.edge_index), model(drawn.inputs())
    assert (found - expected).abs().max() < 1e-9
    slope = torch.randn_like(expected)
    found.backward(slope)
    expected.backward(slope)
    pairs = [
        (model.first.weight.grad.t(), layers[0].lin.weight.grad),
        (model.first_heads.target.grad[None], layers[0].att_dst.grad),
        (model.first_heads.source.grad[None], layers[0].att_src.grad),
        (model.second.weight.grad, layers[1].lin.weight.grad),
        (model.second_heads.source.grad[None], layers[1].att_src.grad),
        (model.second_bias.grad, layers[1].bias.grad),
    ]
    for one, other in pairs:
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-10)


def test_attention_is_dropped_as_features_are_unless_told_otherwise():
    drawn = drawn_graph(2)
    same, apart = made(dropout=0.3), made(dropout=0.3, attention_dropout=0.0)
    assert same.attention_dropout == 0.3
    assert apart.attention_dropout == 0.0
    assert not torch.allclose(same(drawn.inputs(), None, KEY), apart(drawn.inputs(), None, KEY))
    assert torch.equal(same(drawn.inputs()), apart(drawn.inputs()))


def test_hidden_is_the_width_of_all_heads_together():
    model = GAT(16, CLASSES)
    assert model.first.weight.shape == (16, 512)
    assert model.first_heads.target.shape == (8, 64)
    with pytest.raises(InputError, match="20 cannot be shared out evenly among 8 heads"):
        GAT(16, CLASSES, hidden=20)
    assert GAT(16, CLASSES, hidden=20, heads=5).first_heads.target.shape == (5, 4)


def test_weights_start_as_pygs():
    torch.manual_seed(0)
    model, layer = GAT(40, CLASSES, hidden=64), GATConv(40, 8, heads=8)
    for mine, theirs in (
        (model.first.weight, layer.lin.weight),
        (model.first_heads.target, layer.att_dst),
    ):
        most = theirs.detach().abs().max()
        assert torch.isclose(mine.detach().abs().max(), most, rtol=0.1)
    assert not model.first_bias.any()
    assert not model.second_bias.any()


@pytest.mark.parametrize("options", [{}, {"heads": 1}, {"heads": 4, "output_heads": 2}])
def test_nothing_of_entries_times_hidden_is_saved(options):
    drawn, hidden = drawn_graph(4, nodes=60, density=0.6), 32
    model = made(hidden=hidden, dropout=0.3, **options).train()
    sizes = saved_sizes(lambda: model(drawn.inputs(), None, KEY))
    entries = int(drawn.A.sum() + 60)
    assert 60 * hidden <= max(sizes) <= max(8 * entries, 60 * hidden)
    assert entries * hidden > 2 * max(
        8 * entries, 60 * hidden
    )  # so that one such array would be seen
