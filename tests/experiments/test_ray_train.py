"""One model on several processes of a Ray cluster, which are stopped, killed and continue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import psutil
import pytest
from ray_cluster import wait_until
from sweep_cells import COMPARED

import ncgnn
from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments import training_on_ray
from ncgnn.training import RunFolder, make_config

pytest.importorskip("ray", reason="Ray is not installed; pip install 'ncgnn[ray]'")
pytest.importorskip("pandas", reason="Ray Train is not installed; pip install 'ncgnn[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# Long enough to be stopped and killed on the way.
SETTINGS = {"hidden": 16, "epochs": 150, "patience": 150, "batch_size": 256, "fanout": (5, 5)}


def config(**settings):
    return make_config(dataset="digits", model="ncgcn", settings=SETTINGS | settings)


def kill_one(runs, killed):
    """Kill a process of the group once it has done some epochs more."""

    def size():
        return sum(p.stat().st_size for p in runs.glob("*/metrics.jsonl"))

    before = size()
    wait_until(lambda: size() > before)
    for process in psutil.Process(os.getpid()).children(recursive=True):
        if any("RayTrainWorker" in part for part in process.cmdline()):
            process.kill()
            killed.append(process.pid)
            return


def test_what_is_stopped_and_killed_continues_to_the_same_bits(tmp_path):
    graph, epochs, killed = ncgnn.load("digits"), [], []
    whole, cut = tmp_path / "whole", tmp_path / "cut"

    def stop():
        return any(p.stat().st_size for p in cut.glob("*/metrics.jsonl"))

    with training_on_ray(workers=2) as train:
        undisturbed = train(config(), whole, graph=graph, on_epoch=epochs.append)
        assert [record["epoch"] for record in epochs] == list(range(len(epochs)))
        assert len(epochs) == undisturbed.result["epochs"]
        with pytest.raises(KeyboardInterrupt):
            train(config(), cut, graph=graph, stop=stop)
        (folder,) = cut.glob("digits-*")
        assert (folder / "checkpoint.safetensors").is_file()
        killer = threading.Thread(target=kill_one, args=(cut, killed))
        killer.start()
        with pytest.raises(NcgnnError, match="has lost a process"):
            train(config(), cut, graph=graph)
        killer.join()
        assert killed
        assert not (folder / "error.json").exists()
        assert not RunFolder(folder).is_done()
        resumed = []
        again = train(config(), cut, graph=graph, on_resume=resumed.append)
        assert resumed
        assert again.fresh
        found = train(config(), cut, graph=graph)
        assert not found.fresh
        with pytest.raises(InputError, match="is fitted at once"):
            train(make_config(dataset="digits", model="logistic"), tmp_path, graph=graph)
    assert json.loads((folder / "environment.json").read_text())["processes"] == 2
    for name in COMPARED:
        assert (folder / name).read_bytes() == (undisturbed.folder / name).read_bytes()
    assert not list(cut.glob(".ray-*"))


def test_more_workers_than_there_is_room_for_are_refused(tmp_path):
    import ray

    ray.init("local", num_cpus=1, include_dashboard=False, object_store_memory=80 << 20)
    try:
        with (
            training_on_ray(workers=2) as train,
            pytest.raises(InputError, match="--workers must be at most 1"),
        ):
            train(config(), tmp_path, graph=ncgnn.load("digits"))
    finally:
        ray.shutdown()


def test_the_command(tmp_path):
    command = [sys.executable, "-m", "ncgnn", "train", "digits", "--models", "ncgcn,auto"]
    command += ["--batch-size", "256", "--set", "epochs=4", "--engine", "ray", "--workers", "2"]
    command += ["--runs", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "auto runs in one process" in refused.stderr
    command[command.index("ncgcn,auto")] = "ncgcn"
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["epochs"] == 4
    assert (tmp_path / "latest" / "report.html").is_file()
