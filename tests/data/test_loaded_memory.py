"""How much memory loading takes: children of their own, whose peaks are read from /proc."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ncgnn
from ncgnn.data import npz
from ncgnn.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

NODES, WIDTH = 60_000, 256
FEATURES = 4 * NODES * WIDTH

CHILD = """
import json, pathlib, sys
import numpy, torch, ncgnn
from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs

def kib(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

small = ncgnn.load(sys.argv[2])
GraphInputs(small).looped_adjacency
before, peak_before = kib("RssAnon"), kib("VmHWM")
graph = ncgnn.load(sys.argv[1])
loaded = kib("VmHWM") - peak_before
inputs = GraphInputs(graph)
total = float(inputs.features.sum())  # touches every page
print(json.dumps({"own": kib("RssAnon") - before, "peak": loaded, "sum": total}))
if len(sys.argv) > 3:
    sys.stdout.flush()
    sys.stdin.read()
    lines = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    small = ncgnn.generate(nodes=300, edges=900, classes=3, features=4)
    large = ncgnn.generate(nodes=NODES, edges=2 * NODES, classes=3, features=WIDTH)
    found = {"small": folder / "small.npz", "npz": folder / "g.npz", "folder": folder / "g"}
    ncgnn.save(small, found["small"])
    ncgnn.save(large, found["npz"])
    ncgnn.save(large, found["folder"])
    return found | {"sum": float(large.features.sum(dtype=np.float64))}


def run_child(path, places):
    command = [sys.executable, "-c", CHILD, str(path), str(places["small"])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_a_mapped_folder_is_not_copied(places):
    found = run_child(places["folder"], places)
    assert found["own"] < FEATURES / 3
    assert found["sum"] == pytest.approx(places["sum"], rel=1e-3)


def test_an_npz_file_is_unpacked_straight_into_the_arrays_that_stay(places):
    found = run_child(places["npz"], places)
    assert FEATURES < found["own"] < 1.3 * FEATURES
    assert found["peak"] < 1.6 * FEATURES


def test_two_processes_share_the_pages_of_a_folder(places):
    command = [sys.executable, "-c", CHILD, str(places["folder"]), str(places["small"]), "wait"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(command, **pipes) for _ in range(2)]
    try:
        for child in children:
            child.stdout.readline()
        name = str(places["folder"] / "features.npy")
        for child in children:
            mapped = mapping(child.pid, name)
            assert mapped["Rss"] > 0.9 * FEATURES
            assert mapped["Pss"] < 0.6 * mapped["Rss"]  # half of every page
            assert mapped["Private_Dirty"] == 0
    finally:
        for child in children:
            child.communicate("")


def mapping(process, name):
    """Bytes that a process has of a mapped file."""
    lines = iter(Path(f"/proc/{process}/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(name):
            parts = {}
            for fact in lines:
                key, _, value = fact.partition(":")
                if key == "VmFlags":
                    return parts
                parts[key] = int(value.split()[0]) * 1024
    raise AssertionError(f"{name} is not mapped")


def test_arrays_that_a_file_may_not_have_are_read_from_a_folder(places, monkeypatch):
    monkeypatch.setattr(npz, "MOST_BYTES", FEATURES // 2)
    with pytest.raises(InputError, match="more than the"):
        ncgnn.load(places["npz"])
    graph = ncgnn.load(places["folder"])
    assert graph.features.nbytes == FEATURES
    assert not graph.features.flags.writeable


def test_a_fingerprint_is_the_same_from_file_and_folder(places):
    graph = ncgnn.load(places["npz"])
    assert graph.fingerprint == ncgnn.load(places["folder"]).fingerprint
