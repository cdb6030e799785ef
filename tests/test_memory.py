"""How much memory there is."""

from __future__ import annotations

import subprocess
import sys

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


FREED = """
import torch
from ncgnn._memory import keep_freed_memory, return_freed_memory, used_gib
from ncgnn._pool import empty_bytes
assert keep_freed_memory()
kept, blocks = [], []
for _ in range(60):  # small ones that stay lie between large ones that go
    blocks.append(torch.ones(1 << 20))
    kept.append(torch.ones(1 << 10))
pooled = empty_bytes(1 << 27)
pooled[:] = 1
full = used_gib()
del blocks, pooled
freed = used_gib()
return_freed_memory()
print(full, freed, used_gib())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone keeps so much")
def test_what_was_freed_and_kept_goes_back_when_asked_for():
    done = subprocess.run(
        [sys.executable, "-c", FREED], capture_output=True, text=True, timeout=120, check=True
    )
    full, freed, left = map(float, done.stdout.split())
    assert freed > full - 0.05
    assert left < full - 0.3
