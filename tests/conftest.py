"""Fixtures that several test folders use."""

from __future__ import annotations

import os
from pathlib import Path

import numba
import pytest
import torch
from hypothesis import settings

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
