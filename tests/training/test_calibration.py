"""Temperatures: what they minimize, what they leave alone, and what they may see."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

import ncgnn
from ncgnn.errors import InputError
from ncgnn.metrics import KINDS
from ncgnn.training import Calibration, fit_temperature, make_config, reliability
from ncgnn.training.calibration import HIGHEST, LOWEST, SCATTER


def draw_logits(count=400, classes=4, sharpness=1.0, seed=0):
    """Logits whose softmax is true, times a sharpness; so the temperature is the sharpness."""
    random = np.random.default_rng(seed)
    true = random.normal(size=(count, classes)) * 2
    noise = random.gumbel(size=true.shape)
    return true * sharpness, (true + noise).argmax(1)


class _Logits(ClassifierMixin, BaseEstimator):
    """Answers with the logits that it is given as features."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(1)]


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_the_temperature_is_that_of_scikit_learn(sharpness):
    logits, labels = draw_logits(sharpness=sharpness)
    frozen = FrozenEstimator(_Logits().fit(logits, labels))
    theirs = CalibratedClassifierCV(frozen, method="temperature").fit(logits, labels)
    beta = theirs.calibrated_classifiers_[0].calibrators[0].beta_
    assert fit_temperature(logits, labels) == pytest.approx(1 / beta, rel=1e-5)
    ours = Calibration(fit_temperature(logits, labels))
    np.testing.assert_allclose(
        ours.probabilities(torch.from_numpy(logits), np.array([""] * len(labels))),
        theirs.predict_proba(logits),
        atol=1e-5,
    )


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 2.5])
def test_the_temperature_of_true_logits_is_found(sharpness):
    logits, labels = draw_logits(20_000, sharpness=sharpness)
    assert fit_temperature(logits, labels) == pytest.approx(sharpness, rel=0.05)


def test_no_temperature_nearby_is_better():
    logits, labels = draw_logits(sharpness=2)

    def loss(temperature, around, scatter):
        own = log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels]
        return -own.sum() + np.log(temperature / around) ** 2 / (2 * scatter**2)

    for around, scatter in ((1.0, 0.5), (0.3, 0.05), (4.0, 1e9)):
        best = fit_temperature(logits, labels, around=around, scatter=scatter)
        grid = np.exp(np.linspace(np.log(LOWEST), np.log(HIGHEST), 400))
        assert loss(best, around, scatter) <= min(loss(t, around, scatter) for t in grid) + 1e-9


def test_kinds_of_few_nodes_keep_to_the_temperature_of_all():
    logits, labels = draw_logits(3000)
    kinds = np.array(["clear"] * 2000 + ["mixed"] * 997 + ["alone"] * 3)
    logits[2000:2997] *= 3  # too sure
    found = Calibration.fit(logits, labels, kinds)
    assert found.nodes == {"clear": 2000, "mixed": 997, "alone": 3}
    assert found.by_kind["clear"] == pytest.approx(1, rel=0.15)
    assert found.by_kind["mixed"] == pytest.approx(3, rel=0.15)
    assert abs(np.log(found.by_kind["alone"] / found.temperature)) < SCATTER / 2
    told = found.temperatures(np.array(["mixed", "contrary", ""]))
    assert told.tolist() == [found.by_kind["mixed"], found.temperature, found.temperature]


def test_nodes_that_are_all_right_do_not_make_a_model_certain():
    logits = np.tile([4.0, 0.0, 0.0], (12, 1))
    found = Calibration.fit(logits, np.zeros(12, dtype=int), np.array(["clear"] * 12))
    assert 0.4 < found.temperature < 1
    assert found.probabilities(torch.from_numpy(logits), np.array(["clear"] * 12)).max() < 0.9999


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_logits_that_overflow_have_no_temperature(wrong):
    logits, labels = draw_logits(20)
    logits[3, 1] = wrong
    assert Calibration.fit(logits, labels, np.array(["clear"] * 20)).temperature == 1


@given(st.integers(0, 10_000), st.floats(LOWEST, HIGHEST), st.floats(LOWEST, HIGHEST))
def test_no_temperature_changes_a_class(seed, one, other):
    logits = np.random.default_rng(seed).normal(size=(50, 5)).astype(np.float32) * 10
    kinds = np.array(["clear", "mixed"] * 25)
    found = Calibration(1.0, {"clear": one, "mixed": other})
    shares = found.probabilities(torch.from_numpy(logits), kinds)
    assert (shares.argmax(1) == logits.argmax(1)).all()
    np.testing.assert_allclose(shares.sum(1), 1)


def test_reliability_by_hand():
    shares = np.array([[0.9, 0.1], [0.92, 0.08], [0.6, 0.4], [0.35, 0.65]])
    found = reliability(shares, np.array([0, 1, 0, 1]), bins=10)
    wanted = [(0.6, 1.0, 1), (0.65, 1.0, 1), (0.9, 1.0, 1), (0.92, 0.0, 1)]
    told = [(one["confidence"], one["accuracy"], one["nodes"]) for one in found]
    np.testing.assert_allclose(told, wanted)


@pytest.fixture(scope="module")
def graph():
    return ncgnn.generate(600, 2400, classes=4, features=8, homophily=0.7, seed=3)


def fit(graph, **settings):
    chosen = {"hidden": 16, "epochs": 30, "learning_rate": 0.05, "precision": "float64"}
    return ncgnn.fit(graph, "gcn", **chosen | settings)


@pytest.fixture(scope="module")
def trained(graph):
    return fit(graph)


def test_probabilities_are_calibrated_and_logits_are_not(trained, graph):
    found, kinds = trained.calibration, trained.outcome.kinds
    assert set(found.by_kind) <= set(KINDS)
    assert sum(found.nodes.values()) == len(trained.split.val)
    logits = trained.logits()
    scaled = logits / torch.from_numpy(found.temperatures(kinds))[:, None]
    wanted = torch.softmax(scaled, 1).numpy()
    np.testing.assert_allclose(trained.probabilities(), wanted)
    raw = torch.softmax(logits, 1).numpy()
    np.testing.assert_allclose(trained.probabilities(calibrated=False), raw)
    assert not np.allclose(raw, wanted, atol=1e-4)
    np.testing.assert_allclose(trained.predict()["probability"], wanted.max(1))
    assert (raw.argmax(1) == wanted.argmax(1)).all()


def test_the_loss_of_validation_nodes_falls(trained, graph):
    nodes = trained.split.val

    def loss(shares):
        return -np.log(shares[nodes, graph.labels[nodes]]).mean()

    assert loss(trained.probabilities()) < loss(trained.probabilities(calibrated=False))


def test_explanations_speak_of_the_same_probabilities(trained):
    for node in trained.split.test[:3].tolist():
        found = trained.explain(node, neighbors=2)
        share = found.answer["probability"]
        assert share == pytest.approx(trained.probabilities()[node].max())
        for one in found:
            assert one.probability + one.effect == pytest.approx(share)


def test_none_leaves_probabilities_as_they_are(trained, graph):
    raw = fit(graph, calibration="none")
    assert raw.calibration == Calibration()
    wanted = trained.probabilities(calibrated=False)
    np.testing.assert_array_equal(raw.probabilities(), wanted)
    np.testing.assert_array_equal(raw.predict()["probability"], wanted.max(1))
    report = raw.evaluate()["calibration"]
    assert report["before"] == report["after"]
    with pytest.raises(InputError, match="calibration"):
        fit(graph, calibration="isotonic")


def test_runs_keep_the_names_that_they_had():
    plain = make_config(dataset="digits", model="gcn")
    same = make_config(dataset="digits", model="gcn", settings={"calibration": "temperature"})
    other = make_config(dataset="digits", model="gcn", settings={"calibration": "none"})
    assert plain.name == same.name != other.name


def test_labels_of_test_nodes_change_no_bit(trained, graph):
    labels = graph.labels.copy()
    test = trained.split.test
    labels[test] = np.random.default_rng(1).permutation(labels[test])
    assert (labels != graph.labels).any()
    other = fit(graph.with_labels(labels), split=trained.split)
    assert other.calibration == trained.calibration
    assert other.probabilities().tobytes() == trained.probabilities().tobytes()


def test_a_refitted_model_uses_the_temperatures_of_its_run(trained, graph, tmp_path):
    refitted = trained.refit()
    assert refitted.refitted.calibration == refitted.calibration == trained.calibration
    kept = ncgnn.load_run(refitted.save(tmp_path / "run"))
    assert kept.refitted.calibration == trained.calibration


def test_what_was_found_is_in_the_result(trained, tmp_path):
    result = json.loads((trained.save(tmp_path / "run") / "result.json").read_text())
    found = result["calibration"]
    assert found["temperature"] == trained.calibration.temperature
    assert found["temperature_by_kind"] == trained.calibration.by_kind
    scores = result["scores"]["test"]
    assert found["before"]["calibration_error"] == pytest.approx(scores["calibration_error"])
    assert found["before"]["loss"] == pytest.approx(scores["loss"], rel=1e-5)
    assert sum(one["nodes"] for one in found["after"]["reliability"]) == len(trained.split.test)


def test_the_estimator_is_calibrated(graph):
    known = graph.labels.copy()
    classifier = ncgnn.NodeClassifier(graph, "gcn", hidden=8, epochs=20)
    classifier.fit(graph.ids[:400], known[:400])
    trained = classifier.trained_
    np.testing.assert_allclose(classifier.predict_proba(graph.ids), trained.probabilities())
    assert trained.calibration.temperature != 1
