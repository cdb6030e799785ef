"""Block-model graphs on any number of threads, from several threads, and in forked processes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from ncgnn import _numba as _compile
from ncgnn.data import block_model as _csbm_rows
from ncgnn.data.block_model import csbm

FORK = """
import os, sys
from ncgnn.data import csbm
first = csbm(60_000, 300_000, features=4)
child = os.fork()
if not child:
    again = csbm(60_000, 300_000, features=4)
    same = (first.indices == again.indices).all() and (first.features == again.features).all()
    os._exit(0 if same else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def digest(nodes: int, edges: int) -> str:
    graph = csbm(nodes, edges, classes=3, features=5, groups=[(0.6, 0.9), (0.4, 0.1)])
    arrays = (graph.indptr, graph.indices, graph.labels, graph.groups, graph.features)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@pytest.mark.parametrize(
    ("nodes", "edges"), [(200, 300), (200, 5_000), (200, 19_000), (70_000, 600_000)]
)
def test_the_result_does_not_depend_on_the_threads(nodes, edges):
    usual = numba.get_num_threads()
    results = []
    try:
        for threads in {1, 2, numba.config.NUMBA_NUM_THREADS}:
            if threads <= numba.config.NUMBA_NUM_THREADS:
                numba.set_num_threads(threads)
                results.append(digest(nodes, edges))
    finally:
        numba.set_num_threads(usual)
    assert len(set(results)) == 1
    assert len(results) >= 2 or numba.config.NUMBA_NUM_THREADS == 1


def test_the_result_does_not_depend_on_blocks_and_parts(monkeypatch):
    expected = digest(3_000, 40_000)
    monkeypatch.setattr(_csbm_rows, "_LEAST_PART_BITS", 3)
    monkeypatch.setattr(_csbm_rows, "_LEAST_PAIRS", 100)
    monkeypatch.setattr(
        _csbm_rows,
        "balanced_blocks",
        lambda work, **limits: _compile.balanced_blocks(work, least_work=50, **limits),
    )
    assert digest(3_000, 40_000) == expected


def test_ends_by_part():
    first, second = np.array([5, 0, 9, 3]), np.array([0, 5, 9, 8])
    ends = _csbm_rows.sorted_ends(first, second, 10)
    assert sorted(zip(ends.nodes.tolist(), ends.neighbours.tolist(), strict=True)) == [
        (0, 5), (0, 5), (3, 8), (5, 0), (5, 0), (8, 3),
    ]  # fmt: skip
    assert ends.part_starts.tolist() == [0, 6]


def test_several_threads_may_generate_at_once():
    with ThreadPoolExecutor(4) as pool:
        results = set(pool.map(lambda _: digest(70_000, 300_000), range(4)))
    assert len(results) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_generates_as_well():
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, timeout=300, check=False
    )
    assert (result.returncode, result.stderr) == (0, b"")
