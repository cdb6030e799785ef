"""Receptive fields: a model answers in a part of a graph as it does in the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baseline_checks import make
from test_every_model import CASES, small

from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs, model_class, nodes_around, receptive_field

NODES, FEATURES, CLASSES = 400, 6, 3
WANTED = np.array([120, 7, 121, 399])
#: What a model has weights for, for every model or variant that has weights for its nodes.
TIED = {
    "linkx": "every node",
    "hog": "every pair of nodes at most two steps apart",
    "glognn": "every node",
    "sngnn": "every node",
}
#: Those whose logits depend on everything.
GLOBAL = {"wrgat", "hog", "glognn", "linkx"}


def long_graph(*, directed, seed=0, nodes=NODES):
    """A band: neighbors are near by number, so that even far-reaching models see a part only."""
    draw = np.random.default_rng(seed)
    start = np.repeat(np.arange(nodes), 3)
    end = start + draw.integers(1, 4, len(start))
    edges = np.stack([start, end])[:, end < nodes]
    turned = draw.random(edges.shape[1]) < 0.5
    edges[:, turned] = edges[::-1, turned]
    if not directed:
        edges = np.concatenate([edges, edges[::-1]], axis=1)
    return Graph.from_edge_index(
        edges,
        num_nodes=nodes,
        features=draw.normal(size=(nodes, FEATURES)),
        labels=draw.integers(0, CLASSES, nodes),
        num_classes=CLASSES,
    )


def build(name, options, inputs):
    chosen = small(name) | options
    return make(lambda: model_class(name).for_inputs(inputs, **chosen))


def answers_in(field, model, group):
    inputs = GraphInputs(field.graph, dtype=torch.float64)
    return model(inputs, group[field.nodes], None, torch.from_numpy(field.wanted))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_model_answers_in_its_receptive_field_as_in_the_whole_graph(name, options, directed):
    graph = long_graph(directed=directed)
    inputs = GraphInputs(graph, dtype=torch.float64)
    model = build(name, options, inputs)
    assert (model.reach is None) == (name in GLOBAL)
    group = torch.arange(NODES) % 2
    if not model.inductive:
        return
    field = receptive_field(graph, WANTED, model)
    with torch.no_grad():
        expected = model(inputs, group)[WANTED]
        found = answers_in(field, model, group)
    assert torch.allclose(found, expected, rtol=0, atol=1e-6)
    if model.reach is None:
        assert field.graph is graph
    else:
        assert len(field.nodes) < NODES / 2
        assert (field.nodes[field.wanted] == WANTED).all()


@pytest.mark.parametrize(
    "name", ["gcn", "sage", "ncgcn", "ncsage", "gat", "tuned-gcn", "tuned-sage", "h2gcn", "fagcn"]
)
def test_the_reach_is_no_larger_than_it_must_be(name):
    graph = long_graph(directed=True)
    inputs = GraphInputs(graph, dtype=torch.float64)
    model = build(name, {}, inputs)
    group = torch.arange(NODES) % 2
    fewer = nodes_around(graph, WANTED, model.reach - 1, outgoing=model.edges == "both")
    with torch.no_grad():
        difference = answers_in(fewer, model, group) - model(inputs, group)[WANTED]
    assert difference.abs().max() > 1e-6


@pytest.mark.parametrize(("name", "options"), CASES)
def test_models_answer_for_more_nodes_or_say_why_not(name, options):
    graph = long_graph(directed=False)
    draw = np.random.default_rng(1)
    more = graph.extend(draw.normal(size=(2, FEATURES)), [[3, NODES], [NODES, NODES + 1]])
    model = build(name, options, GraphInputs(graph, dtype=torch.float64))
    tied = name in TIED and (
        name not in ("glognn", "sngnn")
        or options.get("delta", 1) < 1
        or options.get("variant") == "plusplus"
    )
    assert model.inductive == (not tied)
    if tied:
        with pytest.raises(InputError, match=f"has weights for {TIED[name]} of its graph and"):
            model.check_inductive()
        return
    model.check_inductive()
    logits = model(GraphInputs(more, dtype=torch.float64))
    assert logits.shape == (NODES + 2, CLASSES)
    assert logits.isfinite().all()


def test_a_hub_brings_its_neighbors_but_not_theirs():
    nodes = 1000
    spokes = np.stack([np.zeros(300, int), np.arange(1, 301)])
    chain = np.stack([np.arange(300, nodes - 1), np.arange(301, nodes)])
    edges = np.concatenate([spokes, chain], axis=1)
    features = np.arange(nodes, dtype=float)[:, None]
    both = np.concatenate([edges, edges[::-1]], axis=1)
    graph = Graph.from_edge_index(both, features=features, labels=np.zeros(nodes, int))
    field = nodes_around(graph, np.array([1]), 2)
    assert field.nodes.tolist() == list(range(301))
    assert field.graph.degrees.tolist() == [300, 1, *[0] * 299]
    assert (field.graph.features[:, 0] == field.nodes).all()
    assert field.graph.num_unlabeled == 301
    both_ends = nodes_around(graph, np.array([1]), 2, outgoing=True)
    assert both_ends.graph.degrees.tolist() == [300, *[1] * 300]
    assert not both_ends.graph.is_directed
    assert nodes_around(graph, np.array([1]), 1).nodes.tolist() == [0, 1]
    assert nodes_around(graph, np.array([5, 1]), 0).graph.num_entries == 0


def test_directed_edges_are_followed_as_the_model_sees_them():
    edges = np.array([[0, 1, 2, 3, 9], [1, 2, 3, 4, 2]])
    weights = np.arange(1, 6)
    graph = Graph.from_edge_index(
        edges, num_nodes=20, labels=np.zeros(20, int), edge_weights=weights
    )
    back = nodes_around(graph, np.array([2]), 1)
    assert back.nodes.tolist() == [1, 2, 9]
    assert back.graph.edge_index().tolist() == [[0, 2], [1, 1]]
    assert back.graph.edge_weights.tolist() == [2, 5]
    ways = nodes_around(graph, np.array([2]), 1, outgoing=True)
    assert ways.nodes.tolist() == [1, 2, 3, 9]
    assert ways.graph.edge_index().tolist() == [[0, 3, 1], [1, 1, 2]]
    assert ways.graph.edge_weights.tolist() == [2, 5, 3]


def test_most_of_a_graph_is_all_of_it():
    graph = long_graph(directed=False, nodes=20)
    assert nodes_around(graph, np.arange(20), 1).graph is graph
    assert nodes_around(graph, np.array([3]), 9).graph is graph
