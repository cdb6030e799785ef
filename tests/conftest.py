"""Fixtures that several test folders use."""

from __future__ import annotations

import os
from pathlib import Path

import numba
import pytest
import torch
from hypothesis import settings

from ncgnn.errors import sentence
from ncgnn.experiments import cells
from ncgnn.experiments.workers import Event

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores, and threads of one would wait for those of another.
    numba.get_num_threads()  # its first call starts threads, and sets torch's number of them
    torch.set_num_threads(1)
    numba.set_num_threads(1)

# A busy machine is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def real_data_dir() -> Path:
    """Folder of real graphs; tests that need it skip where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("NCGNN_TEST_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real graphs in {folder}; NCGNN_TEST_DATA names another folder")
    return folder


@pytest.fixture(scope="module")
def one_thread():
    """Small tensors gain nothing from threads, which wait for each other on a busy machine."""
    numba.get_num_threads()  # its first call starts threads, and sets torch's number of them
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _threads_stay_as_they_were():
    """Whoever changes the number of threads changes it for one test."""
    threads = numba.get_num_threads(), torch.get_num_threads()
    yield
    numba.set_num_threads(threads[0])
    torch.set_num_threads(threads[1])


class InProcessPool:
    """Has the interface of a ``WorkerPool``, and works on one task after the other right here."""

    def __init__(self, work, workers):
        self.work, self.tasks, self.stopping, self.lost = work, [], False, ""
        cells.load_graph.cache_clear()  # as a new process has loaded nothing

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def room(self, task):
        return 1

    def add(self, task, *, delay=0.0, first=False):
        self.tasks.insert(0 if first else len(self.tasks), task)

    def events(self, stop):
        while self.tasks:
            if stop():
                self.stopping = True
                return
            task, reports = self.tasks.pop(0), []
            yield Event("started", task)
            try:
                end = Event("result", task, self.work(task, reports.append, stop))
            except Exception as error:
                end = Event("error", task, sentence(error))
            yield from (Event("report", task, value) for value in reports)
            yield end


@pytest.fixture
def in_process(monkeypatch):
    """Sweeps and searches without processes, for tests that are not about processes."""
    monkeypatch.setattr("ncgnn.experiments.engines.WorkerPool", InProcessPool)
