"""One small graph and one folder of runs for all tests of figures and tables."""

from __future__ import annotations

import pytest
from figure_cases import small_graph


@pytest.fixture(autouse=True, scope="module")
def _few_threads(one_thread):
    """All of these tests train small models."""


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    """The path of the small graph."""
    return small_graph(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Finished runs, which tests share."""
    return tmp_path_factory.mktemp("runs")
