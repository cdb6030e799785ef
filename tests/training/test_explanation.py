"""Explanations: what is left out is really left out, whatever the model and the edges."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet
from scipy.sparse import csr_array

import ncgnn
from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs, model_class

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
    chosen |= {"calibration": "none"}  # the references are the model's own probabilities
    chosen |= {"layers": 2} if str(model).startswith(("tuned", "nctuned")) else {}
    chosen |= {"heads": 2} if model == "gat" else {}
    if isinstance(model, str) and "hidden" not in model_class(model).Options.model_fields:
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
        odds = [np.log(shares[best] / (1 - shares[best])) for shares in (base, without)]
        assert one.log_odds == pytest.approx(odds[0] - odds[1], abs=1e-7), one
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


def test_a_model_that_sees_no_neighbors():
    graph = draw_graph()
    given, seen, *_ = check_effects(fit(graph, "mlp"), graph, 5)
    assert {part for part, _ in seen} == {"features", "feature"}
    assert given.notes == ("MLP looks at no neighbors.",)
    assert given.tried["neighbors"] == 0


@pytest.mark.parametrize("model", ["mlp", "logistic"])
def test_features_are_ranked_by_models_that_see_no_neighbors(model):
    graph = draw_graph()
    settings = {"epochs": 2, "hidden": 8} if model == "mlp" else {}
    trained = ncgnn.fit(graph, model, **settings)
    counts = graph.features.count_nonzero(axis=1)
    later = [graph.indices[a:b].max(initial=-1) for a, b in pairwise(graph.indptr.tolist())]
    nodes = np.flatnonzero((counts > 3) & (np.array(later) > np.arange(NODES)))
    for node in nodes[:3].tolist():
        found = trained.explain(f"n{node}", features=1)
        assert sum(one.part == "feature" for one in found.effects) == 1
        assert f"{trained.model.title} looks at no neighbors." in found.notes


def test_a_model_with_weights_for_pairs():
    graph = draw_graph()
    given, seen, *_ = check_effects(fit(graph, "hog"), graph, 5)
    assert {part for part, _ in seen} == {"features", "feature"}
    assert "neighbors cannot be left out" in given.notes[0]


def test_dense_features_and_a_node_alone():
    graph = draw_graph(sparse=False)
    check_effects(fit(graph, "ncgcn", threshold=0.3), graph, 3)
    alone = Graph.from_edge_index(
        np.array([[0, 1], [1, 0]]), features=np.eye(12), labels=np.arange(12) % 3
    )
    found = ncgnn.fit(alone, "gcn", hidden=8, epochs=3).explain(7)
    assert [one.part for one in found] == ["features", "feature"]
    assert found.num_neighbors == 0
    assert "It has no neighbors." in found.sentences()


@pytest.mark.parametrize("model", ["gcn", "tuned-sage", "ncsage", "gat"])
def test_of_a_hub_the_neighbors_that_matter_most_are_tried(model):
    graph = draw_graph()
    trained = fit(graph, model, epochs=40)
    every = trained.explain("n0", neighbors=1000).of("neighbor")
    found, _, around, _ = check_effects(trained, graph, 0, neighbors=8)
    assert found.tried["neighbors"] == 8 == len(found.of("neighbor"))
    assert f"{len(around) - 8} of {len(around)} neighbors" in found.notes[0]
    # Gradients find most of what matters, and never change an effect.
    most = [sum(abs(one.effect) for one in some[:8]) for some in (found.of("neighbor"), every)]
    assert most[0] >= 0.85 * most[1]
    exact = {one.name: one.effect for one in every}
    assert all(one.effect == pytest.approx(exact[one.name]) for one in found.of("neighbor"))


def test_models_without_gradients_to_edges_try_some_neighbors():
    graph = draw_graph()
    found, *_ = check_effects(fit(graph, "h2gcn"), graph, 0, neighbors=5)
    assert found.tried["neighbors"] == 5


def test_features_beyond_the_limit_are_ranked_by_gradients():
    draw = np.random.default_rng(0)
    features, labels = 0.1 * draw.normal(size=(60, 50)), np.arange(60) % 2
    features[:, 7] = 3 * labels - 1.5
    graph = Graph.from_edge_index(np.zeros((2, 0), int), features=features, labels=labels)
    found = ncgnn.fit(graph, "sage", hidden=16, epochs=40).explain(4, features=3)
    assert found.tried["features"] == 9
    assert len(found.of("feature")) == 3
    assert found.of("feature")[0].name == "feature 7"
    assert "41 of 50 features were not tried one by one." in found.notes


@pytest.mark.parametrize("model", ["gcn", "tuned-sage", "ncsage"])
def test_without_a_change_the_answer_is_that_of_predict(model):
    graph = draw_graph()
    trained = fit(graph, model, precision="float32")
    answers = {row["id"]: row for row in trained.predict()}
    for node in ("n0", "n5", "n80"):
        found = trained.explain(node)
        assert found.answer == answers[node]
        one = found.of("features")[0]
        assert one.probability + one.effect == pytest.approx(answers[node]["probability"], abs=1e-5)


def grow(graph):
    """The graph with three more nodes, one of which has new neighbors only."""
    features = np.eye(3, WIDTH) + 0.1
    edges = np.array([[90, 90, 91, 90, 92], [0, 5, 7, 91, 91]])
    return graph.extend(csr_array(features), edges, node_ids=["new0", "new1", "new2"])


@pytest.mark.parametrize("model", ["tuned-sage", "ncgcn", "ncsage"])
def test_new_nodes(model):
    graph = draw_graph()
    trained = fit(graph, model, **({} if model == "tuned-sage" else {"threshold": 0.3}))
    later = grow(graph)
    answers = {row["id"]: row for row in trained.predict(later)}
    found = trained.explain("new1", later)
    assert found.answer == answers["new1"]
    assert {one.name for one in found.of("neighbor")} == {"n7", "new0", "new2"}
    group = torch.from_numpy(trained.look_at(later).group)
    names = {later.ids[i].item(): i for i in range(later.num_nodes)}
    best = graph.class_names.index(found.answer["predicted"])
    for one in found.of("neighbor"):
        built = rebuilt(later.with_labels(later.labels), 91, [names[one.name]])
        without = reference_new(trained, built, 91, group)
        assert one.probability == pytest.approx(without[best], abs=1e-9)
    # An old node keeps its answer, whatever came after.
    old, before = (trained.explain("n7", *given).to_json() for given in ((later,), ()))
    assert "It is an old node" in old.pop("notes")[-1]
    assert not before.pop("notes")
    assert old == before
    assert not found.notes
    with pytest.raises(InputError, match="has no node new1"):
        trained.explain("new1")


def reference_new(trained, graph, node, group):
    inputs = GraphInputs(graph, dtype=torch.float64)
    with torch.no_grad():
        return torch.softmax(trained.model.eval()(inputs, group)[node], 0).numpy()


def test_new_nodes_of_a_model_that_cannot_answer_for_them():
    graph = draw_graph()
    with pytest.raises(InputError, match="LINKX has weights for every node"):
        fit(graph, "linkx").explain("new1", grow(graph))


def test_labels_of_other_parts_change_nothing():
    graph = draw_graph()
    trained = fit(graph, "ncsage", threshold=0.3)
    labels = graph.labels.copy()
    labels[trained.split.test] = (labels[trained.split.test] + 1) % CLASSES
    split = trained.split
    other = ncgnn.fit(
        graph.with_labels(labels),
        "ncsage",
        split=split,
        **{"threshold": 0.3, "hidden": 12, "epochs": 12, "learning_rate": 0.03},
        precision="float64",
        calibration="none",
    )
    for node in (0, 5, int(split.test[0])):
        one, two = trained.explain(f"n{node}").to_json(), other.explain(f"n{node}").to_json()
        for found in (one, two):
            del found["answer"]["label"]
        assert one == two


def test_columns_of_tables(tmp_path):
    draw = np.random.default_rng(0)
    kind = np.arange(80) % 2
    nodes = {
        "id": [f"p{i}" for i in range(80)],
        "label": [("net", "doc")[k] for k in kind],
        "text": [
            ("fast server daemon", "handbook and guide")[k] + f" {'abc'[i % 3]}x"
            for i, k in enumerate(kind)
        ],
        "size": draw.normal(size=80).tolist(),
        "who": ["ann" if i % 3 else "bob" for i in range(80)],
    }
    ends = draw.integers(80, size=(2, 160))
    edges = {"a": [f"p{i}" for i in ends[0]], "b": [f"p{i}" for i in ends[1]]}
    graph = ncgnn.read_tables(
        nodes, edges, id="id", label="label", source="a", target="b", columns={"text": "text"}
    )
    settings = {"hidden": 16, "epochs": 30, "precision": "float64", "calibration": "none"}
    trained = ncgnn.fit(graph, "tuned-sage", **settings)
    found = trained.explain("p3", features=4)
    columns = {one.name: one for one in found.of("column")}
    assert set(columns) == {"text", "size", "who"}
    assert found.of("column")[0].name == "text"
    best = graph.class_names.index(found.answer["predicted"])
    for column, span in graph.source.features.spans.items():
        built = rebuilt(graph, 3, columns=range(span.start, span.stop))
        without = reference_new(trained, built, 3, None)
        assert columns[column].probability == pytest.approx(without[best], abs=1e-9)
    assert len(found.of("feature")) == 4
    assert any(str(one.name).startswith("text: ") for one in found.of("feature"))
    ncgnn.save(graph, tmp_path / "kept")
    assert isinstance(ncgnn.load(tmp_path / "kept").source.features.spans["text"], slice)


def test_which_way_edges_point():
    graph = draw_graph("known directions")
    found = fit(graph, "tuned-sage").explain("n5", neighbors=100)
    source, target = graph.edge_index()[:, graph.edge_directions & 1 > 0]
    for one in found.of("neighbor"):
        other = int(one.name[1:])
        out = ((source == 5) & (target == other)).any()
        into = ((target == 5) & (source == other)).any()
        assert (
            one.edge
            == {(True, False): "out", (False, True): "in", (True, True): "both"}[
                (bool(out), bool(into))
            ]
        )
    weighted = draw_graph("weighted")
    (one, *_) = fit(weighted, "gcn").explain("n5").of("neighbor")
    entry = list(weighted.neighbors(5)).index(int(one.name[1:]))
    assert one.value == pytest.approx(weighted.edge_weights[weighted.indptr[5] + entry])
    assert one.edge is None


@pytest.fixture(scope="module")
def explained():
    return fit(draw_graph(), "ncgcn", threshold=0.3).explain("n5")


def test_as_a_table(explained, tmp_path):
    table = explained.table
    assert table.num_rows == len(explained) > 4
    assert pa.table(explained).equals(table)
    assert table["part"].to_pylist() == [one.part for one in explained]
    for ending, read in ((".csv", csv.read_csv), (".parquet", parquet.read_table)):
        path = explained.write(tmp_path / f"why{ending}")
        assert read(path)["effect"].to_pylist() == pytest.approx(table["effect"].to_pylist())
    said = json.loads(parquet.read_table(tmp_path / "why.parquet").schema.metadata[b"ncgnn"])
    assert said["format"] == 1
    assert said["answer"]["id"] == "n5"
    with pytest.raises(InputError, match=r"must end in \.csv"):
        explained.write(tmp_path / "why.doc")


def test_in_words(explained):
    first, *rest = explained.sentences()
    assert first.startswith(f"n5: predicted {explained.answer['predicted']} (0.")
    assert sum(sentence.startswith("Without its ") for sentence in rest) == 2
    assert "It has no neighbors." not in rest
    kind, confusion = explained.answer["kind"], explained.answer["nc"]
    assert rest[0] == f"The classes around it: {kind}, NC {confusion:.2f}."
    text = repr(explained)
    assert text.startswith("Explanation\n  n5: predicted")
    assert "all neighbors" in text
    assert json.loads(json.dumps(explained.to_json()))["answer"]["group"] in ("low", "high")
    parts = [one.part for one in explained]
    assert parts == sorted(
        parts, key=["neighbors", "features", "neighbor", "column", "feature"].index
    )
    for part in ("neighbor", "feature"):
        sizes = [abs(one.effect) for one in explained.of(part)]
        assert sizes == sorted(sizes, reverse=True)


def test_bad_questions(explained):
    trained = fit(draw_graph(), "gcn", epochs=2)
    with pytest.raises(InputError, match="has no node nobody"):
        trained.explain("nobody")
    with pytest.raises(InputError, match="one node"):
        trained.explain(["n1", "n2"])
    with pytest.raises(InputError, match="neighbors"):
        trained.explain("n1", neighbors=-1)
    brief = trained.explain("n1", neighbors=0, features=0)
    assert brief.tried == {"neighbors": 0, "features": 0}
    every = trained.explain("n1")
    assert list(brief) == every.of("neighbors", "features")
    assert len(brief) == 2


def test_a_real_graph(real_data_dir):
    graph = ncgnn.load("cora", real_data_dir)
    trained = fit(graph, "ncgcn", split="planetoid")
    hub = int(graph.degrees.argmax())
    found = trained.explain(hub, neighbors=5)
    group = trained.grouping.group
    best = int(found.answer["predicted"])
    for one in found.of("neighbor"):
        without = reference(trained, rebuilt(graph, hub, [one.name]), hub, group)
        assert one.probability == pytest.approx(without[best], abs=1e-9)
    assert found.num_neighbors == graph.degrees[hub]


def test_the_model_that_answers_is_explained():
    graph = draw_graph()
    labels = graph.labels.copy()
    labels[5] = -1
    graph = graph.with_labels(labels, CLASSES)
    trained = fit(graph, "tuned-sage").refit()
    later = grow(graph)
    answers = {row["id"]: row for row in trained.predict(later)}
    for node, given in (("n5", None), ("n7", None), ("new1", later)):
        found = trained.explain(node, given)
        assert found.answer == answers[node]
        assert found.refitted == (node != "n7")
    own = trained.explain("n5", refit=False).answer
    assert own == next(row for row in trained.predict(refit=False) if row["id"] == "n5")
    assert own != answers["n5"]


@pytest.mark.parametrize("model", ["sage", "ncsage", "ncgat"])
def test_threads_may_share_a_model(model):
    trained = fit(draw_graph(), model, epochs=2, hidden=8)
    nodes = [f"n{i}" for i in range(1, 11)]

    def find_effects(node):
        return [one.effect for one in trained.explain(node, features=2)]

    expected = [find_effects(node) for node in nodes]
    with ThreadPoolExecutor(8) as threads:
        for found, effects in zip(threads.map(find_effects, nodes * 5), expected * 5, strict=True):
            assert found == pytest.approx(effects, abs=1e-9)
