"""When the processes of a sweep die before they begin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_cells import Notes

from ncgnn.errors import NcgnnError
from ncgnn.experiments import workers as _local


class Worker:
    """A process that a pool takes for dead."""

    def __init__(self, code, *, ready=False):
        self.process = SimpleNamespace(join=lambda: None, exitcode=code)
        self.pipe, self.cell, self.ready = SimpleNamespace(close=lambda: None), None, ready


@pytest.mark.parametrize(
    ("code", "deaths", "error"), [(1, 2, "__main__"), (-9, _local.MOST_FALSE_STARTS, "SIGKILL")]
)
def test_processes_that_never_begin_end_a_sweep(code, deaths, error, monkeypatch):
    monkeypatch.setattr(_local._Pool, "_new_worker", lambda self: Worker(code))
    pool = _local._Pool([], Notes(), 1)
    for _ in range(deaths - 1):
        pool._workers = [Worker(code)]
        list(pool._died(pool._workers[0]))
    pool._workers = [Worker(code)]
    with pytest.raises(NcgnnError, match=error):
        list(pool._died(pool._workers[0]))


def test_false_starts_count_from_the_last_process_that_began(monkeypatch):
    monkeypatch.setattr(_local._Pool, "_new_worker", lambda self: Worker(-9))
    pool = _local._Pool([], Notes(), 1)
    for _ in range(3):
        for _ in range(_local.MOST_FALSE_STARTS - 1):
            pool._workers = [Worker(-9)]
            list(pool._died(pool._workers[0]))
        begun = Worker(0)
        begun.pipe.recv = lambda: "ready"
        list(pool._heard(begun))
        assert begun.ready


@pytest.mark.parametrize("command", ["sweep", "tune"])
def test_ctrl_c_while_processes_start_is_no_error(command, tmp_path):
    """A terminal sends it to all processes, also to those that still import."""
    about = ["--datasets", "digits"] if command == "sweep" else ["--dataset", "digits"]
    arguments = [*about, "--set", "epochs=500", "--runs", tmp_path, "--workers", 1]
    process = subprocess.Popen(
        [sys.executable, "-m", "ncgnn", command, *map(str, arguments)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = ""
    while "runs to train" not in said and "trials" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    time.sleep(0.3)  # now the process that starts others imports
    os.killpg(process.pid, signal.SIGINT)
    said += process.communicate()[1]
    assert process.returncode == 130, said
    assert "the same command" in said
    assert "Traceback" not in said


TERMINATED = """
import multiprocessing, sys, time
from sweep_cells import tiny_cells
from ncgnn.experiments import sweep

if __name__ == "__main__":
    sweep(tiny_cells(["mlp"], (0,), epochs=2), sys.argv[1], workers=1)
    process = multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(60,))
    process.start()
    time.sleep(1)
    process.terminate()
    process.join(20)
    print(process.exitcode)
"""


def test_processes_of_others_hear_signals_after_a_sweep(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TERMINATED)
    done = subprocess.run(
        [sys.executable, script, tmp_path / "runs"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.stdout.split() == [str(-signal.SIGTERM)], done.stderr
