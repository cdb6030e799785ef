"""Batches that are chosen where a run on the whole graph would not fit into memory."""

from __future__ import annotations

import sys

import pytest
from tiny import tiny_config

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.training import auto_run, choose_batches, make_auto, make_config, train_run
from ncgnn.training.choice import CHOSEN

cost = sys.modules["ncgnn.training.cost"]
TOLD = {"hidden": 8, "epochs": 2}


@pytest.fixture
def graph():
    return ncgnn.generate(300, 1800, classes=3, features=12, seed=3)


@pytest.fixture
def place(graph, tmp_path):
    ncgnn.save(graph, tmp_path / "mine.npz")
    return str(tmp_path / "mine.npz")


@pytest.fixture
def memory(monkeypatch):
    """Sets how much memory there is."""

    def there(gib):
        monkeypatch.setattr(cost, "available_gib", lambda: gib)
        monkeypatch.setattr(cost, "used_gib", lambda: 0.0)

    there(0.01)
    return there


def test_what_is_chosen_is_said_and_is_the_run_that_batches_have(graph, place, memory):
    config = make_config(dataset=place, model="gcn", settings=TOLD)
    chosen, choice = choose_batches(config, graph)
    asked = make_config(dataset=place, model="gcn", settings=TOLD | {"batch_size": 1024})
    assert chosen.name == asked.name != config.name
    assert choice.whole == config.name
    assert "in batches of 1,024" in choice.sentence()
    memory(1000.0)
    assert choose_batches(config, graph) == (config, None)


@pytest.mark.parametrize("settings", [{"memory_check": False}, {"batch_size": 77}])
def test_what_was_asked_for_is_not_changed(graph, place, memory, settings):
    config = make_config(dataset=place, model="gcn", settings=TOLD | settings)
    assert choose_batches(config, graph) == (config, None)


def test_what_needs_the_whole_graph_is_refused(graph, memory, monkeypatch, tmp_path):
    class Whole(ncgnn.nn.model_class("gcn")):
        def logits(self, inputs, key):
            return super().logits(inputs, key)

    monkeypatch.setattr(cost, "kind_of", lambda config: "gcn")  # as if it were measured
    with pytest.raises(InputError, match=r"memory_check = false") as refused:
        ncgnn.fit(graph, Whole, **TOLD)
    assert "batch_size" not in str(refused.value)


def test_fit_trains_in_batches_and_says_so(graph, memory):
    with pytest.warns(NcgnnWarning, match=r"gcn needs about .* trained in batches of 1,024"):
        trained = ncgnn.fit(graph, "gcn", **TOLD)
    assert trained.config.training.batch_size == 1024
    assert len(trained.predict()) == graph.num_nodes


def test_the_same_command_goes_on_with_what_it_has_begun(graph, place, memory, tmp_path):
    config = make_config(dataset=place, model="gcn", settings=TOLD)
    batches, choice = choose_batches(config, graph, tmp_path)
    run = train_run(batches, tmp_path, graph=graph, choice=choice)
    memory(1000.0)
    found, again = choose_batches(config, graph, tmp_path)
    assert found.name == batches.name
    assert "were available when it was begun" in again.sentence()
    assert not train_run(found, tmp_path, graph=graph, choice=again).fresh
    (run.folder / CHOSEN).unlink()  # a run in batches that somebody asked for is another thing
    assert choose_batches(config, graph, tmp_path) == (config, None)


def test_a_finished_run_on_the_whole_graph_is_found_with_little_memory(
    graph, place, memory, tmp_path
):
    memory(1000.0)
    config = make_config(dataset=place, model="gcn", settings=TOLD)
    train_run(config, tmp_path, graph=graph)
    memory(0.01)
    assert choose_batches(config, graph, tmp_path) == (config, None)


def test_an_interrupted_run_in_batches_is_continued(graph, place, memory, tmp_path):
    config = make_config(dataset=place, model="gcn", settings=TOLD | {"epochs": 5})
    batches, choice = choose_batches(config, graph, tmp_path)
    told = {"graph": graph, "choice": choice, "checkpoint_seconds": 0}
    asked = []

    def stop():
        asked.append(0)
        return len(asked) == 3

    with pytest.raises(KeyboardInterrupt):
        train_run(batches, tmp_path, stop=stop, **told)
    memory(1000.0)
    found, _ = choose_batches(config, graph, tmp_path)
    assert found.name == batches.name
    resumed = []
    train_run(found, tmp_path, on_resume=resumed.append, **told)
    assert resumed


def test_candidates_of_auto_are_trained_in_batches(graph, place, memory, tmp_path):
    told = {"candidates": ["majority", "mlp", "gcn"], "time": "1h", **TOLD}
    run = auto_run(make_auto(dataset=place, settings=told), tmp_path, graph=graph)
    rows = run.folder / "auto.json"
    assert "gcn, in batches" in rows.read_text()
    assert "failed" not in rows.read_text()


def test_a_damaged_choice_counts_for_nothing(graph, place, memory, tmp_path):
    config = make_config(dataset=place, model="gcn", settings=TOLD)
    batches, choice = choose_batches(config, graph, tmp_path)
    folder = train_run(batches, tmp_path, graph=graph, choice=choice).folder
    (folder / CHOSEN).write_text("{}")
    memory(1000.0)
    assert choose_batches(config, graph, tmp_path) == (config, None)


def test_models_that_were_not_measured_are_not_judged(graph, memory):
    config = tiny_config("linkx")
    assert choose_batches(config, graph) == (config, None)
