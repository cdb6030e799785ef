"""Models fitted in Python, saved and loaded again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import ncgnn
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.training import DamagedFileError, load_run, make_config, train_run


@pytest.fixture(scope="module")
def graph():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 60)
    features = torch.eye(3)[labels] + 0.1 * torch.randn(60, 3)
    edges = torch.from_numpy(random.integers(0, 60, (2, 240)))
    return Data(x=features, edge_index=edges, y=torch.from_numpy(labels))


@pytest.fixture(scope="module")
def trained(graph):
    return ncgnn.fit(graph, "ncgcn", hidden=8, epochs=15, learning_rate=0.05, scaling="row")


@pytest.mark.parametrize("split", ["stratified", "own"])
def test_a_fitted_model_is_saved_and_loaded_with_its_graph(graph, split, tmp_path):
    parts = split
    if split == "own":
        parts = Split("custom", "custom", None, np.arange(30), np.arange(30, 45), np.arange(45, 60))
    trained = ncgnn.fit(graph, "ncgcn", split=parts, hidden=8, epochs=15, learning_rate=0.05)
    folder = trained.save(tmp_path / "kept")
    loaded = load_run(folder)
    assert loaded.config == trained.config
    assert loaded.graph.name == trained.graph.name
    assert list(loaded.history) == list(trained.history)
    mine, theirs = (one.predict(probabilities=True).table for one in (trained, loaded))
    assert mine.equals(theirs)
    assert loaded.evaluate() == trained.evaluate()
    result = json.loads((folder / "result.json").read_text())
    accuracies = [record["val_accuracy"] for record in trained.history]
    assert result["best_epoch"] == accuracies.index(max(accuracies))
    assert result["scores"]["val"]["accuracy"] == max(accuracies)
    again = loaded.save(tmp_path / "again")
    assert (again / "result.json").read_bytes() == (folder / "result.json").read_bytes()


def test_a_saved_graph_is_guarded_by_a_checksum(trained, tmp_path):
    folder = trained.save(tmp_path / "kept")
    path = folder / "graph.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedFileError, match=r"graph\.npz has changed"):
        load_run(folder)
    path.unlink()
    with pytest.raises(DamagedFileError, match=r"graph\.npz is missing"):
        load_run(folder)


def test_saving_overwrites_nothing(trained, tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match="name a new folder"):
        trained.save(tmp_path)
    with pytest.raises(InputError, match="name a new folder"):
        trained.save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_trained_model_says_what_it_is_in_one_line(trained):
    text = repr(trained)
    assert text.startswith("TrainedModel(ncgcn on ")
    assert "60 nodes, 3 classes; best of 15 epochs" in text
    assert len(text) < 160


def test_a_folder_of_runs_is_no_run(trained, tmp_path):
    trained.save(tmp_path / "one")
    trained.save(tmp_path / "two")
    with pytest.raises(InputError, match="holds runs; name one: one, two"):
        load_run(tmp_path)
    with pytest.raises(InputError, match=r"config\.toml is a file of a run; name .*one\."):
        load_run(tmp_path / "one" / "config.toml")


def test_what_cannot_be_learned_from_is_refused(graph):
    single = Data(x=graph.x, edge_index=graph.edge_index, y=torch.zeros(60, dtype=torch.long))
    with pytest.raises(InputError, match="one class only"):
        ncgnn.fit(single, "gcn")
    short = Data(x=graph.x, edge_index=graph.edge_index, y=graph.y[:50])
    with pytest.raises(InputError, match="y has 50 entries, but x has 60 rows"):
        ncgnn.fit(short, "gcn")


@pytest.mark.parametrize("model", ["ncgcn", "ncsage", "gcn", "sage", "mlp"])
def test_misspelt_options_are_recognised(graph, model):
    from ncgnn.nn import model_class

    with pytest.raises(InputError, match="hiden: there is no such option; did you mean hidden"):
        model_class(model)(3, 2, hiden=4)
    with pytest.raises(InputError, match=r"training.epoch.*did you mean epochs"):
        ncgnn.fit(graph, model, **{"training.epoch": 4})


@pytest.mark.parametrize("wrong", [{"dataset": "texas"}, {"name": "mlp"}, {"model.name": "mlp"}])
def test_graph_and_model_of_a_fit_are_its_first_arguments(graph, wrong):
    with pytest.raises(InputError, match="said by the first two arguments"):
        ncgnn.fit(graph, "gcn", epochs=1, **wrong)


def test_where_the_graph_of_a_run_is(tmp_path):
    one, other = (
        ncgnn.generate(60, 120, classes=2, features=4, seed=seed, name="mine") for seed in (0, 1)
    )
    ncgnn.save(one, tmp_path / "mine.npz")
    config = make_config(dataset=str(tmp_path / "mine.npz"), settings={"hidden": 4, "epochs": 1})
    folder = train_run(config, tmp_path / "runs").folder
    (tmp_path / "mine.npz").rename(tmp_path / "moved.npz")
    with pytest.raises(InputError, match="has moved, give its new place"):
        load_run(folder)
    assert load_run(folder, dataset=str(tmp_path / "moved.npz")).config == config
    ncgnn.save(other, tmp_path / "other.npz")
    with pytest.raises(InputError, match=r"other.npz is not the graph that .* was trained on"):
        load_run(folder, dataset=str(tmp_path / "other.npz"))
