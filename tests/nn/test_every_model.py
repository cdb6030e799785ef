"""What every model of the list must hold to, whatever it is."""

from __future__ import annotations

import copy
import pickle
from contextlib import nullcontext

import pytest
import torch
from baseline_checks import make_fitted
from drawn_graphs import Drawn, drawn_graph

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.nn import model_class, model_names
from ncgnn.nn.registry import BUILT_IN
from ncgnn.testing import check_model
from ncgnn.training import make_config

#: Nodes of one degree are taken in their order when WRGAT looks for similar ones.
ORDERED = {"wrgat"}
SMALL_TREES = {"rounds": 3, "smallest_leaf": 1, "penalty": 0.1, "held_out": 0.0, "tried": 1.0}
PAPER = ("pubmed", "photo", "computers", "coauthor-cs", "coauthor-physics", "cora-full")
PAPER += ("actor", "penn94", "chameleon-filtered", "squirrel-filtered")


def small(name, width=8):
    fields = model_class(name).Options.model_fields
    sizes = {key: width for key in ("hidden", "hidden2") if key in fields}
    return sizes | SMALL_TREES if name == "boosting" else sizes


VARIANTS = {
    "acmgcn": [{"variant": 1}, {"scaled": False}],
    "appnp": [{"steps": 0}, {"steps": 3, "alpha": 0.4}, {"bias": True}, {"edge_dropout": 0.0}],
    "boosting": [{"components": 3}, {"held_out": 0.4}],
    "cagnn": [{"self_loops": True}, {"layers": 3}],
    "cpgnn": [{"steps": 2, "dropout": 0.3, "cotraining": 1.0}],
    "fagcn": [{"layers": 4}],
    "gat": [{"heads": 1}, {"hidden": 24, "heads": 3, "output_heads": 2}],
    "gbksage": [{"hidden": 5}, {"gate_target": "paper"}, {"center": "paper"}],
    "gcnii": [{"shared_weights": False}, {"layers": 1}],
    "glognn": [
        {"delta": 0.0},
        {"delta": 0.5},
        *({"variant": "glognn++", "order_weights": "per_node", "delta": d} for d in (0.0, 0.5, 1)),
    ],
    "gprgnn": [{"steps": 0}, {"steps": 3, "alpha": 0.1}],
    "h2gcn": [{"layers": 1}],
    "linkx": [
        {"layers": layers, "adjacency_layers": layers, "feature_layers": layers}
        for layers in (1, 3)
    ],
    "logistic": [{"penalty": 0.01}],
    "mixhop": [{"layers": 1}, {"powers": (0, 2), "self_loops": False}],
    "propagation": [{"alpha": 0.5, "steps": 2}],
    "sgc": [{"steps": 0}],
    "sngnn": [{"variant": "plain"}, {"variant": "plusplus", "layers": 2}],
    "tuned-gcn": [{"norm": "batch"}, {"norm": "none"}],
    "tuned-sage": [{"norm": "batch"}, {"norm": "none"}],
    "tuned-gat": [{"norm": "batch"}, {"norm": "none"}],
    "wrgat": [{"original_edges": True}, {"relations": 1}],
}
DIRECTED = [name for name in model_names() if "direction" in model_class(name).Options.model_fields]
for name in DIRECTED:
    VARIANTS.setdefault(name, []).extend(
        {"direction": direction} for direction in ("incoming", "both", "separate")
    )
CASES = [(name, {}) for name in model_names()]
CASES += [(name, options) for name, variants in VARIANTS.items() for options in variants]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_conformance(name, options):
    check_model(name, ordered=name in ORDERED, **small(name) | options)


@pytest.mark.parametrize("name", model_names())
def test_single_nodes_can_be_asked_for(name):
    inputs = drawn_graph(2).inputs()
    model = make_fitted(lambda: model_class(name).for_inputs(inputs, **small(name)), inputs)
    nodes, group = torch.tensor([3, 0, 12]), torch.zeros(13, dtype=torch.int64)
    assert torch.allclose(model(inputs, group, None, nodes), model(inputs)[nodes])


@pytest.mark.parametrize(("name", "options"), CASES)
def test_copies_pickles_and_inference_mode(name, options):
    inputs = drawn_graph(2).inputs()
    build = model_class(name).for_inputs
    model = make_fitted(lambda: build(inputs, **small(name) | options), inputs)
    with torch.inference_mode():
        model(inputs)
    expected = model(inputs)
    if list(model.parameters()):
        expected.sum().backward()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(inputs), expected)


@pytest.mark.parametrize("name", model_names())
def test_wrong_nodes_and_precisions_are_refused(name):
    inputs = drawn_graph(2).inputs()
    model = model_class(name).for_inputs(inputs, **small(name)).double().eval()
    for nodes in ([-1], [13], [0.5]):
        with pytest.raises(InputError, match="nodes must be"):
            model(inputs, None, None, torch.tensor(nodes))
    with pytest.raises(InputError, match="make both alike"):
        model(drawn_graph(2).inputs(torch.float32))
    if isinstance(getattr(model, "layer", "gcn"), str) and model.uses_features:
        # not PyG's layers
        with pytest.raises(InputError, match="takes 16 features; the graph has 15"):
            model(drawn_graph(2, features=15).inputs())


@pytest.mark.parametrize("name", model_names())
def test_labels_of_test_nodes_change_nothing_but_test_scores(name):
    graph = ncgnn.load("digits")
    split = ncgnn.make_split(graph, "stratified", 0)
    labels = graph.labels.copy()
    labels[split.test] = labels[split.test][::-1]
    other = graph.with_labels(labels)
    one, two = (ncgnn.fit(g, name, split=split, epochs=2, **small(name)) for g in (graph, other))
    for mine, theirs in zip(
        one.model.state_dict().values(), two.model.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, theirs)
    assert (one.probabilities() == two.probabilities()).all()
    assert one.probabilities().shape == (1797, 10)
    assert all(0 <= part["accuracy"] <= 1 for part in one.evaluate()["scores"].values())


_ROW = {"scaling": "row", "learning_rate": 0.05}
_LONG = {"epochs": 60}


@pytest.mark.parametrize(
    ("name", "least", "options"),
    [
        ("acmgcn", 0.93, {"hidden": 32, **_ROW}),
        ("appnp", 0.8, {}),
        ("bernnet", 0.6, {"dropout": 0.1, "propagation_dropout": 0.1, **_LONG}),
        ("cagnn", 0.8, {}),
        # Gates saturate with features as large as these, so they are scaled as the authors do.
        ("fagcn", 0.75, _ROW),
        ("gat", 0.8, {"hidden": 32, **_ROW}),
        ("gbksage", 0.6, _LONG),
        ("gcnii", 0.8, {}),
        ("glognn", 0.6, {"dropout": 0.1, **_LONG}),
        ("glognn", 0.6, {"dropout": 0.1, "delta": 0.5}),
        ("glognn", 0.6, {"dropout": 0.1, "variant": "glognn++"}),
        ("gprgnn", 0.8, {"hidden": 64}),
        ("h2gcn", 0.8, _LONG),
        ("linkx", 0.6, {}),
        ("mixhop", 0.85, {}),
        ("sgc", 0.8, {"learning_rate": 0.05}),
        ("sngnn", 0.6, {"variant": "plain", "learning_rate": 0.1}),
        ("sngnn", 0.6, {"variant": "plus", "learning_rate": 0.1}),
        ("sngnn", 0.6, {"variant": "plusplus", "learning_rate": 0.1}),
    ],
)
def test_digits_are_learned(name, least, options):
    options = {"epochs": 30} | small(name, 16) | options
    trained = ncgnn.fit(ncgnn.load("digits"), name, **options)
    assert trained.evaluate()["scores"]["test"]["accuracy"] > least


@pytest.mark.parametrize("name", model_names())
def test_presets_hold_for_the_papers_graphs(name):
    for dataset in PAPER:
        assert make_config(dataset=dataset, model=name, split="paper").model.name == name


@pytest.mark.parametrize("name", model_names())
def test_features_may_be_missing(name):
    nodes = list(range(20))
    graph = ncgnn.Graph.from_edge_index([nodes, [*nodes[1:], 0]], labels=[0, 1] * 10)
    told = model_class(name).uses_features
    with pytest.warns(NcgnnWarning, match="no features") if told else nullcontext():
        trained = ncgnn.fit(graph, name, **small(name))
    assert len(trained.predict(only="test")) == 4


@pytest.mark.parametrize("name", model_names())
def test_what_a_model_sees_of_directed_edges(name):
    drawn = drawn_graph(2, density=0.3)
    inputs = drawn.inputs()
    # Some begin with weights that leave neighbors out.
    model = make_fitted(lambda: model_class(name).for_inputs(inputs, **small(name)), inputs, 0.5)

    def answers(A):
        return model(Drawn(A, drawn.X, drawn.labels).inputs())

    forth, back = answers(drawn.A), answers(drawn.A.t())
    both = answers(((drawn.A + drawn.A.t()) > 0).double())
    assert torch.allclose(forth, back) == (model.edges != "incoming")
    assert torch.allclose(forth, both) == (model.edges != "incoming")
    if name != "hog":  # has weights for the pairs of this graph
        assert torch.allclose(forth, answers(0 * drawn.A)) == (model.edges == "none")


def test_papers_are_named():
    # Others may be registered, by tests that ran before.
    assert [name for name in BUILT_IN if not model_class(name).paper] == ["mlp"]
