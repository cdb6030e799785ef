"""Processes for workers: quick to start, and without anything of their parent's threads."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

#: What training imports when it begins.
_HEAVY = ("ncgnn.training._run",)


def process_context() -> Any:
    """Processes that start from one which has imported all and done nothing, where there are such.

    A plain fork would copy the state of running threads; starting anew costs seconds of imports.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_HEAVY))
    return context
