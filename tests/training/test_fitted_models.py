"""Models that are fitted in one go are trained, kept, refitted and asked like all others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from night_tables import night
from tiny import InterruptedRunError, interrupt_at
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.errors import InputError
from ncgnn.experiments.tuning.space import make_search
from ncgnn.nn import model_class, model_names
from ncgnn.training import load_run, make_config, refit_run, train_run

FITTED = [name for name in model_names() if model_class(name).fits_at_once]
#: Trees of a few rounds.
FEW_ROUNDS = {"rounds": 4, "smallest_leaf": 3, "penalty": 0.1}
OPTIONS = dict.fromkeys(("boosting", "feature-boosting"), FEW_ROUNDS)
#: They read labels in a pass.
READERS = ("propagation", "boosting")


def fit(graph, model, **settings):
    return ncgnn.fit(graph, model, **OPTIONS.get(model, {}) | settings)


def config_of(model, **settings):
    settings = OPTIONS.get(model, {}) | settings
    return make_config(dataset="digits", model=model, settings=settings)


@pytest.fixture(scope="module")
def graph():
    return night(0, 120)


@pytest.fixture(scope="module")
def digits():
    return ncgnn.load("digits")


def test_which_they_are():
    assert FITTED == ["majority", "logistic", "propagation", "boosting", "feature-boosting"]


def test_trees_of_features_alone_see_no_edge(digits):
    trained = fit(digits, "feature-boosting")
    alone = ncgnn.Graph.from_edge_index(
        np.zeros((2, 0), dtype=int), num_nodes=digits.num_nodes,
        features=digits.features, labels=digits.labels,
    )  # fmt: skip
    same = fit(alone, "feature-boosting", split=trained.split)
    assert np.array_equal(
        same.probabilities(calibrated=False), trained.probabilities(calibrated=False)
    )


@pytest.mark.parametrize("model", FITTED)
def test_training_is_one_epoch_whose_numbers_are_those_of_the_model(model, digits):
    trained = fit(digits, model, epochs=50)
    (record,) = trained.history
    scores = trained.evaluate()["scores"]
    assert record["epoch"] == trained.best_epoch == 0
    for part in ("train", "val", "test"):
        assert record[f"{part}_accuracy"] == pytest.approx(scores[part]["accuracy"])
    assert record["loss"] == pytest.approx(scores["train"]["loss"], rel=1e-5)
    least = {"majority": 0.08, "logistic": 0.93, "propagation": 0.95, "boosting": 0.9}
    least["feature-boosting"] = 0.8
    assert scores["test"]["accuracy"] > least[model]


@pytest.mark.parametrize("model", FITTED)
def test_a_run_is_written_read_and_found_again(model, digits, tmp_path):
    run = train_run(config_of(model), tmp_path)
    trained = load_run(run.folder)
    assert np.array_equal(trained.probabilities(), fit(digits, model).probabilities())
    assert trained.evaluate()["scores"] == run.result["scores"]
    assert not train_run(config_of(model), tmp_path).fresh
    assert trained.predict().table.equals(load_run(run.folder).predict().table)


@pytest.mark.parametrize("model", FITTED)
def test_an_interrupted_run_ends_with_the_same_bits(model, tmp_path):
    whole = train_run(config_of(model), tmp_path / "whole").folder
    runs, config = tmp_path / "broken", config_of(model)
    with pytest.raises(InterruptedRunError):
        train_run(config, runs, on_epoch=interrupt_at(0), checkpoint_seconds=0)
    asked = iter([True])
    with pytest.raises(KeyboardInterrupt):
        train_run(config, runs, stop=lambda: next(asked), checkpoint_seconds=0)
    resumed = []
    broken = train_run(config, runs, on_resume=resumed.append).folder
    assert resumed == [1]
    for name in ("weights.safetensors", "metrics.jsonl", "result.json"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.parametrize("model", FITTED)
def test_labels_of_test_nodes_change_no_byte(model, digits, tmp_path):
    split = ncgnn.make_split(digits, "stratified", 0)
    labels = digits.labels.copy()
    labels[split.test] = np.roll(labels[split.test], 1)
    one, two = (fit(g, model, split=split) for g in (digits, digits.with_labels(labels)))
    folders = [trained.save(tmp_path / name) for trained, name in ((one, "one"), (two, "two"))]
    weights = [(folder / "weights.safetensors").read_bytes() for folder in folders]
    assert weights[0] == weights[1]
    answers = [load_run(folder).predict(probabilities=True).table for folder in folders]
    for column in answers[0].column_names:
        if column != "label":
            assert answers[0][column].equals(answers[1][column]), column


@pytest.mark.parametrize("model", READERS)
def test_labels_that_are_not_of_training_change_no_answer(model, graph):
    """Neither of validation and test nodes nor of new ones; those of training nodes do."""
    trained = fit(graph, model)
    later = night(100, 160)
    expected = trained.predict(later, only="new", probabilities=True).table
    assert len(expected)
    without = later.with_labels(np.full(later.num_nodes, -1))
    found = trained.predict(without, only="new", probabilities=True).table
    assert found.drop_columns("label").equals(expected.drop_columns("label"))
    known = trained.inputs.known.numpy()
    assert (known[trained.split.train] == graph.labels[trained.split.train]).all()
    assert (np.delete(known, trained.split.train) == -1).all()
    labels = graph.labels.copy()
    labels[trained.split.train] = 1 - labels[trained.split.train]
    other = fit(graph.with_labels(labels), model, split=trained.split)
    assert not np.allclose(other.probabilities(), trained.probabilities())


@pytest.mark.parametrize("model", FITTED)
def test_a_refitted_model_knows_every_label(model, graph, tmp_path):
    ncgnn.save(graph, tmp_path / "mine")
    settings = OPTIONS.get(model, {})
    config = make_config(dataset=str(tmp_path / "mine"), model=model, settings=settings)
    folder = train_run(config, tmp_path / "runs").folder
    before = load_run(folder)
    refit_run(folder)
    again = load_run(folder)
    assert again.evaluate() == before.evaluate()
    assert (again.refitted.inputs.known.numpy() == graph.labels).all()
    assert (again.inputs.known >= 0).sum() == len(again.split.train)
    answers = again.predict(only="unlabeled", probabilities=True)
    in_memory = before.refit().predict(only="unlabeled", probabilities=True)
    assert answers.table.equals(in_memory.table)
    assert not answers.table.equals(before.predict(only="unlabeled", probabilities=True).table)


@pytest.mark.parametrize("model", FITTED)
def test_an_answer_is_explained(model, graph):
    trained = fit(graph, model)
    explanation = trained.explain(graph.ids[5])
    effects = {effect.part for effect in explanation.effects}
    moved = {e.part: e for e in explanation.effects if e.part in ("neighbors", "features")}
    assert effects
    if model == "propagation":
        assert moved["features"].effect == 0
        assert moved["neighbors"].effect != 0


def test_a_classifier_of_scikit_learns_kind():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(150, 4))
    y = np.where(X[:, 0] + 0.3 * draw.normal(size=150) > 0, "up", "down")
    for model in FITTED[1:]:
        options = OPTIONS.get(model, {})
        classifier = ncgnn.NodeClassifier(model=model, options=options).fit(X[:100], y[:100])
        assert classifier.score(X[100:], y[100:]) > 0.7, model
        assert np.allclose(classifier.predict_proba(X[100:]).sum(1), 1)


def test_nothing_is_started_from(graph):
    first = fit(graph, "logistic")
    with pytest.raises(InputError, match=r"Logistic regression is fitted in one go"):
        fit(graph, "logistic", start_from=first)


def test_there_is_something_to_search_or_a_sentence():
    values = make_search(dataset="digits", model="boosting").values
    assert set(values) == {f"model.{o}" for o in ("shrinkage", "leaves", "penalty", "components")}
    assert set(make_search(dataset="digits", model="logistic").values) == {"model.penalty"}
    with pytest.raises(InputError, match="nothing to search for majority: it has no options"):
        make_search(dataset="digits", model="majority")


def test_the_command_line_trains_them_beside_others(tmp_path):
    command = ["train", "digits", "--model", "majority,logistic,mlp", "--set", "epochs=3"]
    done = CliRunner().invoke(app, [*command, "--runs", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    epochs = {run["model"]: run["epochs"] for run in json.loads(done.stdout)["runs"]}
    assert epochs == {"majority": 1, "logistic": 1, "mlp": 3}
