from __future__ import annotations

import os
import shutil
import signal
import threading
import time

import psutil
import pytest
from sweep_cells import Notes, contents, hopeless_cells, tiny_cells

from ncgnn.errors import InputError
from ncgnn.experiments import sweep
from ncgnn.experiments.ray import connect

pytest.importorskip("ray", reason="Ray is not installed; pip install 'ncgnn[ray]'")
# Ray leaves sockets and files of its own to the end of the process.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_both_engines_give_the_same_runs_even_if_stopped_and_a_worker_is_killed(tmp_path):
    class Stop(Notes):
        def stop(self):
            return any(p.stat().st_size for p in runs.glob("*/metrics.jsonl"))

    runs, configs = tmp_path / "ray", tiny_cells(epochs=80, patience=80)
    endless = tiny_cells(["mlp"], (0, 1, 2), epochs=100000, patience=100000)
    killed = []
    with connect(None, 2):
        stopped = sweep(endless, runs, engine="ray", workers=2, watcher=Stop())
        assert len(stopped.left) == 3
        assert list(runs.glob("*/checkpoint.safetensors"))
        assert not list(runs.glob(".stop-*"))
        shutil.rmtree(runs)
        killer = threading.Thread(target=kill_one_trainer, args=(runs, killed))
        killer.start()
        result = sweep(configs + hopeless_cells(), runs, engine="ray", workers=2, watcher=Notes())
        killer.join()
    assert killed
    assert len(result.runs) == 4
    (failed,) = result.failed
    sweep(configs, tmp_path / "local", workers=2)
    for path in (tmp_path / "local").iterdir():
        environment = (path / "environment.json").read_bytes()
        assert (runs / path.name / "environment.json").read_bytes() == environment
    shutil.rmtree(failed)
    assert contents(runs) == contents(tmp_path / "local")


def kill_one_trainer(runs, killed):
    """Wait for a cell to be trained, and kill the process that trains it."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        lines = [len(p.read_bytes()) for p in runs.glob("*/metrics.jsonl")]
        if any(lines):
            break
        time.sleep(0.01)
    for process in psutil.Process(os.getpid()).children(recursive=True):
        if any(part.startswith("ray::digits-") for part in process.cmdline()):
            process.send_signal(signal.SIGKILL)
            killed.append(process.pid)
            return


@pytest.mark.slow
def test_a_cluster_of_several_machines_may_lose_one(tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    lost = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()

    def lose_a_machine():
        while not any(p.stat().st_size for p in tmp_path.glob("ray/*/metrics.jsonl")):
            time.sleep(0.01)
        cluster.remove_node(lost, allow_graceful=False)

    configs = tiny_cells(epochs=300, patience=300)
    loser = threading.Thread(target=lose_a_machine)
    loser.start()
    try:
        result = sweep(configs, tmp_path / "ray", engine="ray", address=cluster.address)
    finally:
        loser.join()
        cluster.shutdown()
    assert len(result.runs) == 4
    sweep(configs, tmp_path / "local", workers=2)
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_a_cluster_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="Ray cluster"):
        sweep(tiny_cells(), tmp_path, engine="ray", address="127.0.0.1:1")
