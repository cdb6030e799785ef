"""HOG-GCN against the dense form with n × n masks, its losses, its stages and its memory."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph
from torch.nn.functional import cross_entropy, normalize, one_hot

import ncgnn
import ncgnn.training
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey, GraphInputs
from ncgnn.nn import base as _memory_guard
from ncgnn.nn.base import Phase
from ncgnn.nn.baselines import hog as products
from ncgnn.nn.baselines.hog import HOG
from ncgnn.training.config import TrainingConfig
from ncgnn.training.folder import load_checkpoint, save_checkpoint
from ncgnn.training.trainer import Trainer


def made(inputs, *, moved=0.3, **options):
    model = make(lambda: HOG.for_inputs(inputs, hidden=6, hidden2=4, **options), moved)
    model.guess.random_(0, CLASSES)
    return model


def looped(drawn):
    return torch.maximum(drawn.A, drawn.A.t()) + torch.eye(drawn.num_nodes, dtype=torch.float64)


def dense_weights(model, S):
    """The parameters, with masks as n × n matrices."""
    weights = {}
    for name, parameter in model.named_parameters():
        value = parameter.detach().clone()
        if name.startswith("masks."):
            dense = torch.zeros_like(S)
            dense[S > 0] = value
            value = dense
        weights[name] = value.requires_grad_()
    return weights


def linear(weights, name, x, features):
    weight = weights[f"{name}.weight"]
    total = x @ (weight if features else weight.t())
    return total + weights[f"{name}.bias"] if f"{name}.bias" in weights else total


def dense_model(weights, S, X, guess, attribute=0.4, structure=1.0):
    """The logits, the perceptron's logits and T·Y of the last layer."""
    side = linear(weights, "perceptron.0", X, features=True)
    side = linear(weights, "perceptron.1", side, features=False)
    Q = side.softmax(1)
    x = X
    for layer in range(2):
        T = normalize(S * weights[f"masks.{layer}"], p=1, dim=1)
        mixing = S * (attribute * Q @ Q.t() + structure * T)
        sums = mixing.sum(1).detach()
        mixing = torch.diag(torch.where(sums == 0, 0, 1 / sums)) @ mixing
        own = linear(weights, f"own.{layer}", x, features=layer == 0)
        other = linear(weights, f"other.{layer}", x, features=layer == 0)
        x = own + weights["omega"][layer] * mixing @ other
        x = x.relu() if layer == 0 else x
    logits = linear(weights, "readout", x, features=False)
    return logits, side, T @ one_hot(guess, CLASSES).double()


def same_gradients(model, weights, S):
    for name, parameter in model.named_parameters():
        expected = weights[name].grad
        if name.startswith("masks."):
            assert not expected[S == 0].any()
            expected = expected[S > 0]
        assert (parameter.grad - expected).abs().max() < 1e-9, name
        assert expected.abs().max() > 0, name


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("constants", [(0.4, 1.0), (0.8, 0.1)])
def test_logits_losses_and_gradients_are_those_of_the_dense_form(directed, sparse, constants):
    drawn = drawn_graph(2, directed=directed, sparse=sparse, density=0.12)
    attribute, structure = constants
    inputs, S = drawn.inputs(), looped(drawn) @ looped(drawn)
    assert (S == 0).any()
    model = made(inputs, attribute_weight=attribute, structure_weight=structure, dropout=0.0)
    weights = dense_weights(model, S)
    logits, side, spread = dense_model(weights, S, drawn.X, model.guess, attribute, structure)
    assert (model(inputs) - logits).abs().max() < 1e-9
    train = torch.tensor([0, 2, 3, 5, 8, 12])
    labels = inputs.labels[train]
    found = cross_entropy(model.train()(inputs, None, None, train), labels)
    extra = model.extra_loss(train, labels)
    expected = cross_entropy(side[train], labels) + cross_entropy(spread[train], labels)
    assert (extra - expected).abs() < 1e-9
    (found + extra).backward()
    (cross_entropy(logits[train], labels) + expected).backward()
    same_gradients(model, weights, S)


def test_pairs_of_exactly_two_steps_get_gradients_from_the_start():
    drawn = drawn_graph(2, density=0.12)
    inputs, S0 = drawn.inputs(), looped(drawn)
    S = S0 @ S0
    model = made(inputs, moved=0.0)
    weights = dense_weights(model, S)
    for layer in range(2):
        assert torch.equal(weights[f"masks.{layer}"], S0)
    found = model(inputs)
    expected, *_ = dense_model(weights, S, drawn.X, model.guess)
    gradient = torch.randn_like(expected)
    found.backward(gradient)
    expected.backward(gradient)
    same_gradients(model, weights, S)
    apart = (S0 == 0)[S > 0]
    assert apart.any()
    assert model.masks[0].grad[apart].any()


def test_a_row_that_is_masked_out_propagates_nothing():
    drawn = drawn_graph(2)
    inputs = drawn.inputs()
    model = made(inputs, attribute_weight=0.0)
    S = looped(drawn) @ looped(drawn)
    with torch.no_grad():
        row = torch.nonzero(S > 0)[:, 0] == 3
        model.masks[0][row] = 0
    weights = dense_weights(model, S)
    expected, *_ = dense_model(weights, S, drawn.X, model.guess, attribute=0.0)
    found = model(inputs)
    assert found.isfinite().all()
    assert (found - expected).abs().max() < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_walks_of_two_steps(seed):
    drawn = drawn_graph(seed, nodes=40, density=0.04)
    inputs, S0 = drawn.inputs(), looped(drawn)
    S = S0 @ S0
    walks = products.count_walks(inputs)
    assert torch.equal(walks.to_dense(), S)
    assert walks.nnz == int((S > 0).sum())
    assert walks.t() is walks  # columns ascend
    assert np.array_equal(products.count_pairs(inputs), (S > 0).sum(1).numpy())
    assert torch.equal(products.mark_neighbors(inputs), S0[S > 0])


def test_the_first_stage_is_the_perceptron_and_the_second_keeps_its_guesses():
    drawn = drawn_graph(2)
    inputs = drawn.inputs()
    model = made(inputs).train()
    train = torch.arange(6)
    labels = inputs.labels[train]
    weights = dense_weights(model, looped(drawn) @ looped(drawn))
    side = linear(weights, "perceptron.0", drawn.X, features=True)
    side = linear(weights, "perceptron.1", side, features=False)
    model.begin_phase(0, inputs, train, labels)
    found = model(inputs)
    assert (found - side).abs().max() < 1e-9
    assert model.extra_loss(train, labels) == 0
    found.sum().backward()
    reached = {name for name, p in model.named_parameters() if p.grad is not None}
    assert {name.split(".")[0] for name in reached} == {"perceptron"}
    model.begin_phase(1, inputs, train, labels)
    assert torch.equal(model.guess, side.argmax(1))  # also of training nodes
    assert not torch.equal(model(inputs), found)


def test_stages_and_groups_of_parameters():
    model = made(drawn_graph(2).inputs())
    first, second = model.phases(500, 100)
    assert first == Phase("perceptron", 10, 10, keeps_best=False)
    assert second == Phase("training", 500, 100)
    perceptron, rest = model.parameter_groups(0.25)
    assert (perceptron["weight_decay"], rest["weight_decay"]) == (0.02, 0.25)
    assert {id(p) for p in perceptron["params"]} == {id(p) for p in model.perceptron.parameters()}
    everything = {id(p) for p in [*perceptron["params"], *rest["params"]]}
    assert everything == {id(p) for p in model.parameters()}
    assert len(perceptron["params"]) + len(rest["params"]) == len(everything)
    omega = made(drawn_graph(2).inputs(), moved=0.0).omega
    assert omega.min() >= 0.5
    assert omega.max() <= 1


def trainer():
    inputs = drawn_graph(5, nodes=30, density=0.05).inputs()
    split = Split("custom", "custom", None, *(np.arange(start, 30, 3) for start in range(3)))
    model = made(inputs, pretraining=3)
    return Trainer(model, inputs, split, TrainingConfig(epochs=6, patience=4, learning_rate=0.05))


def test_training_goes_through_both_stages_and_on_from_a_checkpoint(tmp_path):
    whole, records = trainer(), []
    whole.run(records.append)
    names = [record["phase"] for record in records]
    assert names[:4] == ["perceptron"] * 3 + ["training"]
    for end in (2, 3, 4):
        interrupted = trainer()
        for _ in range(end):
            interrupted.epoch()
        save_checkpoint(tmp_path / "state", interrupted, {})
        resumed = trainer()
        load_checkpoint(tmp_path / "state", resumed)
        resumed.run()
        for name, value in resumed.model.state_dict().items():
            assert torch.equal(value, whole.model.state_dict()[name]), name
    fresh = trainer().model
    fresh.load_state_dict(whole.model.state_dict())
    assert torch.equal(fresh(whole.inputs), whole.model.eval()(whole.inputs))


def test_the_perceptron_ends_its_stage_with_its_last_weights():
    one = trainer()
    for _ in range(3):
        one.epoch()
    last = copy.deepcopy(one.model.perceptron.state_dict())
    begun = {}
    step = one._step
    one._step = lambda record: (
        begun.update(copy.deepcopy(one.model.perceptron.state_dict())) or step(record)
    )
    one.epoch()
    assert all(torch.equal(begun[name], last[name]) for name in last)


def test_dropout_copies_and_pickles():
    inputs = drawn_graph(2).inputs()
    model = made(inputs)
    assert not torch.equal(model(inputs, None, DropoutKey(0, 1)), model(inputs))
    model.train()
    expected = model(inputs, None, DropoutKey(0, 1))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(InputError, match="a training pass"):
            other.extra_loss(torch.arange(3), inputs.labels[:3])
        assert torch.equal(other(inputs, None, DropoutKey(0, 1)), expected)
    train = torch.arange(3)
    model.extra_loss(train, inputs.labels[train])  # what the forward pass left is still here
    with pytest.raises(InputError, match="a training pass of the model right before it"):
        model.extra_loss(train, inputs.labels[train])


def test_too_little_memory_is_said_before_it_is_taken(monkeypatch):
    inputs = drawn_graph(2).inputs()

    def made_too_early(inputs):
        raise AssertionError("the pairs are made before they are known to fit")

    pairs = products.count_pairs(inputs).sum()
    monkeypatch.setattr(products, "count_walks", made_too_early)
    words = rf"{pairs} pairs .* the model needs about .* GiB, .* allowed.*memory_limit"
    with pytest.raises(InputError, match=words):
        HOG.for_inputs(inputs, memory_limit=1e-9)
    monkeypatch.setattr(_memory_guard, "available_gib", lambda: 1e-9)
    with pytest.raises(InputError, match=r"the model needs .* are available"):
        HOG.for_inputs(inputs)
    monkeypatch.undo()
    assert HOG.for_inputs(inputs, memory_limit=1.0).masks[0].shape == (pairs,)


def test_memory_of_training_is_checked_when_it_begins():
    inputs, train = drawn_graph(2).inputs(), torch.arange(4)
    pairs = int(products.count_pairs(inputs).sum())
    needed = products.estimate_memory(pairs, 8)
    assert products.estimate_memory(pairs, 8, "prediction") < needed / 4
    model = HOG.for_inputs(inputs, memory_limit=0.99 * needed).double()
    model(inputs)
    with pytest.raises(InputError, match=rf"{pairs} pairs .* training needs .* allowed"):
        model.begin_phase(0, inputs, train, inputs.labels[train])
    model = HOG.for_inputs(inputs, memory_limit=1.01 * needed).double()
    model.begin_phase(0, inputs, train, inputs.labels[train])


def test_the_model_itself_is_not_counted_twice(monkeypatch):
    inputs, train = drawn_graph(2).inputs(), torch.arange(4)
    model = HOG.for_inputs(inputs).double()
    pairs = int(products.count_pairs(inputs).sum())
    there = pairs * (3 * 8 + 4) / 2**30  # walks, two masks, columns
    more = products.estimate_memory(pairs, 8) - there
    monkeypatch.setattr(_memory_guard, "available_gib", lambda: 1.001 * more)
    model.begin_phase(0, inputs, train, inputs.labels[train])
    monkeypatch.setattr(_memory_guard, "available_gib", lambda: 0.999 * more)
    with pytest.raises(InputError, match=r"training needs .* available"):
        model.begin_phase(0, inputs, train, inputs.labels[train])


def test_a_trained_model_predicts_where_it_could_not_be_trained(tmp_path, monkeypatch):
    digits = ncgnn.load("digits")
    trained = ncgnn.fit(digits, "hog", hidden=8, hidden2=8, epochs=2)
    expected = trained.probabilities()
    folder = trained.save(tmp_path / "run")
    pairs = int(products.count_pairs(GraphInputs(digits)).sum())
    enough = 1.01 * products.estimate_memory(pairs, use="prediction")
    monkeypatch.setattr(_memory_guard, "available_gib", lambda: enough)
    assert np.array_equal(ncgnn.training.load_run(folder).probabilities(), expected)
    with pytest.raises(InputError, match="training needs"):
        ncgnn.fit(digits, "hog", hidden=8, hidden2=8, epochs=2)
    monkeypatch.setattr(_memory_guard, "available_gib", lambda: enough / 1.1)
    with pytest.raises(InputError, match="the model needs"):
        ncgnn.training.load_run(folder)


def test_available_memory_is_a_number_of_gib():
    assert 0.01 < _memory_guard.free_gib(torch.device("cpu")) < 1e5


def test_memory_of_known_graphs():
    assert products.estimate_memory(8_577_909) < 3  # Coauthor Physics
    assert products.estimate_memory(88_621_282) > 16  # fb100-cornell5
    assert products.estimate_memory(88_621_282, use="prediction") < 6
    assert products.estimate_memory(1000, 8) > 1.5 * products.estimate_memory(1000, 4)


def test_other_graphs_are_refused():
    model = made(drawn_graph(2).inputs())
    with pytest.raises(InputError, match="weights for the 13 nodes of its graph; this graph has 9"):
        model(drawn_graph(2, nodes=9).inputs())
    other = drawn_graph(2, density=0.1).inputs()
    mine, theirs = len(model.masks[0]), products.count_pairs(other).sum()
    words = f"the {mine} pairs of nodes .* of its graph; this graph has {theirs}"
    with pytest.raises(InputError, match=words):
        model(other)


def test_the_spread_of_guesses_needs_guesses():
    inputs, train = drawn_graph(2).inputs(), torch.arange(4)
    labels = inputs.labels[train]
    model = HOG.for_inputs(inputs, hidden=6, hidden2=4).double().train()
    model(inputs)
    with pytest.raises(InputError, match=r"begin_phase\(1"):
        model.extra_loss(train, labels)
    model.begin_phase(1, inputs, train, labels)
    model(inputs)
    assert model.extra_loss(train, labels) > 0


def test_widths():
    model = made(drawn_graph(2).inputs())
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if "weight" in name}
    assert shapes == {
        "perceptron.0.weight": (16, 4),
        "perceptron.1.weight": (CLASSES, 4),
        "own.0.weight": (16, 6),
        "own.1.weight": (4, 6),
        "other.0.weight": (16, 6),
        "other.1.weight": (4, 6),
        "readout.weight": (CLASSES, 4),
    }


def test_pairs_of_a_real_graph(real_data_dir):
    inputs = GraphInputs(ncgnn.load("pubmed", real_data_dir))
    assert products.count_pairs(inputs).sum() == 1_184_067


def test_it_learns_digits():
    digits = ncgnn.load("digits")
    short = ncgnn.fit(digits, "hog", hidden=16, hidden2=16, epochs=5)
    assert len(short.history) == 15
    trained = ncgnn.fit(digits, "hog", hidden=16, hidden2=16, epochs=60, learning_rate=0.01)
    assert trained.evaluate()["scores"]["test"]["accuracy"] > 0.6
