"""Training once more on all labels: what it uses, what it leaves alone, and how it survives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from night_tables import night
from tiny import InterruptedRunError, interrupt_at, tiny_config

import ncgnn
from ncgnn.errors import InputError
from ncgnn.training import DamagedFileError, load_run, refit_run, train_run
from ncgnn.training.refit import Schedule

OPTIONS = {"hidden": 8, "epochs": 8}
FILES = ("weights.safetensors", "metrics.jsonl")


@pytest.fixture(scope="module")
def graph():
    return night(0, 120)


@pytest.fixture(scope="module", params=["tuned-sage", "ncgcn", "cpgnn"])
def trained(request, graph):
    return ncgnn.fit(graph, request.param, **OPTIONS)


def weights(model):
    return torch.cat([value.double().reshape(-1) for value in model.model.state_dict().values()])


def test_scores_and_answers_for_labeled_nodes_stay_as_they_are(trained):
    refitted = trained.refit()
    assert refitted.evaluate() == trained.evaluate()
    before, after = trained.predict(), refitted.predict()
    labeled = trained.graph.labels >= 0
    for column in ("predicted", "probability", "seen", "part"):
        assert (before[column] == after[column])[labeled].all(), column
    assert not np.allclose(before["probability"][~labeled], after["probability"][~labeled])
    assert trained.predict(only="test").table == refitted.predict(only="test").table
    assert refitted.predict(refit=False).table == before.table
    own = refitted.refitted.predict(only="unlabeled")
    assert refitted.predict(only="unlabeled").table == own.table


def test_every_label_counts_and_none_of_the_others(trained, graph):
    refitted = trained.refit().refitted
    assert np.array_equal(refitted.split.train, np.flatnonzero(graph.labels >= 0))
    labels = graph.labels.copy()
    node = int(trained.split.test[0])
    labels[node] = 1 - labels[node]
    other = ncgnn.fit(graph, trained.config.model.name, labels=labels, **OPTIONS)
    assert torch.equal(weights(other), weights(trained))
    assert not torch.equal(weights(other.refit().refitted), weights(refitted))


def test_it_goes_as_the_run_went(graph):
    trained = ncgnn.fit(graph, "ncgcn", **OPTIONS)
    schedule, records = Schedule.of(trained), []
    trained.refit(records.append)
    assert len(records) == schedule.epochs == trained.best_epoch + 1
    assert trained.best_epoch in schedule.highs
    # Groups change in the epoch after a new high, and never else.
    sizes = [tuple(record["group_sizes"]) for record in records]
    changed = {epoch for epoch in range(1, len(sizes)) if sizes[epoch] != sizes[epoch - 1]}
    assert changed <= {epoch + 1 for epoch in schedule.highs}


def test_on_the_same_nodes_it_is_the_run_itself(monkeypatch, trained):
    monkeypatch.setattr("ncgnn.training.refit.all_labels", lambda trained: trained.split)
    again = trained.refit().refitted
    assert torch.equal(weights(again), weights(trained))
    assert torch.equal(again.grouping.group, trained.grouping.group)


def test_a_refitted_model_says_what_it_is(trained):
    refitted = trained.refit().refitted
    assert f"all {int((trained.graph.labels >= 0).sum())} labels" in repr(refitted)
    with pytest.raises(InputError, match="no nodes left to evaluate"):
        refitted.evaluate()
    with pytest.raises(InputError, match="all labels already"):
        refitted.refit()


def test_a_start_is_kept_by_the_refit(graph):
    first = ncgnn.fit(graph, "tuned-sage", **OPTIONS)
    warm = ncgnn.fit(graph, "tuned-sage", **OPTIONS, start_from=first)
    cold = ncgnn.fit(graph, "tuned-sage", **OPTIONS)
    state = first.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in warm.start.weights.items())
    assert not torch.equal(weights(warm.refit().refitted), weights(cold.refit().refitted))


def test_it_is_saved_with_the_model(trained, tmp_path):
    refitted = trained.refit()
    loaded = load_run(refitted.save(tmp_path / "kept"))
    assert torch.equal(weights(loaded.refitted), weights(refitted.refitted))
    assert loaded.predict(only="unlabeled").table == refitted.predict(only="unlabeled").table
    assert load_run(tmp_path / "kept", refit=False).refitted is None


def test_an_interrupted_refit_continues_bit_by_bit(tmp_path):
    config = tiny_config(epochs=12)
    runs = [train_run(config, tmp_path / name).folder for name in ("whole", "broken")]
    result = (runs[1] / "result.json").read_bytes()
    refit_run(runs[0])
    for epoch in (1, 3, 3):
        with pytest.raises(InterruptedRunError):
            refit_run(runs[1], on_epoch=interrupt_at(epoch), checkpoint_seconds=0)
        assert load_run(runs[1]).refitted is None
    stops = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        refit_run(runs[1], stop=lambda: next(stops))
    done = refit_run(runs[1])
    for name in FILES:
        whole, broken = (run / "refit" / name for run in runs)
        assert whole.read_bytes() == broken.read_bytes(), name
    assert (runs[1] / "result.json").read_bytes() == result
    assert not (runs[1] / "refit" / "checkpoint.safetensors").exists()
    seconds = done.refitted.seconds
    assert refit_run(runs[1]).refitted.seconds == pytest.approx(seconds)


def test_a_damaged_refit_is_found_out_and_made_again(tmp_path):
    folder = train_run(tiny_config(epochs=3), tmp_path).folder
    refit_run(folder)
    path = folder / "refit" / "weights.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    with pytest.raises(DamagedFileError, match="--refit"):
        load_run(folder)
    load_run(folder, refit=False).evaluate()
    refit_run(folder)
    assert path.read_bytes() == whole


def test_class_shares_are_those_of_validation(graph):
    trained = ncgnn.fit(graph, "gcn", **OPTIONS, class_shares="val")
    offsets = trained.refit().refitted.correction.offsets
    counts = [np.bincount(graph.labels[part], minlength=2) + 1
              for part in (trained.split.val, np.flatnonzero(graph.labels >= 0))]  # fmt: skip
    wanted = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
    assert np.allclose(offsets.numpy(), wanted, atol=1e-6)
