"""A Ray cluster of two machines, both of which are this one, and the processes that work there."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress

import psutil

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@contextmanager
def cluster():
    """Two nodes of one core each; the first is that of whoever connects to it."""
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # as connect sets
    head = NODE | {"include_dashboard": False}
    nodes = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    try:
        patiently(lambda: nodes.add_node(**NODE))
        nodes.wait_for_nodes()
        yield nodes
    finally:
        nodes.shutdown()


def patiently(start):
    """Start something again that Ray has given up after its 30 seconds, on a busy machine."""
    for _ in range(4):
        try:
            return start()
        except Exception as error:
            if "timed out" not in str(error):
                raise
    return start()


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
        time.sleep(0.1)
    raise AssertionError("it did not come to that")
