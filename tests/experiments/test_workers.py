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
from ncgnn.experiments import workers
from ncgnn.experiments.workers import WorkerPool


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
    [(os._exit, 1, 2, "__main__"), (signal.raise_signal, 9, 3, "SIGKILL")],
)
def test_processes_that_never_begin_end_the_work(end, how, starts, error, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MOST_FALSE_STARTS", 3)
    tally = tmp_path / "tally"
    with pytest.raises(NcgnnError, match=error):
        events_of(FalseStart(end, how, tally), 1)
    assert tally.stat().st_size == starts


def test_false_starts_count_from_the_last_process_that_began(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MOST_FALSE_STARTS", 3)
    work = FalseStart(signal.raise_signal, 9, tmp_path / "tally", begins=3)
    heard = events_of(work, "die", "live")
    assert [kind for kind, *_ in heard] == ["started", "died", "started", "report", "result"]
    assert heard[1] == ("died", "die", "by signal SIGKILL")
    assert heard[-1] == ("result", "live", "live")
    assert (tmp_path / "tally").stat().st_size == 2 * 3


def fail_at_once(task, report, stop):
    raise InputError(f"{task} is refused.")


def test_an_error_of_the_work_is_told(tmp_path):
    assert events_of(fail_at_once, 1)[-1] == ("error", 1, "1 is refused.")


@pytest.mark.parametrize("command", ["sweep", pytest.param("tune", marks=pytest.mark.slow)])
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
import multiprocessing, time
from test_workers import events_of, echo

if __name__ == "__main__":
    assert len(events_of(echo, 1)) == 3
    process = multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join(20)
    print(process.exitcode)
"""


def test_processes_of_others_hear_signals_afterwards(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TERMINATED)
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
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
