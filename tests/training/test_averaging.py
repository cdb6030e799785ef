from __future__ import annotations

import pytest
import torch
from tiny import logits_of, tiny_config
from torch import nn

import ncgnn
from ncgnn.errors import InputError
from ncgnn.training import load_run, new_trainer, train_run
from ncgnn.training.trainer import use_weights

COMPARED = ("metrics.jsonl", "result.json", "weights.safetensors")


@pytest.fixture(scope="module")
def digits():
    return ncgnn.load("digits")


def trainer_of(graph, model, **settings):
    config = tiny_config(model, **settings)
    return new_trainer(config, graph, ncgnn.make_split(graph, "stratified", 0))


def weights(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


@pytest.mark.parametrize("model", ["mlp", "tuned-gcn"])
def test_the_mean_is_what_the_formula_says(digits, model):
    options = {"norm": "batch"} if model == "tuned-gcn" else {}
    trainer = trainer_of(digits, model, averaging=0.7, epochs=40, **options)
    mean = {}
    for step in range(40):
        trainer.epoch()
        now = weights(trainer)
        kept = min(0.7, (1 + step) / (10 + step))
        for name, value in now.items():
            old = mean.get(name, value)
            mean[name] = value if not value.is_floating_point() else kept * old + (1 - kept) * value
    assert (1 + 39) / (10 + 39) > 0.7 > (1 + 9) / (10 + 9), "both cases of the formula"
    for name, value in trainer.state.mean_weights.items():
        torch.testing.assert_close(value, mean[name], rtol=1e-4, atol=1e-5)


def test_steps_are_those_without_a_mean(digits):
    plain, averaged = (trainer_of(digits, "gcn", averaging=d) for d in (0.0, 0.9))
    for _ in range(12):
        one, other = plain.epoch(), averaged.epoch()
        assert one["loss"] == other["loss"]
    for name, value in weights(plain).items():
        assert torch.equal(value, weights(averaged)[name]), name
    assert not plain.state.mean_weights


def test_what_is_kept_is_the_mean_of_the_best_epoch(digits):
    trainer = trainer_of(digits, "ncgcn", averaging=0.8, epochs=30)
    means, accuracies = [], []

    def after_epoch(record):
        means.append({k: v.clone() for k, v in trainer.state.mean_weights.items()})
        accuracies.append(record["val_accuracy"])

    state = trainer.run(after_epoch, keeps_weights=True)
    assert state.best_epoch == accuracies.index(max(accuracies))
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, means[state.best_epoch][name]), name
    logits = logits_of(trainer, state.best_grouping)
    right = logits.argmax(1) == trainer.inputs.labels
    assert float(right[trainer.val].double().mean()) == state.best_score


def test_pseudo_labels_are_those_of_the_mean(digits):
    trainer = trainer_of(digits, "ncgcn", averaging=0.95, epochs=30)
    grouper, seen = trainer.grouper, []
    trainer.grouper = lambda labels: (seen.append(labels.clone()), grouper(labels))[1]
    differed = 0
    for _ in range(30):
        groups, count = trainer.state.grouping, len(seen)
        trainer.epoch()
        if len(seen) == count:
            continue
        own = weights(trainer)
        raw = logits_of(trainer, groups).argmax(1)
        trainer.model.load_state_dict(trainer.state.mean_weights)
        mean = logits_of(trainer, groups).argmax(1)
        trainer.model.load_state_dict(own)
        assert torch.equal(seen[-1], mean)
        differed += int(not torch.equal(raw, mean))
    assert differed, "the mean never answered differently: nothing was tested"


def test_weights_under_two_names_come_back():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    own = {name: value.clone() for name, value in model.state_dict().items()}
    mean = {name: value + 1 for name, value in own.items()}
    version = model[0].weight._version
    with use_weights(model, mean):
        assert torch.equal(model[0].weight, own["0.weight"] + 1)
        assert model[0].weight._version > version, "kept products would seem fresh"
    for name, value in model.state_dict().items():
        assert torch.equal(value, own[name]), name
        assert torch.equal(mean[name], own[name] + 1), name


def test_kept_products_do_not_outlive_the_weights(digits):
    shared, plain = (trainer_of(digits, "ncgcn", averaging=0.9) for _ in range(2))
    losses = []
    shared.run(lambda record: losses.append(record["loss"]), keeps_weights=True)
    expected = []
    plain.run(lambda record: expected.append(record["loss"]))
    assert losses == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("stop_after", [5, 11])
@pytest.mark.parametrize("model", ["ncgcn", "cpgnn", "hog", "tuned-sage"])
def test_an_interrupted_run_ends_as_if_nothing_had_happened(tmp_path, model, stop_after):
    config = tiny_config(model, epochs=8 if model in ("cpgnn", "hog") else 14, averaging=0.9)
    whole = train_run(config, tmp_path / "a")
    seen = []
    with pytest.raises(KeyboardInterrupt):
        train_run(
            config, tmp_path / "b", on_epoch=seen.append, stop=lambda: len(seen) == stop_after
        )
    again = train_run(config, tmp_path / "b")
    for name in COMPARED:
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name
    best = whole.result["scores"]["val"]["accuracy"]
    trained = load_run(again.folder)
    right = trained.probabilities().argmax(1) == trained.graph.labels
    assert right[ncgnn.make_split(trained.graph, "stratified", 0).val].mean() == best


@pytest.mark.parametrize("decay", [1.0, -0.1, float("nan")])
def test_a_mean_that_never_or_always_forgets_is_refused(decay):
    with pytest.raises(InputError, match="averaging"):
        tiny_config(averaging=decay)
