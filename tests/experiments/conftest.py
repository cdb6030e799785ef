"""Sweeps and searches without processes, for tests that are not about processes."""

from __future__ import annotations

import numba
import pytest
import torch

from ncgnn.errors import sentence
from ncgnn.experiments import cells
from ncgnn.experiments.workers import Event


class InProcessPool:
    """Has the interface of a ``WorkerPool``, and works on one task after the other right here."""

    def __init__(self, work, workers):
        self.work, self.tasks, self.stopping = work, [], False
        cells._load.cache_clear()  # as a new process has loaded nothing

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

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
    threads = numba.get_num_threads(), torch.get_num_threads()
    for module in ("sweeps", "tuning.search"):
        monkeypatch.setattr(f"ncgnn.experiments.{module}.WorkerPool", InProcessPool)
    yield
    numba.set_num_threads(threads[0])
    torch.set_num_threads(threads[1])
