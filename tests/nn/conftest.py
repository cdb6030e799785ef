"""Fixtures of the tests of models."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _small_tensors(one_thread):
    """All tensors here are small."""
