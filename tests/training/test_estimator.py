"""The classifier with scikit-learn's habits, on graphs and on plain tables."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ncgnn
from ncgnn import NodeClassifier
from ncgnn.errors import InputError
from ncgnn.nn import GraphInputs
from ncgnn.training import DamagedFileError

pytestmark = pytest.mark.usefixtures("one_thread")


@parametrize_with_checks([NodeClassifier(epochs=60)])
def test_what_scikit_learn_expects_of_every_classifier(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def graph():
    """Two hundred nodes with names, and labels that have names."""
    drawn = ncgnn.generate(200, 700, classes=3, features=12, homophily=0.8, seed=1)
    names = np.array([f"node-{number:03}" for number in range(200)])
    return replace(drawn, node_ids=names, class_names=("libs", "net", "utils"))


@pytest.fixture(scope="module")
def labels(graph):
    return np.array(graph.class_names)[graph.labels]


def small(graph=None, model="sage", **more):
    return NodeClassifier(graph, model, **{"hidden": 8, "epochs": 15, "learning_rate": 0.05} | more)


def test_nodes_are_named_and_so_are_classes(graph, labels):
    classifier = small(graph).fit(graph.ids[:120], labels[:120])
    assert classifier.classes_.tolist() == ["libs", "net", "utils"]
    rest = graph.ids[120:]
    probabilities = classifier.predict_proba(rest)
    assert probabilities.shape == (80, 3)
    assert probabilities.sum(1) == pytest.approx(np.ones(80))
    answers = classifier.predict(rest)
    np.testing.assert_array_equal(answers, classifier.classes_[probabilities.argmax(1)])
    assert classifier.score(rest, labels[120:]) == np.mean(answers == labels[120:]) > 0.6
    np.testing.assert_array_equal(classifier.predict(rest[::-1].tolist()), answers[::-1])
    np.testing.assert_array_equal(classifier.predict(rest[:, None]), answers)


def test_nodes_without_ids_are_numbers_and_classes_may_be_any_numbers(graph):
    plain, y = replace(graph, node_ids=None, class_names=None), graph.labels * 10 - 5
    classifier = small(plain).fit(np.arange(100), y[:100])
    assert classifier.classes_.tolist() == [-5, 5, 15]
    named = small(graph).fit(graph.ids[:100], y[:100])
    np.testing.assert_array_equal(
        classifier.predict_proba(np.arange(200)), named.predict_proba(graph.ids)
    )


@pytest.mark.parametrize("model", ["sage", "ncgcn"])
@pytest.mark.parametrize("kind", ["permuted", "absent", "other classes", "masks"])
def test_labels_outside_fit_change_nothing(graph, labels, model, kind):
    known = np.random.default_rng(0).permutation(200)[:90]
    wrong = graph.labels.copy()
    outside = np.setdiff1d(np.arange(200), known)
    poisoned = graph
    if kind == "permuted":
        wrong[outside] = np.random.default_rng(1).permutation(wrong[outside])
        poisoned = graph.with_labels(wrong)
    elif kind == "absent":
        poisoned = replace(graph, labels=np.full(200, -1), num_classes=0, class_names=None)
    elif kind == "other classes":
        poisoned = replace(graph, labels=wrong + 4, num_classes=9, class_names=None, name="pubmed")
    else:
        masks = np.random.default_rng(2).random((3, 1, 200)) < 0.3
        names = ("train_masks", "val_masks", "test_masks")
        poisoned = replace(graph, shipped_splits=dict(zip(names, masks, strict=True)))
    ids = graph.ids[known]
    usual = small(graph, model).fit(ids, labels[known])
    other = small(poisoned, model).fit(ids, labels[known])
    np.testing.assert_array_equal(
        usual.predict_proba(graph.ids), other.predict_proba(graph.ids), strict=True
    )
    assert torch.equal(usual.trained_.grouping.group, other.trained_.grouping.group)


def test_a_label_that_fit_is_given_changes_something(graph, labels):
    ids, other = graph.ids[:90], labels[:90].copy()
    usual = small(graph).fit(ids, labels[:90])
    trained_on = usual.trained_.split.train[0]
    other[trained_on] = "net" if other[trained_on] != "net" else "libs"
    changed = small(graph).fit(ids, other)
    assert not np.array_equal(usual.predict_proba(graph.ids), changed.predict_proba(graph.ids))


def test_validation_nodes_are_the_same_share_of_every_class(graph, labels):
    known = np.arange(40, 160)
    classifier = small(graph, validation_fraction=0.25).fit(graph.ids[known], labels[known])
    split = classifier.trained_.split
    np.testing.assert_array_equal(np.sort(np.concatenate([split.train, split.val])), known)
    assert not len(split.test)
    for name in classifier.classes_:
        size = np.sum(labels[known] == name)
        assert np.sum(labels[split.val] == name) == np.round(0.25 * size)


def test_a_class_with_one_node_is_trained_on(graph):
    y = ["a"] * 30 + ["b"] * 30 + ["c"]
    classifier = small(graph).fit(graph.ids[:61], y)
    assert 60 in classifier.trained_.split.train
    tiny = small(graph).fit(graph.ids[:3], ["a", "a", "b"])
    assert len(tiny.trained_.split.val) == 1
    with pytest.raises(InputError, match=r"y must hold a class twice.*got 2 samples of 2 classes"):
        small(graph).fit(graph.ids[:2], ["a", "b"])


@pytest.mark.parametrize(
    ("ids", "y", "message"),
    [
        (["node-001", "nobody"], ["a", "b"], "has no node nobody"),
        (["node-001", "node-002", "node-001"], ["a", "b", "a"], "got node-001 twice"),
        (["node-001", "node-002"], ["a", "b", "a"], "one label per id; got 3 for 2 ids"),
        (np.zeros((3, 2)), ["a", "b", "a"], r"ids of nodes in one row.*got shape \[3, 2\]"),
        (["node-001", "node-002"], ["a", "a"], "at least two classes; got one class, 'a'"),
    ],
)
def test_what_cannot_be_fitted_is_said(graph, ids, y, message):
    with pytest.raises(InputError, match=message):
        small(graph).fit(ids, y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"validation_fraction": 1.0}, "validation_fraction must lie between 0 and 1; got 1.0"),
        ({"neighbors": 0}, "neighbors must be a whole number above 0; got 0"),
        ({"model": "linkx"}, "cannot answer for new nodes"),
        ({"options": {"hiden": 3}}, "did you mean hidden"),
        ({"options": {"split": "paper"}}, "options must hold settings of model and training"),
    ],
)
def test_wrong_parameters_are_said_when_they_are_used(wrong, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match=message):
        small(**wrong).fit(X, y)


def test_a_fit_that_fails_leaves_the_earlier_one(graph, labels):
    classifier = NodeClassifier(graph=graph, epochs=5, hidden=8).fit(graph.ids[:100], labels[:100])
    before = classifier.predict(graph.ids)
    with pytest.raises(InputError, match="a class twice"):
        classifier.fit(graph.ids[:2], ["new", "other"])
    assert np.array_equal(classifier.predict(graph.ids), before)


def test_an_unfitted_classifier_says_so(graph, tmp_path):
    with pytest.raises(NotFittedError):
        small(graph).predict(graph.ids)
    with pytest.raises(NotFittedError):
        small(graph).save(tmp_path / "kept")
    assert not list(tmp_path.iterdir())


def test_options_reach_the_model(graph, labels):
    classifier = small(graph, "ncgcn", options={"threshold": 0.3, "scaling": "row", "hidden": 5})
    config = classifier.fit(graph.ids[:90], labels[:90]).trained_.config
    assert config.model.options["threshold"] == [0.3]
    assert config.model.options["hidden"] == 5
    assert config.data.scaling == "row"
    assert config.training.metric == "likelihood"
    small(graph, "sgc").fit(graph.ids[:90], labels[:90])  # a model without hidden layers


def test_a_clone_shares_the_graph(graph):
    copy = clone(small(graph))
    assert copy.graph is graph
    assert pickle.loads(pickle.dumps(copy)).graph.fingerprint == graph.fingerprint


def test_a_search_over_two_options(graph, labels):
    space = {"hidden": [2, 8], "learning_rate": [1e-5, 0.05]}
    search = GridSearchCV(small(graph), space, cv=3).fit(graph.ids[:120], labels[:120])
    assert search.best_params_["learning_rate"] == 0.05
    assert len(search.cv_results_["params"]) == 4
    assert search.score(graph.ids[120:], labels[120:]) > 0.6


def test_predictions_out_of_fold(graph, labels):
    found = cross_val_predict(small(graph), graph.ids, labels, cv=3, method="predict_proba")
    assert found.shape == (200, 3)
    assert np.mean(np.unique(labels)[found.argmax(1)] == labels) > 0.6


def test_tables_in_a_pipeline():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), NodeClassifier(epochs=100))
    answers = cross_val_predict(pipeline, X * [1, 1, 1, 1e4], y, cv=3)
    assert np.mean(answers == y) > 0.9
    search = GridSearchCV(pipeline, {"nodeclassifier__neighbors": [3, 20]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.9


def test_rows_hear_from_their_nearest_rows_of_fit():
    """A new row's answer is that of the model on a graph that is built here by hand."""
    X, y = load_digits(return_X_y=True)
    old, new = X[:300], X[300:320]
    raw = {"calibration": "none"}
    classifier = small(neighbors=4, hidden=16, options=raw).fit(old, y[:300])
    search = NearestNeighbors(n_neighbors=4).fit(old)
    around = np.concatenate([search.kneighbors(return_distance=False), search.kneighbors(new)[1]])
    edges = np.stack([around.reshape(-1), np.repeat(np.arange(320), 4)])
    whole = ncgnn.Graph.from_edge_index(edges, features=X[:320], labels=y[:320])
    model = classifier.trained_.model.eval()
    with torch.no_grad():
        logits = model(GraphInputs(whole))
    wanted = torch.softmax(logits[300:].double(), 1).numpy()
    np.testing.assert_allclose(classifier.predict_proba(new), wanted, atol=1e-5)


@pytest.mark.parametrize("direction", [None, "both", "separate"])
@pytest.mark.parametrize("model", ["sage", "ncsage", "gat", "tuned-sage"])
def test_an_answer_does_not_depend_on_what_else_is_asked(model, direction):
    X, y = load_iris(return_X_y=True)
    options = None if direction is None else {"direction": direction}
    classifier = small(model=model, epochs=5, options=options).fit(X[::2], y[::2])
    together = classifier.predict_proba(X)
    alone = np.concatenate([classifier.predict_proba(row[None]) for row in X[:12]])
    np.testing.assert_allclose(together[:12], alone, rtol=1e-12)


def test_sparse_rows_stay_sparse_and_mean_the_same():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] * (X[:200] > 12), y[:200]
    dense = small(distance="cosine").fit(X, y)
    sparse = small(distance="cosine").fit(csr_matrix(X), y)
    assert not isinstance(sparse.trained_.graph.features, np.ndarray)
    np.testing.assert_allclose(
        dense.predict_proba(X[:20]), sparse.predict_proba(csr_matrix(X[:20])), rtol=1e-5
    )


@pytest.mark.parametrize("table", [False, True])
def test_a_saved_classifier_answers_the_same(graph, labels, table, tmp_path):
    if table:
        X, y = load_iris(return_X_y=True)
        classifier = small(options={"scaling": "row"}).fit(X, y * 2)
    else:
        X, y = graph.ids, labels
        classifier = small(graph, "ncgcn", options={"threshold": 0.3}).fit(X[:90], y[:90])
    path = classifier.save(tmp_path / "new" / "kept")
    assert [one.name for one in path.parent.iterdir()] == ["kept"]
    loaded = NodeClassifier.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    np.testing.assert_array_equal(loaded.classes_, classifier.classes_, strict=True)
    mine, theirs = classifier.get_params(), loaded.get_params()
    assert (mine.pop("graph") is None) == (theirs.pop("graph") is None)
    assert mine == theirs
    endings = {one.suffix for one in path.rglob("*") if one.is_file()}
    assert endings <= {".json", ".jsonl", ".toml", ".npz", ".safetensors"}
    with pytest.raises(InputError, match="exists already"):
        classifier.save(path)


def test_a_damaged_classifier_is_refused(graph, labels, tmp_path):
    classifier = small(graph, epochs=2).fit(graph.ids[:90], labels[:90])
    path = classifier.save(tmp_path / "kept")
    about = json.loads((path / "classifier.json").read_text())
    for wrong, message in (
        ({**about, "format": 99}, "format must be 1; got 99"),
        ({**about, "run": "0" * 64}, "has changed since it was written"),
        ({"format": 1}, "fields are missing"),
        ([], "format must be 1"),
    ):
        (path / "classifier.json").write_text(json.dumps(wrong))
        with pytest.raises(DamagedFileError, match=message):
            NodeClassifier.load(path)
    (path / "classifier.json").write_text(json.dumps(about))
    weights = path / "run" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedFileError, match="has changed since it was written"):
        NodeClassifier.load(path)
    with pytest.raises(InputError, match="is no saved classifier"):
        NodeClassifier.load(tmp_path)


def test_what_has_no_plain_form_is_not_saved(graph, labels, tmp_path):
    y = [(name,) for name in labels[:90]]
    boxed = np.empty(90, dtype=object)
    boxed[:] = [frozenset(one) for one in y]
    classifier = small(graph, epochs=2).fit(graph.ids[:90], labels[:90])
    classifier.classes_ = boxed[:3]
    with pytest.raises(InputError, match="classes must be names or numbers to be saved"):
        classifier.save(tmp_path / "kept")
    assert not list(tmp_path.iterdir())
