"""Suspect labels: planted ones are found, and what is said of them is true."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.training import Suspects
from ncgnn.training.folds import draw_folds
from ncgnn.training.label_noise import weigh
from ncgnn.training.reasons import FeatureTraits
from ncgnn.training.suspects import choose_settings, gather_opinions

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = {"epochs": 30, "hidden": 16}
MISPLACED = (8, 15, 60, 121, 200, 255)


def plant(graph, share, seed=0):
    """The graph with some labels moved to another class, and which."""
    random = np.random.default_rng(seed)
    labeled = np.flatnonzero(graph.labels >= 0)
    wrong = random.choice(labeled, round(share * len(labeled)), replace=False)
    labels = graph.labels.copy()
    labels[wrong] = (labels[wrong] + random.integers(1, graph.num_classes, len(wrong))) % 4
    return graph.with_labels(labels), wrong


@pytest.fixture(scope="module")
def planted():
    """A drawn graph with 6 % wrong labels and 50 unlabeled nodes."""
    graph = ncgnn.generate(800, 3000, classes=4, homophily=0.75, features=12, feature_signal=2.5)
    return plant(graph.with_labels(np.where(np.arange(800) < 50, -1, graph.labels)), 0.06)


@pytest.fixture(scope="module")
def every(planted):
    return ncgnn.find_suspects(planted[0], folds=4, only="all", **QUICK)


def test_planted_labels_are_found(planted, every):
    _, wrong = planted
    called = every["id"][every["suspect"].astype(bool)]
    hits = np.isin(called, wrong).sum()
    assert hits / len(called) > 0.85
    assert hits / len(wrong) > 0.75
    said = every.summary()
    assert said["suspects"] == len(called)
    assert said["estimated"] == pytest.approx(len(wrong), rel=0.3)
    assert said["judged"] == 750
    assert said["not_judged"] == 0
    assert set(said["weights"]) == {"model", "features", "neighbors"}


def test_the_true_class_is_suggested(planted, every):
    graph, wrong = planted
    original = ncgnn.generate(800, 3000, classes=4, homophily=0.75, features=12, feature_signal=2.5)
    rows = [row for row in every if row["suspect"] and row["id"] in set(wrong.tolist())]
    right = [row["suggested"] == original.labels[row["id"]] for row in rows]
    assert np.mean(right) > 0.9
    assert all(row["label"] == graph.labels[row["id"]] for row in rows)


def test_every_label_is_listed_once_and_no_unlabeled_node(planted, every):
    graph, _ = planted
    assert sorted(every["id"].tolist()) == np.flatnonzero(graph.labels >= 0).tolist()
    assert (np.diff(every["score"]) <= 0).all()
    assert every["score"].min() >= 0
    assert every["score"].max() <= 1
    assert (every["label"] != every["suggested"]).all()


def test_lists_are_the_head_of_all(planted, every):
    graph, _ = planted
    few = ncgnn.find_suspects(graph, folds=4, top=7, **QUICK)
    assert few.table.equals(every.table.slice(0, 7))
    assert few.summary() == every.summary()
    suspects = ncgnn.find_suspects(graph, folds=4, **QUICK)
    assert len(suspects) == every.summary()["suspects"]
    assert suspects["suspect"].all()


def test_reasons_are_true(planted, every):
    graph, _ = planted
    adjacency = graph.to_scipy("targets")
    suspect = set(every["id"][every["suspect"].astype(bool)].tolist())
    said = 0
    for row in every:
        around = [n for n in adjacency[[row["id"]]].indices.tolist() if graph.labels[n] >= 0]
        labels = graph.labels[around].tolist()
        assert row["neighbors"] == len(around)
        assert row["neighbors_with_label"] == labels.count(row["label"])
        assert row["neighbors_with_suggested"] == labels.count(row["suggested"])
        if labels:
            assert labels.count(row["neighbors_say"]) == max(map(labels.count, labels))
        contradicted = row["suggested_probability"] > row["label_probability"]
        assert (row["reason"] is not None) == contradicted
        if not contradicted:
            continue
        for count, total, named in re.findall(
            r"(\d+) of (\d+) labeled neighbors are class (\d)", row["reason"]
        ):
            assert (int(count), int(total)) == (labels.count(int(named)), len(around))
            said += 1
        for count, total in re.findall(
            r"(\d+) of (\d+) labeled neighbors share its label", row["reason"]
        ):
            assert (int(count), int(total)) == (labels.count(row["label"]), len(around))
        for total, named in re.findall(
            r"(both|all \d+) labeled neighbors are class (\d)", row["reason"]
        ):
            count = 2 if total == "both" else int(total.removeprefix("all "))
            assert labels == [int(named)] * count
        doubted = re.search(r"\((\d+) suspect too\)", row["reason"])
        assert int(doubted[1] if doubted else 0) == len(suspect & set(around))
        likely = f"({row['features_probability']:.2f}"
        agrees = row["features_say"] == row["label"]
        verb = "agree with" if agrees else "say"
        assert f"its features {verb} class {row['features_say']} {likely}" in row["reason"]
    assert said > 20


def test_opinions_of_a_fold_do_not_know_its_labels(planted):
    graph, _ = planted
    fold = draw_folds(graph.labels, 3, seed=0)
    held = fold == 2
    labels = graph.labels.copy()
    labels[held] = np.random.default_rng(1).permutation(labels[held])
    settings = {"epochs": 3, "hidden": 8}
    before = gather_opinions(graph, fold, "nctuned-sage", settings=settings)
    after = gather_opinions(graph.with_labels(labels), fold, "nctuned-sage", settings=settings)
    np.testing.assert_array_equal(before.model[held], after.model[held])
    np.testing.assert_array_equal(before.features[held], after.features[held])
    assert not np.array_equal(before.model[fold == 1], after.model[fold == 1])


def test_the_only_node_of_a_class_is_not_judged(planted):
    graph, _ = planted
    labels = graph.labels.copy()
    labels[60] = 4
    with pytest.warns(NcgnnWarning, match="one label cannot be judged.* only one of its class: 4"):
        found = ncgnn.find_suspects(graph.with_labels(labels, 5), folds=2, only="all", epochs=3)
    assert 60 not in found["id"]
    assert found.summary()["not_judged"] == 1


def test_without_edges_and_with_models_of_features_only():
    random = np.random.default_rng(0)
    labels = np.arange(120) % 2
    features = random.normal(size=(120, 4)) + 4 * labels[:, None]
    labels[5] = 1 - labels[5]
    edges = np.zeros((2, 0), np.int64)
    graph = ncgnn.Graph.from_edge_index(edges, labels=labels, features=features)
    found = ncgnn.find_suspects(graph, folds=3, layers=2, **QUICK)
    assert found["id"].tolist() == [5]
    assert set(found.summary()["weights"]) == {"features"}
    assert found["reason"][0].startswith("no neighbors; its features say class 1")
    ring = np.stack([np.arange(120), np.roll(np.arange(120), 2)])
    graph = ncgnn.Graph.from_edge_index(ring, labels=labels, features=features)
    found = ncgnn.find_suspects(graph, "mlp", folds=3, **QUICK)
    assert set(found.summary()["weights"]) == {"features", "neighbors"}


@pytest.mark.parametrize("model", ["tuned-sage", "mlp"])
def test_options_are_checked_where_there_are_no_edges(model):
    random, labels = np.random.default_rng(0), np.arange(40) % 2
    edges = np.zeros((2, 0), np.int64)
    graph = ncgnn.Graph.from_edge_index(edges, labels=labels, features=random.random((40, 4)))
    same = model[:1] + model[1:]  # equal, and not the same object
    with pytest.raises(InputError, match="hiden"):
        ncgnn.find_suspects(graph, same, folds=2, hiden=3)


@pytest.fixture(scope="module")
def shop():
    """Things with words, of which six are in the wrong aisle."""
    random = np.random.default_rng(0)
    words = ("sweet apple fruit", "ripe pear fruit"), ("sharp steel tool", "heavy iron tool")
    kind = np.arange(300) % 2
    text = [words[k][int(random.integers(2))] for k in kind]
    aisle = np.array(["food", "tools"])[kind]
    for thing in MISPLACED:
        aisle[thing] = "tools" if kind[thing] == 0 else "food"
    ends = random.integers(150, size=(2, 1000)) * 2 + random.integers(2, size=1000)
    return ncgnn.read_tables(
        {"thing": [f"t{i}" for i in range(300)], "aisle": aisle, "text": text},
        {"a": [f"t{i}" for i in ends[0]], "b": [f"t{i}" for i in ends[1]]},
        id="thing",
        label="aisle",
    )


def test_names_of_features_classes_and_nodes_are_used(shop):
    found = ncgnn.find_suspects(shop, folds=3, epochs=30, only="all", top=len(MISPLACED))
    assert sorted(found["id"].tolist()) == sorted(f"t{i}" for i in MISPLACED)
    assert found["suspect"][0]
    row = next(row for row in found if row["id"] == "t8")
    assert (row["label"], row["suggested"]) == ("tools", "food")
    others = re.search(r'(\d+) of (\d+) others with "text = (.*?)" are food', row["reason"])
    assert others is not None
    place = shop.feature_names.index(f"text = {others[3]}")
    has = np.flatnonzero(shop.features[:, [place]].toarray())
    has = has[has != shop.find(["t8"])[0]]
    food = shop.class_names.index("food")
    assert (int(others[1]), int(others[2])) == ((shop.labels[has] == food).sum(), len(has))


def test_traits_that_say_nothing_are_not_named(shop):
    traits = FeatureTraits(shop)
    food, tools = (shop.class_names.index(name) for name in ("food", "tools"))
    node = shop.find(["t0"])[0]
    assert traits.strongest(node, food) is not None
    assert traits.strongest(node, tools) is None


def test_files_and_frames(every, tmp_path):
    path = every.write(tmp_path / "suspects.parquet")
    read = Suspects(parquet.read_table(path))
    assert read.table.equals(every.table)
    assert read.summary() == every.summary()
    assert pa.table(every).equals(every.table)
    assert repr(every).startswith("Suspects(750 nodes: id, label, suggested, score")


def test_settings_are_those_of_tables_and_what_is_given(planted):
    graph, _ = planted
    given = {"hidden": 8, "training.epochs": 5}
    own = choose_settings("tuned-sage", graph, given, own=True)
    assert own["model.hidden"] == 8
    assert own["training.epochs"] == 5
    assert own["training.metric"] == "likelihood"
    other = choose_settings("mlp", graph, given, own=False)
    assert other["model.hidden"] == 128
    assert other["training.epochs"] == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "some"}, "only must be 'suspects' or 'all'"),
        ({"top": 0}, "top must be"),
        ({"folds": 1}, "folds must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": "a"}, "seed must be"),
        ({"split": "paper"}, "split is said by an argument or by the folds"),
        ({"training.seed": 3}, "training.seed is said by"),
        ({"hiden": 3}, "hiden"),
    ],
)
def test_bad_arguments(planted, options, message):
    with pytest.raises(InputError, match=message):
        ncgnn.find_suspects(planted[0], **options)


def test_f1_is_above_that_of_cleanlab_on_the_same_probabilities():
    filters = pytest.importorskip("cleanlab.filter")
    drawn = ncgnn.generate(1500, 6000, classes=4, homophily=0.6, features=12, feature_signal=1.8)
    graph, wrong = plant(drawn, 0.05)
    fold = draw_folds(graph.labels, 4, seed=0)
    opinions = gather_opinions(graph, fold, "tuned-sage", settings=QUICK)
    judged = np.flatnonzero(fold >= 0)
    found = weigh([one[judged] for one in opinions.as_list()], graph.labels[judged])
    theirs = filters.find_label_issues(graph.labels[judged], found.probabilities, n_jobs=1)
    ours = np.isin(judged, ncgnn.find_suspects(graph, folds=4, **QUICK)["id"])
    truth = np.isin(judged, wrong)

    def f1(called):
        return 2 * (called & truth).sum() / (called.sum() + truth.sum())

    assert f1(ours) > f1(theirs) + 0.02


def test_graphs_that_cannot_be_judged_are_refused():
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    one_class = ncgnn.Graph.from_edge_index(edges, labels=[0, 0, 0, 0], features=np.eye(4))
    with pytest.raises(InputError, match="one class only"):
        ncgnn.find_suspects(one_class, folds=2)
    single = ncgnn.Graph.from_edge_index(edges, labels=[0, 1, 2, -1], features=np.eye(4))
    with pytest.raises(InputError, match="folds must be at most the 0 labeled nodes in classes of"):
        ncgnn.find_suspects(single, folds=2)
    few = ncgnn.Graph.from_edge_index(edges, labels=[0, 0, 1, 1], features=np.eye(4))
    with pytest.raises(InputError, match="labels must hold a class twice"):
        ncgnn.find_suspects(few, folds=2)


def test_a_graph_without_features_is_judged_by_its_edges(planted):
    graph, _ = planted
    bare = replace(graph, features=None)
    with pytest.warns(NcgnnWarning, match="no features"):
        found = ncgnn.find_suspects(bare, folds=2, only="all", **QUICK)
    assert len(found) == (graph.labels >= 0).sum()
    assert found.summary()["weights"].keys() == {"model", "neighbors"}
    columns = ("features_say", "features_probability")
    assert all(found.table[name].null_count == len(found) for name in columns)
    told = [reason for reason in found["reason"] if reason]
    assert told
    assert not any("feature" in reason for reason in told)
    with pytest.raises(InputError, match="no features, and mlp does not look at edges"):
        ncgnn.find_suspects(bare, "mlp")
    unconnected = ncgnn.Graph.from_edge_index([[], []], labels=[0, 0, 1, 1])
    with pytest.raises(InputError, match="no features, and no edges either"):
        ncgnn.find_suspects(unconnected, folds=2)
