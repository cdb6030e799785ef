"""What a search says in the end: what the graph adds, and what would help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import ncgnn
from ncgnn.training import Row
from ncgnn.training.verdict import judge


@pytest.fixture(scope="module")
def models():
    graph = ncgnn.generate(600, 3000, classes=2, features=4, homophily=0.9, seed=0)
    split = ncgnn.make_split(graph, "stratified", 0)
    options = {"split": split, "hidden": 8, "epochs": 30, "learning_rate": 0.05}
    return {name: ncgnn.fit(graph, name, **options) for name in ("mlp", "gcn")}


def row_of(trained, **more):
    record = trained.history[trained.best_epoch]
    row = Row(
        trained.config.model.name, trained.config.model.name, trained.config.name, "finished",
        val=record["val_accuracy"], epochs=len(trained.history), best_epoch=trained.best_epoch,
        train_accuracy=record["train_accuracy"], val_accuracy=record["val_accuracy"],
    )  # fmt: skip
    return replace(row, **more)


def test_a_gain_is_counted_on_the_same_nodes(models):
    mlp, gcn = models["mlp"], models["gcn"]
    rows = [row_of(mlp), row_of(gcn)]
    said = judge(gcn, rows[1], rows, mlp, rows[0])
    test, labels = gcn.split.test, gcn.graph.labels
    right = [np.mean(m.logits().argmax(1).numpy()[test] == labels[test]) for m in (gcn, mlp)]
    value, low, high = said["gain"]["accuracy"]
    assert value == pytest.approx(right[0] - right[1])
    assert low < value < high
    assert low > 0
    assert said["sentence"].startswith(f"The graph adds +{100 * value:.1f} points")
    assert f" on {len(test)} test nodes (95 %" in said["sentence"]
    assert said["gain"]["features_val"] == rows[0].val
    assert not any("edges bring no gain" in remedy for remedy in said["remedies"])


def test_no_gain_and_a_loss_are_said_as_such(models):
    gcn = models["gcn"]
    row = row_of(gcn)
    same = judge(gcn, row, [row], gcn, row)
    assert "cannot tell: 0.0 points" in same["sentence"]
    assert any("edges bring no gain" in remedy for remedy in same["remedies"])
    renamed = replace(models["mlp"], config=gcn.config)  # so that it seems to see the graph
    worse = judge(renamed, row, [row], gcn, row)
    assert "The graph costs: −" in worse["sentence"]


def test_what_was_not_tried_is_not_judged(models):
    mlp = models["mlp"]
    row, skipped = row_of(mlp), Row("gcn", "gcn", "x", why="no time was left")
    propagation = replace(skipped, model="propagation", state="finished")
    said = judge(mlp, row, [row, skipped, propagation], None, None)
    assert "is not known" in said["sentence"]
    assert not any("edges" in remedy for remedy in said["remedies"])
    assert any("too short for 1 of 3 candidates (gcn)" in remedy for remedy in said["remedies"])
    tried = replace(skipped, state="finished", why="")
    assert "is not known" in judge(mlp, row, [row, tried], None, None)["sentence"]


def test_a_choice_without_the_graph_is_told_beside_the_best_that_sees_it(models):
    mlp, gcn = models["mlp"], models["gcn"]
    row, beside = row_of(mlp), row_of(gcn)
    said = judge(mlp, row, [row, beside], gcn, beside)
    value, low, high = said["gain"]["accuracy"]
    assert value > 0.1  # that of the graph, though it was not chosen
    assert said["sentence"].startswith("The graph adds nothing that validation shows: mlp, which")
    test = f"+{100 * value:.1f} points on {len(gcn.split.test)} test nodes"
    assert f"gcn, which sees the graph, differs from it by {test}" in said["sentence"]
    assert f"+{100 * low:.1f} to +{100 * high:.1f}" in said["sentence"]


def test_few_nodes_are_told_and_edges_are_not_blamed(models):
    gcn = models["gcn"]
    few = replace(gcn.split, val=gcn.split.val[:12], test=gcn.split.test[:8])
    small, row = replace(gcn, split=few), row_of(gcn)
    remedies = judge(small, row, [row], small, row)["remedies"]
    assert any(one.startswith("there are 12 validation nodes") for one in remedies)
    assert not any("edges bring no gain" in one for one in remedies)


@pytest.mark.parametrize(("train", "words"), [(0.99, "more epochs"), (0.5, "learns too slowly")])
def test_a_best_epoch_at_the_end_asks_for_more(models, train, words):
    gcn = models["gcn"]
    last = row_of(gcn, best_epoch=29, epochs=30, train_accuracy=train, val_accuracy=0.9)
    found = judge(gcn, last, [last], None, None)["remedies"]
    assert any(words in remedy for remedy in found)
    early = replace(last, best_epoch=10)
    assert not any("epochs" in one for one in judge(gcn, early, [early], None, None)["remedies"])


def test_a_class_that_nobody_is_answered_is_named(models):
    gcn = models["gcn"]
    weights = {name: value.clone() for name, value in gcn.model.state_dict().items()}
    try:
        with torch.no_grad():
            gcn.model.second.bias[1] = -1e6
        found = judge(gcn, row_of(gcn), [row_of(gcn)], None, None)["remedies"]
    finally:
        gcn.model.load_state_dict(weights)
    assert any("class 1 is never predicted" in remedy for remedy in found)


def test_a_class_that_is_only_known_by_heart_is_named(models):
    gcn = models["gcn"]
    train, logits = gcn.split.train, gcn.logits().clone()
    logits[:, 1] = -9.0
    logits[train] = torch.nn.functional.one_hot(
        torch.from_numpy(gcn.graph.labels[train]), 2
    ).float()
    heart = replace(gcn)
    object.__setattr__(heart, "logits", lambda: logits)
    found = judge(heart, row_of(gcn), [row_of(gcn)], None, None)["remedies"]
    assert any(
        "class 1 is never predicted for a node that was not trained on" in remedy
        for remedy in found
    )


def test_without_edges_no_time_is_blamed():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    labels = (rows[:, 0] > 0).astype(int)
    graph = ncgnn.Graph.from_edge_index([[], []], labels=labels, features=rows)
    mlp = ncgnn.fit(graph, "mlp", hidden=4, epochs=3)
    said = judge(mlp, row_of(mlp), [row_of(mlp)], None, None)
    none = "The graph has no edges, so that there is nothing that it could add."
    assert said["sentence"] == none
    gcn = ncgnn.fit(graph, "gcn", hidden=4, epochs=3)
    beside = judge(gcn, row_of(gcn), [row_of(gcn), row_of(mlp)], mlp, row_of(mlp))
    assert (beside["sentence"], beside["gain"]) == (none, None)
