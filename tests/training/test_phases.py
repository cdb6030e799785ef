"""Models that are trained in stages, with parameter groups and losses of their own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import Phase, registry
from ncgnn.nn.base import Model, PlainOptions, counting_phases, parse_options
from ncgnn.nn.layers import FeatureLinear
from ncgnn.training import load_run, make_config, new_trainer, train_run


class Staged(Model):
    """A linear model, whose second stage adds a bias that the training labels begin."""

    Options = PlainOptions

    def __init__(self, num_features, num_classes, **options):
        super().__init__()
        parse_options(self.Options, options)
        self.linear = FeatureLinear(num_features, num_classes)
        self.shift = nn.Parameter(torch.zeros(num_classes))
        self.register_buffer("stage", torch.zeros((), dtype=torch.int64))
        self.begun = []

    def logits(self, inputs, key):
        logits = self.linear(inputs)
        return logits + self.shift if self.stage else logits

    def parameter_groups(self, weight_decay):
        return [
            {"params": list(self.linear.parameters()), "weight_decay": weight_decay},
            {"params": [self.shift], "weight_decay": 0.0},
        ]

    keeps_best = True
    beats_earlier = False

    def phases(self, epochs, patience):
        second = Phase("second", epochs, patience, beats_earlier=self.beats_earlier)
        return (Phase("first", 8, 8, self.keeps_best), second)

    def begin_phase(self, number, inputs, train, labels):
        self.begun.append({k: v.clone() for k, v in self.state_dict().items()})
        assert not self.training
        self.stage.fill_(number)
        assert torch.equal(labels, inputs.labels[train])
        if number:
            counts = torch.bincount(labels, minlength=inputs.num_classes)
            with torch.no_grad():
                self.shift.copy_(counts / counts.sum() + torch.rand(len(counts)))

    def extra_loss(self, train, labels):
        return 0.1 * self.linear.weight.square().sum()


@pytest.fixture(autouse=True)
def staged(monkeypatch):
    monkeypatch.setitem(registry._registered, "staged", Staged)


def config(**settings):
    chosen = {"epochs": 9, "patience": 5, "learning_rate": 0.05} | settings
    return make_config(dataset="digits", model="staged", settings=chosen)


def trainer(**settings):
    graph, chosen = ncgnn.load("digits"), config(**settings)
    return new_trainer(chosen, graph, ncgnn.make_split(graph, "stratified", 0))


@pytest.mark.parametrize("keeps_best", [True, False])
def test_a_stage_begins_with_the_best_weights_of_the_one_before_or_its_last(
    keeps_best, monkeypatch
):
    monkeypatch.setattr(Staged, "keeps_best", keeps_best)
    training, records, weights = trainer(learning_rate=0.5), [], []

    def after_epoch(record):
        records.append(record)
        weights.append({k: v.clone() for k, v in training.model.state_dict().items()})

    training.run(after_epoch)
    assert [r["phase"] for r in records[:9]] == ["first"] * 8 + ["second"]
    assert records[-1]["phase"] == "second"
    best = max(range(8), key=lambda i: (records[i]["val_accuracy"], -i))
    assert best != 7, "the best epoch is the last one: nothing was tested"
    assert len(training.model.begun) == 2
    found, expected = training.model.begun[1], weights[best if keeps_best else 7]
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert training.state.best_epoch >= 8
    assert bool(training.model.stage)


def test_only_the_last_stage_counts():
    trained = ncgnn.fit(ncgnn.load("digits"), "staged", epochs=9, learning_rate=0.05)
    second = [r for r in trained.history if r["phase"] == "second"]
    best = max(r["val_accuracy"] for r in second)
    assert trained.evaluate()["scores"]["val"]["accuracy"] == best
    assert trained.history[trained.best_epoch]["val_accuracy"] == best
    assert trained.best_epoch >= 8


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_a_stage_may_have_to_beat_the_one_before(rate, monkeypatch):
    monkeypatch.setattr(Staged, "beats_earlier", True)
    trained = ncgnn.fit(ncgnn.load("digits"), "staged", epochs=9, learning_rate=rate)
    best = max(r["val_accuracy"] for r in trained.history)
    assert trained.evaluate()["scores"]["val"]["accuracy"] == best
    first = next(r for r in trained.history if r["val_accuracy"] == best)
    assert trained.best_epoch == first["epoch"]
    assert bool(trained.model.stage) == (first["phase"] == "second")
    looked_at = [r["epoch"] for r in trained.history if r["test_accuracy"] is not None]
    highs = [r["val_accuracy"] for r in trained.history if r["test_accuracy"] is not None]
    assert looked_at[-1] == first["epoch"]
    assert highs == sorted(set(highs))  # strictly rising through both stages


def test_which_stages_count():
    one, two = Phase("one", 1, 1), Phase("two", 1, 1, beats_earlier=True)
    assert counting_phases((one,)) == {"one"}
    assert counting_phases((one, two)) == {"one", "two"}
    assert counting_phases((two, one)) == {"one"}


def test_parameter_groups_reach_the_optimiser():
    groups = trainer(weight_decay=0.25).new_optimizer().param_groups
    assert [group["weight_decay"] for group in groups] == [0.25, 0.0]
    assert [len(group["params"]) for group in groups] == [2, 1]


def test_the_extra_loss_is_trained(monkeypatch):
    with_it = trainer()
    with_it.epoch()
    monkeypatch.delattr(Staged, "extra_loss")
    without = trainer()
    without.epoch()
    assert not torch.equal(with_it.model.linear.weight, without.model.linear.weight)


def test_stages_without_epochs_are_refused(monkeypatch):
    with pytest.raises(InputError, match="stage 'none'"):
        Phase("none", 0, 5)
    with pytest.raises(InputError, match="stage 'none'"):
        Phase("none", 5, 0)
    monkeypatch.setattr(Staged, "phases", lambda self, epochs, patience: ())
    with pytest.raises(InputError, match="at least one stage"):
        trainer()


class InterruptedRunError(Exception):
    pass


@pytest.mark.parametrize("epoch", [0, 6, 7, 8, 12])
def test_an_interrupted_run_resumes_in_its_stage(tmp_path, epoch):
    whole = train_run(config(), tmp_path / "whole")

    def interrupt(record):
        if record["epoch"] == epoch:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train_run(config(), tmp_path / "broken", on_epoch=interrupt, checkpoint_seconds=0)
    again = train_run(config(), tmp_path / "broken")
    for name in ("metrics.jsonl", "result.json", "weights.safetensors"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    loaded = load_run(again.folder)
    assert bool(loaded.model.stage)
    expected = again.result["scores"]["test"]["accuracy"]
    assert loaded.evaluate()["scores"]["test"]["accuracy"] == expected
