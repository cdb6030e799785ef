"""Answers for old nodes, new nodes and the nodes of other graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import ncgnn
from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs, Grouper, model_class
from ncgnn.training.inference import Inference
from ncgnn.training.trainer import predict

CLASSES, NODES, NEW = 3, 240, 30
NAMES = ("ash", "birch", "cedar")


def draw_world(seed=0, *, sparse=True):
    """A block model with bag-of-words features whose last nodes arrive later."""
    draw = np.random.default_rng(seed)
    total = NODES + NEW
    labels = draw.integers(0, CLASSES, total)
    alike = labels[:, None] == labels
    pairs = np.triu(draw.random((total, total)) < np.where(alike, 0.03, 0.006), 1)
    edges = np.stack(np.nonzero(pairs))
    words = draw.random((total, 24)) < np.where(
        labels[:, None] == np.arange(24) % CLASSES, 0.25, 0.08
    )
    features = words.astype(np.float32)
    return labels, edges, csr_array(features) if sparse else features


@pytest.fixture(scope="module")
def world():
    return draw_world()


def old_graph(world, **fields):
    labels, edges, features = world
    among = edges[:, (edges < NODES).all(0)]
    return Graph.from_edge_index(
        np.concatenate([among, among[::-1]], axis=1),
        features=features[:NODES],
        labels=labels[:NODES],
        node_ids=[f"n{i}" for i in range(NODES)],
        class_names=NAMES,
        name="world",
        **fields,
    )


def later(graph, world, **fields):
    _, edges, features = world
    names = [f"n{i}" for i in range(NODES, NODES + NEW)]
    return graph.extend(
        features[NODES:], edges[:, (edges >= NODES).any(0)], node_ids=names, **fields
    )


@pytest.fixture(scope="module")
def graph(world):
    return old_graph(world)


@pytest.fixture(scope="module")
def grown(graph, world):
    return later(graph, world)


def fit(graph, model, **settings):
    chosen = {"hidden": 16, "epochs": 25, "learning_rate": 0.03, "precision": "float64"}
    chosen |= {"calibration": "none"}  # the references are the model's own probabilities
    chosen |= {"layers": 2} if model.startswith(("tuned", "nctuned")) else {}
    if "hidden" not in model_class(model).Options.model_fields:
        del chosen["hidden"]
    return ncgnn.fit(graph, model, **chosen | settings)


@pytest.fixture(scope="module")
def trained(graph):
    return fit(graph, "ncsage", threshold=0.3)


@pytest.fixture(scope="module")
def plain(graph):
    return fit(graph, "tuned-sage")


def test_columns_of_the_training_graph(trained, graph):
    answers = trained.predict()
    assert answers.table.column_names == [
        *("id", "part", "label", "predicted", "probability", "runner_up"),
        *("runner_up_probability", "nc", "kind", "group", "seen"),
    ]
    assert len(answers) == NODES
    probabilities = trained.probabilities()
    order = np.argsort(-probabilities, axis=1)
    assert answers["id"].tolist() == graph.node_ids.tolist()
    assert answers["predicted"].tolist() == [NAMES[c] for c in order[:, 0]]
    assert answers["runner_up"].tolist() == [NAMES[c] for c in order[:, 1]]
    np.testing.assert_allclose(answers["probability"], probabilities.max(1))
    np.testing.assert_allclose(
        answers["runner_up_probability"], np.take_along_axis(probabilities, order[:, 1:2], 1)[:, 0]
    )
    assert answers["label"].tolist() == [NAMES[c] for c in graph.labels]
    parts = trained.split
    for name in ("train", "val", "test"):
        assert set(np.flatnonzero(answers["part"] == name)) == set(getattr(parts, name))
    assert (answers["seen"] == (answers["part"] == "train")).all()
    classes = order[:, 0].copy()
    classes[parts.train] = graph.labels[parts.train]
    expected = ncgnn.neighborhood_confusion(graph, classes, num_classes=CLASSES)
    np.testing.assert_array_equal(answers["nc"], expected)
    high = trained.grouping.group.numpy() > 0
    assert 0 < high.sum() < NODES
    assert (answers["group"] == np.where(high, "high", "low")).all()


def test_a_plain_model_has_no_groups(plain):
    assert "group" not in plain.predict().table.column_names


@pytest.mark.parametrize(
    "model",
    [
        *("mlp", "gcn", "sage", "tuned-sage", "gat", "appnp", "wrgat", "ncgcn", "nctuned-sage"),
        *("majority", "logistic", "propagation", "boosting"),
    ],
)
def test_new_nodes_are_answered_as_the_whole_graph_would(model, graph, grown):
    trained = fit(graph, model, epochs=8)
    answers = trained.predict(grown, only="new", probabilities=True)
    assert len(answers) == NEW
    assert answers["id"].tolist() == grown.node_ids[NODES:].tolist()
    assert set(answers["part"]) == {"new"}
    assert not answers["seen"].any()
    group = torch.zeros(NODES + NEW, dtype=torch.int64)
    group[:NODES] = trained.grouping.group
    if trained.model.rule is not None:
        group[NODES:] = torch.from_numpy((answers["group"] == "high").astype(np.int64))
    known = torch.full((NODES + NEW,), -1)
    train = torch.tensor(trained.split.train)
    known[train] = torch.tensor(graph.labels)[train]
    inputs = GraphInputs(grown, dtype=torch.float64).knowing(known)
    trained.model.eval()
    with torch.no_grad():
        expected = torch.softmax(trained.model(inputs, group), 1).numpy()[NODES:]
    found = np.stack([answers[f"probability_{name}"] for name in NAMES], axis=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_old_nodes_keep_their_answers_unless_asked(plain, grown):
    before, after = plain.predict(), plain.predict(grown)
    assert after.table.slice(0, NODES).equals(before.table)
    assert after.table.slice(NODES).equals(plain.predict(grown, only="new").table)
    updated = plain.predict(grown, update_old=True)
    changed = updated["probability"][:NODES] != before["probability"]
    assert changed.any()
    fresh = predict(plain.model, GraphInputs(grown, dtype=torch.float64), plain.grouping)
    np.testing.assert_allclose(updated["probability"], torch.softmax(fresh, 1).max(1).values)
    assert updated["part"].tolist() == after["part"].tolist()
    np.testing.assert_allclose(updated["probability"][NODES:], after["probability"][NODES:])


def test_asked_again_for_the_same_graph_old_nodes_answer_the_same(trained, graph):
    assert trained.predict(graph, update_old=True).table.equals(trained.predict().table)
    same = replace(graph, name="other")
    kept = trained.predict(same)
    assert kept.table.equals(trained.predict().table)
    np.testing.assert_allclose(
        trained.predict(same, update_old=True)["probability"], kept["probability"]
    )


def second_grouping(trained, grown):
    """The groups of new nodes by what the first pass predicts, and what the threshold is for."""
    found = []

    class Watched(Inference):
        def _predict(self, new):
            logits = super()._predict(new)
            found.append(self.classes.copy())
            return logits

    _ = Watched(trained, grown).answer
    rule, classes = trained.model.rule, found[0]
    grouper = Grouper(grown, rule, CLASSES)
    values = grouper.compared(grouper.confusion(classes), classes)[NODES:]
    return rule.assign(values, trained.limits), values


def test_groups_of_new_nodes_come_from_labels_of_training_nodes_and_predictions(trained, grown):
    answers = trained.predict(grown, only="new")
    known = trained.predict()
    place = {name: number for number, name in enumerate(NAMES)}
    classes = np.array([place[name] for name in [*known["predicted"], *answers["predicted"]]])
    train = trained.split.train
    classes[train] = grown.labels[train]
    expected = ncgnn.neighborhood_confusion(grown, classes, num_classes=CLASSES)[NODES:]
    np.testing.assert_array_equal(answers["nc"], expected)
    group, _ = second_grouping(trained, grown)
    assert (answers["group"] == np.where(group > 0, "high", "low")).all()
    kinds = ncgnn.node_kinds(grown, classes, num_classes=CLASSES)[NODES:]
    assert (answers["kind"] == kinds).all()


@pytest.mark.parametrize("model", ["ncsage", "tuned-sage"])
def test_no_label_but_those_of_training_nodes_changes_an_answer(model, graph, grown, world):
    one = fit(graph, model, epochs=8)
    labels = graph.labels.copy()
    labels[one.split.test] = (labels[one.split.test] + 1) % CLASSES
    other = fit(graph.with_labels(labels), model, epochs=8, split=one.split)
    new = (np.arange(NEW) % CLASSES).tolist()
    told = later(other.graph, world, labels=new)
    mine = one.predict(grown, probabilities=True).table.drop_columns("label")
    theirs = other.predict(told, probabilities=True)
    assert mine.equals(theirs.table.drop_columns("label"))
    assert theirs["label"][NODES:].tolist() == [NAMES[c] for c in new]


def test_thresholds_by_quantile_are_those_of_training(graph, grown):
    trained = fit(graph, "ncsage", threshold=0.5, threshold_kind="quantile")
    answers = trained.predict(grown, only="new")
    limit = np.nanquantile(trained.grouping.confusion.numpy(), 0.5)
    assert trained.grouping.confusion.numpy().any()
    _, values = second_grouping(trained, grown)
    assert ((values > limit + 1e-9) == (answers["group"] == "high")).all()


def test_shares_of_what_is_attainable_are_those_of_training(graph, grown):
    kind = {"threshold": 0.5, "threshold_kind": "attainable-quantile"}
    trained = fit(graph, "ncsage", **kind)
    answers, known = trained.predict(grown, only="new"), trained.predict()
    size = trained.graph.degrees + 1
    largest = np.log2(size / np.ceil(size / CLASSES)) / np.log2(CLASSES)
    guiding = trained.grouping.confusion.numpy()
    relative = np.divide(guiding, largest, out=np.zeros(NODES), where=largest > 0)
    assert (relative[known["group"] == "low"] <= trained.limits[0] + 1e-9).all()
    assert (relative[known["group"] == "high"] > trained.limits[0]).all()
    size = grown.degrees[NODES:] + 1
    largest = np.log2(size / np.ceil(size / CLASSES)) / np.log2(CLASSES)
    _, values = second_grouping(trained, grown)
    assert ((values > trained.limits[0] + 1e-9) == (answers["group"] == "high")).all()
    assert (values[largest > 0] <= 1).all()
    assert len(set(answers["group"])) == 2


@pytest.mark.parametrize("settings", [{"hops": 2}, {"guidance": "nh"}, {"epochs": 1}])
def test_nc_is_that_of_the_answers_whatever_groups_follow(graph, grown, settings):
    trained = fit(graph, "ncgcn", **settings)
    outcome = trained.outcome
    expected = ncgnn.neighborhood_confusion(graph, outcome.classes, num_classes=CLASSES)
    np.testing.assert_array_equal(trained.predict()["nc"], expected)
    classes = np.concatenate([outcome.classes, np.zeros(NEW, dtype=np.int64)])
    place = {name: number for number, name in enumerate(NAMES)}
    answers = trained.predict(grown, only="new")
    classes[NODES:] = [place[name] for name in answers["predicted"]]
    expected = ncgnn.neighborhood_confusion(grown, classes, num_classes=CLASSES)[NODES:]
    np.testing.assert_array_equal(answers["nc"], expected)


def test_a_model_that_never_grouped_anybody_groups_no_new_node(graph, grown):
    trained = fit(graph, "ncsage", epochs=1, threshold=0.1)
    answers = trained.predict(grown, only="new")
    assert (answers["group"] == "low").all()
    assert (answers["nc"] > 0.1).any()


def test_class_shares_hold_for_new_nodes(graph, grown):
    settings = {"class_shares": "val", "epochs": 5}
    trained = fit(graph, "sage", **settings)
    found = trained.predict(grown, only="new")["probability"]
    with torch.no_grad():
        logits = trained.model(GraphInputs(grown, dtype=torch.float64))[NODES:]
    corrected = torch.softmax(logits + trained.correction.offsets, 1).max(1).values
    np.testing.assert_allclose(found, corrected, atol=1e-9)
    assert not np.allclose(found, torch.softmax(logits, 1).max(1).values)
    np.testing.assert_allclose(
        trained.predict(grown, update_old=True)["probability"][NODES:], corrected, atol=1e-9
    )


def test_only_some_nodes(trained, graph, grown, world):
    assert trained.predict(only="test")["id"].tolist() == [f"n{i}" for i in trained.split.test]
    assert trained.predict(grown, only="test").table.equals(trained.predict(only="test").table)
    assert len(trained.predict(only="unlabeled")) == 0
    assert trained.predict(grown, only="unlabeled")["part"].tolist() == ["new"] * NEW
    told = later(graph, world, labels=[0] * 10 + [-1] * (NEW - 10))
    unlabeled = trained.predict(told, only="unlabeled")
    assert unlabeled["id"].tolist() == told.node_ids[NODES + 10 :].tolist()
    assert unlabeled.table.equals(trained.predict(told, only="new").table.slice(10))
    with pytest.raises(InputError, match="has no new nodes; give their tables"):
        trained.predict(only="new")
    with pytest.raises(InputError, match="only must be 'all', 'unlabeled', 'test' or 'new'"):
        trained.predict(only="old")


def test_another_graph_is_matched_by_its_ids(plain, grown):
    order = np.random.default_rng(0).permutation(NODES + NEW)[: NODES - 40]
    edges = grown.edge_index()
    place = np.full(NODES + NEW, -1)
    place[order] = np.arange(len(order))
    kept = (place[edges] >= 0).all(0)
    other = Graph.from_edge_index(
        place[edges[:, kept]],
        num_nodes=len(order),
        features=grown.features[order],
        labels=["cedar" if i % 2 else "" for i in range(len(order))],
        node_ids=grown.node_ids[order],
    )
    answers, known = plain.predict(other), plain.predict()
    old = order < NODES
    assert (answers["part"] == "new").tolist() == (~old).tolist()
    np.testing.assert_array_equal(answers["predicted"][old], known["predicted"][order[old]])
    np.testing.assert_array_equal(answers["kind"][old], known["kind"][order[old]])
    assert answers["label"].tolist() == ["cedar" if i % 2 else None for i in range(len(order))]
    assert set(answers["seen"][old]) == {True, False}
    nameless = replace(other, node_ids=None)
    assert set(plain.predict(nameless)["part"]) == {"new"}
    expected = plain.model(GraphInputs(other, dtype=torch.float64)).argmax(1)
    assert plain.predict(nameless)["predicted"].tolist() == [NAMES[c] for c in expected]


def test_a_graph_without_ids_is_known_by_its_content(world):
    nameless = replace(old_graph(world), node_ids=None)
    trained = fit(nameless, "sage", epochs=3)
    again = replace(nameless, name="again")
    assert trained.predict(again)["part"].tolist() == trained.predict()["part"].tolist()
    grown = nameless.extend(np.ones((1, 24), dtype=np.float32), [[0], [NODES]])
    assert trained.predict(grown)["part"].tolist()[-2:] == [trained.parts[-1] or None, "new"]


@pytest.mark.parametrize("sparse", [True, False])
def test_a_graph_without_ids_that_grew_from_another_one_is_all_new(sparse):
    one, other = (replace(old_graph(draw_world(k, sparse=sparse)), node_ids=None) for k in (0, 1))
    trained = fit(one, "sage", epochs=3)
    more = np.ones((1, 24), dtype=np.float32)
    parts = trained.predict(other.extend(more, [[0], [NODES]]))["part"].tolist()
    assert parts == ["new"] * (NODES + 1)
    parts = trained.predict(one.extend(more, [[0], [NODES]]))["part"].tolist()
    assert parts.count("new") == 1


def test_what_means_something_else_is_refused(plain, graph):
    for changes, message in (
        ({"features": graph.features[:, :20]}, "must have 24 features, as in training; got 20"),
        ({"class_names": ("ash", "elm", "fir")}, "does not know the class elm, fir; train it"),
        ({"class_names": None}, "classes must have names, as in training; got numbers"),
        (
            {"edge_weights": np.ones(graph.num_entries, dtype=np.float32)},
            "has weights of edges and that of training has no",
        ),
        (
            {"edge_directions": np.full(graph.num_entries, 3, dtype=np.uint8)},
            "edges must be undirected, as in training; got undirected with known directions",
        ),
    ):
        with pytest.raises(InputError, match=message):
            plain.predict(replace(graph, **changes))
    one_way = Graph.from_edge_index(
        graph.edge_index()[:, :50],
        num_nodes=NODES,
        features=graph.features,
        require_labels=False,
    )
    with pytest.raises(InputError, match="must be undirected, as in training; got directed"):
        plain.predict(one_way)


def test_feature_names_must_be_the_same(world):
    names = [f"word {i}" for i in range(24)]
    graph = old_graph(world, feature_names=names)
    trained = fit(graph, "sage", epochs=2)
    swapped = replace(graph, feature_names=(*names[:3], "else", *names[4:]))
    with pytest.raises(InputError, match="feature 3 is 'else' instead of 'word 3'"):
        trained.predict(swapped)


def test_models_with_weights_for_nodes_answer_for_old_ones_only(graph, grown):
    trained = fit(graph, "linkx", epochs=2)
    assert len(trained.predict(grown, only="test")) == len(trained.split.test)
    with pytest.raises(InputError, match="LINKX has weights for every node of its graph and"):
        trained.predict(grown)


def test_a_new_node_without_neighbors_or_with_new_ones_only(trained, graph):
    rows = np.ones((3, 24), dtype=np.float32)
    grown = graph.extend(rows, [[NODES], [NODES + 1]], node_ids=["a", "b", "c"])
    answers = trained.predict(grown, only="new")
    assert answers["kind"].tolist() == ["clear", "clear", "alone"]
    assert answers["nc"].tolist() == [0, 0, 0]
    assert answers["group"].tolist() == ["low"] * 3


def test_nodes_may_be_added_twice(plain, graph, world):
    once = graph.extend(np.ones((1, 24), dtype=np.float32), [[0], [NODES]], node_ids=["a"])
    twice = once.extend(np.ones((1, 24), dtype=np.float32), [[0], [NODES + 1]], node_ids=["b"])
    answers = plain.predict(twice, only="new")
    assert answers["id"].tolist() == ["a", "b"]
    assert answers["probability"][0] == pytest.approx(answers["probability"][1])
    grown = fit(once, "sage", epochs=2)
    assert grown.predict(twice, only="new")["id"].tolist() == ["b"]


def test_other_seeds_are_averaged_for_nodes_without_a_label(world):
    labels = world[0][:NODES].copy()
    labels[:40] = -1
    graph = replace(old_graph(world), labels=labels)
    grown = later(graph, world)
    first, *others = (fit(graph, "tuned-sage", epochs=5, seed=seed) for seed in range(3))
    columns = [f"probability_{name}" for name in NAMES]

    def shares(answers):
        return np.stack([answers[name] for name in columns], axis=1)

    for asked, only in ((grown, "new"), (None, "unlabeled"), (grown, "unlabeled")):
        single = [
            shares(one.predict(asked, only=only, probabilities=True)) for one in (first, *others)
        ]
        found = first.predict(asked, only=only, probabilities=True, others=others)
        np.testing.assert_allclose(shares(found), np.mean(single, axis=0), rtol=1e-12)
        assert not np.allclose(shares(found), single[0])
    # A label that another seed trained on must not flatter this one's test nodes.
    every = first.predict(grown, probabilities=True, others=others)
    labeled = np.append(graph.labels >= 0, np.zeros(NEW, dtype=bool))
    own = first.predict(grown, probabilities=True)
    np.testing.assert_array_equal(shares(every)[labeled], shares(own)[labeled])
    assert not np.allclose(shares(every)[~labeled], shares(own)[~labeled])
    assert first.predict(only="test", others=others).table == first.predict(only="test").table


def test_others_must_know_the_same_classes(plain, graph, grown):
    renamed = replace(graph, class_names=("x", "y", "z"))
    other = fit(renamed, "tuned-sage", epochs=1)
    with pytest.raises(InputError, match="models of the same classes"):
        plain.predict(grown, only="new", others=[other])


def test_nodes_that_edges_alone_name_are_marked(tmp_path):
    random = np.random.default_rng(0)
    names = [f"n{number}" for number in range(60)]
    nodes = {"id": names, "x": random.normal(size=60), "y": ["a", "b", ""] * 20}
    edges = {"s": names + names, "t": [*np.roll(names, 1), *[f"m{n % 7}" for n in range(60)]]}
    graph = ncgnn.read_tables(nodes, edges, label="y", unknown="add")
    trained = ncgnn.fit(graph, "gcn", hidden=4, epochs=2)
    answers = trained.predict()
    added = [row["id"] for row in answers if row["part"] == "added"]
    assert sorted(added) == [f"m{number}" for number in range(7)]
    assert answers.summary()["added_nodes"] == 7
    later = graph.extend({"id": ["z"], "x": [0.5]}, {"s": ["z"], "t": ["m3"]})
    parts = {row["id"]: row["part"] for row in trained.predict(later)}
    assert (parts["z"], parts["m3"], parts["n2"]) == ("new", "added", None)
