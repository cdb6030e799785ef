"""Fixtures that several test folders use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data_dir() -> Path:
    """Folder of real graphs; tests that need it skip where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("NCGNN_TEST_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real graphs in {folder}; NCGNN_TEST_DATA names another folder")
    return folder
