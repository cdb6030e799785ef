"""Real processes, killed without warning at random moments."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMPARED = ("metrics.jsonl", "result.json", "weights.safetensors", "config.toml", "split.json")
PROGRAM = """
import sys
from pathlib import Path
from ncgnn.training import make_config, train_run
dataset, data_dir, runs, epochs, hidden = sys.argv[1:]
config = make_config(dataset=dataset, settings={"epochs": int(epochs), "hidden": int(hidden)})
run = train_run(config, Path(runs), data_dir=Path(data_dir), checkpoint_seconds=0)
print(run.folder)
"""


def start(dataset, data_dir, runs, epochs, hidden):
    arguments = [dataset, str(data_dir), str(runs), str(epochs), str(hidden)]
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )


def finished(process):
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0
    return output.strip()


def killed_somewhere(process, runs, rng, most_epochs):
    """Kill the process after a random number of further epochs; say whether it was in time."""
    target = lines(runs) + rng.randint(0, most_epochs)
    while process.poll() is None and lines(runs) <= target:
        time.sleep(0.001)
    time.sleep(rng.random() * 0.01)
    in_time = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return in_time


def lines(runs):
    return sum(path.read_bytes().count(b"\n") for path in runs.glob("*/metrics.jsonl"))


def survives(dataset, data_dir, tmp_path, *, kills, epochs, hidden, seed):
    whole = finished(start(dataset, data_dir, tmp_path / "whole", epochs, hidden))
    rng = random.Random(seed)
    runs = tmp_path / "killed"
    hits = 0
    for _ in range(kills):
        process = start(dataset, data_dir, runs, epochs, hidden)
        hits += killed_somewhere(process, runs, rng, epochs // (kills + 1))
    assert hits >= kills - 1, "the processes ended before they could be killed"
    folder = finished(start(dataset, data_dir, runs, epochs, hidden))
    for name in COMPARED:
        assert (Path(whole) / name).read_bytes() == (Path(folder) / name).read_bytes(), name


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_run_resumes_bit_exactly(tmp_path):
    survives("digits", tmp_path, tmp_path, kills=2, epochs=60, hidden=32, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_run_on_a_real_graph_resumes_bit_exactly(real_data_dir, tmp_path, seed):
    survives("squirrel-filtered", real_data_dir, tmp_path, kills=6, epochs=60, hidden=64, seed=seed)


REFIT = """
import sys
from ncgnn.training import refit_run
refit_run(sys.argv[1], checkpoint_seconds=0)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_refit_resumes_bit_exactly(tmp_path):
    whole = Path(finished(start("digits", tmp_path, tmp_path / "whole", 60, 32)))
    killed = tmp_path / "killed"
    shutil.copytree(whole, killed)

    def refit(folder):
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", REFIT, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        )

    finished(refit(whole))
    total = (whole / "refit" / "metrics.jsonl").read_bytes().count(b"\n")
    assert total > 6, "the run is too short to be killed twice"
    hits = sum(killed_at(refit(killed), killed / "refit", total * n // 3) for n in (1, 2))
    assert hits, "the processes ended before they could be killed"
    finished(refit(killed))
    for name in ("weights.safetensors", "metrics.jsonl"):
        one, other = (folder / "refit" / name for folder in (whole, killed))
        assert one.read_bytes() == other.read_bytes(), name
    assert (whole / "result.json").read_bytes() == (killed / "result.json").read_bytes()


def killed_at(process, folder, count):
    """Kill a process that refits when it has written so many lines; say whether it was in time."""
    path = folder / "metrics.jsonl"
    while process.poll() is None:
        if path.is_file() and path.read_bytes().count(b"\n") >= count:
            break
        time.sleep(0.001)
    in_time = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return in_time
