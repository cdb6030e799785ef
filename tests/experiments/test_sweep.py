from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from sweep_cells import Notes, contents, hopeless_cells, tiny_cells

import ncgnn
from ncgnn._numba import use_threads
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning
from ncgnn.experiments import finished_runs, grid, sweep
from ncgnn.experiments.cells import Cell, fail, work
from ncgnn.nn import MLP
from ncgnn.training import train_run

in_process = pytest.mark.usefixtures("in_process")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A sweep by two workers: its folder, its result, and what a watcher heard."""
    runs, notes = tmp_path_factory.mktemp("trained"), Notes()
    return runs, sweep(tiny_cells(), runs, workers=2, watcher=notes), notes


def test_finished_cells_are_never_trained_again(trained):
    runs, result, first = trained
    configs, second = tiny_cells(), Notes()
    assert [run.config for run in result.runs] == configs
    assert all(run.fresh for run in result.runs)
    assert not result.failed
    assert not result.left
    assert sorted(first.to_do) == sorted(config.name for config in configs)
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}
    again = sweep([*configs, configs[0]], runs, workers=2, watcher=second)
    assert second.to_do == []
    assert second.done_before == 4
    assert not any(run.fresh for run in again.runs)
    assert [run.result for run in again.runs] == [run.result for run in result.runs]
    assert before == {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}


@in_process
def test_the_outcome_is_that_of_runs_one_by_one(trained, tmp_path):
    use_threads(1)
    for config in tiny_cells():
        train_run(config, tmp_path)
    assert contents(trained[0]) == contents(tmp_path)
    assert not train_run(tiny_cells()[0], trained[0]).fresh


@in_process
def test_a_failed_cell_keeps_its_error_and_the_others_go_on(tmp_path):
    bad = hopeless_cells()
    configs = bad + tiny_cells(["mlp"], (1, 2))
    result = sweep(configs, tmp_path, workers=1)
    assert len(result.runs) == 2
    folder = tmp_path / bad[0].name
    assert list(result.failed) == [folder]
    kept = json.loads((folder / "error.json").read_text())
    assert result.failed[folder] == kept["error"]
    assert "TrainingError" in kept["traceback"]
    notes = Notes()
    again = sweep(configs, tmp_path, workers=1, watcher=notes)
    assert again.failed == result.failed
    assert notes.to_do == []
    notes = Notes()
    assert sweep(configs, tmp_path, workers=1, retry_failed=True, watcher=notes).failed
    assert notes.to_do == [bad[0].name]


@in_process
def test_a_cell_that_refuses_its_input_is_asked_again(tmp_path):
    """What was wrong may have been put right since, and asking is cheap."""
    (config,) = grid(["digits"], ["hog"], settings={"epochs": 2, "memory_limit": 1e-6})
    first = sweep([config], tmp_path, workers=1)
    assert "memory" in next(iter(first.failed.values()))
    notes = Notes()
    assert sweep([config], tmp_path, workers=1, watcher=notes).failed == first.failed
    assert notes.to_do == [config.name]


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        (lambda: tiny_cells(device="nowhere"), "nowhere"),
        (lambda: grid(["nosuch"], ["mlp", "gcn"], seeds=3), "nosuch"),
        (lambda: grid(["digits"], ["mlp"], split="published"), "published"),
    ],
)
def test_what_is_wrong_with_all_cells_is_said_once_and_leaves_nothing(tmp_path, configs, words):
    with pytest.raises(NcgnnError, match=words):
        sweep(configs(), tmp_path)
    assert not list(tmp_path.iterdir())


@in_process
def test_another_graph_in_the_same_file_is_noticed(tmp_path):
    path = tmp_path / "mine.npz"
    for seed in (0, 1):
        graph = ncgnn.generate(nodes=60, edges=120, classes=3, features=4, seed=seed)
        ncgnn.save(graph, path)
        configs = grid([str(path)], ["mlp"], settings={"epochs": 2, "hidden": 4})
        if seed == 0:
            assert len(sweep(configs, tmp_path / "runs").runs) == 1
            continue
        with pytest.warns(NcgnnWarning, match="has changed since"):
            assert not finished_runs(configs, tmp_path / "runs")
        for retry in (False, True):
            others = tiny_cells(["mlp"], (0,))
            outcome = sweep([*configs, *others], tmp_path / "runs", retry_failed=retry)
            (error,) = outcome.failed.values()
            assert "has changed since" in error
            assert [run.config for run in outcome.runs] == others


@in_process
def test_another_run_under_a_cells_name_is_noticed(tmp_path):
    other, mine = tiny_cells(["mlp", "gcn"], (0,))
    sweep([other], tmp_path)
    (tmp_path / other.name).rename(tmp_path / mine.name)
    with pytest.warns(NcgnnWarning, match="holds another run"):
        assert not finished_runs([mine], tmp_path)
    outcome = sweep([mine, other], tmp_path)
    assert [run.config for run in outcome.runs] == [other]
    assert f"holds another run, {other.name}" in outcome.failed[tmp_path / mine.name]
    done = work(Cell(mine, tmp_path))
    assert (done.state, "holds another run" in done.error) == ("failed", True)
    assert not (tmp_path / mine.name / "error.json").exists()


def test_the_error_of_a_cell_that_another_process_trains_is_not_written(tmp_path):
    (config,) = tiny_cells(["mlp"], (0,))
    cell = Cell(config, tmp_path)
    with cell.folder.lock():
        assert fail(cell, "no luck").error == "no luck"
        assert not (cell.folder / "error.json").exists()
    fail(cell, "no luck")
    assert (cell.folder / "error.json").exists()


@in_process
def test_a_failure_is_forgotten_when_the_cell_is_trained_after_all(tmp_path):
    (config,) = tiny_cells(["mlp"], (0,))
    folder = tmp_path / config.name
    folder.mkdir()
    (folder / "error.json").write_text(
        '{"format": 1, "error": "the disk was full", "traceback": ""}'
    )
    assert sweep([config], tmp_path).failed == {folder: "the disk was full"}
    assert len(sweep([config], tmp_path, retry_failed=True).runs) == 1
    assert not (folder / "error.json").exists()


@in_process
@pytest.mark.parametrize("damage", ["flip", "cut", "unmark", "drop"])
def test_damaged_cells_are_noticed_and_trained_again(trained, tmp_path, damage):
    configs = tiny_cells()[2:]
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    before = contents(tmp_path)
    folder = tmp_path / configs[0].name
    if damage == "flip":
        body = bytearray((folder / "weights.safetensors").read_bytes())
        body[-1] ^= 1
        (folder / "weights.safetensors").write_bytes(body)
    elif damage == "cut":
        lines = (folder / "metrics.jsonl").read_bytes()
        (folder / "metrics.jsonl").write_bytes(lines[:-9])
    elif damage == "unmark":
        (folder / "done.json").unlink()
    else:
        (folder / "result.json").unlink()
    notes = Notes()
    result = sweep(configs, tmp_path, workers=1, watcher=notes)
    assert notes.to_do == [configs[0].name]
    assert len(result.runs) == 2
    assert contents(tmp_path) == before
    if damage != "unmark":
        assert "trained again" in notes.left[0].warnings[0]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.usefixtures("one_thread")
def test_a_killed_worker_is_replaced_and_its_cell_done(tmp_path):
    killed = []

    def kill_once(cell, state):
        if not killed:
            killed.extend(kill_trainers())

    configs = tiny_cells(seeds=(0,), epochs=100, patience=100)
    notes = Notes(kill_once)
    result = sweep(configs, tmp_path / "killed", workers=2, watcher=notes)
    assert killed
    assert len(result.runs) == 2
    assert len(notes.begun) > 2  # somebody had to begin again
    use_threads(1)
    for config in configs:
        train_run(config, tmp_path / "whole")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_cell_whose_workers_always_die_fails_with_a_remedy(tmp_path):
    configs = tiny_cells(["ncgcn"], (0,), epochs=400, patience=400)
    notes = Notes(lambda cell, state: kill_trainers())
    result = sweep(configs, tmp_path, workers=1, retries=1, watcher=notes)
    ((folder, error),) = result.failed.items()
    assert folder.name == configs[0].name
    assert "2 times" in error
    assert "SIGKILL" in error
    assert "--workers" in error


def kill_trainers():
    """Kill all workers of this process; says which."""
    me = psutil.Process()
    found = [p for p in me.children(recursive=True) if not p.children() and _is_worker(p)]
    for process in found:
        process.send_signal(signal.SIGKILL)
    return found


def _is_worker(process):
    parent = process.parent()
    return parent is not None and "forkserver" in " ".join(parent.cmdline())


@in_process
def test_stopping_keeps_what_was_done_and_the_same_call_goes_on(tmp_path):
    configs = tiny_cells(seeds=range(4))
    result = sweep(configs, tmp_path, workers=1, watcher=Notes(stop_after=2))
    assert 2 <= len(result.runs) < len(configs)
    assert len(result.left) == len(configs) - len(result.runs)
    whole = sweep(configs, tmp_path, workers=1)
    assert len(whole.runs) == len(configs)
    assert not whole.left


def test_a_cell_that_another_process_trains_is_waited_for(tmp_path):
    (config,) = tiny_cells(["mlp"], (0,))
    begun, asked_again = threading.Event(), threading.Event()

    def wait(record):
        begun.set()
        assert asked_again.wait(60)

    other = threading.Thread(target=train_run, args=(config, tmp_path), kwargs={"on_epoch": wait})
    other.start()
    assert begun.wait(60)

    class Again(Notes):
        def on_start(self, cell):
            super().on_start(cell)
            if len(self.begun) > 1:
                asked_again.set()

    result = sweep([config], tmp_path, workers=1, watcher=Again())
    other.join()
    (run,) = result.runs
    assert not run.fresh


def test_workers_leave_when_their_parent_is_gone(tmp_path):
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from sweep_cells import tiny_cells; from ncgnn.experiments import sweep\n"
        "if __name__ == '__main__':\n"
        "    sweep(tiny_cells(epochs=100000, patience=100000), sys.argv[1], workers=2)"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "runs"), str(Path(__file__).parent)]
    )
    while len(list((tmp_path / "runs").glob("*/metrics.jsonl"))) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    children = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    assert list((tmp_path / "runs").glob("*/checkpoint.safetensors"))  # and they saved their state


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from sweep_cells import tiny_cells; from ncgnn.experiments import sweep\n"
        "sweep(tiny_cells(['mlp'], (0,)), sys.argv[1])"
    )
    runs, here = tmp_path / "runs", str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, str(script), str(runs), here], capture_output=True, text=True, timeout=300
    )
    assert done.returncode
    assert "__main__" in done.stderr.strip().splitlines()[-1]
    assert not list(runs.glob("*/error.json"))


@pytest.mark.skipif(os.name != "posix", reason="needs process groups")
@pytest.mark.parametrize(
    ("engine", "number"),
    [
        ("local", signal.SIGINT),
        pytest.param("local", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("local", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("ray", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_saves_the_state(tmp_path, engine, number):
    if engine == "ray":
        pytest.importorskip("ray", reason="Ray is not installed; pip install 'ncgnn[ray]'")
    command = [sys.executable, "-m", "ncgnn", "sweep", "digits", "--models", "ncgcn"]
    command += ["--set", "epochs=100000", "--set", "patience=100000", "--set", "hidden=16"]
    process = subprocess.Popen(
        [*command, "--runs", str(tmp_path), "--engine", engine],
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    while not any(p.stat().st_size for p in tmp_path.glob("*/metrics.jsonl")):
        assert process.poll() is None
        time.sleep(0.05)
    if engine == "local":
        os.killpg(process.pid, number)
    else:  # those of Ray's processes that hear it leave at once
        os.kill(process.pid, number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"the same command continues" in errors
    assert list(tmp_path.glob("*/checkpoint.safetensors"))


@in_process
def test_a_cell_that_cannot_be_written_leaves_the_others_alone(tmp_path):
    configs = tiny_cells(["mlp"], (0, 1))
    (tmp_path / configs[0].name).write_text("in the way")
    result = sweep(configs, tmp_path, workers=1)
    assert [run.config for run in result.runs] == configs[1:]
    assert list(result.failed) == [tmp_path / configs[0].name]
    with pytest.raises(InputError, match="which is a file"):
        sweep(configs, tmp_path / configs[0].name)


@in_process
def test_a_worker_with_another_graph_refuses(tmp_path):
    (config,) = tiny_cells(["mlp"], (0,))
    graph = ncgnn.load("digits")
    hashes = (graph.fingerprint, ncgnn.make_split(graph, "stratified", 0).sha256)
    for wrong in (("other", hashes[1]), (hashes[0], "other")):
        outcome = work(Cell(config, tmp_path, None, 1, *wrong))
        assert outcome.state == "failed"
        assert "is another graph here" in outcome.error
    assert work(Cell(config, tmp_path, None, 1, *hashes)).state == "finished"


@in_process
def test_what_is_damaged_or_of_another_graph_is_told_and_left_out(tmp_path):
    file = tmp_path / "mine.npz"
    ncgnn.save(ncgnn.generate(60, 200, classes=3, features=4), file)
    configs = grid(str(file), "mlp", seeds=1, settings={"epochs": 2, "hidden": 4})
    configs += tiny_cells(["mlp"], (0, 1), epochs=2)
    sweep(configs, tmp_path / "runs")
    ncgnn.save(ncgnn.generate(60, 200, classes=3, features=4, seed=1), file)
    (tmp_path / "runs" / configs[1].name / "metrics.jsonl").write_text("cut")
    with pytest.warns(NcgnnWarning) as told:
        (run,) = finished_runs(configs, tmp_path / "runs")
    assert run.config == configs[2]
    words = "\n".join(str(warning.message) for warning in told)
    assert "mine.npz has changed since" in words
    assert "metrics.jsonl has changed since it was written" in words


@pytest.mark.parametrize(
    "wrong",
    [
        {"retries": -1},
        {"workers": 0},
        {"threads": 0},
        {"engine": "dask"},
        {"address": "here:1"},
        {"address": "here:1", "engine": "ray", "workers": 2},
    ],
)
def test_wrong_arguments(tmp_path, wrong):
    with pytest.raises(InputError):
        sweep(tiny_cells(), tmp_path, **wrong)
    assert not list(tmp_path.iterdir())


class Plain(MLP):
    """A model of one's own."""


def test_a_class_of_ones_own_is_trained_by_workers(tmp_path):
    configs = grid("digits", [Plain, "mlp"], settings={"epochs": 2})
    result = sweep(configs, tmp_path, workers=1)
    assert result.failed == {}
    assert [run.config.model.name for run in result.runs] == ["Plain", "mlp"]


def test_a_class_that_workers_cannot_import_is_an_error_with_a_remedy(tmp_path):
    class Local(MLP):
        """Known to this process alone."""

    result = sweep(grid("digits", Local, settings={"epochs": 2}), tmp_path, workers=1)
    (error,) = result.failed.values()
    assert "a worker process does not know the model Local" in error
    assert "@register_model" in error
