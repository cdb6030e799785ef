"""Fixtures of the tests of models."""

from __future__ import annotations

import numba
import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Small tensors gain nothing from threads, which wait for each other on a busy machine."""
    numba.get_num_threads()  # its first call starts threads, and sets torch's number of them
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
