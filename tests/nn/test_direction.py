"""Which messages count: along edges, in both directions alike, or in each with its own weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baseline_checks import make, make_fitted
from drawn_graphs import CLASSES, drawn_graph
from torch_geometric.nn import DirGNNConv, GATConv, GCNConv, SAGEConv

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.graph import Graph
from ncgnn.nn import GCN, GraphInputs, GraphSAGE, model_class, model_names
from ncgnn.nn.baselines.gat import GAT
from ncgnn.nn.baselines.tuned import TunedGAT, TunedGCN, TunedSAGE
from ncgnn.sparse import ConstantSparse, directed_normalize
from ncgnn.training import make_config

DIRECTED = [
    name
    for name in model_names()
    if {"direction", "hidden"} <= model_class(name).Options.model_fields.keys()
]
#: Those that look at edges; WRGAT makes edges of its own.
WITH_EDGES = [
    name for name in model_names() if model_class(name).edges != "none" and name != "wrgat"
]
HIDDEN = 8


def made(name, inputs, **options):
    return make(lambda: model_class(name).for_inputs(inputs, hidden=HIDDEN, **options))


def mirrored(drawn):
    """The graph with every edge in both directions, which still knows how they pointed."""
    edges = drawn.edge_index.numpy()
    both = np.concatenate([edges, edges[::-1]], axis=1)
    bits = np.repeat(np.array([1, 2], dtype=np.uint8), edges.shape[1])
    source, target = drawn.edge_index
    weights = drawn.A[target, source].numpy()
    return Graph.from_edge_index(
        both,
        features=drawn.X.numpy(),
        labels=drawn.labels,
        num_classes=CLASSES,
        edge_directions=bits,
        edge_weights=None if drawn.A.max() <= 1 else np.concatenate([weights, weights]),
    )


def test_these_models_have_the_option():
    plain = {"gcn", "sage", "gat", "tuned-gcn", "tuned-sage", "tuned-gat"}
    separated = {"ncgcn", "ncsage", "ncgat", "ncgin", "ncgraphconv"}
    assert set(DIRECTED) == plain | separated | {"nctuned-gcn", "nctuned-sage"}


@pytest.mark.parametrize("name", DIRECTED)
def test_the_default_is_what_the_model_has_always_done(name):
    inputs = drawn_graph(3).inputs()
    usual = "both" if "tuned" in name else "incoming"
    assert model_class(name).edges == usual
    model, other = (made(name, inputs, **more) for more in ({}, {"direction": usual}))
    assert [*model.state_dict()] == [*other.state_dict()]
    assert torch.equal(model(inputs), other(inputs))
    configs = [
        make_config(dataset="digits", model=name, settings=settings)
        for settings in ({}, {"direction": usual}, {"direction": "separate"})
    ]
    assert configs[0].name == configs[1].name != configs[2].name


@pytest.mark.parametrize("name", DIRECTED)
def test_edges_in_both_directions_are_those_of_the_undirected_graph(name):
    drawn = drawn_graph(4)
    A = torch.maximum(drawn.A, drawn.A.t())
    undirected = type(drawn)(A, drawn.X, drawn.labels).inputs()
    directed = drawn.inputs()
    model, other = (made(name, directed, direction=direction) for direction in ("both", "incoming"))
    group = torch.arange(drawn.num_nodes) % 2
    assert torch.allclose(model(directed, group), other(undirected, group))
    assert not torch.allclose(other(directed, group), other(undirected, group))


@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize("weighted", [True, False])
def test_a_graph_that_counts_edges_both_ways_still_knows_their_direction(name, weighted):
    drawn = drawn_graph(5, weighted=weighted, density=0.3)
    assert ((drawn.A > 0) & (drawn.A.t() > 0)).any()  # edges that were given both ways are among it
    if weighted:  # such an edge has one weight in the graph of both directions
        two_way = (drawn.A > 0) & (drawn.A.t() > 0)
        drawn.A[two_way] = 2.0
    directed = drawn.inputs()
    both = GraphInputs(mirrored(drawn), dtype=torch.float64)
    assert both.graph.has_direction
    assert not both.graph.is_directed
    expected = drawn.A.clone()
    if weighted:  # weights of repeated edges add up
        expected[(drawn.A > 0) & (drawn.A.t() > 0)] = 4.0
        directed = type(drawn)(expected, drawn.X, drawn.labels).inputs()
    assert torch.equal(both.along.to_dense(), expected)
    model = made(name, directed, direction="separate")
    group = torch.arange(drawn.num_nodes) % 2
    assert torch.allclose(model(both, group), model(directed, group))
    flipped = type(drawn)(expected.t().contiguous(), drawn.X, drawn.labels).inputs()
    assert not torch.allclose(model(flipped, group), model(directed, group))


def test_only_what_points_backward_is_turned_around():
    """Without the edge itself, its mirror image still tells of it."""
    graph = Graph.from_edge_index(
        [[0, 1, 2, 2], [1, 2, 0, 2]],
        features=np.ones((3, 1)),
        edge_directions=[1, 2, 3, 3],
        edge_weights=[2.0, 3.0, 5.0, 7.0],
        require_labels=False,
    )
    along = GraphInputs(graph).along.to_dense()
    expected = torch.zeros(3, 3)
    expected[1, 0], expected[1, 2], expected[0, 2] = 2.0, 3.0, 5.0
    assert torch.equal(along, expected)


def edge_weights(drawn):
    """Those of D_in^-½ A D_out^-½, in the order of the edges."""
    source, target = drawn.edge_index
    return (drawn.A.sum(1)[target] * drawn.A.sum(0)[source]) ** -0.5 * drawn.A[target, source]


@pytest.mark.parametrize("weighted", [True, False])
def test_the_directed_normalization(weighted):
    drawn = drawn_graph(6, weighted=weighted)
    matrix = ConstantSparse.from_scipy(drawn.graph().to_scipy(rows="targets")).to(torch.float64)
    matrix = drawn.inputs().along if weighted else matrix
    source, target = drawn.edge_index
    expected = torch.zeros_like(drawn.A)
    expected[target, source] = edge_weights(drawn)
    assert torch.allclose(directed_normalize(matrix).to_dense(), expected)
    assert torch.allclose(directed_normalize(matrix.t()).to_dense(), expected.t())
    assert directed_normalize(matrix).to_dense().isfinite().all()


def gcn_layer(drawn, own, along, against, bias):
    """Two layers of PyG that take the weights of edges as they are."""
    convs = []
    for weight in (along, against):
        conv = GCNConv(*weight.shape, normalize=False, bias=False).double()
        conv.lin.weight.data = weight.data.t()
        convs.append(conv)
    values = edge_weights(drawn)

    def apply(x):
        edges = drawn.edge_index
        total = convs[0](x, edges, values) + convs[1](x, edges.flip(0), values) + bias
        return total if own is None else total + x @ own

    return apply


def dir_layer(kind, drawn, own, along, against, bias, attention=()):
    """PyG's layer takes half of each direction, ours a whole."""
    conv = kind(*along.shape, bias=False).double()
    layer = DirGNNConv(conv, alpha=0.5).double()
    layer.lin.weight.data = torch.zeros_like(along.t()) if own is None else own.data.t()
    layer.lin.bias.data = torch.zeros_like(layer.lin.bias) if bias is None else bias.data
    for place, (one, weight) in enumerate(
        zip((layer.conv_in, layer.conv_out), (along, against), strict=True)
    ):
        (one.lin_l if kind is SAGEConv else one.lin).weight.data = weight.data.t()
        if attention:
            target, source = attention[place]
            one.att_dst.data, one.att_src.data = target.data[None], source.data[None]
            layer.alpha = None
    if attention:  # halves would change the scores of attention
        return lambda x: (
            layer.conv_in(x, drawn.edge_index)
            + layer.conv_out(x, drawn.edge_index.flip(0))
            + layer.lin(x)
        )

    def apply(x):
        return 2 * layer(x, drawn.edge_index) - layer.lin(x)

    return apply


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("self_loops", [True, False])
def test_gcn_and_sage_are_layers_of_pyg(sparse, self_loops):
    drawn = drawn_graph(7, sparse=sparse)
    for kind in (GCN, GraphSAGE):
        model = make(
            lambda kind=kind: kind(
                16, CLASSES, hidden=6, self_loops=self_loops, direction="separate"
            )
        )
        x = drawn.X
        for number, layer in enumerate((model.first, model.second)):
            weights = list(layer.weights)
            own = weights.pop(0) if len(weights) == 3 else None
            assert (own is None) == (kind is GCN and not self_loops)
            if kind is GCN:
                apply = gcn_layer(drawn, own, *weights, layer.bias)
            else:
                apply = dir_layer(SAGEConv, drawn, own, *weights, layer.bias)
            x = apply(x if number == 0 else torch.relu(x))
        found = model(drawn.inputs())
        assert (found - x).abs().max() < 1e-9
        nodes = torch.tensor([5, 0, 12])
        assert torch.allclose(model(drawn.inputs(), None, None, nodes), x[nodes])


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("kind", [TunedGCN, TunedSAGE, TunedGAT])
def test_tuned_models_are_layers_of_pyg(kind, self_loops, residual):
    drawn = drawn_graph(8)
    options = {"hidden": 6, "self_loops": self_loops, "residual": residual, "layers": 3}
    model = make(lambda: kind(16, CLASSES, direction="separate", **options))
    x = drawn.X
    for layer in model.layers:
        mine = layer.convolution
        if kind is TunedGCN:
            apply = gcn_layer(drawn, mine.own, mine.weight, mine.against, mine.bias)
        elif kind is TunedSAGE:
            parts = mine.own, mine.neighbors, mine.against, mine.bias
            apply = dir_layer(SAGEConv, drawn, *parts)
        else:
            against, *other = mine.against
            parts = mine.own, mine.weight, against, None
            scores = [(mine.target, mine.source), tuple(other)]
            apply = dir_layer(GATConv, drawn, *parts, attention=scores)
        if kind is not TunedSAGE:
            assert (mine.own is None) == (not self_loops)
        total = apply(x)
        if residual and layer.residual.weight.shape[0] == 16:
            total = total + x @ layer.residual.weight + layer.residual.bias
        elif residual:
            total = total + layer.residual(x)
        x = torch.relu(layer.norm(total))
    expected = model.readout(x)
    assert (model(drawn.inputs()) - expected).abs().max() < 1e-9


def test_gat_is_two_attentions_and_the_node_itself():
    drawn = drawn_graph(9)
    model = make(lambda: GAT(16, CLASSES, hidden=8, heads=2, direction="separate"))
    x = drawn.X
    for linear, heads, bias, more in (
        (model.first, model.first_heads, model.first_bias, model.first_more),
        (model.second, model.second_heads, model.second_bias, model.second_more),
    ):
        total, count = bias, len(heads.target)
        edges = drawn.edge_index
        for one, attention in ((linear, heads), (more.linear, more.heads)):
            width = attention.target.shape[1]
            conv = GATConv(
                x.shape[1], width, count, concat=count > 1, add_self_loops=False, bias=False
            ).double()
            weight = one.weight if one.weight.shape[0] == x.shape[1] else one.weight.t()
            weight = one.weight.t() if isinstance(one, torch.nn.Linear) else weight
            conv.lin.weight.data = weight.data.t()
            conv.att_dst.data = attention.target.data[None]
            conv.att_src.data = attention.source.data[None]
            total = total + conv(x, edges)
            edges = edges.flip(0)
        own = more.own.weight
        own = own.t() if isinstance(more.own, torch.nn.Linear) else own
        x = total + x @ own
        if linear is model.first:
            x = torch.nn.functional.elu(x)
    assert (model(drawn.inputs()) - x).abs().max() < 1e-9


@pytest.mark.parametrize("name", DIRECTED)
def test_a_graph_without_direction_is_refused_in_training_alone(name):
    graph = ncgnn.load("digits")
    inputs = GraphInputs(graph)
    model = model_class(name).for_inputs(inputs, hidden=HIDDEN, direction="separate")
    assert model(inputs).isfinite().all()  # a part of a graph may happen to have no direction
    with pytest.raises(InputError, match=r"'digits' all go both ways\. Set direction = 'both'"):
        ncgnn.fit(graph, name, hidden=HIDDEN, direction="separate", epochs=1)


@pytest.mark.parametrize("name", WITH_EDGES)
def test_weights_of_edges_count_or_a_warning_says_that_they_do_not(name):
    drawn = drawn_graph(2, weighted=True, density=0.3, nodes=30)
    plain = type(drawn)((drawn.A > 0).double(), drawn.X, drawn.labels)
    inputs, without = drawn.inputs(), plain.inputs()
    kind = model_class(name)
    options = {"hidden": HIDDEN, "smallest_leaf": 1}
    options = {key: value for key, value in options.items() if key in kind.Options.model_fields}
    model = make_fitted(lambda: kind.for_inputs(inputs, **options), inputs)
    same = torch.equal(model(inputs), model(without))
    assert same == (not model.uses_weights)
    if name != "mixture":  # its experts decide
        assert model.uses_weights == kind.uses_weights
    if model.uses_weights:
        model.check_graph(inputs.graph)
    else:
        with pytest.warns(NcgnnWarning, match="does not use the weights of edges"):
            model.check_graph(inputs.graph)
    model.check_graph(without.graph)


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_weighted_gcn_is_that_of_pyg(self_loops, directed):
    drawn = drawn_graph(11, weighted=True, directed=directed)
    source, target = drawn.edge_index
    weights = drawn.A[target, source]
    for direction in ("incoming", "both"):
        model = make(
            lambda direction=direction: GCN(
                16, CLASSES, hidden=6, self_loops=self_loops, direction=direction
            )
        )
        edges, values = drawn.edge_index, weights
        if direction == "both":
            A = torch.maximum(drawn.A, drawn.A.t())
            edges = torch.nonzero(A).t().flip(0)
            values = A[edges[1], edges[0]]
        x = drawn.X
        for layer in (model.first, model.second):
            conv = GCNConv(*layer.weights[0].shape, add_self_loops=self_loops).double()
            conv.lin.weight.data, conv.bias.data = layer.weights[0].data.t(), layer.bias.data
            x = conv(x if layer is model.first else torch.relu(x), edges, values)
        assert (model(drawn.inputs()) - x).abs().max() < 1e-9


def test_operators_are_made_once():
    inputs = drawn_graph(12, weighted=True).inputs()
    for direction in ("incoming", "both", "separate"):
        for make_operators in (inputs.gcn_operators, inputs.mean_operators, inputs.messages):
            one, other = make_operators(direction), make_operators(direction)
            assert all(a is b for a, b in zip(one, other, strict=True))
    undirected = drawn_graph(12, weighted=True, directed=False).inputs()
    assert undirected.mean_operators("both")[0] is undirected.mean_operators("incoming")[0]
    assert undirected.messages("both", self_loops=True) == undirected.messages(self_loops=True)
