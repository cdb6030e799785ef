"""Processes for workers: quick to start, and without anything of their parent's threads."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

from ncgnn.errors import InputError

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


def check_false_start(code: int | None) -> None:
    """Complain of a process that ended before it began, unless a signal has ended it.

    Raises:
        InputError: It was the script that every process imports.
    """
    if code is None or code >= 0:
        raise InputError(
            "worker processes end before they begin. A script that starts them must do so under "
            'if __name__ == "__main__":, because every process imports it.'
        )
