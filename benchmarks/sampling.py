"""Speed of sampling, of gathering features and of steps with batches that are prepared ahead.

Ratios are measured within this run; edges per second are those of this machine at this moment.
PyG's NeighborLoader is measured beside ours where torch-sparse is installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from functools import partial
from typing import Any

# Before numba is imported, which takes it for the most threads that may be asked for.
os.environ.setdefault("NUMBA_NUM_THREADS", str(os.cpu_count()))

import numpy as np
import torch
from _timing import line, side_by_side

import ncgnn
from ncgnn._memory import keep_freed_memory
from ncgnn._numba import compiled, over_blocks, use_threads
from ncgnn.sparse import ConstantSparse, NeighborSampler, SparsePattern, take_rows
from ncgnn.training import Prefetcher

BATCH = 1024
HIDDEN = 64


@compiled
def _gather(first: int, end: int, places: Any, values: Any, out: Any) -> None:
    for k in range(first, end):
        out[k] = values[np.uint64(places[k])]


class Epoch:
    """Some batches of an epoch over a graph, with all that is done to them."""

    def __init__(
        self, graph: ncgnn.Graph, fanout: list[int], method: str, batches: int, seed: int = 0
    ) -> None:
        self.graph, self.batches = graph, batches
        relation = graph.indptr, graph.indices
        self.sampler = NeighborSampler([relation], fanout, method=method, seed=seed)
        self.order = np.random.default_rng(seed).permutation(graph.num_nodes)
        samples = [self.sample(batch) for batch in range(min(batches, 4))]
        self.edges = round(np.mean([len(one.relations[0].edges) for one in samples])) * batches
        self.found = round(np.mean([one.within[-1] for one in samples]))

    def sample(self, batch: int) -> Any:
        """The sample of one batch."""
        return self.sampler.sample(self.order[batch * BATCH : (batch + 1) * BATCH], 0, batch)

    def sample_all(self) -> None:
        """All batches, one after the other."""
        for batch in range(self.batches):
            self.sample(batch)

    def sample_by(self, workers: int) -> None:
        """All batches, several at a time."""
        with Prefetcher(self.sample, self.batches, ahead=2 * workers, workers=workers) as samples:
            for _ in samples:
                pass

    def prepare(self, batch: int) -> tuple[Any, Any, Any]:
        """A sample with its features and labels."""
        sample = self.sample(batch)
        rows = take_rows(self.graph.features, sample.nodes)
        labels = self.graph.labels[sample.nodes[: sample.within[0]]]
        return sample, torch.from_numpy(rows), torch.from_numpy(labels)


def bare_gather(graph: ncgnn.Graph, entries: int) -> Any:
    """Fetch as many random entries of the adjacency as are sampled."""
    places = np.random.default_rng(0).integers(0, graph.num_entries, entries)
    out = np.empty(entries, dtype=graph.indices.dtype)
    blocks = np.linspace(0, entries, 65).astype(np.int64)
    return partial(over_blocks, blocks, _gather, places, graph.indices, out)


def sampling(graph: ncgnn.Graph, batches: int, rounds: int) -> None:
    for fanout, share in (([10, 10], 1), ([15, 10, 5], 8)):
        for method in ("uniform", "labor"):
            epoch = Epoch(graph, fanout, method, max(4, batches // share))
            title = f"{method}, fan-out {','.join(map(str, fanout))}"
            per_batch = epoch.edges // epoch.batches
            print(f"{title}: {per_batch:,} edges and {epoch.found:,} nodes in a batch")
            for threads in (1, 2):
                use_threads(threads)
                ways = {"gather": bare_gather(graph, epoch.edges), "sample": epoch.sample_all}
                if threads == 2:
                    ways["two batches"] = partial(epoch.sample_by, 2)
                seconds = side_by_side(ways, rounds)
                for name in list(ways)[1:]:
                    speed = epoch.edges / seconds[name] / 1e6
                    what = "two batches at a time" if name == "two batches" else "a batch at a time"
                    how = f"  {threads} thread{'s' if threads > 1 else ''}, {what}"
                    line(f"{how}: million edges/s", speed, "≥ 20" if threads == 2 else "none")
                    line(
                        "    speed / that of a bare gather",
                        seconds["gather"] / seconds[name],
                        "≥ 0.25",
                    )


def gathering(graph: ncgnn.Graph, rounds: int) -> None:
    epoch = Epoch(graph, [10, 10], "uniform", 4)
    nodes = [epoch.sample(batch).nodes for batch in range(4)]
    x = torch.from_numpy(graph.features.copy())
    for threads in (1, 2):
        use_threads(threads)
        ways = {
            "ours": lambda: [take_rows(graph.features, some) for some in nodes],
            "torch": lambda: [x.index_select(0, torch.from_numpy(some)) for some in nodes],
            "numpy": lambda: [graph.features.take(some, axis=0) for some in nodes],
        }
        seconds = side_by_side(ways, rounds)
        rate = sum(map(len, nodes)) / seconds["ours"] / 1e6
        per_batch = f"{seconds['ours'] / 4 * 1e3:.1f} ms for {epoch.found:,} rows"
        line(
            f"gathering {x.shape[1]} features, {threads} threads: million rows/s",
            rate,
            "none",
            per_batch,
        )
        line("  torch.index_select / ours", seconds["torch"] / seconds["ours"], "none")
        line("  numpy.take / ours", seconds["numpy"] / seconds["ours"], "none")


class Sage(torch.nn.Module):
    """Two layers of GraphSAGE with means, on the prefixes of a sample."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(2 * width, HIDDEN)
        self.second = torch.nn.Linear(2 * HIDDEN, classes)

    def forward(self, sample: Any, x: torch.Tensor) -> torch.Tensor:
        """Logits of the wanted nodes."""
        wanted, near, _ = sample.within
        both = torch.cat([x[:near], mean_operator(sample, 1) @ x], 1)
        hidden = torch.relu(self.first(both))
        both = torch.cat([hidden[:wanted], mean_operator(sample, 0) @ hidden], 1)
        return self.second(both)


def mean_operator(sample: Any, hop: int) -> ConstantSparse:
    edges, rows, columns = sample.relations[0], sample.within[hop], sample.within[hop + 1]
    crow = torch.from_numpy(edges.indptr[: rows + 1].astype(np.int32))
    col = torch.from_numpy(edges.indices[: int(crow[-1])])
    counts = crow.diff()
    values = counts.float().reciprocal().repeat_interleave(counts)
    return ConstantSparse(SparsePattern(crow, col, (rows, columns)), values)


class Steps:
    """Training steps of one model on batches of a graph."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())

    def take(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        """One step."""
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, labels).backward()
        self.optimizer.step()


def steps(graph: ncgnn.Graph, batches: int, rounds: int) -> None:
    use_threads(1)
    epoch = Epoch(graph, [10, 10], "uniform", batches)
    held = [epoch.prepare(batch) for batch in range(batches)]
    ours = Steps(Sage(graph.num_features, graph.num_classes))
    in_worker = [0.0]

    def step_alone() -> None:
        for sample, x, labels in held:
            ours.take(ours.model(sample, x), labels)

    def one_after_the_other() -> None:
        for batch in range(batches):
            sample, x, labels = epoch.prepare(batch)
            ours.take(ours.model(sample, x), labels)

    def prepare(batch: int) -> tuple[Any, Any, Any]:
        start = time.thread_time()
        prepared = epoch.prepare(batch)
        in_worker[0] += time.thread_time() - start
        return prepared

    def prepared_ahead() -> None:
        in_worker[0] = 0.0
        with Prefetcher(prepare, batches, ahead=3) as prepared:
            for sample, x, labels in prepared:
                ours.take(ours.model(sample, x), labels)

    ways = {"alone": step_alone, "after": one_after_the_other, "ahead": prepared_ahead}
    ratios: dict[str, list[float]] = {name: [] for name in ("after", "ahead", "own", "worker")}
    for number in range(rounds + 1):
        wall, own = {}, {}
        for name, way in ways.items():
            start = time.perf_counter(), time.thread_time()
            way()
            wall[name], own[name] = time.perf_counter() - start[0], time.thread_time() - start[1]
        if number:  # the first round warms up
            ratios["after"].append(wall["after"] / wall["alone"])
            ratios["ahead"].append(wall["ahead"] / wall["alone"])
            ratios["own"].append(own["ahead"] / own["alone"])
            ratios["worker"].append(in_worker[0] / own["alone"])
    median = {name: statistics.median(values) for name, values in ratios.items()}
    print(f"two-layer SAGE, fan-out 10,10, hidden {HIDDEN}, steps on one thread")
    line("  prepared in the same thread: time / step alone", median["after"], "none")
    line("  prepared ahead: time / step alone", median["ahead"], "≤ 1.5")
    print("  processor time, which does not depend on who else is at work:")
    line("    of the thread that steps / step alone", median["own"], "none")
    line("    of the thread that prepares / step alone", median["worker"], "none")


def against_pyg(graph: ncgnn.Graph, batches: int, rounds: int) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch_geometric.typing
            from torch_geometric.loader import NeighborLoader
            from torch_geometric.nn import GraphSAGE

            if not torch_geometric.typing.WITH_TORCH_SPARSE:
                raise ImportError
    except ImportError:
        print("skipped PyG's NeighborLoader: torch-sparse is not installed")
        return
    use_threads(1)
    epoch = Epoch(graph, [10, 10], "uniform", batches)
    data = graph.to_pyg()
    wanted = torch.from_numpy(epoch.order[: batches * BATCH].copy())
    loader = NeighborLoader(data, [10, 10], input_nodes=wanted, batch_size=BATCH)
    shape = (graph.num_features, HIDDEN, 2, graph.num_classes)
    theirs, ours = Steps(GraphSAGE(*shape)), Steps(Sage(shape[0], shape[-1]))

    def their_epoch(train: bool) -> None:
        for batch in loader:
            if train:
                logits = theirs.model(batch.x, batch.edge_index)[: batch.batch_size]
                theirs.take(logits, batch.y[: batch.batch_size])

    def our_epoch(train: bool) -> None:
        for number in range(batches):
            sample, x, labels = epoch.prepare(number)
            if train:
                ours.take(ours.model(sample, x), labels)

    ways = {
        "PyG, batches": partial(their_epoch, False),
        "PyG, epoch": partial(their_epoch, True),
        "ours, batches": partial(our_epoch, False),
        "ours, epoch": partial(our_epoch, True),
    }
    seconds = side_by_side(ways, rounds)
    print(f"PyG's NeighborLoader and GraphSAGE, {batches} batches, one thread, nothing ahead")
    for what, bar in (("batches", "none"), ("epoch", "≥ 7")):
        ratio = seconds[f"PyG, {what}"] / seconds[f"ours, {what}"]
        title = "sampling and gathering" if what == "batches" else "an epoch with its steps"
        line(f"  {title}: PyG / ours", ratio, bar)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--batches", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["sampling", "gathering", "steps", "pyg"])
    options = parser.parse_args()
    keep_freed_memory()  # as the command line does
    edges = options.nodes * options.degree // 2
    graph = ncgnn.generate(options.nodes, edges, classes=10, features=options.features)
    graph = ncgnn.Graph.from_csr(
        graph.indptr, graph.indices, labels=graph.labels, features=np.float32(graph.features)
    )
    print(f"{graph.num_nodes:,} nodes, {graph.num_entries:,} entries, batches of {BATCH}")
    parts = {
        "sampling": partial(sampling, graph, options.batches, options.rounds),
        "gathering": partial(gathering, graph, options.rounds),
        "steps": partial(steps, graph, min(24, options.batches), options.rounds),
        "pyg": partial(against_pyg, graph, min(16, options.batches), min(3, options.rounds)),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            part()


if __name__ == "__main__":
    main()
