"""CPGNN against dense formulas, and its two stages of training."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph
from torch.nn.functional import cross_entropy

import ncgnn
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.base import Phase
from ncgnn.nn.baselines.cpgnn import CPGNN, fill_missing_rows, make_doubly_stochastic
from ncgnn.training.config import TrainingConfig
from ncgnn.training.folder import load_checkpoint, save_checkpoint
from ncgnn.training.trainer import Trainer


def made(**options):
    return make(lambda: CPGNN(16, CLASSES, hidden=6, **options))


def undirected(drawn):
    return torch.maximum(drawn.A, drawn.A.t())


def chebyshev_matrices(A):
    """T₀, T₁ and T₂ of L_sym - I, from the matrices themselves."""
    degree = A.sum(1)
    scale = torch.where(degree > 0, degree.clamp_min(1) ** -0.5, 0)
    shifted = -scale[:, None] * A * scale
    unit = torch.eye(len(A), dtype=A.dtype)
    return unit, shifted, 2 * shifted @ shifted - unit


def dense_prior(weights, A, X):
    T = chebyshev_matrices(A)
    hidden = sum(T[m] @ X @ weights[f"first.{m}"] for m in range(3)).clamp_min(0)
    return sum(T[k] @ hidden @ weights[f"second.{k}"] for k in range(3))


def dense_logits(weights, A, X, steps=1):
    first = dense_prior(weights, A, X).softmax(1) - 1 / CLASSES
    beliefs = first
    for _ in range(steps):
        beliefs = first + A @ beliefs @ weights["compatibility"]
    return beliefs + 1 / CLASSES


def weights_of(model):
    return {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_logits_and_gradients_are_those_of_the_formula(directed, sparse, steps):
    drawn = drawn_graph(2, directed=directed, sparse=sparse)
    model = made(steps=steps)
    weights = weights_of(model)
    expected = dense_logits(weights, undirected(drawn), drawn.X, steps)
    found = model(drawn.inputs())
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(expected)
    found.backward(gradient)
    expected.backward(gradient)
    for name, parameter in model.named_parameters():
        assert (parameter.grad - weights[name].grad).abs().max() < 1e-9, name
        assert weights[name].grad.abs().max() > 0


@pytest.mark.parametrize("sparse", [True, False])
def test_the_first_stage_gives_the_prior(sparse):
    drawn = drawn_graph(3, sparse=sparse)
    model, inputs = made(), drawn.inputs()
    train = torch.arange(5)
    model.begin_phase(0, inputs, train, inputs.labels[train])
    weights = weights_of(model)
    expected = dense_prior(weights, undirected(drawn), drawn.X)
    found = model(inputs)
    assert (found - expected).abs().max() < 1e-9
    assert model.extra_loss(train, inputs.labels[train]) == 0
    found.square().sum().backward()
    expected.square().sum().backward()
    for name, parameter in model.named_parameters():
        if name != "compatibility":
            assert (parameter.grad - weights[name].grad).abs().max() < 1e-9
    assert model.compatibility.grad is None


def test_dropout_is_after_the_hidden_layer_and_off_by_default():
    inputs = drawn_graph(2).inputs()
    plain = made()
    assert torch.equal(plain(inputs, None, DropoutKey(0, 1)), plain(inputs))
    dropping = made(dropout=0.5)
    assert torch.equal(dropping(inputs), plain(inputs))
    assert not torch.equal(dropping(inputs, None, DropoutKey(0, 1)), dropping(inputs))


def test_the_penalty_and_the_term_of_the_paper():
    drawn = drawn_graph(2)
    inputs, train = drawn.inputs(), torch.tensor([0, 3, 4, 7])
    labels = inputs.labels[train]
    model = made(row_penalty=0.5, cotraining=2.0).train()
    weights = weights_of(model)
    model(inputs)
    found = model.extra_loss(train, labels)
    prior = dense_prior(weights, undirected(drawn), drawn.X)
    rows = sum(abs(sum(row)) for row in weights["compatibility"])
    expected = 0.5 * rows + 2 * cross_entropy(prior[train], labels)
    assert (found - expected).abs() < 1e-9
    found.backward()
    expected.backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad - weights[name].grad).abs().max() < 1e-9
    with pytest.raises(InputError, match="a training pass of the model right before it"):
        model.extra_loss(train, labels)
    released = made().train()
    released(inputs)
    total = released.compatibility.sum(1).abs().sum()
    assert torch.equal(released.extra_loss(train, labels), total)


def first_compatibility(A, beliefs, train, labels):
    """The steps of the initial value, one node and one entry after another."""
    Y = beliefs.clone()
    for node, label in zip(train, labels, strict=True):
        Y[node] = 0
        Y[node, label] = 1
    known = {}
    for c in range(CLASSES):
        rows = []
        for node, label in zip(train, labels, strict=True):
            if label == c:
                near = [Y[j].numpy() for j in range(len(A)) if A[node, j]]
                rows.append(sum(near, np.zeros(CLASSES)) / max(1, len(near)))
        if any(row.any() for row in rows):
            known[c] = np.mean(rows, axis=0)
    H = np.full((CLASSES, CLASSES), 1 / CLASSES)
    for c in range(CLASSES):
        for other in range(CLASSES):
            if c in known:
                H[c, other] = known[c][other]
            elif other in known:
                H[c, other] = known[other][c]
    for _ in range(3000):
        H = H / H.sum(0)
        H = H / H.sum(1)[:, None]
    return torch.from_numpy((H + H.T) / 2 - 1 / CLASSES), set(known)


@pytest.mark.parametrize("seed", [2, 4])
def test_the_second_stage_begins_with_the_compatibility_of_beliefs(seed):
    drawn = drawn_graph(seed, nodes=20)
    model, inputs = made(), drawn.inputs()
    train = torch.arange(0, 20, 2)  # node 18 has no neighbours
    labels = torch.arange(10) % CLASSES
    model.begin_phase(0, inputs, train, labels)
    before = weights_of(model)
    beliefs = dense_prior(before, undirected(drawn), drawn.X).softmax(1).detach()
    model.begin_phase(1, inputs, train, labels)
    expected, known = first_compatibility(undirected(drawn), beliefs, train, labels)
    assert len(known) == CLASSES
    assert (model.compatibility - expected).abs().max() < 1e-7
    assert model.compatibility.sum(1).abs().max() < 1e-7
    for name, parameter in model.named_parameters():
        assert name == "compatibility" or torch.equal(parameter, before[name])


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        ([0] * 10, {0}),
        ([0, 1] * 5, {0, 1}),
        ([1, 2] * 5, {1, 2}),
        ([0] * 9 + [2], {0}),  # the one node of class 2 has no neighbours
        ([0, 1] * 4 + [0, 2], {0, 1}),
    ],
)
def test_classes_of_which_training_nodes_tell_nothing(labels, known):
    drawn = drawn_graph(2, nodes=20)
    model, inputs = made(), drawn.inputs()
    train, labels = torch.arange(0, 20, 2), torch.tensor(labels)  # node 18 has no neighbours
    beliefs = dense_prior(weights_of(model), undirected(drawn), drawn.X).softmax(1).detach()
    model.begin_phase(1, inputs, train, labels)
    expected, found_known = first_compatibility(undirected(drawn), beliefs, train, labels)
    assert found_known == known
    assert (model.compatibility - expected).abs().max() < 1e-7
    assert expected.abs().max() > 1e-6


def test_rows_that_lack_are_taken_from_columns():
    matrix = torch.tensor([[0.5, 0.2, 0.3], [0, 0, 0], [0, 0, 0]], dtype=torch.float64)
    third = 1 / 3
    expected = torch.tensor([[0.5, 0.2, 0.3], [0.2, third, third], [0.3, third, third]])
    assert torch.allclose(fill_missing_rows(matrix), expected.double())


def test_scaling_of_rows_and_columns():
    matrix = torch.rand(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scaled = make_doubly_stochastic(matrix)
    assert (scaled.sum(0) - 1).abs().max() < 1e-8
    assert (scaled.sum(1) - 1).abs().max() < 1e-8
    ratios = scaled / matrix  # an outer product, so that only rows and columns were scaled
    assert torch.allclose(ratios * ratios[0, 0], ratios[:, :1] * ratios[:1])
    assert (make_doubly_stochastic(matrix, iterations=1).sum(0) - 1).abs().max() > 1e-3
    empty = matrix.clone()
    empty[:, 1] = 0
    assert make_doubly_stochastic(empty).isfinite().all()


def test_zeros_that_allow_no_scaling():
    """Two rows have one column between them, so that no scaling gives that column a sum of 1."""
    matrix = torch.tensor([[1.0, 1, 2], [1, 0, 0], [3, 0, 0]], dtype=torch.float64)
    found = make_doubly_stochastic(matrix)
    expected = torch.tensor([[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]], dtype=torch.float64)
    assert (found - expected).abs().max() < 1e-12
    # It ends when it no longer changes: the first entry would go on to become smaller.
    assert torch.equal(found, make_doubly_stochastic(matrix, iterations=100))
    assert found[0, 0] > 0


def test_stages_and_groups_of_parameters():
    model = made()
    prior, beliefs = Phase("prior", 400, 100), Phase("beliefs", 500, 100, beats_earlier=True)
    assert model.phases(500, 100) == (prior, beliefs)
    assert made(alone=True).phases(500, 100)[1] == Phase("beliefs", 500, 100)
    assert model.phases(7, 3)[0] == Phase("prior", 7, 3)
    assert made(pretraining=2).phases(7, 3)[0].epochs == 2
    kernels, compatibility = model.parameter_groups(0.25)
    assert kernels["weight_decay"] == 0.25
    assert len(kernels["params"]) == 6
    assert compatibility["weight_decay"] == 0
    assert compatibility["params"] == [model.compatibility]


def trainer(*, alone=True):
    inputs = drawn_graph(5, nodes=30).inputs()
    split = Split("custom", "custom", None, *(np.arange(start, 30, 3) for start in range(3)))
    model = made(cotraining=0.5, alone=alone)
    return Trainer(model, inputs, split, TrainingConfig(epochs=6, patience=4, learning_rate=0.05))


def test_training_goes_through_both_stages_and_on_from_a_checkpoint(tmp_path):
    whole, records = trainer(), []
    whole.run(records.append)
    names = [record["phase"] for record in records]
    assert set(names) == {"prior", "beliefs"}
    assert names == sorted(names, reverse=True)
    assert int(whole.model.stage) == 1
    for end in (2, names.index("beliefs"), names.index("beliefs") + 1):
        interrupted = trainer()
        for _ in range(end):
            interrupted.epoch()
        save_checkpoint(tmp_path / "state", interrupted, {})
        resumed = trainer()
        load_checkpoint(tmp_path / "state", resumed)
        resumed.run()
        for name, value in resumed.model.state_dict().items():
            assert torch.equal(value, whole.model.state_dict()[name]), name
    fresh = made()
    fresh.load_state_dict(whole.model.state_dict())
    assert torch.equal(fresh(whole.inputs), whole.model.eval()(whole.inputs))


def test_a_second_stage_that_does_not_beat_the_first_is_not_used():
    staged, records = trainer(alone=False), []
    staged.run(records.append)
    names = [record["phase"] for record in records]
    best = max(records, key=lambda record: record["val_accuracy"])
    assert staged.state.best_epoch == best["epoch"]
    assert int(staged.model.stage) == ("prior", "beliefs").index(best["phase"])
    assert best["phase"] == "prior", "beliefs are better here: nothing was tested"
    assert names.count("beliefs") == 4  # patience counts from where the stage begins
    with torch.no_grad():
        expected = staged.model.prior(staged.inputs)
        assert torch.equal(staged.model.eval()(staged.inputs), expected)


def test_copies_and_pickles_between_forward_and_loss():
    inputs = drawn_graph(2).inputs()
    model = made(cotraining=1.0).train()
    expected = model(inputs)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(InputError, match="a training pass"):
            other.extra_loss(torch.arange(3), inputs.labels[:3])
        assert torch.equal(other(inputs), expected)
    model.eval()(inputs)
    model.extra_loss(torch.arange(3), inputs.labels[:3])  # what the forward pass left is still here


def test_it_learns_digits():
    digits = ncgnn.load("digits")
    short = ncgnn.fit(digits, "cpgnn", hidden=16, epochs=5)
    assert len(short.history) == 10
    trained = ncgnn.fit(digits, "cpgnn", hidden=16, epochs=40, pretraining=30)
    assert trained.evaluate()["scores"]["test"]["accuracy"] > 0.6
