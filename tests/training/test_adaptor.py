"""PyG's explainers on trained models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from test_explanation import draw_graph, fit, grow
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import MaskedInputs, model_names

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*does not use the weights"),
]

MODELS = (
    *("mlp", "gcn", "sage", "gat", "tuned-gcn", "tuned-sage", "tuned-gat"),
    *("ncgcn", "ncsage", "nctuned-gcn", "nctuned-sage"),
)


# Trees and labels have no gradients.
WITHOUT = {"majority", "propagation", "boosting", "feature-boosting"}


@pytest.mark.parametrize("model", sorted(WITHOUT))
def test_models_without_gradients_are_refused(model):
    with pytest.raises(InputError, match=r"has no gradients.*use trained\.explain"):
        fit(draw_graph(), model).for_explainer()


@pytest.mark.parametrize("model", [name for name in model_names() if name not in WITHOUT])
def test_logits_are_those_of_the_model(model):
    trained = fit(draw_graph(), model, epochs=2)
    adaptor = trained.for_explainer()
    logits = adaptor(adaptor.x, adaptor.edge_index)
    torch.testing.assert_close(logits, trained.logits(), rtol=0, atol=1e-9)
    if model in ("gcn", "ncsage"):
        some = trained.for_explainer("n5")
        assert some.ids[some.index] == "n5"
        assert 5 < len(some.ids) <= 90
        torch.testing.assert_close(some(some.x, some.edge_index)[some.index], logits[5].detach())


# HOG stops gradients through its degrees of homophily.
@pytest.mark.parametrize("model", [name for name in model_names() if name not in {*WITHOUT, "hog"}])
def test_gradients_of_features(model):
    adaptor = fit(draw_graph(), model, epochs=2).for_explainer()
    draw, step = torch.Generator().manual_seed(0), 1e-6
    noise, way = torch.randn((2, *adaptor.x.shape), generator=draw, dtype=adaptor.x.dtype)
    x = (adaptor.x + 0.1 * noise).requires_grad_()  # rows of zeros are a kink of ReLU
    weights = torch.linspace(-1, 1, 3, dtype=x.dtype)
    total = adaptor(x, adaptor.edge_index)[7] @ weights
    (gradient,) = torch.autograd.grad(total, x)
    with torch.no_grad():
        ends = [adaptor(x + s * step * way, adaptor.edge_index)[7] @ weights for s in (1, -1)]
    assert float((gradient * way).sum()) == pytest.approx(
        float(ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-7
    )


def mask_of(adaptor, values):
    """The logits with a mask, as explainers set it."""
    set_masks(adaptor, values, adaptor.edge_index, apply_sigmoid=False)
    try:
        return adaptor(adaptor.x, adaptor.edge_index)
    finally:
        clear_masks(adaptor)


KINDS = ("undirected", "directed", "known directions", "weighted")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [name for name in MODELS if name != "mlp"])
def test_masks_reach_every_message(model, kind):
    graph = draw_graph(kind, sparse=kind != "directed")
    directions = ["incoming", "both"] + (["separate"] if graph.has_direction else [])
    for direction in directions:
        trained = fit(graph, model, direction=direction, epochs=2)
        adaptor = trained.for_explainer()
        mask = torch.ones(adaptor.edge_index.shape[1], dtype=torch.float64, requires_grad=True)
        logits = mask_of(adaptor, mask)
        torch.testing.assert_close(logits, trained.logits(), rtol=0, atol=1e-9)
        gradient = torch.autograd.grad(logits[7].softmax(0)[0], mask)[0]
        step = torch.randn(len(mask), generator=torch.Generator().manual_seed(0)).double()
        with torch.no_grad():
            ends = [mask_of(adaptor, mask + s * 1e-6 * step)[7].softmax(0)[0] for s in (1, -1)]
        slope = float(ends[0] - ends[1]) / 2e-6
        assert float(gradient @ step) == pytest.approx(slope, rel=1e-4, abs=1e-8)
        assert abs(slope) > 1e-5
        if "gat" in model:
            continue  # what a neighbor takes away from the softmax stays
        with torch.no_grad():
            alone = mask_of(adaptor, torch.zeros_like(mask))
        others = trained.for_explainer()
        others.x = torch.where(torch.arange(len(alone))[:, None] == 7, others.x, others.x + 1)
        with torch.no_grad():
            again = mask_of(others, torch.zeros_like(mask))
        torch.testing.assert_close(again[7], alone[7], rtol=0, atol=1e-9)
        assert not torch.allclose(again[8], alone[8], atol=1e-4)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_masks_mean_what_they_mean_in_pyg(model):
    """The same two layers of PyG, with the same weights and the same mask."""
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    trained = fit(draw_graph(sparse=False), model, epochs=2)
    adaptor, own = trained.for_explainer(), trained.model
    x, edges = adaptor.x, adaptor.edge_index
    if model == "gat":
        layers = [GATConv(15, 6, heads=2), GATConv(12, 3, concat=False)]
        layers[0].lin.weight.data = own.first.weight.data.t()
        layers[1].lin.weight.data = own.second.weight.data
        for layer, heads in zip(layers, (own.first_heads, own.second_heads), strict=True):
            layer.att_dst.data, layer.att_src.data = (
                heads.target.data[None],
                heads.source.data[None],
            )
        layers[0].bias.data, layers[1].bias.data = own.first_bias.data, own.second_bias.data
    else:
        kind = GCNConv if model == "gcn" else SAGEConv
        layers = [kind(15, 12), kind(12, 3)]
        for layer, mine in zip(layers, (own.first, own.second), strict=True):
            if model == "gcn":
                layer.lin.weight.data = mine.weights[0].data.t()
                layer.bias.data = mine.bias.data
            else:
                layer.lin_r.weight.data = mine.weights[0].data.t()
                layer.lin_l.weight.data = mine.weights[1].data.t()
                layer.lin_l.bias.data = mine.bias.data
    theirs = torch.nn.ModuleList(layers).double()
    mask = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(1)).double()
    set_masks(theirs, mask, edges, apply_sigmoid=False)
    act = torch.nn.functional.elu if model == "gat" else torch.relu
    expected = layers[1](act(layers[0](x, edges)), edges)
    torch.testing.assert_close(mask_of(adaptor, mask), expected, rtol=0, atol=1e-9)


def planted(seed=0):
    """Sixty nodes whose class is told by one neighbor each, a marker with feature 2 or 5.

    Node i is marked by node 60 + i, and has three neighbors that say nothing. Only the sixty have
    labels.
    """
    draw = np.random.default_rng(seed)
    labels = np.full(150, -1)
    labels[:60] = np.arange(60) % 2
    features = np.abs(draw.normal(0, 0.05, (150, 8)))
    features[60 + np.flatnonzero(labels[:60] == 1), 2] = 2
    features[60 + np.flatnonzero(labels[:60] == 0), 5] = 2
    pairs = [(i, 60 + i) for i in range(60)]
    pairs += [(i, j) for i in range(60) for j in draw.choice(np.arange(120, 150), 3, replace=False)]
    edges = np.array(pairs).T
    return Graph.from_edge_index(
        np.concatenate([edges, edges[::-1]], axis=1), features=features, labels=labels
    )


def explain(adaptor, algorithm, edge_mask_type="object"):
    explainer = Explainer(
        model=adaptor,
        algorithm=algorithm,
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type=edge_mask_type,
        model_config=adaptor.model_config,
    )
    return explainer(adaptor.x, adaptor.edge_index, index=adaptor.index)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat", "tuned-gcn", "tuned-sage", "ncsage"])
def test_gnn_explainer_finds_what_was_planted(model):
    torch.manual_seed(0)
    trained = fit(planted(), model, epochs=80, precision="float32", metric="likelihood")
    for parameter in trained.model.parameters():
        parameter.grad = None
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    adaptor = trained.for_explainer(1)
    # Without its pull to 0 and 1, which takes edges that say nothing to where they happen to begin.
    found = explain(adaptor, GNNExplainer(epochs=100, lr=0.05, edge_ent=0.0, edge_size=0.02))
    source, target = adaptor.ids[adaptor.edge_index.numpy()]
    into = np.flatnonzero(target == 1)
    assert source[into[found.edge_mask.numpy()[into].argmax()]] == 61
    assert int(found.node_mask[adaptor.ids == 61][0].argmax()) == 2
    for name, value in trained.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in trained.model.parameters())


def test_captum_explainer_runs():
    pytest.importorskip("captum")
    from torch_geometric.explain import CaptumExplainer

    adaptor = fit(planted(), "sage", epochs=80, metric="likelihood").for_explainer(1)
    found = explain(adaptor, CaptumExplainer("IntegratedGradients"))
    source, target = adaptor.ids[adaptor.edge_index.numpy()]
    into = np.flatnonzero(target == 1)
    assert source[into[found.edge_mask.detach().abs().numpy()[into].argmax()]] == 61
    assert int(found.node_mask[adaptor.ids == 61][0].abs().argmax()) == 2


def test_models_without_masks_say_so():
    trained = fit(draw_graph(), "h2gcn", epochs=2)
    with pytest.raises(InputError, match=r"H2GCN does not let its edges be masked.*gcn"):
        explain(trained.for_explainer("n5"), GNNExplainer(epochs=2))
    assert explain(trained.for_explainer("n5"), GNNExplainer(epochs=2), None).node_mask.any()
    with pytest.raises(InputError, match="MLP looks at no edges"):
        explain(fit(draw_graph(), "mlp", epochs=2).for_explainer("n5"), GNNExplainer(epochs=2))


def test_other_edges_and_features_are_refused():
    adaptor = fit(draw_graph(), "gcn", epochs=2).for_explainer("n5")
    with pytest.raises(InputError, match="edge_index must be that of the adaptor"):
        adaptor(adaptor.x, adaptor.edge_index[:, 1:])
    with pytest.raises(InputError, match="x must be"):
        adaptor(adaptor.x[1:], adaptor.edge_index)
    adaptor(adaptor.x, adaptor.edge_index.clone())


def test_features_that_do_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr("ncgnn.training.adaptor.available_gib", lambda: 1e-9)
    with pytest.raises(InputError, match=r"give one node, or use trained\.explain"):
        fit(draw_graph(), "gcn", epochs=2).for_explainer()


def test_a_model_of_layers_of_pyg():
    from torch_geometric.nn import GCNConv

    from ncgnn.nn import Model

    class Layers(Model):
        def __init__(self, num_features, num_classes, hidden: int = 8):
            super().__init__()
            self.first = GCNConv(num_features, hidden)
            self.second = GCNConv(hidden, num_classes)

        def logits(self, inputs, key):
            hidden = torch.relu(self.first(inputs.x, inputs.edge_index))
            return self.second(hidden, inputs.edge_index)

    trained = fit(planted(), Layers, epochs=60, metric="likelihood")
    adaptor = trained.for_explainer(1)
    found = explain(adaptor, GNNExplainer(epochs=100, lr=0.05, edge_ent=0.0, edge_size=0.02))
    source, target = adaptor.ids[adaptor.edge_index.numpy()]
    into = np.flatnonzero(target == 1)
    assert source[into[found.edge_mask.numpy()[into].argmax()]] == 61


def test_new_nodes_have_their_groups():
    graph = draw_graph()
    trained, later = fit(graph, "ncsage", threshold=0.3), grow(graph)
    adaptor = trained.for_explainer("new1", later)
    logits = adaptor(adaptor.x, adaptor.edge_index)[adaptor.index]
    answer = trained.explain("new1", later).answer
    assert float(torch.softmax(logits, 0).max()) == pytest.approx(answer["probability"])


def test_an_explanation_leaves_the_model_as_it_is():
    adaptor = fit(draw_graph(), "tuned-sage", norm="batch", dropout=0.5).for_explainer("n5")
    before = adaptor(adaptor.x, adaptor.edge_index)
    state = {name: value.clone() for name, value in adaptor.model.state_dict().items()}
    explain(adaptor, GNNExplainer(epochs=2))
    assert torch.equal(adaptor(adaptor.x, adaptor.edge_index), before)
    assert all(torch.equal(value, state[name]) for name, value in adaptor.model.named_buffers())


def test_the_model_that_answers_is_adapted():
    graph = draw_graph()
    labels = graph.labels.copy()
    labels[5] = -1
    trained = fit(graph.with_labels(labels, 3), "tuned-sage").refit()
    for node, options in (("n5", {}), ("n7", {}), ("n5", {"refit": False})):
        adaptor = trained.for_explainer(node, **options)
        logits = adaptor(adaptor.x, adaptor.edge_index)[adaptor.index]
        answer = trained.explain(node, **options).answer
        assert float(torch.softmax(logits, 0).max()) == pytest.approx(answer["probability"])


@pytest.mark.parametrize("model", ["gcn", "sage", "gat", "tuned-sage", "ncgcn", "nctuned-sage"])
def test_masks_reach_the_messages_to_few_nodes(model):
    draw = np.random.default_rng(0)
    ends = draw.integers(0, 400, (2, 500))
    features = csr_array((draw.random((400, 40)) < 0.05).astype(float))
    labels = draw.integers(0, 3, 400)
    trained = fit(Graph.from_edge_index(ends, features=features, labels=labels), model, epochs=2)
    inputs, few = trained.inputs, torch.tensor([5, 9])
    mask = torch.from_numpy(draw.random(inputs.edge_index.shape[1]))
    masked, group = MaskedInputs(inputs, inputs.features, mask), trained.grouping.group
    with torch.no_grad():
        every, some = trained.model(masked, group), trained.model(masked, group, nodes=few)
        plain = trained.model(inputs, group)
    torch.testing.assert_close(some, every[few])
    assert not torch.allclose(plain, every)
