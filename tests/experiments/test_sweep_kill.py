"""A whole sweep, killed without warning again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_cells import contents, tiny_cells

from ncgnn.experiments import sweep

MODELS = ("ncgcn", "gcn", "mlp", "ncsage")
PROGRAM = """
import sys
sys.path[:0] = [sys.argv[1]]
from ncgnn.experiments import sweep
from sweep_cells import tiny_cells

if __name__ == "__main__":
    cells = tiny_cells(("ncgcn", "gcn", "mlp", "ncsage"), range(int(sys.argv[4])), epochs=60)
    sweep(cells, sys.argv[2], engine=sys.argv[3], workers=2)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")


def start(folder, runs, engine, seeds):
    script = folder / "program.py"
    script.write_text(PROGRAM)
    arguments = [str(Path(__file__).parent), str(runs), engine, str(seeds)]
    return subprocess.Popen([sys.executable, str(script), *arguments], start_new_session=True)


def done(runs):
    return len(list(runs.glob("*/done.json")))


def survives(tmp_path, engine, *, seeds, kills):
    """Kill the process group at random moments; the outcome is that of an undisturbed sweep."""
    cells = tiny_cells(MODELS, range(seeds), epochs=60)
    sweep(cells, tmp_path / "whole", workers=2)
    rng, runs = random.Random(5), tmp_path / "killed"
    moments = sorted(rng.sample(range(4 * seeds - 1), kills))
    for moment in moments:
        process = start(tmp_path, runs, engine, seeds)
        while done(runs) <= moment:
            assert process.poll() is None, "the sweep ended before it could be killed"
            time.sleep(0.002)
        time.sleep(rng.random() * 0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    result = sweep(cells, runs, engine=engine, workers=2)
    assert len(result.runs) == done(runs) == len(cells)
    assert not result.failed
    assert not result.left
    assert contents(runs) == contents(tmp_path / "whole")


def test_a_killed_sweep_loses_nothing(tmp_path):
    survives(tmp_path, "local", seeds=1, kills=1)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_sweep_of_forty_cells_killed_five_times_loses_nothing(tmp_path, engine):
    survives(tmp_path, engine, seeds=10, kills=5)
