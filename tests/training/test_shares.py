from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import tiny_config

import ncgnn
from ncgnn.data import Split, custom_split
from ncgnn.nn import GraphInputs
from ncgnn.training import load_run, train_run
from ncgnn.training.trainer import ShareCorrection


@pytest.fixture(scope="module")
def shifted():
    """A graph whose training nodes are balanced and whose validation nodes lack a class."""
    draw = np.random.default_rng(0)
    labels = np.concatenate([np.repeat([0, 1, 2], 100), draw.choice([0, 1], 600, p=[0.9, 0.1])])
    graph = ncgnn.generate(900, 1800, classes=3, features=5, seed=0).with_labels(labels)
    inputs = GraphInputs(graph, dtype=torch.float64)
    return inputs, Split(
        "custom", "custom", None, np.arange(300), np.arange(300, 900), np.arange(0)
    )


def test_corrected_answers_follow_bayes_rule(shifted):
    inputs, split = shifted
    train, val = torch.tensor(split.train), torch.tensor(split.val)
    correction = ShareCorrection.of("val", inputs, split)
    assert correction is not None
    shares = [
        (torch.bincount(inputs.labels[part], minlength=3) + 1.0) / (len(part) + 3)
        for part in (train, val)
    ]
    likelihood = torch.rand(900, 3, dtype=torch.float64)
    corrected = correction((likelihood * shares[0]).log()).softmax(1)
    expected = likelihood * shares[1]
    expected /= expected.sum(1, keepdim=True)
    torch.testing.assert_close(corrected[val], expected[val], rtol=1e-6, atol=1e-7)
    untouched = (likelihood * shares[0]) / (likelihood * shares[0]).sum(1, keepdim=True)
    torch.testing.assert_close(corrected[train], untouched[train], rtol=1e-6, atol=1e-7)
    some = torch.tensor([899, 3, 500])
    torch.testing.assert_close(
        correction(likelihood[some], some), correction(likelihood)[some], rtol=0, atol=0
    )


def test_shares_of_training_nodes_need_no_correction(shifted):
    assert ShareCorrection.of("train", *shifted) is None


def test_a_run_answers_as_it_was_validated(tmp_path):
    graph = ncgnn.generate(600, 1800, classes=3, features=5, feature_signal=0.5, seed=1)
    order = np.argsort(graph.labels, kind="stable")
    rare = np.concatenate([order[:30], order[200:]])
    draw = np.random.default_rng(0).permutation(rare)
    split = custom_split(draw[:60], draw[60:250], draw[250:], labels=graph)
    trained = ncgnn.fit(graph, "ncgcn", split=split, hidden=16, epochs=20, class_shares="val")
    result, best = trained.evaluate(), trained.history[trained.best_epoch]
    assert result["scores"]["val"]["accuracy"] == best["val_accuracy"]
    assert result["scores"]["test"]["accuracy"] == best["test_accuracy"]
    kept = load_run(trained.save(tmp_path / "kept"))
    assert kept.config.training.class_shares == "val"
    np.testing.assert_array_equal(kept.probabilities(), trained.probabilities())
    plain = trained.model(trained.inputs, trained.grouping.group, None)
    assert not torch.equal(plain, trained.logits())


def test_shares_help_where_classes_are_shifted():
    """Balanced training nodes, one class in nine of ten validation and test nodes."""
    graph = ncgnn.generate(3000, 3000, classes=2, features=2, feature_signal=0.5, seed=0)
    zeros, ones = (np.flatnonzero(graph.labels == c) for c in (0, 1))
    split = custom_split(
        np.concatenate([zeros[:200], ones[:200]]),
        np.concatenate([zeros[200:700], ones[200:250]]),
        np.concatenate([zeros[700:1200], ones[250:300]]),
        labels=graph,
    )
    found = {
        shares: ncgnn.fit(
            graph, "mlp", split=split, hidden=16, epochs=60, class_shares=shares
        ).evaluate()["scores"]["test"]
        for shares in ("train", "val")
    }
    assert found["val"]["accuracy"] > found["train"]["accuracy"]


def test_a_run_with_other_shares_is_kept_like_any(tmp_path):
    run = train_run(tiny_config(class_shares="val", epochs=3), tmp_path)
    assert load_run(run.folder).evaluate()["scores"] == run.result["scores"]
