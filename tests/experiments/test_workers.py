"""The pool of worker processes: deaths, errors and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments.workers import MOST_FALSE_STARTS, WorkerPool


class FalseStart:
    """Work that ends its process while it is unpickled there; every ``begins``-th process begins.

    Args:
        end: Called with ``how`` to end the process.
        how: An exit code, or a signal.
        tally: File that grows by a byte with every process.
        begins: None lets no process begin.
    """

    def __init__(self, end, how, tally, begins=None):
        self.about = (end, how, tally, begins)

    def __reduce__(self):
        return start_falsely, self.about


def start_falsely(end, how, tally, begins):
    with tally.open("ab") as stream:
        stream.write(b".")
    if begins is None or tally.stat().st_size % begins:
        end(how)
    return echo


def echo(task, report, stop):
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    report(task)
    return task


def events_of(work, *tasks):
    with WorkerPool(work, 1) as pool:
        for task in tasks:
            pool.add(task)
        return [(one.kind, one.task, one.value) for one in pool.events(lambda: False)]


@pytest.mark.parametrize(
    ("end", "how", "starts", "error"),
    [(os._exit, 1, 2, "__main__"), (signal.raise_signal, 9, MOST_FALSE_STARTS, "SIGKILL")],
)
def test_processes_that_never_begin_end_the_work(end, how, starts, error, tmp_path):
    tally = tmp_path / "tally"
    with pytest.raises(NcgnnError, match=error):
        events_of(FalseStart(end, how, tally), 1)
    assert tally.stat().st_size == starts


def test_false_starts_count_from_the_last_process_that_began(tmp_path):
    work = FalseStart(signal.raise_signal, 9, tmp_path / "tally", begins=MOST_FALSE_STARTS)
    heard = events_of(work, "die", "live")
    assert [kind for kind, *_ in heard] == ["started", "died", "started", "report", "result"]
    assert heard[1] == ("died", "die", "by signal SIGKILL")
    assert heard[-1] == ("result", "live", "live")
    assert (tmp_path / "tally").stat().st_size == 2 * MOST_FALSE_STARTS


def fail_at_once(task, report, stop):
    raise InputError(f"{task} is refused.")


def test_an_error_of_the_work_is_told(tmp_path):
    assert events_of(fail_at_once, 1)[-1] == ("error", 1, "1 is refused.")


@pytest.mark.parametrize("command", ["sweep", "tune"])
def test_ctrl_c_while_processes_start_is_no_error(command, tmp_path):
    """A terminal sends it to all processes, also to those that still import."""
    arguments = ["digits", "--set", "epochs=500", "--runs", tmp_path, "--workers", 1]
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


class Unreadable:
    """A task that no process can unpickle."""

    def __reduce__(self):
        return import_module, ("no_such_module",)


def test_a_task_that_cannot_be_read_is_an_error_and_the_next_one_is_done():
    events = events_of(echo, Unreadable(), "next")
    (error,) = [value for kind, _, value in events if kind == "error"]
    assert "no_such_module" in error
    assert "register_model" in error
    assert ("result", "next", "next") in events
