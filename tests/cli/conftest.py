from __future__ import annotations

from collections import deque

import pytest

import ncgnn.report
from ncgnn.experiments import sweeps
from ncgnn.experiments.tuning import search
from ncgnn.experiments.workers import Event


class InProcess:
    """Stands for the pool of worker processes: works on one task after the other, here."""

    def __init__(self, work, workers):
        self._work, self._tasks, self.stopping = work, deque(), False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def add(self, task, *, delay=0.0, first=False):
        self._tasks.append(task)

    def events(self, stop):
        while self._tasks:
            task = self._tasks.popleft()
            yield Event("started", task)
            reports = []
            try:
                kind, value = "result", self._work(task, reports.append, stop)
            except Exception as error:
                kind, value = "error", str(error)
            yield from (Event("report", task, one) for one in reports)
            yield Event(kind, task, value)


@pytest.fixture
def quick(monkeypatch):
    """Train without worker processes and without drawing a report of every run."""
    monkeypatch.setattr(sweeps, "WorkerPool", InProcess)
    monkeypatch.setattr(search, "WorkerPool", InProcess)
    monkeypatch.setattr(ncgnn.report, "write_run_report", lambda folder: [])
