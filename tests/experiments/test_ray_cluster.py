"""Sweeps and searches on a cluster of two nodes, of which one is lost, and refused connections."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from ray_cluster import cluster, other_node, wait_until, workers
from sweep_cells import contents, tiny_cells

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.experiments import Watcher, sweep, tune
from ncgnn.experiments.engines import Engine, needs_of
from ncgnn.experiments.ray import Needs, RayPool, connect
from ncgnn.experiments.tuning.storage import SearchError
from ncgnn.training import make_config

kit = pytest.importorskip("ray", reason="Ray is not installed; pip install 'ncgnn[ray]'")
# Processes of a cluster cannot import this module.
kit.cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = [
    pytest.mark.slow,
    # Ray leaves sockets and files of its own to the end of the process.
    pytest.mark.filterwarnings("ignore"),
]
LONG = {"epochs": 200, "patience": 200}


class Doing(Watcher):
    """Does something once, in a thread, when tasks are at work on both nodes."""

    def __init__(self, name, do):
        self.nodes = set()
        self.thread = threading.Thread(target=self.wait_and_do, args=(name, do))
        self.thread.start()

    def wait_and_do(self, name, do):
        def on_both():
            self.nodes |= workers(name).keys()
            return len(self.nodes) == 2

        wait_until(on_both)
        do()


def test_a_sweep_runs_on_both_nodes_and_may_lose_one(tmp_path):
    runs, configs = tmp_path / "ray", tiny_cells(**LONG)

    def lose_one():
        wait_until(lambda: sum(p.stat().st_size > 0 for p in runs.glob("*/metrics.jsonl")) >= 2)
        nodes.remove_node(other_node(nodes), allow_graceful=False)

    with cluster() as nodes:
        watcher = Doing("digits-", lose_one)
        result = sweep(configs, runs, engine="ray", address=nodes.address, watcher=watcher)
        watcher.thread.join()
    assert len(watcher.nodes) == 2
    assert len(result.runs) == 4
    sweep(configs, tmp_path / "local", workers=2)
    assert contents(runs) == contents(tmp_path / "local")


def test_a_sweep_that_loses_the_node_of_its_driver_is_interrupted(tmp_path):
    runs = tmp_path / "ray"
    configs = tiny_cells(["mlp", "gcn"], (0, 1, 2), epochs=100_000, patience=100_000)

    def lose_it():
        wait_until(lambda: sum(p.stat().st_size > 0 for p in runs.glob("*/metrics.jsonl")) >= 2)
        nodes.head_node.kill_raylet()

    with cluster() as nodes:
        watcher = Doing("digits-", lose_it)
        with pytest.warns(NcgnnWarning, match="the Ray cluster is lost"):
            result = sweep(configs, runs, engine="ray", address=nodes.address, watcher=watcher)
        watcher.thread.join()
        # What was at work saves its state, as it has lost the driver's mailbox.
        wait_until(lambda: not workers("digits-"))
    assert not result.runs
    assert not result.failed
    assert {cell.state for cell in result.cells} == {"interrupted", "missing"}
    assert len(result.left) == 6
    assert not list(runs.glob("*/error.json"))
    assert list(runs.glob("*/checkpoint.safetensors"))


def rows(folder):
    with (folder / "trials.csv").open() as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "g.npz"
    ncgnn.save(ncgnn.generate(300, 900, classes=3, features=8, seed=1), path)
    return str(path)


def search(graph, runs, **options):
    given = {"trials": 4, "settings": {"hidden": 16, "epochs": 5}, "evaluate_seeds": 0}
    return tune(graph, "mlp", runs=runs, **(given | options))


def test_one_worker_of_either_engine_finds_the_same(graph, tmp_path):
    several = {"trials": 8, "settings": {"hidden": 16, "epochs": 30, "patience": 30}}
    ours = search(graph, tmp_path / "ray", engine="ray", workers=1, evaluate_seeds=2, **several)
    local = search(graph, tmp_path / "local", workers=1, evaluate_seeds=2, **several)
    without_time = [
        [{key: row[key] for key in row if key != "seconds"} for row in rows(one.folder)]
        for one in (ours, local)
    ]
    assert without_time[0] == without_time[1]
    assert len(without_time[0]) == 8
    for name in ("result.json", "weights.safetensors", "metrics.jsonl"):
        pairs = zip(ours.runs, local.runs, strict=True)
        assert all(
            (a.folder / name).read_bytes() == (b.folder / name).read_bytes() for a, b in pairs
        )


def test_a_stopped_search_continues_with_either_engine(graph, tmp_path):
    runs = tmp_path / "runs"
    long = {"settings": {"hidden": 16, "epochs": 300, "patience": 300}, "trials": 2}

    class Stop(Watcher):
        def stop(self):
            return any(p.stat().st_size for p in runs.glob("tune-*/trials/*/*/metrics.jsonl"))

    with pytest.raises(KeyboardInterrupt):
        search(graph, runs, engine="ray", workers=1, watcher=Stop(), **long)
    assert list(runs.glob("tune-*/trials/*/*/checkpoint.safetensors"))
    assert not list(runs.glob("tune-*/locks/*"))
    continued = search(graph, runs, workers=1, **long)
    whole = search(graph, tmp_path / "whole", workers=1, **long)
    scores = [[row["val_accuracy"] for row in rows(one.folder)] for one in (continued, whole)]
    assert scores[0] == scores[1]


def test_a_search_runs_on_both_nodes_and_may_lose_one(graph, tmp_path):
    runs = tmp_path / "runs"
    trials = {"trials": 5, "settings": {"hidden": 16, "epochs": 300, "patience": 300}}

    def lose_one():
        nodes.remove_node(other_node(nodes), allow_graceful=False)

    with cluster() as nodes:
        watcher = Doing("tune-", lose_one)
        result = search(graph, runs, engine="ray", address=nodes.address, watcher=watcher, **trials)
        watcher.thread.join()
    assert len(watcher.nodes) == 2
    assert result.state.done == 5
    assert result.state.failed == 0
    assert not list((result.folder / "trials").iterdir())


def test_a_search_that_loses_the_node_of_its_driver_says_so_and_continues(graph, tmp_path):
    runs = tmp_path / "runs"
    trials = {"trials": 3, "settings": {"hidden": 16, "epochs": 600, "patience": 600}}
    with cluster() as nodes:
        watcher = Doing("tune-", nodes.head_node.kill_raylet)
        with pytest.raises(SearchError, match="the Ray cluster is lost"):
            search(graph, runs, engine="ray", address=nodes.address, watcher=watcher, **trials)
        watcher.thread.join()
        wait_until(lambda: not workers("tune-"))
    result = search(graph, runs, workers=2, **trials)
    assert result.state.done == 3
    assert result.state.failed == 0


def gpu_of(task, report, stop):
    report(os.environ.get("CUDA_VISIBLE_DEVICES"))
    return task


def busy(task, report, stop):
    while not stop():
        pass
    return "stopped"


def dies(task, report, stop):
    report("begun")
    os.kill(os.getpid(), signal.SIGKILL)


def events_of(pool, *tasks, stop=lambda: False):
    with pool:
        for task in tasks:
            pool.add(task)
        return [(one.kind, one.task, one.value) for one in pool.events(stop)]


def test_tasks_ask_for_what_they_need(tmp_path):
    def pool(work, **needs):
        return RayPool(work, lambda task: Needs(f"task-{task}", **needs), cores=4, address=None)

    with connect(None, 4) as ray:
        memory = min(node["Resources"]["memory"] for node in ray.nodes())
        with pool(gpu_of, memory=int(memory * 0.4)) as one:
            assert one.room("a") == 2  # of four, by cores
        with pytest.raises(InputError, match="no node of the Ray cluster with 1 cores has a GPU"):
            events_of(pool(gpu_of, gpus=1), "a")
        with pytest.raises(InputError, match="--threads must be at most 4"):
            events_of(pool(gpu_of, threads=5), "a")
        # More memory than there is anywhere is for the run itself to refuse.
        assert events_of(pool(gpu_of, memory=2**60), "a")[-1] == ("result", "a", "a")
        heard = events_of(pool(dies), "a")
        assert [kind for kind, *_ in heard] == ["started", "report", "died"]
        begun = []

        def stop():
            return len(begun) > 2

        with pool(busy) as several:
            for number in range(6):
                several.add(number)
            ends = []
            for event in several.events(stop):
                (begun if event.kind == "started" else ends).append(event)
        assert {event.value for event in ends} == {"stopped"}
        assert len(ends) == len(begun) <= 4  # the others were dropped


def test_a_gpu_is_given_to_the_task_that_asks_for_one():
    import ray

    ray.init("local", num_cpus=2, num_gpus=2, include_dashboard=False, object_store_memory=80 << 20)
    try:
        config = make_config(dataset="digits", model="mlp", device="cuda")
        needs = needs_of(config, ncgnn.load("digits"), 1, "digits")
        assert needs == Needs("digits", 1, 0, 1)
        pool = RayPool(gpu_of, lambda _: needs, cores=2, address=None)
        heard = events_of(pool, "a")
    finally:
        ray.shutdown()
    assert ("report", "a", "0") in heard or ("report", "a", "1") in heard


def test_needs_are_estimated_where_that_is_possible():
    graph = ncgnn.load("digits")
    known = needs_of(make_config(dataset="digits", model="ncgcn"), graph, 2, "digits")
    assert known.threads == 2
    assert 2**28 < known.memory < 2**31
    unknown = make_config(dataset="digits", model="h2gcn")
    assert needs_of(unknown, graph, 1, "digits") == Needs("digits", 1, 0, 0)
    with pytest.raises(InputError, match="device must be cuda with --engine ray"):
        Engine("ray").check_devices(["cuda:1"])


CLUSTER = """
import sys
from ray.cluster_utils import Cluster
options = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
nodes = Cluster(initialize_head=True, head_node_args=options)
print(nodes.address, flush=True)
sys.stdin.read()
nodes.shutdown()
"""


def test_a_wrong_token_is_one_sentence(tmp_path):
    environment = os.environ | {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
    right, wrong = (
        environment | {"RAY_AUTH_TOKEN": "a" * 32},
        environment | {"RAY_AUTH_TOKEN": "b" * 32},
    )
    script = [sys.executable, "-c", CLUSTER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(script, env=right, **pipes) as process:
        address = process.stdout.readline().strip()
        command = [sys.executable, "-m", "ncgnn", "sweep", "digits", "--models", "mlp"]
        command += ["--set", "epochs=3", "--engine", "ray", "--address", address]
        command += ["--runs", str(tmp_path)]
        said = [
            subprocess.run(command, env=one, capture_output=True, text=True)
            for one in (wrong, os.environ | {"RAY_AUTH_MODE": "disabled"}, right)
        ]
        process.stdin.close()
    for refused in said[:2]:
        assert refused.returncode != 0
        last = refused.stderr.strip().splitlines()[-1]
        assert f"the Ray cluster '{address}' refuses the token of this process" in last
        assert "Traceback" not in refused.stderr
    assert said[2].returncode == 0, said[2].stderr


def test_a_cluster_of_another_version_is_one_sentence(tmp_path):
    from ray.experimental import internal_kv

    with cluster() as nodes:
        address = nodes.address
        with connect(nodes.address, 1) as ray:
            python = ".".join(map(str, sys.version_info[:3]))
            old = json.dumps({"ray_version": "2.0.0", "python_version": python}).encode()
            place = {"overwrite": True, "namespace": b"cluster"}
            internal_kv._internal_kv_put(b"CLUSTER_METADATA", old, **place)
            ours = ray.__version__
        with pytest.raises(InputError) as caught:
            sweep(tiny_cells(), tmp_path, engine="ray", address=nodes.address)
        # Ray takes a node for its own that it was refused by, and would not end it.
        kit._private.worker.global_worker.node = None
    assert str(caught.value) == (
        f"cannot use the Ray cluster '{address}': it runs Ray 2.0.0 on Python {python}, and "
        f"this process Ray {ours} on Python {python}; install the same versions."
    )
