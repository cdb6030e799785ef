"""Where the runs of a sweep stand, before anything is trained."""

from __future__ import annotations

import pytest
from sweep_cells import hopeless_cells, tiny_cells

import ncgnn
from ncgnn.errors import DataNotFoundError
from ncgnn.experiments import finished_runs, grid, plan, sweep
from ncgnn.report import plan_table
from ncgnn.training import RunFolder, train_run

pytestmark = pytest.mark.usefixtures("in_process")


def test_a_plan_says_where_every_run_stands(tmp_path):
    configs, bad = tiny_cells(), hopeless_cells()
    assert {run.state for run in plan([*configs, *bad], tmp_path)} == {"missing"}
    assert list(tmp_path.iterdir()) == []  # and makes nothing
    sweep([*configs[:2], *bad], tmp_path, workers=1)
    weights = tmp_path / configs[1].name / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    found = plan([*configs, *bad, configs[0]], tmp_path)
    assert [run.config for run in found] == [*configs, *bad]
    assert [run.name for run in found] == [config.name for config in [*configs, *bad]]
    states = [run.state for run in found]
    assert states[:2] == ["finished", "damaged"]
    assert set(states[2 : len(configs)]) == {"missing"}
    assert set(states[len(configs) :]) == {"failed"}
    assert all(bool(run.error) == (run.state in ("damaged", "failed")) for run in found)
    assert "weights.safetensors has changed" in found[1].error


def test_a_plan_as_a_table_counts_runs(tmp_path):
    configs = tiny_cells()
    sweep(configs[:1], tmp_path, workers=1)
    grid = plan_table(plan(configs, tmp_path))
    counts = {row[2]: [int(str(cell)) for cell in row[3:]] for row in grid.rows if row}
    everything = counts.pop("")
    assert everything == [1, 0, 0, 0, 0, len(configs) - 1]
    assert [sum(column) for column in zip(*counts.values(), strict=True)] == everything
    assert set(counts) == {config.model.name for config in configs}


def test_a_run_that_refused_its_input_has_failed(tmp_path):
    configs = grid("digits", "hog", settings={"memory_limit": 1e-9})
    sweep(configs, tmp_path, workers=1)
    (found,) = plan(configs, tmp_path)
    assert found.state == "failed"
    assert "memory" in found.error


def test_a_run_of_another_process_is_running(tmp_path):
    (config, *_) = tiny_cells()
    folder = RunFolder(tmp_path / config.name)
    with folder.lock():  # other handles see it, even in this process
        assert [run.state for run in plan([config], tmp_path)] == ["running"]
    assert [run.state for run in plan([config], tmp_path)] == ["missing"]  # nothing but the lock


def test_a_changed_graph_is_no_finished_run(tmp_path):
    path, runs = tmp_path / "mine.npz", tmp_path / "runs"
    for seed, state in ((0, "finished"), (1, "failed")):
        ncgnn.save(ncgnn.generate(nodes=60, edges=120, classes=3, features=4, seed=seed), path)
        configs = grid(str(path), "mlp", settings={"epochs": 2, "hidden": 4})
        if seed == 0:
            sweep(configs, runs, workers=1)
        (found,) = plan(configs, runs)
        assert (found.state, "has changed since" in found.error) == (state, seed == 1)


def test_nothing_is_downloaded_for_a_plan(tmp_path, monkeypatch):
    """Runs on a graph that is not at hand are shown as they stand."""
    graph = ncgnn.generate(nodes=60, edges=120, classes=3, features=4, seed=0)
    monkeypatch.setattr("ncgnn.experiments.cells.load", lambda *_, **__: graph)
    configs = grid("cora", "mlp", seeds=2, settings={"epochs": 2, "hidden": 4})
    train_run(configs[0], tmp_path / "runs", graph=graph)

    def nowhere(name, data_dir=None, *, download=True):
        assert not download
        assert data_dir == tmp_path
        raise DataNotFoundError(f"{name} is not at hand")

    monkeypatch.setattr("ncgnn.experiments.cells.load", nowhere)
    found = plan(configs, tmp_path / "runs", data_dir=tmp_path)
    assert [run.state for run in found] == ["finished", "missing"]
    assert len(finished_runs(configs, tmp_path / "runs", tmp_path)) == 1


def test_families_have_rows_of_their_own(tmp_path):
    configs = [*tiny_cells(["mlp"], (0,)), *grid("digits", "mlp", split="paper")]
    rows = [row for row in plan_table(plan(configs, tmp_path)).rows if row]
    assert [(row[1], row[-1]) for row in rows] == [("stratified", "1"), ("paper", "1"), ("", "2")]
