"""Training in batches: the same draws wherever it is resumed, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import BlockMaker, infer, model_class
from ncgnn.training import auto_run, load_run, make_auto, make_config, train_run
from ncgnn.training.loading import new_trainer
from ncgnn.training.requirements import read_fanout

SMALL = {"hidden": 8, "epochs": 6, "batch_size": 40, "fanout": (4, 3)}
FILES = ("metrics.jsonl", "result.json", "weights.safetensors", "config.toml", "split.json")


class InterruptedRunError(Exception):
    pass


@pytest.fixture(scope="module")
def graph():
    groups = [(0.7, 0.9), (0.3, 0.3)]
    return ncgnn.generate(300, 1800, classes=3, features=12, groups=groups, seed=3)


@pytest.fixture(scope="module")
def place(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("batches") / "mine.npz"
    ncgnn.save(graph, path)
    return str(path)


def config_for(place, model="ncgcn", **settings):
    return make_config(dataset=place, model=model, settings=SMALL | settings)


def contents(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("sampling", ["uniform", "labor"])
def test_an_interrupted_run_goes_on_exactly(place, tmp_path, sampling):
    config = config_for(place, sampling=sampling, dropout=0.5)
    whole = train_run(config, tmp_path / "whole")

    def interrupt(record):
        if record["epoch"] == 3:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train_run(config, tmp_path / "parts", on_epoch=interrupt, checkpoint_seconds=0)
    resumed = []
    again = train_run(config, tmp_path / "parts", on_resume=resumed.append)
    assert resumed == [3]
    assert contents(again.folder) == contents(whole.folder)


def test_a_run_that_is_stopped_within_an_epoch_goes_on_exactly(place, tmp_path):
    config = config_for(place, dropout=0.5)
    whole = train_run(config, tmp_path / "whole")
    asked = []

    def stop():
        asked.append(0)
        return len(asked) == 12  # five batches per epoch

    with pytest.raises(KeyboardInterrupt):
        train_run(config, tmp_path / "parts", stop=stop, checkpoint_seconds=1e9)
    resumed = []
    again = train_run(config, tmp_path / "parts", on_resume=resumed.append)
    assert resumed == [2]
    assert contents(again.folder) == contents(whole.folder)


def test_every_training_node_is_in_one_batch_of_an_epoch(place, graph):
    trainer = new_trainer(config_for(place), graph)
    batches = trainer.batches
    orders = []
    for epoch in range(2):
        with batches.draw(trainer.train, trainer.state.grouping.group, epoch) as drawn:
            found = [nodes for nodes, _, _ in drawn]
        assert [len(nodes) for nodes in found[:-1]] == [40] * (len(found) - 1)
        assert len(found) == batches.count(trainer.train)
        everyone = torch.cat(found)
        assert torch.equal(everyone.sort().values, trainer.train.sort().values)
        orders.append(everyone)
    assert not torch.equal(*orders)


def test_one_batch_with_all_edges_is_a_step_on_the_whole_graph(place, graph):
    settings = {"epochs": 3, "hidden": 8, "dropout": 0.0, "readout_dropout": 0.0}
    settings |= {"precision": "float64"}
    whole = make_config(dataset=place, model="ncgcn", settings=settings)
    batch = make_config(
        dataset=place, model="ncgcn", settings=settings | {"batch_size": 10_000, "fanout": (-1, -1)}
    )
    one, other = (new_trainer(config, graph) for config in (whole, batch))
    for _ in range(3):
        mine, theirs = one.epoch(), other.epoch()
        for name in ("loss", "train_accuracy", "val_accuracy", "val_loss", "mean_nc"):
            assert mine[name] == pytest.approx(theirs[name], abs=1e-9), name
    for name, value in one.model.state_dict().items():
        torch.testing.assert_close(other.model.state_dict()[name], value, rtol=1e-7, atol=1e-9)
    assert torch.equal(one.state.grouping.group, other.state.grouping.group)


def test_a_run_in_batches_is_loaded_and_answers(place, graph, tmp_path):
    run = train_run(config_for(place, "tuned-sage", layers=2), tmp_path)
    trained = load_run(run.folder)
    logits = trained.logits()
    assert torch.equal(logits, infer(BlockMaker(trained.inputs, trained.model), None))
    whole = trained.model.eval()(trained.inputs)
    torch.testing.assert_close(logits, whole, rtol=1e-4, atol=1e-5)
    assert len(trained.predict()) == graph.num_nodes
    assert trained.refit().refitted is not None


def test_it_learns_as_well_as_the_whole_graph(graph):
    settings = {"hidden": 16, "epochs": 40, "learning_rate": 0.02}
    scores = [
        ncgnn.fit(graph, "ncsage", **settings, **more).evaluate()["scores"]["test"]["accuracy"]
        for more in ({}, {"batch_size": 64})
    ]
    assert scores[1] > scores[0] - 0.1


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("linkx", {}, "needs the whole graph at a time; leave batch_size out"),
        ("ncgcn", {"fanout": (5, 5, 5)}, "fanout must have 2 numbers for NCGCN"),
        ("ncgin", {"fanout": (5, 5)}, "whose layers add up all messages"),
        ("tuned-gcn", {"batch_size": 1, "norm": "batch", "fanout": (2, 2, 2)}, "at least 2 with"),
        ("ncgcn", {"fanout": (5, 0)}, "at least 1 at every hop, or -1"),
        ("ncgcn", {"batch_size": None}, "set batch_size, too"),
        ("ncgcn", {"batch_size": 0}, "batch_size"),
    ],
)
def test_what_cannot_be_trained_so_is_refused(graph, model, settings, words):
    options = {name: SMALL[name] for name in ("epochs", "batch_size", "fanout")} | settings
    if model == "linkx":
        options.pop("fanout")
    with pytest.raises(InputError, match=words):
        ncgnn.fit(graph, model, **options)


def test_fanout_of_layers_that_look_farther():
    inputs = ncgnn.nn.GraphInputs(ncgnn.load("digits"))
    mlp = model_class("mlp").for_inputs(inputs)
    assert read_fanout(None, mlp) == read_fanout((5, 5), mlp) == []
    assert read_fanout((5, -1), model_class("gcn").for_inputs(inputs)) == [5, None]


def test_one_number_is_for_all_hops_and_no_node_is_left_alone(graph):
    inputs = ncgnn.nn.GraphInputs(graph)
    assert read_fanout((-1,), model_class("gcn").for_inputs(inputs)) == [None, None]
    settings = {"hidden": 8, "epochs": 2, "norm": "batch", "layers": 2}
    trained = ncgnn.fit(graph, "tuned-gcn", batch_size=179, **settings)  # of 180 training nodes
    assert len(trained.history) == 2


def test_auto_in_batches_can_be_loaded_again(graph, place, tmp_path):
    few = ["logistic", "majority", "mlp", "sage"]
    told = {"candidates": few, "batch_size": 40, "epochs": 3, "hidden": 8, "time": "1h"}
    run = auto_run(make_auto(dataset=place, settings=told), tmp_path, graph=graph)
    facts = json.loads((run.folder / "auto.json").read_text())
    assert all(row["state"] != "failed" for row in facts["candidates"])
    trained = load_run(run.folder)
    assert torch.equal(trained.logits().argmax(1), load_run(run.folder).logits().argmax(1))


def test_a_subclass_with_other_logits_has_no_layers(graph):
    class Silent(model_class("gat")):
        def logits(self, inputs, key):
            return super().logits(inputs, key) * 0

    with pytest.raises(InputError, match="needs the whole graph"):
        ncgnn.fit(graph, Silent, epochs=2, hidden=8, batch_size=30)
