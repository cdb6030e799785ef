"""A Ray cluster of two machines, both of which are this one, and the processes that work there."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress

import psutil

STORE = 80 << 20


@contextmanager
def cluster():
    """Two nodes of one core each; the first is that of whoever connects to it."""
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # as connect sets
    options = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=options)
    try:
        nodes.add_node(num_cpus=1, object_store_memory=STORE)
        nodes.wait_for_nodes()
        yield nodes
    finally:
        nodes.shutdown()


def other_node(nodes):
    """The node that is not that of the driver."""
    (other,) = nodes.worker_nodes
    return other


def workers(name):
    """Processes of tasks whose names begin with a word, by the raylet that has started them."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            words = process.cmdline()
            if words and words[0].startswith(f"ray::{name}"):
                found.setdefault(process.ppid(), []).append(process)
    return found


def wait_until(is_so, seconds=300):
    """Wait for what another thread or process does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_so():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to that")
