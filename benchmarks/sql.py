"""NC of a hundred million edges by SQL, within a limit of memory, beside the kernel.

python benchmarks/sql.py [--rows 100000000] [--nodes 10000000] [--memory 2GB] [--folder FOLDER]

Edges are drawn straight into a Parquet file, some of them twice, the other way round or from a node
to itself; one node in twenty has no label. DuckDB runs as ``ncgnn analyze --sql`` in a process of
its own, whose peak memory is the system's word; the size of its temporary folder is looked at five
times a second. The kernel then reads the same files, and every value is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ncgnn
from ncgnn._numba import compiled, thread_count

CHUNK = 2_000_000
CLASSES = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="of the table of edges")
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--threads", type=int, default=thread_count(), help="of DuckDB")
    parser.add_argument("--folder", type=Path, help="where there is room for some gigabytes")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        work(Path(place), options)


def work(place: Path, options: argparse.Namespace) -> None:
    nodes, edges = place / "nodes.parquet", place / "edges.parquet"
    write_tables(nodes, edges, options.nodes, options.rows)
    megabytes = edges.stat().st_size / 1e6
    print(
        f"{options.nodes:,} nodes, {options.rows:,} rows of edges, {megabytes:,.0f} MB of Parquet"
    )
    found = run_duckdb(place, nodes, edges, options)
    start = time.perf_counter(), time.process_time()
    graph = read_graph(nodes, edges)
    built = time.perf_counter() - start[0], time.process_time() - start[1]
    print(f"the kernel's graph: {graph.num_entries:,} entries, read and sorted in {built[0]:.1f} s")
    times: list[tuple[float, float]] = []
    for _ in range(4):  # the first one compiles
        start = time.perf_counter(), time.process_time()
        confusion = ncgnn.neighborhood_confusion(graph)
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    kernel = tuple(statistics.median(values) for values in zip(*times[1:], strict=True))
    homophily = ncgnn.node_homophily(graph)
    print(f"NC by the kernel: {kernel[0]:.2f} s, threads: {thread_count()}")
    table = pq.read_table(place / "result" / "nodes.parquet", columns=["id", "nc_1", "nh_open"])
    assert np.array_equal(table["id"].to_numpy(), np.arange(graph.num_nodes))
    for name, values in (("nc_1", confusion), ("nh_open", homophily)):
        other = table[name].to_numpy(zero_copy_only=False)
        assert np.array_equal(np.isnan(other), np.isnan(values))
        print(
            f"largest difference of {name}: {np.nanmax(np.abs(other - values)):.1e} (goal: 1e-12)"
        )
    mean = ncgnn.metrics.mean(confusion)
    print(f"means of NC: {found['summary']['means']['nc_1']:.12f} and {mean:.12f}")
    for place, name in enumerate(("time", "CPU")):
        mine, all_of_it = found["seconds"][place], kernel[place] + built[place]
        print(f"{name}, DuckDB / kernel: {mine / kernel[place]:.0f}")
        print(f"{name}, DuckDB / kernel with reading and sorting: {mine / all_of_it:.2f}")


def write_tables(nodes: Path, edges: Path, num_nodes: int, rows: int) -> None:
    """Half of all edges end in the class that they start from."""
    random = np.random.default_rng(0)
    labels = np.sort(random.integers(CLASSES, size=num_nodes, dtype=np.int8))
    starts = np.searchsorted(labels, np.arange(CLASSES + 1))
    missing = random.random(num_nodes) < 0.05
    ids = np.arange(num_nodes, dtype=np.int32)
    pq.write_table(pa.table({"id": ids, "label": pa.array(labels, mask=missing)}), nodes)
    schema = pa.schema([("source", pa.int32()), ("target", pa.int32())])
    with pq.ParquetWriter(edges, schema) as writer:
        for first in range(0, rows, CHUNK):
            count = min(CHUNK, rows - first)
            sources = random.integers(num_nodes, size=count, dtype=np.int32)
            own = labels[sources]
            within = starts[own] + random.random(count) * (starts[own + 1] - starts[own])
            anywhere = random.integers(num_nodes, size=count)
            targets = np.where(random.random(count) < 0.5, within, anywhere).astype(np.int32)
            few = count // 100
            sources[-few:], targets[-few:] = sources[:few], targets[:few]
            sources[-2 * few : -few], targets[-2 * few : -few] = targets[:few], sources[:few]
            targets[-3 * few : -2 * few] = sources[-3 * few : -2 * few]
            writer.write_table(pa.table([sources, targets], schema=schema))


def run_duckdb(
    place: Path, nodes: Path, edges: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Run the command; says its time, its peak memory, and what it wrote beyond memory."""
    temp, most, running = place / "temp", [0], [True]
    temp.mkdir()

    def watch() -> None:
        while running:
            most[0] = max(most[0], size_of(temp))
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    command = [sys.executable, "-m", "ncgnn", "analyze", nodes, edges, "--sql", "--label", "label"]
    command += ["--memory", options.memory, "--threads", options.threads, "--temp", temp]
    command += ["--out", place / "result", "--format", "parquet", "--json"]
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    running.clear()
    watcher.join()
    if status:
        sys.exit("the command failed")
    cpu = usage.ru_utime + usage.ru_stime
    limits = f"--memory {options.memory} --threads {options.threads}"
    print(f"analyze --sql {limits}: {seconds:.0f} s, {cpu:.0f} s of CPU")
    print(f"  peak of resident memory: {usage.ru_maxrss * 1024 / 1e9:.2f} GB")
    print(f"  peak of the temporary folder: {most[0] / 1e9:.2f} GB")
    return {"seconds": (seconds, cpu), "summary": json.loads(told)}


def size_of(folder: Path) -> int:
    """The room that the files of a folder take on the disk."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def read_graph(nodes: Path, edges: Path) -> ncgnn.Graph:
    """The undirected graph of the tables, in memory proportional to its edges."""
    column = pq.read_table(nodes)["label"].combine_chunks()
    labels = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.zeros(len(labels) + 1, dtype=np.int64)
    file = pq.ParquetFile(edges)
    for batch in file.iter_batches(CHUNK):
        _count_ends(batch["source"].to_numpy(), batch["target"].to_numpy(), starts)
    np.cumsum(starts, out=starts)
    indices, places = np.empty(starts[-1], dtype=np.int32), starts[:-1].copy()
    for batch in file.iter_batches(CHUNK):
        _place_ends(batch["source"].to_numpy(), batch["target"].to_numpy(), places, indices)
    kept = _sort_rows(starts, indices)
    return ncgnn.Graph.from_csr(starts, indices[:kept], labels=labels, num_classes=CLASSES)


@compiled
def _count_ends(sources: Any, targets: Any, starts: Any) -> None:
    for i in range(len(sources)):
        if sources[i] != targets[i]:
            starts[sources[i] + 1] += 1
            starts[targets[i] + 1] += 1


@compiled
def _place_ends(sources: Any, targets: Any, places: Any, indices: Any) -> None:
    for i in range(len(sources)):
        source, target = sources[i], targets[i]
        if source != target:
            indices[places[source]] = target
            places[source] += 1
            indices[places[target]] = source
            places[target] += 1


@compiled
def _sort_rows(starts: Any, indices: Any) -> int:
    """Sort every row, and leave out what is there twice; returns how many entries are left."""
    kept, first = 0, starts[0]
    for row in range(len(starts) - 1):
        end = starts[row + 1]
        ordered = np.sort(indices[first:end])
        starts[row] = kept
        for k in range(len(ordered)):
            if k == 0 or ordered[k] != ordered[k - 1]:
                indices[kept] = ordered[k]
                kept += 1
        first = end
    starts[len(starts) - 1] = kept
    return kept


if __name__ == "__main__":
    main()
