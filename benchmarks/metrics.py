"""Speed of Neighborhood Confusion, as ratios within this run.

The real graphs are skipped where they are not at hand.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
from _timing import line, paired_ratio

import ncgnn
from ncgnn._numba import compiled, over_blocks, thread_count
from ncgnn.errors import NcgnnError


@compiled
def _sum_of_labels(indices: Any, classes: Any, first: int, end: int) -> int:
    total = 0
    for source in indices[first:end]:
        total += classes[np.uint64(source)]
    return total


def gather_pass(graph: ncgnn.Graph, classes: Any) -> int:
    """Fetch the label of every neighbour and add them up: the least any method must do."""
    blocks = np.linspace(0, graph.num_entries, 16 * thread_count() + 1).astype(np.int64)
    sums: list[int] = []
    over_blocks(blocks, lambda a, b: sums.append(_sum_of_labels(graph.indices, classes, a, b)))
    return sum(sums)


def one_hop(nodes: int, edges: int, classes: int) -> None:
    start = time.perf_counter()
    graph = ncgnn.generate(nodes, edges, classes=classes, homophily=0.5)
    made = time.perf_counter() - start
    print(f"generated {nodes:,} nodes, {graph.num_entries:,} entries in {made:.0f} s")
    compact = graph.compact_labels
    tracker, labels = ncgnn.ConfusionTracker(graph), graph.labels.copy()
    assert graph.num_self_loops == 0
    bar = "≤ 2" if classes == 16 else "none"
    title = f"NC k=1 / label gather, {graph.num_entries:,} entries, {classes} classes"
    gather = partial(gather_pass, graph, compact)
    line(title, paired_ratio(partial(ncgnn.neighborhood_confusion, graph), gather), bar)
    line("  the same for new labels", paired_ratio(partial(tracker, labels), gather), "none")


def two_hops(graph: ncgnn.Graph) -> None:
    stored = ncgnn.ConfusionTracker(graph, hops=2, memory_budget=8 << 30)
    streamed = ncgnn.ConfusionTracker(graph, hops=2, memory_budget=0)
    labels = graph.labels.copy()
    assert np.array_equal(stored(labels), streamed(labels), equal_nan=True)
    bar = "≤ 4" if graph.name in ("computers", "fb100-cornell5") else "none"
    pairs = f"{stored.neighborhoods.num_members:,} pairs"
    ratio = paired_ratio(partial(streamed, labels), partial(stored, labels))
    line(f"NC k=2 streamed / stored, {graph.name}", ratio, bar, pairs)


def python_loop(graph: ncgnn.Graph, labels: Any) -> list[float]:
    """NC k=1 as one would write it at first."""
    values: list[float] = []
    for node in range(graph.num_nodes):
        around = {node, *graph.neighbors(node).tolist()}
        counts = Counter(labels[other] for other in around)
        share = max(counts.values()) / len(around)
        values.append(-math.log(share) / math.log(graph.num_classes))
    return values


def against_python(graph: ncgnn.Graph) -> None:
    tracker = ncgnn.ConfusionTracker(graph)
    labels = graph.labels.copy()
    listed = labels.tolist()
    assert np.allclose(tracker(labels), python_loop(graph, listed))
    ratio = paired_ratio(partial(python_loop, graph, listed), partial(tracker, labels))
    line(f"NC k=1 Python loop / update, {graph.name}", ratio, "≥ 50")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", help="folder with npz files")
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--edges", type=int, default=50_000_000, help="undirected")
    options = parser.parse_args()
    print(f"{thread_count()} threads; medians of paired ratios")
    for name in ("computers", "fb100-cornell5", "photo", "coauthor-physics", "pubmed"):
        try:
            graph = ncgnn.load(name, options.data_dir, download=False)
        except NcgnnError as error:
            print(f"skipped {name}: {str(error).splitlines()[0]}")
            continue
        two_hops(graph)
        if name == "pubmed":
            against_python(graph)
    for classes in (16, 40):
        one_hop(options.nodes, options.edges, classes)


if __name__ == "__main__":
    main()
