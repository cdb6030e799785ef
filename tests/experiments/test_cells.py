"""One cell of a sweep: what comes before its run, and how it fails."""

from __future__ import annotations

import json

import pytest
from sweep_cells import contents, tiny_cells

from ncgnn.errors import InputError
from ncgnn.experiments import sweep
from ncgnn.experiments.cells import Cell, work
from ncgnn.nn import MLP, register_model, registry
from ncgnn.training import train_run

pytestmark = pytest.mark.usefixtures("in_process")


def test_a_warm_up_leaves_no_trace_but_time(tmp_path):
    configs = tiny_cells(["mlp"], (0,))
    for warm in (False, True):
        sweep(configs, tmp_path / str(warm), workers=1, warm_up=warm)
    assert contents(tmp_path / "True") == contents(tmp_path / "False")
    assert len(list((tmp_path / "True").iterdir())) == 1


def test_a_warm_up_comes_before_a_run_that_is_not_finished(tmp_path, monkeypatch):
    lengths = []

    def trained(config, runs, **_):
        lengths.append(config.training.epochs)
        return train_run(config, runs)

    monkeypatch.setattr("ncgnn.experiments.cells.train_run", trained)
    (config,) = tiny_cells(["mlp"], (0,))
    cell = Cell(config, tmp_path, warm_up=True)
    with cell.folder.lock():  # another process is at work on it
        assert work(cell).state == "running"
    assert lengths == [config.training.epochs]
    for _ in range(2):
        work(cell)
    assert lengths[1:] == [2, config.training.epochs, config.training.epochs]


def test_want_of_memory_is_said_in_a_sentence_and_asked_again(tmp_path, monkeypatch):
    def greedy(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] can't allocate memory: 1 byte")

    monkeypatch.setattr("ncgnn.experiments.cells.train_run", greedy)
    (config,) = tiny_cells(["mlp"], (0,))
    cell = Cell(config, tmp_path)
    assert work(cell).error == "this does not fit into memory; ask for less."
    assert json.loads((cell.folder / "error.json").read_text())["input"]


def test_no_built_in_model_is_trained_in_place_of_a_local_class(tmp_path, monkeypatch):
    class Mine(MLP):
        """Cannot be imported by other processes."""

    monkeypatch.setattr(registry, "_registered", {})
    register_model(Mine, "mlp", replace=True)
    with pytest.raises(InputError, match="would take the built-in mlp for yours; put a model"):
        sweep(tiny_cells(["mlp"], (0,)), tmp_path, workers=1)
    assert not list(tmp_path.iterdir())
