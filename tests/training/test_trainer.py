from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import logits_of, tiny_config

import ncgnn
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.nn import Grouper
from ncgnn.training import METRICS, TrainingError, new_trainer, score


@pytest.fixture(scope="module")
def digits():
    return ncgnn.load("digits")


def trainer_of(graph, model="ncgcn", **settings):
    config = tiny_config(model, **settings)
    return new_trainer(config, graph, ncgnn.make_split(graph, "stratified", 0))


def test_nobody_is_confused_before_the_first_epoch(digits):
    trainer = trainer_of(digits)
    assert not trainer.state.grouping.confusion.any()
    assert not trainer.state.grouping.group.any()


def test_groups_change_on_a_new_high_of_validation_and_only_then(digits):
    trainer = trainer_of(digits, epochs=60, learning_rate=0.05, threshold=0.2)
    best, changed = -1.0, 0
    while not trainer.finished:
        before = trainer.state.grouping
        record = trainer.epoch()
        new_high = record["val_accuracy"] > best
        best = max(best, record["val_accuracy"])
        assert (trainer.state.grouping is not before) == new_high
        changed += int(not torch.equal(trainer.state.grouping.group, before.group))
    assert 0 < trainer.state.best_epoch < 59, "no epoch without a new high: nothing was tested"
    assert changed


def test_nc_is_counted_among_predictions_of_all_nodes(digits):
    trainer = trainer_of(digits)
    trainer.epoch()
    predictions = logits_of(trainer, trainer.state.best_grouping).argmax(1)
    expected = Grouper(digits, trainer.model.rule)(predictions)
    torch.testing.assert_close(trainer.state.grouping.confusion, expected.confusion)
    assert torch.equal(trainer.state.grouping.group, expected.group)


def test_known_labels_replace_predictions_of_training_nodes(digits):
    trainer = trainer_of(digits, known_labels=True)
    record = trainer.epoch()
    assert record["mean_nc"] == 0, "the groups of an epoch are those that were in force in it"
    predictions = logits_of(trainer, trainer.state.best_grouping).argmax(1)
    assert not torch.equal(predictions[trainer.train], trainer.inputs.labels[trainer.train])
    predictions[trainer.train] = trainer.inputs.labels[trainer.train]
    expected = Grouper(digits, trainer.model.rule)(predictions)
    torch.testing.assert_close(trainer.state.grouping.confusion, expected.confusion)


def test_the_best_epoch_comes_back_with_the_groups_in_force_then(digits):
    trainer = trainer_of(digits, epochs=20)
    records = []
    state = trainer.run(records.append)
    best = max(range(len(records)), key=lambda i: (records[i]["val_accuracy"], -i))
    assert state.best_epoch == best
    assert (
        records[best]["group_sizes"]
        == torch.bincount(state.best_grouping.group, minlength=2).tolist()
    )
    right = logits_of(trainer, state.best_grouping).argmax(1) == trainer.inputs.labels
    assert float(right[trainer.val].double().mean()) == records[best]["val_accuracy"]
    assert float(right[trainer.test].double().mean()) == records[best]["test_accuracy"]


def test_patience_counts_epochs_since_the_best_one(digits):
    # Validation nodes of one class that the model answers from the first epoch on cannot improve.
    trainer = trainer_of(digits, epochs=100, patience=5, learning_rate=1e-12)
    records = []
    state = trainer.run(records.append)
    assert state.epoch == state.best_epoch + 1 + 5
    assert len(records) == state.epoch


@pytest.mark.parametrize(
    ("shares", "metric"), [("train", "accuracy"), ("val", "accuracy"), ("train", "roc_auc")]
)
def test_test_labels_influence_nothing_but_test_scores(digits, shares, metric):
    split = ncgnn.make_split(digits, "stratified", 0)
    shuffled = digits.labels.copy()
    shuffled[split.test] = np.random.default_rng(0).permutation(shuffled[split.test])
    weights = []
    for graph in (digits, digits.with_labels(shuffled)):
        config = tiny_config(epochs=8, class_shares=shares, metric=metric)
        trainer = new_trainer(config, graph, split)
        records = []
        trainer.run(records.append)
        weights.append((trainer.model.state_dict(), [r[f"val_{metric}"] for r in records]))
    assert weights[0][1] == weights[1][1]
    for name, value in weights[0][0].items():
        assert torch.equal(value, weights[1][0][name]), name


@pytest.mark.parametrize("model", ["gcn", "sage", "mlp"])
def test_the_same_loop_trains_models_without_groups(digits, model):
    trainer = trainer_of(digits, model, epochs=100, hidden=64, learning_rate=0.01, dropout=0.0)
    records = []
    trainer.run(records.append)
    assert "mean_nc" not in records[0]
    assert max(r["val_accuracy"] for r in records) > 0.85


def test_same_configuration_same_weights_bit_for_bit(digits):
    one, other = trainer_of(digits), trainer_of(digits)
    one.run()
    torch.manual_seed(99)  # the state of torch's own generator must play no part
    other.run()
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name


def test_another_seed_gives_other_weights(digits):
    one, other = trainer_of(digits), trainer_of(digits, seed=1)
    one.run(), other.run()
    assert not torch.equal(one.model.raw, other.model.raw)


def test_training_without_sharing_products_is_the_same(digits):
    shared, plain = trainer_of(digits), trainer_of(digits)
    plain.model.share_products = lambda active: None
    shared.run(), plain.run()
    for name, value in shared.model.state_dict().items():
        assert torch.equal(value, plain.model.state_dict()[name]), name


def test_a_loss_that_explodes_is_one_clear_error(digits):
    features = digits.features.copy()
    features[0, 0] = 3e38
    graph = ncgnn.Graph.from_csr(
        digits.indptr, digits.indices, labels=digits.labels, features=features
    )
    with pytest.raises(TrainingError, match="learning_rate"):
        trainer_of(graph, epochs=20, learning_rate=10.0).run()


@pytest.mark.parametrize("settings", [{"learning_rate": 1e20}, {"learning_rate": 3e38}])
def test_weights_that_overflow_are_one_clear_error(digits, settings):
    with pytest.raises(TrainingError, match="lower learning_rate"):
        trainer_of(digits, epochs=3, **settings).run()


def test_a_split_without_validation_nodes_is_refused(digits):
    split = Split("custom", "custom", None, np.arange(10), np.arange(0), np.arange(20, 30))
    with pytest.raises(InputError, match="validation"):
        new_trainer(tiny_config(), digits, split)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("model", ["ncgcn", "gcn"])
def test_the_best_epoch_is_that_of_the_metric(digits, model, metric):
    trainer, records = trainer_of(digits, model, metric=metric, epochs=15), []
    state = trainer.run(records.append)
    values = [record[f"val_{metric}"] for record in records]
    assert state.best_epoch == values.index(max(values))
    assert state.best_score == max(values)
    logits = logits_of(trainer, state.best_grouping)
    labels = trainer.inputs.labels
    best = score(metric, logits[trainer.val], labels[trainer.val])
    assert best == pytest.approx(max(values), abs=1e-6)
    on_test = score(metric, logits[trainer.test], labels[trainer.test])
    assert records[best_of(records, metric)][f"test_{metric}"] == pytest.approx(on_test, abs=1e-6)
    assert "val_accuracy" in records[0]


def best_of(records, metric):
    return max(range(len(records)), key=lambda i: (records[i][f"val_{metric}"], -i))


def test_metrics_choose_different_epochs():
    """Few nodes are of class 1: always answering class 0 is accurate, but ranks badly."""
    graph = ncgnn.generate(600, 1200, classes=2, features=4, feature_signal=0.4, seed=3)
    rare = np.flatnonzero(graph.labels == 1)[:40]
    draw = np.random.default_rng(0)
    nodes = draw.permutation(np.concatenate([np.flatnonzero(graph.labels == 0), rare]))
    split = Split("custom", "custom", None, nodes[:150], nodes[150:240], nodes[240:])
    best = {
        metric: ncgnn.fit(
            graph, "mlp", split=split, hidden=16, epochs=30, learning_rate=0.05, metric=metric
        ).best_epoch
        for metric in METRICS
    }
    assert len(set(best.values())) > 1


def test_a_metric_that_is_not_defined_on_validation_nodes_is_refused(digits):
    zeros, others = (np.flatnonzero((digits.labels == 0) == one) for one in (True, False))
    split = Split("custom", "custom", None, others[:200], zeros[:50], others[200:300])
    with pytest.raises(InputError, match="got roc_auc, and these are all of one class; choose"):
        new_trainer(tiny_config(metric="roc_auc"), digits, split)
    new_trainer(tiny_config(metric="macro_f1"), digits, split)


def test_a_class_that_validation_nodes_lack_is_left_out_of_the_mean(digits):
    val = np.flatnonzero(digits.labels < 3)[:90]
    rest = np.setdiff1d(np.arange(digits.num_nodes), val)
    split = Split("custom", "custom", None, rest[::2], val, rest[1::2])
    trainer = new_trainer(tiny_config(metric="average_precision", epochs=3), digits, split)
    state = trainer.run()
    assert 0 < state.best_score <= 1


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["minesweeper", "tolokers"])
def test_ranking_metrics_select_models_where_accuracy_cannot(real_data_dir, dataset):
    """Four nodes in five are of one class: majority answers are hard to beat in accuracy alone."""
    graph = ncgnn.load(dataset, real_data_dir)
    trained = ncgnn.fit(
        graph, "sage", split="published", hidden=64, epochs=60, patience=60, metric="roc_auc"
    )
    result = trained.evaluate()
    best = trained.history[trained.best_epoch]
    assert result["scores"]["val"]["roc_auc"] == pytest.approx(best["val_roc_auc"], abs=1e-6)
    assert result["scores"]["test"]["roc_auc"] > 0.65
