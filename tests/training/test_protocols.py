"""Protocols: what training may see, and what it must not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import ncgnn
from ncgnn.errors import InputError
from ncgnn.experiments import read_runs, results_table
from ncgnn.nn import subgraph
from ncgnn.report import results_tables
from ncgnn.training import make_config, train_run
from ncgnn.training.loading import new_trainer

SMALL = {"hidden": 8, "epochs": 12, "learning_rate": 0.03}


@pytest.fixture(scope="module")
def graph():
    groups = [(0.7, 0.9), (0.3, 0.3)]
    return ncgnn.generate(400, 2400, classes=3, features=12, groups=groups, seed=3)


@pytest.fixture(scope="module")
def place(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("protocols") / "mine.npz"
    ncgnn.save(graph, path)
    return str(path)


def config_for(place, protocol, model="ncgcn", **settings):
    told = SMALL | {"protocol": protocol} | settings
    return make_config(dataset=place, model=model, settings=told)


def without_edges_outside(graph, split, parts):
    """The graph with other edges and features of all nodes that are not in some parts."""
    rng = np.random.default_rng(9)
    inside = np.zeros(graph.num_nodes, dtype=bool)
    for part in parts:
        inside[getattr(split, part)] = True
    edges = graph.edge_index()
    kept = edges[:, inside[edges].all(0)]
    outside = np.flatnonzero(~inside)
    more = rng.choice(outside, (2, 500))
    more = more[:, more[0] != more[1]]
    features = graph.features.copy()
    features[outside] = rng.normal(size=(len(outside), features.shape[1]))
    return ncgnn.Graph.from_edge_index(
        np.unique(np.concatenate([kept, more, more[::-1]], axis=1), axis=1),
        features=features,
        labels=graph.labels,
        num_nodes=graph.num_nodes,
    )


@pytest.mark.parametrize("model", ["ncgcn", "sage", "tuned-gcn"])
def test_steps_depend_on_the_training_nodes_alone(graph, place, model):
    config = config_for(place, "inductive", model, patience=12)
    split = config.make_split(graph)
    other = without_edges_outside(graph, split, ["train"])
    one, changed = (new_trainer(config, g, split) for g in (graph, other))
    records = [[t.epoch() for _ in range(2)] for t in (one, changed)]
    assert [r["loss"] for r in records[0]] == [r["loss"] for r in records[1]]
    weights = [t.model.state_dict() for t in (one, changed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert records[0][1]["val_loss"] != records[1][1]["val_loss"]
    whole = new_trainer(config_for(place, "transductive", model), graph, split)
    assert [whole.epoch()["loss"] for _ in range(2)] != [r["loss"] for r in records[0]]


def test_temporal_validation_sees_no_test_node(graph, place):
    config = config_for(place, "temporal")
    split = config.make_split(graph)
    other = without_edges_outside(graph, split, ["train", "val"])
    runs = [new_trainer(config, g, split) for g in (graph, other)]
    for _ in range(6):
        mine, theirs = (trainer.epoch() for trainer in runs)
        for name in ("loss", "val_accuracy", "val_loss"):
            assert mine[name] == theirs[name], name
    assert torch.equal(runs[0].seen_grouping.group, runs[1].seen_grouping.group)


def test_groups_of_training_come_from_its_own_subgraph(graph, place):
    trainer = new_trainer(config_for(place, "inductive"), graph)
    for _ in range(8):
        trainer.epoch()
    assert len(trainer.seen_grouping.group) == len(trainer.train)
    assert len(trainer.state.grouping.group) == graph.num_nodes
    assert 0 < int(trainer.seen_grouping.group.sum()) < len(trainer.train)


@pytest.mark.parametrize("protocol", ["inductive", "temporal"])
@pytest.mark.parametrize("batches", [{}, {"batch_size": 64}])
def test_an_interrupted_run_goes_on_exactly(place, tmp_path, protocol, batches):
    config = config_for(place, protocol, **batches)
    whole = train_run(config, tmp_path / "whole")

    class InterruptedRunError(Exception):
        pass

    def interrupt(record):
        if record["epoch"] == 6:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train_run(config, tmp_path / "parts", on_epoch=interrupt, checkpoint_seconds=0)
    again = train_run(config, tmp_path / "parts")
    for name in ("metrics.jsonl", "result.json", "weights.safetensors", "config.toml"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert whole.result["protocol"] == protocol


def test_protocols_never_share_a_table(place, tmp_path):
    for protocol in ("transductive", "inductive"):
        train_run(config_for(place, protocol, "mlp"), tmp_path)
    rows = results_table(read_runs(tmp_path)[0])
    assert {row.split for row in rows} == {"stratified", "stratified, inductive"}
    titles = [table.title for table in results_tables(rows)]
    assert titles == [
        "Finished runs, stratified split",
        "Finished runs, stratified, inductive split",
    ]


def test_a_model_without_edges_is_the_same_in_all(graph, place):
    scores = []
    for protocol in ("transductive", "inductive", "temporal"):
        trainer = new_trainer(config_for(place, protocol, "mlp", dropout=0.0), graph)
        scores.append([trainer.epoch()["val_loss"] for _ in range(4)])
    assert scores[0] == pytest.approx(scores[1])
    assert scores[0] == pytest.approx(scores[2])


def test_what_cannot_be_is_refused(graph, place):
    with pytest.raises(InputError, match="cannot answer for new nodes"):
        new_trainer(config_for(place, "inductive", "linkx"), graph)
    with pytest.raises(InputError, match="class_shares must be 'train'"):
        new_trainer(config_for(place, "temporal", class_shares="val"), graph)
    with pytest.raises(InputError, match="protocol must be 'transductive' with auto"):
        ncgnn.fit(graph, "auto", protocol="temporal")
    earlier = ncgnn.fit(graph, "gcn", epochs=2, hidden=8)
    with pytest.raises(InputError, match="start_from must be left out with protocol"):
        ncgnn.fit(graph, "gcn", epochs=2, hidden=8, protocol="inductive", start_from=earlier)
    with pytest.raises(InputError, match="protocol"):
        config_for(place, "induktive")


def test_subgraph(graph):
    nodes = np.array([5, 3, 200, 17, 9])
    part = subgraph(graph, nodes)
    order = np.sort(nodes)
    dense = graph.to_scipy("targets").toarray()[np.ix_(order, order)]
    assert np.array_equal(part.to_scipy("targets").toarray(), dense)
    assert np.array_equal(part.labels, graph.labels[order])
    assert np.array_equal(part.features, graph.features[order])
    named = replace(graph, node_ids=np.array([f"n{i}" for i in range(400)]))
    assert subgraph(named, nodes).ids.tolist() == [f"n{i}" for i in order]
