"""How much memory there is."""

from __future__ import annotations

import pytest

from ncgnn import _memory
from ncgnn._memory import available_gib

GIB = 2**30


def system(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable:   {6 * 2**20} kB\n"}


def test_free_memory_counts_not_all_of_it(tmp_path):
    assert available_gib(system(tmp_path, MEMINFO)) == 6


@pytest.mark.parametrize(
    ("limit", "used"),
    [
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ],
)
def test_a_container_leaves_less(tmp_path, limit, used):
    group = {f"sys/fs/cgroup/{limit}": f"{5 * GIB}\n", f"sys/fs/cgroup/{used}": f"{3 * GIB}\n"}
    assert available_gib(system(tmp_path, MEMINFO | group)) == 2
    group[f"sys/fs/cgroup/{limit}"] = "max\n"
    assert available_gib(system(tmp_path, MEMINFO | group)) == 6


def test_a_silent_system_has_what_the_machine_has(tmp_path, monkeypatch):
    assert available_gib(tmp_path) == _memory._physical_gib()

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(_memory.os, "sysconf", unknown)
    assert available_gib(tmp_path) == float("inf")
