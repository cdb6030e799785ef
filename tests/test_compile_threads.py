"""torch's number of threads is the user's."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import torch
torch.set_num_threads(1)
from ncgnn._numba import thread_count
thread_count()
print(torch.get_num_threads())
"""


def test_asking_for_our_threads_leaves_torchs_alone():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "1"
