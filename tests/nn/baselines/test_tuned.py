"""The tuned classic models against stacks of PyG's layers."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from baseline_checks import make, saved_sizes
from drawn_graphs import CLASSES, drawn_graph
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

import ncgnn
from ncgnn.data import list_datasets
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey, relu_dropout
from ncgnn.nn.baselines.tuned import TunedGAT, TunedGCN, TunedOptions, TunedSAGE
from ncgnn.training import has_preset, load_run, make_config

MODELS = {"tuned-gcn": TunedGCN, "tuned-sage": TunedSAGE, "tuned-gat": TunedGAT}
HIDDEN = 6


def made(kind, **options):
    model = make(lambda: kind(16, CLASSES, hidden=HIDDEN, **options))
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.add_(torch.rand_like(buffer))
    return model


def conv_of(kind, width, self_loops):
    """PyG's layer as the recipe makes it; self-loops are in the edges, but GCN adds its own."""
    if kind is TunedGCN:
        return GCNConv(width, HIDDEN, add_self_loops=self_loops)
    if kind is TunedSAGE:
        return SAGEConv(width, HIDDEN)
    return GATConv(width, HIDDEN, heads=1, add_self_loops=False, bias=False)


def pairs(kind, mine, theirs):
    """Parameters of one convolution and of PyG's, and whether these are transposed."""
    if kind is TunedGCN:
        return [(mine.weight, theirs.lin.weight, True), (mine.bias, theirs.bias, False)]
    if kind is TunedSAGE:
        return [
            (mine.own, theirs.lin_r.weight, True),
            (mine.neighbors, theirs.lin_l.weight, True),
            (mine.bias, theirs.lin_l.bias, False),
        ]
    scores = [(mine.target, theirs.att_dst, False), (mine.source, theirs.att_src, False)]
    return [(mine.weight, theirs.lin.weight, True), *scores]


def like(value, other, transposed):
    """A parameter or its gradient in the layout of another one."""
    return (value.t() if transposed else value).reshape(other.shape)


class Reference(nn.Module):
    """A stack of PyG's layers with the parameters of a model."""

    def __init__(self, model, kind, *, layers, norm, residual, jumping, self_loops):
        super().__init__()
        self.kind, self.jumping = kind, jumping
        widths = [16, *[HIDDEN] * (layers - 1)]
        self.convs = nn.ModuleList(conv_of(kind, width, self_loops) for width in widths)
        self.residuals = nn.ModuleList(nn.Linear(w, HIDDEN) for w in widths if residual)
        make = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d, "none": nn.Identity}[norm]
        self.norms = nn.ModuleList(make(HIDDEN) for _ in widths)
        self.readout = nn.Linear(HIDDEN, CLASSES)
        self.double().eval()
        self.pairs = list(self.matched(model))
        for mine, theirs, transposed in self.pairs:
            theirs.data = like(mine.data, theirs, transposed).clone()
        for layer, own in zip(model.layers, self.norms, strict=True):
            own.load_state_dict(layer.norm.state_dict())

    def matched(self, model):
        for place, layer in enumerate(model.layers):
            yield from pairs(self.kind, layer.convolution, self.convs[place])
            if self.residuals:
                yield layer.residual.weight, self.residuals[place].weight, place == 0
                yield layer.residual.bias, self.residuals[place].bias, False
            norm = self.norms[place].parameters()
            for mine, theirs in zip(layer.norm.parameters(), norm, strict=True):
                yield mine, theirs, False
        yield model.readout.weight, self.readout.weight, False
        yield model.readout.bias, self.readout.bias, False

    def forward(self, x, edges, rate=0.0, key=None):
        total = 0
        for place, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = conv(x, edges)
            if self.residuals:
                h = h + self.residuals[place](x)
            x = relu_dropout(norm(h), rate, None if key is None else key.at(place))
            total = total + x if self.jumping else x
        return self.readout(total)


def edges_of(drawn, self_loops):
    A = torch.maximum(drawn.A, drawn.A.T)
    A = A + torch.eye(len(A), dtype=A.dtype) if self_loops else A
    return torch.nonzero(A).t().flip(0)


def compared(kind, drawn, *, training=False, key=None, rate=0.4, **options):
    """A model and its reference after one forward and backward pass of both."""
    chosen = {"layers": 3, "norm": "layer", "residual": True, "jumping": False, "self_loops": True}
    chosen |= options
    model = made(kind, dropout=rate, **chosen)
    reference = Reference(model, kind, **chosen)
    model.train(training)
    reference.train(training)
    edges = edges_of(drawn, chosen["self_loops"])
    expected = reference(drawn.X, edges, rate, key)
    found = model(drawn.inputs(), None, key)
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(expected)
    mine = torch.autograd.grad(found, [pair[0] for pair in reference.pairs], gradient)
    theirs = torch.autograd.grad(expected, [pair[1] for pair in reference.pairs], gradient)
    assert len(mine) == len(list(model.parameters()))
    for one, other, (*_, transposed) in zip(mine, theirs, reference.pairs, strict=True):
        assert (like(one, other, transposed) - other).abs().max() < 1e-9
    return model, reference


@pytest.mark.parametrize("kind", MODELS.values())
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("self_loops", [True, False])
def test_logits_and_gradients_are_those_of_pyg(kind, directed, sparse, self_loops):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    compared(kind, drawn, self_loops=self_loops)


@pytest.mark.parametrize("kind", MODELS.values())
@pytest.mark.parametrize("norm", ["layer", "batch", "none"])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("jumping", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_every_option(kind, norm, residual, jumping, layers):
    options = {"norm": norm, "residual": residual, "jumping": jumping, "layers": layers}
    compared(kind, drawn_graph(3), **options)


@pytest.mark.parametrize("kind", MODELS.values())
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_training_mode_with_dropout_after_every_layer(kind, norm):
    key, drawn = DropoutKey(3, 4), drawn_graph(3)
    model, reference = compared(kind, drawn, training=True, key=key, norm=norm)
    before = [value.clone() for value in made(kind, norm=norm).buffers()]
    for mine, theirs in zip(model.layers, reference.norms, strict=True):
        for one, other in zip(mine.norm.buffers(), theirs.buffers(), strict=True):
            assert torch.allclose(one, other)
    moved = [not torch.equal(one, old) for one, old in zip(model.buffers(), before, strict=True)]
    assert len(moved) == (9 if norm == "batch" else 0)
    assert all(moved)


@pytest.mark.parametrize("kind", MODELS.values())
def test_deep_stacks_stay_finite(kind):
    model = kind(16, CLASSES, hidden=HIDDEN, layers=15, norm="batch").train()
    logits = model(drawn_graph(2).inputs(torch.float32), None, DropoutKey(0, 0))
    logits.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("kind", MODELS.values())
def test_copies_and_pickles_keep_statistics(kind):
    model, inputs = made(kind, norm="batch"), drawn_graph(2).inputs()
    model.train()
    model(inputs, None, DropoutKey(0, 0))
    expected = model.eval()(inputs)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(inputs), expected)
    fresh = kind(16, CLASSES, hidden=HIDDEN, norm="batch").double().eval()
    assert not torch.allclose(fresh(inputs), expected)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(inputs), expected)


@pytest.mark.parametrize("kind", MODELS.values())
def test_nothing_of_edges_times_hidden_is_saved(kind):
    drawn = drawn_graph(4, nodes=60, density=0.6)
    inputs, hidden = drawn.inputs(), 32
    model = kind(16, CLASSES, hidden=hidden).double().train()
    sizes = saved_sizes(lambda: model(inputs, None, DropoutKey(0, 0)))
    edges = int(edges_of(drawn, True).shape[1])
    assert 0 < max(sizes) <= max(edges, 60 * hidden)
    assert edges > 60 * 16  # so that one array of edges × hidden would be seen


@pytest.mark.parametrize("kind", MODELS.values())
def test_first_weights_are_those_of_pyg(kind):
    torch.manual_seed(0)
    hidden = 400
    found = kind(300, CLASSES, hidden=hidden, layers=2).layers[1].convolution
    expected = {
        TunedGCN: GCNConv(hidden, hidden),
        TunedSAGE: SAGEConv(hidden, hidden),
        TunedGAT: GATConv(hidden, hidden, bias=False),
    }[kind]
    for mine, theirs, _ in pairs(kind, found, expected):
        ours, others = mine.detach(), theirs.detach()
        assert float(ours.std()) == pytest.approx(float(others.std()), rel=0.15)
        assert float(ours.abs().max()) == pytest.approx(float(others.abs().max()), rel=0.05)


def test_all_parameters_are_decayed():
    model = made(TunedGCN, norm="batch")
    (group,) = model.parameter_groups(0.1)
    assert len(group["params"]) == len(list(model.parameters()))


@pytest.mark.parametrize("options", [{"layers": 0}, {"norm": "graph"}, {"dropout": 1.0}])
def test_wrong_options_are_named(options):
    with pytest.raises(InputError, match=f"^{next(iter(options))} must be"):
        TunedGCN(4, 2, **options)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_digits_are_learned_and_runs_can_be_loaded(name, norm, tmp_path):
    graph = ncgnn.load("digits")
    settings = {"hidden": 16, "norm": norm, "learning_rate": 0.01}
    trained = ncgnn.fit(graph, name, epochs=40, **settings)
    assert trained.config.training.patience == 500
    accuracy = trained.evaluate()["scores"]["test"]["accuracy"]
    assert accuracy > 0.8
    again = load_run(trained.save(tmp_path / "run"))
    assert again.evaluate()["scores"]["test"]["accuracy"] == accuracy


# For GCN, GraphSAGE and GAT each: hidden, layers, dropout, norm, residual, learning rate; then for
# all three: weight decay, epochs, scaling.
RECIPES = {
    "computers": (
        [
            (512, 3, 0.5, "layer", False, 1e-3),
            (64, 4, 0.3, "layer", False, 1e-3),
            (64, 2, 0.5, "layer", False, 1e-3),
        ],
        (5e-5, 1000, "row"),
    ),
    "photo": (
        [
            (256, 6, 0.5, "layer", True, 1e-3),
            (64, 6, 0.2, "layer", True, 1e-3),
            (64, 3, 0.5, "layer", True, 1e-3),
        ],
        (5e-5, 1000, "row"),
    ),
    "coauthor-cs": (
        [
            (512, 2, 0.3, "layer", True, 1e-3),
            (512, 2, 0.5, "layer", True, 1e-3),
            (256, 1, 0.3, "layer", True, 1e-3),
        ],
        (5e-4, 1500, "row"),
    ),
    "coauthor-physics": (
        [
            (64, 2, 0.3, "layer", True, 1e-3),
            (64, 2, 0.7, "batch", True, 1e-3),
            (256, 2, 0.7, "batch", True, 1e-3),
        ],
        (5e-4, 1500, "row"),
    ),
    "cora": (
        [
            (512, 3, 0.7, "none", False, 1e-3),
            (256, 3, 0.7, "none", False, 1e-3),
            (512, 3, 0.2, "none", True, 1e-3),
        ],
        (5e-4, 500, "raw"),
    ),
    "citeseer": (
        [
            (512, 2, 0.5, "none", False, 1e-3),
            (512, 3, 0.2, "none", False, 1e-3),
            (256, 3, 0.5, "none", True, 1e-3),
        ],
        (1e-2, 500, "raw"),
    ),
    "pubmed": (
        [
            (256, 2, 0.7, "none", False, 5e-3),
            (512, 4, 0.7, "none", False, 5e-3),
            (512, 2, 0.5, "none", False, 1e-2),
        ],
        (5e-4, 500, "raw"),
    ),
    "squirrel-filtered": (
        [
            (256, 4, 0.7, "batch", True, 1e-2),
            (256, 3, 0.7, "batch", True, 1e-2),
            (512, 7, 0.5, "batch", True, 5e-3),
        ],
        (5e-4, 500, "raw"),
    ),
    "chameleon-filtered": (
        [
            (512, 5, 0.2, "none", False, 5e-3),
            (256, 4, 0.7, "batch", True, 1e-2),
            (256, 2, 0.7, "batch", True, 1e-2),
        ],
        (1e-3, 200, "raw"),
    ),
    "minesweeper": (
        [
            (64, 12, 0.2, "batch", True, 1e-2),
            (64, 15, 0.2, "batch", True, 1e-2),
            (64, 15, 0.2, "batch", True, 1e-2),
        ],
        (0.0, 2000, "raw"),
    ),
}


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("dataset", RECIPES)
def test_presets_are_the_published_ones(place, dataset):
    name, (rows, (decay, epochs, scaling)) = list(MODELS)[place], RECIPES[dataset]
    hidden, layers, dropout, norm, residual, rate = rows[place]
    assert has_preset(name, dataset)
    config = make_config(dataset=dataset, model=name)
    given = {"hidden": hidden, "layers": layers, "dropout": dropout}
    given |= {"norm": norm, "residual": residual}
    assert config.model.options == TunedOptions(**given).model_dump()
    training = config.training
    assert (training.learning_rate, training.weight_decay) == (rate, decay)
    assert training.epochs == training.patience == epochs  # no early stopping
    assert config.data.scaling == scaling


@pytest.mark.parametrize("name", MODELS)
def test_no_other_graphs_have_presets(name):
    known = [entry.name for entry in list_datasets() if not entry.variant_of]
    assert {dataset for dataset in known if has_preset(name, dataset)} == RECIPES.keys()
