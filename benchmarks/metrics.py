"""Speed of Neighborhood Confusion, as ratios within this run.

The real graphs are skipped where they are not at hand.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
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
    bar = "≤ 2" if classes == 16 else "≤ 2.5"
    title = f"NC k=1 / label gather, {graph.num_entries:,} entries, {classes} classes"
    gather = partial(gather_pass, graph, compact)
    line(title, paired_ratio(partial(ncgnn.neighborhood_confusion, graph), gather), bar)
    line("  the same for new labels", paired_ratio(partial(tracker, labels), gather), "none")


def mapped(folder: Path, nodes: int, degree: int, classes: int) -> None:
    """NC of edges that stay on disk: what it takes beside fetching each label once, and memory."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}-{nodes}-{degree}.npy" for name in ("indptr", "indices")]
    if not all(path.exists() for path in files):
        write_edges(*files, nodes, degree)
    arrays = [np.load(path, mmap_mode="r") for path in files]
    labels = np.random.default_rng(1).integers(0, classes, nodes)
    with PeakMemory() as memory:
        graph = ncgnn.Graph.from_csr(*arrays, labels=labels)
        compact = graph.compact_labels
        ncgnn.neighborhood_confusion(graph)
    assert np.shares_memory(graph.indices, arrays[1])
    entries = f"{graph.num_entries:,} mapped entries, {classes} classes"
    print(
        f"{entries}, {nodes:,} nodes: {memory.growth / nodes:.0f} bytes per node beside the labels,"
    )
    print(f"  {memory.growth / 2**30:.2f} GiB; with pages of the files {memory.most:.2f} GiB")
    gather = partial(gather_pass, graph, compact)
    ratio = paired_ratio(partial(ncgnn.neighborhood_confusion, graph), gather, 3)
    line(f"NC k=1 / label gather, {entries}", ratio, "≤ 2.5")


def write_edges(indptr_file: Path, indices_file: Path, nodes: int, degree: int) -> None:
    """Every node has as many neighbors, at random distances from each other."""
    np.save(indptr_file, np.arange(nodes + 1) * degree)
    shape, draw = (nodes * degree,), np.random.default_rng(0)
    indices = np.lib.format.open_memmap(indices_file, "w+", np.int32, shape)
    for first in range(0, nodes, 1 << 18):
        rows = min(1 << 18, nodes - first)
        distances = draw.integers(1, nodes // degree, (rows, degree), dtype=np.int32)
        part = np.cumsum(distances, axis=1, dtype=np.int32).ravel()
        indices[first * degree : (first + rows) * degree] = part
    indices.flush()


class PeakMemory:
    """By how much a process's own memory grows while something is done (Linux)."""

    def __enter__(self) -> PeakMemory:
        self._start, self._highest, self._over = own_memory("RssAnon"), 0, threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self._highest = max(self._highest, own_memory("RssAnon"))

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        self.growth = max(self._highest - self._start, 0)
        self.most = own_memory("VmHWM") / 2**30


def own_memory(field: str) -> int:
    for text in Path("/proc/self/status").read_text().splitlines():
        if text.startswith(f"{field}:"):
            return int(text.split()[1]) * 1024
    return 0


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
    parser.add_argument("--mapped", type=Path, help="write edges to this folder and map them")
    parser.add_argument("--degree", type=int, default=20, help="of mapped edges")
    options = parser.parse_args()
    print(f"{thread_count()} threads; medians of paired ratios")
    if options.mapped is not None:
        for classes in (10, 40):
            mapped(options.mapped, options.nodes, options.degree, classes)
        return
    for name in ("computers", "fb100-cornell5", "photo", "coauthor-physics", "pubmed"):
        try:
            graph = ncgnn.load(name, options.data_dir, download=False)
        except NcgnnError as error:
            print(f"skipped {name}: {str(error).splitlines()[0]}")
            continue
        two_hops(graph)
        if name == "pubmed":
            against_python(graph)
    for classes in (16, 40, 70):
        one_hop(options.nodes, options.edges, classes)


if __name__ == "__main__":
    main()
