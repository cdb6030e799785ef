"""People's own tables have a preset of their own, for every model."""

import pytest

import ncgnn
from ncgnn.data import read_tables
from ncgnn.experiments.tuning.space import make_search
from ncgnn.nn import model_names
from ncgnn.training import edges_of_tables, make_config, tables_preset

NODES = {"id": list(range(12)), "y": ["a", "b"] * 6, "v": [i * i % 7 for i in range(12)]}
EDGES = {"s": list(range(11)), "t": list(range(1, 12))}
BOTH_WAYS = {"s": [*EDGES["s"], *EDGES["t"]], "t": [*EDGES["t"], *EDGES["s"]]}


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


@pytest.mark.parametrize(("edges", "directed"), [(EDGES, True), (BOTH_WAYS, False)])
def test_a_search_tries_directions_where_there_are_some(edges, directed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ncgnn.save(read_tables(NODES, edges, label="y"), "mine")
    assert edges_of_tables("mine") == ("directed" if directed else "undirected")
    values = make_search(dataset="mine", model="sage").values
    assert values.get("model.direction") == (["separate", "both"] if directed else None)
    assert 0.1 not in values["training.learning_rate"]
    assert "model.direction" not in make_search(dataset="mine", model="mlp").values
    assert "model.direction" not in make_search(dataset="digits", model="sage").values
    fixed = make_search(dataset="mine", model="sage", settings={"direction": "both"}).values
    assert "model.direction" not in fixed
