from __future__ import annotations

import pytest

import ncgnn.report


@pytest.fixture
def quick(monkeypatch, in_process):
    """Train without worker processes and without drawing a report of every run."""
    monkeypatch.setattr(ncgnn.report, "write_run_report", lambda folder: [])
