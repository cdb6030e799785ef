"""Explanations: what is left out is really left out, whatever the model and the edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import ncgnn
from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs

pytestmark = pytest.mark.usefixtures("one_thread")

NODES, CLASSES, WIDTH = 90, 3, 15


def draw_graph(kind="undirected", *, sparse=True, seed=0):
    """A small graph with words as features; ``kind`` says what its edges carry."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, CLASSES, NODES)
    alike = labels[:, None] == labels
    pairs = np.triu(draw.random((NODES, NODES)) < np.where(alike, 0.08, 0.02), 1)
    pairs[0, 1:40] = True  # a hub
    source, target = np.nonzero(pairs)
    flip = draw.random(len(source)) < 0.5
    source, target = np.where(flip, target, source), np.where(flip, source, target)
    extra = {}
    edges = np.stack([source, target])
    if kind == "directed":
        more = draw.random(len(source)) < 0.2
        edges = np.concatenate([edges, edges[::-1, more], [[3, 7], [3, 7]]], axis=1)
    else:
        if kind == "known directions":
            extra["edge_directions"] = np.repeat([1, 2], len(source))
        if kind == "weighted":
            extra["edge_weights"] = np.tile(draw.random(len(source)) + 0.5, 2)
        edges = np.concatenate([edges, edges[::-1]], axis=1)
    words = draw.random((NODES, WIDTH)) < np.where(
        labels[:, None] == np.arange(WIDTH) % CLASSES, 0.4, 0.1
    )
    features = words * (draw.random((NODES, WIDTH)) + 0.5)
    return Graph.from_edge_index(
        edges,
        features=csr_array(features) if sparse else features,
        labels=labels,
        node_ids=[f"n{i}" for i in range(NODES)],
        class_names=("ash", "birch", "cedar"),
        feature_names=[f"word {i}" for i in range(WIDTH)],
        name="forest",
        **extra,
    )


def fit(graph, model, **settings):
    chosen = {"hidden": 12, "epochs": 12, "learning_rate": 0.03, "precision": "float64"}
    chosen |= {"layers": 2} if model.startswith(("tuned", "nctuned")) else {}
    chosen |= {"heads": 2} if model == "gat" else {}
    if model == "sgc":
        del chosen["hidden"]  # it has no hidden layer
    return ncgnn.fit(graph, model, **chosen | settings)


def rebuilt(graph, node, others=(), columns=()):
    """The graph built anew from its edges and features, without some of them."""
    source, target = graph.edge_index()
    lost = (source == node) & np.isin(target, others) | (target == node) & np.isin(source, others)
    kept = ~lost
    features = (
        graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    )
    features = features.copy()
    features[node, list(columns)] = 0
    sparse = not isinstance(graph.features, np.ndarray)
    carried = {
        name: getattr(graph, name)[kept]
        for name in ("edge_weights", "edge_directions")
        if getattr(graph, name) is not None
    }
    return Graph.from_edge_index(
        np.stack([source, target])[:, kept],
        features=csr_array(features) if sparse else features,
        labels=graph.labels,
        **carried,
    )


def reference(trained, graph, node, group):
    """The whole model on the whole graph."""
    inputs = GraphInputs(graph, dtype=torch.float64, scaling=trained.inputs.scaling)
    with torch.no_grad():
        logits = trained.model.eval()(inputs, group)[node]
    if trained.correction is not None and not trained.seen[node]:
        logits = logits + trained.correction.offsets
    return torch.softmax(logits, 0).numpy()


def check_effects(trained, graph, node, group=None, *, explained=None, neighbors=100):
    """Every effect against the reference; returns the explanation."""
    group = trained.grouping.group if group is None else group
    given = explained or trained.explain(f"n{node}", neighbors=neighbors)
    base = reference(trained, rebuilt(graph, node), node, group)
    best = base.argmax()
    names = ("ash", "birch", "cedar")
    assert given.answer["predicted"] == names[best]
    assert given.answer["probability"] == pytest.approx(base[best], abs=1e-9)
    source, target = graph.edge_index()
    around = np.union1d(source[target == node], target[source == node])
    around = around[around != node]
    row = graph.features[[node]]
    row = (row if isinstance(row, np.ndarray) else row.toarray())[0]
    entries = np.flatnonzero(row)
    assert given.num_neighbors == len(around)
    assert given.num_features == len(entries)
    seen = set()
    for one in given:
        seen.add((one.part, one.name))
        others = {"neighbor": [int(str(one.name)[1:])] if one.part == "neighbor" else []}.get(
            one.part, around if one.part == "neighbors" else []
        )
        columns = []
        if one.part == "feature":
            columns = [int(one.name.split()[1])]
        elif one.part == "features":
            columns = entries
        without = reference(trained, rebuilt(graph, node, others, columns), node, group)
        assert one.probability == pytest.approx(without[best], abs=1e-9), one
        assert one.effect == pytest.approx(base[best] - without[best], abs=1e-9), one
        assert one.predicted == names[without.argmax()]
        assert one.predicted_probability == pytest.approx(without.max(), abs=1e-9)
    return given, seen, around, entries


INDUCTIVE = [
    ("ncgcn", {"threshold": 0.3}),
    ("ncsage", {"threshold": 0.3}),
    ("ncsage", {"threshold": 0.3, "separation": "strict"}),
    ("ncgcn", {"threshold": 0.3, "separation": "source"}),
    ("ncgat", {"threshold": 0.3}),
    ("nctuned-sage", {"threshold": 0.3}),
    ("gcn", {}),
    ("gcn", {"scaling": "row"}),
    ("gcn", {"class_shares": "val"}),
    ("sage", {}),
    ("gat", {}),
    ("tuned-gcn", {}),
    ("tuned-sage", {}),
    ("tuned-gat", {}),
    ("h2gcn", {}),
    ("sgc", {}),
    ("appnp", {}),
    ("gcnii", {}),
    ("fagcn", {}),
    ("mixhop", {}),
]


@pytest.mark.parametrize(("model", "options"), INDUCTIVE)
def test_effects_are_those_of_the_rebuilt_graph(model, options):
    graph = draw_graph()
    trained = fit(graph, model, **options)
    given, seen, around, entries = check_effects(trained, graph, 5)
    assert {name for part, name in seen if part == "neighbor"} == {f"n{i}" for i in around}
    assert {name for part, name in seen if part == "feature"} == {f"word {i}" for i in entries}
    assert given.notes == ()


@pytest.mark.parametrize("kind", ["directed", "known directions", "weighted"])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gcn", {}),
        ("sage", {"self_loops": True}),
        ("gat", {}),
        ("tuned-sage", {}),
        ("tuned-gcn", {}),
        ("ncgcn", {"threshold": 0.3}),
        ("ncsage", {"threshold": 0.3}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*does not use the weights")
def test_directions_and_weights(kind, model, options):
    graph = draw_graph(kind, sparse=kind != "directed")
    directions = ["incoming", "both"] + (["separate"] if graph.has_direction else [])
    for direction in directions:
        trained = fit(graph, model, direction=direction, epochs=4, **options)
        check_effects(trained, graph, 7)


def test_models_that_belong_to_their_graph():
    graph = draw_graph()
    for model in ("linkx", "glognn"):
        trained = fit(graph, model)
        _, seen, around, _ = check_effects(trained, graph, 5)
        assert len([1 for part, _ in seen if part == "neighbor"]) == len(around)
