"""People's own tables have a preset of their own, for every model."""

import pytest

import ncgnn
from ncgnn.data import read_tables
from ncgnn.nn import model_names
from ncgnn.training import make_config, tables_preset

NODES = {"id": list(range(12)), "y": ["a", "b"] * 6, "v": [i * i % 7 for i in range(12)]}
EDGES = {"s": list(range(11)), "t": list(range(1, 12))}


@pytest.mark.parametrize("model", model_names())
def test_every_model_takes_the_preset(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ncgnn.save(read_tables(NODES, EDGES, label="y"), "mine")
    config = make_config(dataset="mine", model=model)
    assert config.training.weight_decay == 0
    options = config.model.options
    assert options.get("direction", "separate") == "separate"
    assert options.get("threshold_kind", "attainable") == "attainable"
    assert config.data.dataset == str(tmp_path / "mine")


def test_a_graph_of_tables_in_memory_takes_it_too():
    graph = read_tables(NODES, EDGES, label="y")
    trained = ncgnn.fit(graph, "sage", hidden=4, epochs=2)
    assert trained.config.training.learning_rate == 0.01
    assert trained.config.model.options["direction"] == "separate"
    assert trained.config.model.options["hidden"] == 4
    plain = ncgnn.fit(ncgnn.load("digits"), "sage", hidden=4, epochs=2)
    assert plain.config.model.options["direction"] == "incoming"


def test_edges_without_direction_are_not_told_apart():
    assert "direction" not in tables_preset("sage", directed=False)["model"]
