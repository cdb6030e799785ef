"""What every model of the list must hold to, whatever it is."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from drawn_graphs import Drawn, drawn_graph

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import model_class, model_names
from ncgnn.testing import check_model
from ncgnn.training import make_config

#: Nodes of one degree are taken in their order when WRGAT looks for similar ones.
ORDERED = {"wrgat"}
PAPER = ("pubmed", "photo", "computers", "coauthor-cs", "coauthor-physics", "cora-full")
PAPER += ("actor", "penn94", "chameleon-filtered", "squirrel-filtered")


def small(name, width=8):
    fields = model_class(name).Options.model_fields
    return {key: width for key in ("hidden", "hidden2") if key in fields}


@pytest.mark.parametrize("name", model_names())
def test_conformance(name):
    check_model(name, ordered=name in ORDERED, **small(name))


@pytest.mark.parametrize("name", model_names())
def test_single_nodes_can_be_asked_for(name):
    inputs = drawn_graph(2).inputs()
    torch.manual_seed(0)
    model = model_class(name).for_inputs(inputs, **small(name)).double().eval()
    nodes = torch.tensor([3, 0, 12])
    group = torch.zeros(inputs.num_nodes, dtype=torch.int64)
    assert torch.allclose(model(inputs, group, None, nodes), model(inputs)[nodes])


@pytest.mark.parametrize("name", model_names())
def test_copies_and_pickles(name):
    inputs = drawn_graph(2).inputs()
    model = model_class(name).for_inputs(inputs, **small(name)).double().eval()
    expected = model(inputs)
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
    if isinstance(getattr(model, "layer", "gcn"), str):  # not PyG's layers
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


@pytest.mark.parametrize(
    ("name", "least", "options"),
    [
        ("acmgcn", 0.93, {"hidden": 32, **_ROW}),
        ("appnp", 0.8, {}),
        ("bernnet", 0.6, {"dropout": 0.1, "propagation_dropout": 0.1}),
        ("cagnn", 0.8, {}),
        # Gates saturate with features as large as these, so they are scaled as the authors do.
        ("fagcn", 0.75, _ROW),
        ("gat", 0.8, {"hidden": 32, **_ROW}),
        ("gbksage", 0.6, {}),
        ("gcnii", 0.8, {}),
        ("glognn", 0.6, {"dropout": 0.1}),
        ("glognn", 0.6, {"dropout": 0.1, "delta": 0.5}),
        ("glognn", 0.6, {"dropout": 0.1, "variant": "glognn++"}),
        ("gprgnn", 0.8, {"hidden": 64}),
        ("h2gcn", 0.8, {}),
        ("linkx", 0.6, {}),
        ("mixhop", 0.85, {}),
        ("sgc", 0.8, {"learning_rate": 0.05}),
        ("sngnn", 0.6, {"variant": "plain", "learning_rate": 0.1}),
        ("sngnn", 0.6, {"variant": "plus", "learning_rate": 0.1}),
        ("sngnn", 0.6, {"variant": "plusplus", "learning_rate": 0.1}),
    ],
)
def test_digits_are_learned(name, least, options):
    trained = ncgnn.fit(ncgnn.load("digits"), name, epochs=60, **small(name, 16) | options)
    assert trained.evaluate()["scores"]["test"]["accuracy"] > least


@pytest.mark.parametrize("name", model_names())
@pytest.mark.parametrize("dataset", PAPER)
def test_presets_hold_for_the_papers_graphs(name, dataset):
    config = make_config(dataset=dataset, model=name, split="paper")
    assert config.model.name == name


@pytest.mark.parametrize("name", model_names())
def test_features_are_needed(name):
    nodes = list(range(20))
    graph = ncgnn.Graph.from_edge_index([nodes, [*nodes[1:], 0]], labels=[0, 1] * 10)
    with pytest.raises(InputError, match="has no features"):
        ncgnn.fit(graph, name, **small(name))


@pytest.mark.parametrize("name", model_names())
def test_what_a_model_sees_of_directed_edges(name):
    drawn = drawn_graph(2, density=0.3)
    inputs = drawn.inputs()
    torch.manual_seed(0)
    model = model_class(name).for_inputs(inputs, **small(name)).double().eval()
    with torch.no_grad():  # some begin with weights that leave neighbours out
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)

    def answers(A):
        return model(Drawn(A, drawn.X, drawn.labels).inputs())

    forth, back = answers(drawn.A), answers(drawn.A.t())
    both = answers(((drawn.A + drawn.A.t()) > 0).double())
    assert torch.allclose(forth, back) == (model.edges != "incoming")
    assert torch.allclose(forth, both) == (model.edges != "incoming")
    if name != "hog":  # has weights for the pairs of this graph
        assert torch.allclose(forth, answers(0 * drawn.A)) == (model.edges == "none")


def test_papers_are_named():
    assert [name for name in model_names() if not model_class(name).paper] == ["mlp"]
