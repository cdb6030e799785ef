"""What needs a process of its own: peak memory, and the kernels in a forked child."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

N, E, WIDTH = 30_000, 600_000, 64

SCRIPT = """
import json, pathlib, sys, psutil, torch
from ncgnn.sparse import _backend as backend
from ncgnn.sparse import SparsePattern, edge_softmax, weighted_matmul

def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def step(nodes, edges, width):
    pattern = SparsePattern.from_edge_index(torch.randint(0, nodes, (2, edges)), nodes)
    scores = torch.randn(pattern.nnz, requires_grad=True)
    dense = torch.randn(nodes, width, requires_grad=True)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = psutil.Process().memory_info().rss
    out = weighted_matmul(pattern, edge_softmax(pattern, scores), dense)
    out.backward(torch.ones_like(out))
    assert scores.grad is not None and dense.grad is not None
    return peak() - before

nodes, edges, width, path = *map(int, sys.argv[1:4]), sys.argv[4]
with backend.forced(path):
    step(2000, 40_000, width)
    print(json.dumps(step(nodes, edges, width)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("path", ["compiled", "chunks"])
def test_forward_and_backward_stay_far_below_any_blow_up(path):
    arguments = [sys.executable, "-c", SCRIPT, str(N), str(E), str(WIDTH), path]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    growth = json.loads(done.stdout)
    messages = 4 * E * WIDTH * 2
    assert growth < messages / 3
    assert growth < 4 * N * N / 20


FORK = """
import os, signal, numpy, torch
from ncgnn.sparse import ConstantSparse
matrix = ConstantSparse.from_edge_index(torch.randint(0, 2000, (2, 40_000)), 2000)
inputs = [torch.randn(2000, width) for width in (8, 64)]
products = [(matrix @ x).numpy() for x in inputs]
child = os.fork()
if child == 0:
    signal.alarm(60)
    again = [(matrix @ x).numpy() for x in inputs]
    same = all(numpy.allclose(a, b, atol=1e-4) for a, b in zip(products, again))
    os._exit(0 if same else 3)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_can_multiply():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)
