"""How much memory there is."""

from __future__ import annotations

import psutil
import pytest

from ncgnn._memory import available_gib

GIB = 2**30


@pytest.fixture(autouse=True)
def six_free_gib(monkeypatch):
    class Free:
        available = 6 * GIB

    monkeypatch.setattr(psutil, "virtual_memory", Free)


def test_free_memory_counts_not_all_of_it(tmp_path):
    assert available_gib(tmp_path) == 6


@pytest.mark.parametrize(
    ("limit", "used"),
    [
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ],
)
def test_a_container_leaves_less(tmp_path, limit, used):
    (tmp_path / limit).parent.mkdir(exist_ok=True)
    (tmp_path / used).write_text(f"{3 * GIB}\n")
    for most, left in ((f"{5 * GIB}\n", 2), (f"{2 * GIB}\n", 0), ("max\n", 6)):
        (tmp_path / limit).write_text(most)
        assert available_gib(tmp_path) == left
