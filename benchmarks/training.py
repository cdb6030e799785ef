"""Time and memory of a training epoch with validation, against PyTorch Geometric's plain models.

    python benchmarks/training.py --data-dir DIR [pubmed,computers] [--kept-memory]

Ours are real runs from their first epoch on, with the paper's parameters, NC updates and new
layouts included; PyG's are its ``GCN`` and ``GraphSAGE`` on ``edge_index``, two layers, hidden 512,
one training step and one evaluation. Epochs alternate in one process, so that noise hits all alike.
With ``--kept-memory`` freed memory stays with the process, as in ``ncgnn train``, for both sides.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from _timing import line

DATASETS = ("pubmed", "computers", "coauthor-cs", "coauthor-physics")
HIDDEN = 512
WAYS = {
    "NCGCN strict": ("ncgcn", {"separation": "strict"}, "GCN", "<= 0.8"),
    "NCGCN renormalized": ("ncgcn", {"separation": "renormalized"}, "GCN", "<= 1.2"),
    "NCSAGE strict": ("ncsage", {"separation": "strict"}, "GraphSAGE", "<= 0.8"),
    "NCSAGE renormalized": ("ncsage", {"separation": "renormalized"}, "GraphSAGE", "<= 0.8"),
}
# A GraphSAGE epoch on edge_index holds every edge's message of all features at once.
MOST_GIB = 12.0


def our_trainer(name: str, model: str, settings: dict[str, Any], graph: Any) -> Any:
    import ncgnn
    from ncgnn.training import make_config, new_trainer

    config = make_config(dataset=name, model=model, split="paper", settings=settings)
    trainer = new_trainer(config, graph, ncgnn.make_split(graph, "paper", 0, warn=False))
    trainer.model.share_products(True)
    return trainer


def pyg_epoch(kind: str, graph: Any) -> Any:
    import torch
    import torch_geometric.nn as pyg

    import ncgnn

    data = graph.to_pyg()
    split = ncgnn.make_split(graph, "paper", 0, warn=False)
    train, val = torch.from_numpy(split.train.copy()), torch.from_numpy(split.val.copy())
    model = getattr(pyg, kind)(data.num_features, HIDDEN, 2, graph.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def epoch() -> float:
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        torch.nn.functional.cross_entropy(out[train], data.y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            return float((model(data.x, data.edge_index).argmax(1) == data.y)[val].float().mean())

    return epoch


def too_large(kind: str, graph: Any) -> float:
    """GiB of the messages of a first layer that aggregates before it transforms, if too many."""
    if kind != "GraphSAGE":
        return 0.0
    size = graph.num_entries * graph.num_features * 4 / 2**30
    return size if size > MOST_GIB else 0.0


def speeds() -> tuple[float, float]:
    """Peak of dense products in flop/s, and of copying in bytes/s."""
    import torch

    square, other = torch.randn(3000, 3000), torch.randn(3000, 3000)
    block, into = torch.randn(20_000_000), torch.empty(20_000_000)
    product = min(_timed(lambda: torch.mm(square, other)) for _ in range(5))
    copied = min(_timed(lambda: into.copy_(block)) for _ in range(5))
    return 2 * 3000**3 / product, 2 * 4 * block.numel() / copied


def lower_bound(trainer: Any, flops: float, copying: float) -> float:
    """Seconds of one epoch if dense products ran at peak and sparse ones at copying speed.

    The products counted are those that this epoch needs: the first layer once for all nodes and
    once backward; the second layer and raw features for training nodes forward and backward, and
    for validation nodes forward.
    """
    import torch

    model, inputs, group = trainer.model, trainer.inputs, trainer.state.grouping.group
    dense = sparse = 0.0

    def multiply(matrix: Any, passes: int) -> None:
        nonlocal dense, sparse
        if isinstance(matrix, torch.Tensor):
            dense += passes * 2.0 * matrix.numel() * HIDDEN
        elif matrix is not None:
            sparse += passes * (8.0 * matrix.nnz + 4.0 * HIDDEN * sum(matrix.shape))

    for nodes, passes in ((trainer.train, 2), (trainer.val, 1)):
        layout = model._layouts.find(inputs, group, nodes)
        raws = [c.raw for c in layout.channels] if layout.disjoint else [layout.raw]
        for term in raws:
            multiply(term.constant, passes)
        for channel in layout.channels:
            for operator in channel.second:
                multiply(operator, passes)
                rows = min(operator.shape)
                dense += (3 if passes == 2 else 1) * 2.0 * rows * HIDDEN * HIDDEN
            if passes == 2:
                for term in channel.first:
                    multiply(term.constant, 2)
                    multiply(term.operator, 2)
    return dense / flops + sparse / copying


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(name: str, graph: Any, rounds: int, flops: float, copying: float) -> None:
    plain: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {title: [] for title in WAYS}
    trainers, epochs = {}, {}
    for title, (model, settings, kind, _) in WAYS.items():
        trainers[title] = our_trainer(name, model, settings, graph)
        if kind not in epochs and not too_large(kind, graph):
            epochs[kind] = pyg_epoch(kind, graph)
            plain[kind] = []
    for number in range(rounds + 1):
        for kind, epoch in epochs.items():
            taken = _timed(epoch)
            plain[kind] += [taken] if number else []
        for title, trainer in trainers.items():
            for _ in range(3):
                taken = _timed(trainer.epoch)
                seconds[title] += [taken] if number else []
    for title, (_, _, kind, goal) in WAYS.items():
        ours = sum(seconds[title]) / len(seconds[title])
        bound = lower_bound(trainers[title], flops, copying)
        note = f"{ours:.2f} s per epoch, {ours / bound:.1f} x the lower bound"
        if kind not in plain:
            size = too_large(kind, graph)
            print(f"{name} {title}: PyG's {kind} needs {size:.0f} GiB for messages alone; {note}")
            continue
        theirs = sum(plain[kind]) / len(plain[kind])
        line(f"{name} {title} / PyG {kind}", ours / theirs, goal, f"{note}; PyG {theirs:.2f} s")


def peak_memory(name: str, way: str, data_dir: Path | None) -> None:
    """Three epochs of one way in this process; prints its peak of resident memory in MiB."""
    import ncgnn

    graph = ncgnn.load(name, data_dir)
    if way in WAYS:
        model, settings, _, _ = WAYS[way]
        epoch = our_trainer(name, model, settings, graph).epoch
    else:
        epoch = pyg_epoch(way, graph)
    for _ in range(3):
        epoch()
    # Not getrusage, whose peak a child inherits from the process that started it.
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) // 1024)


def memory(name: str, data_dir: Path | None) -> None:
    def peak(way: str) -> int:
        command = [sys.executable, __file__, "--peak", way, "--datasets", name]
        command += ["--data-dir", str(data_dir)] if data_dir else []
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    plain = peak("GCN")
    for way in ("NCGCN strict", "NCGCN renormalized"):
        ours = peak(way)
        line(f"{name} {way}: peak memory / PyG GCN", ours / plain, "<= 1", f"{ours} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kept-memory", action="store_true")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.peak:
        peak_memory(arguments.datasets, arguments.peak, arguments.data_dir)
        return
    if arguments.kept_memory:
        from ncgnn._memory import keep_freed_memory

        keep_freed_memory()
    import ncgnn

    flops, copying = speeds()
    print(f"dense products {flops / 1e9:.0f} GFLOP/s, copying {copying / 1e9:.1f} GB/s")
    for name in arguments.datasets.split(","):
        try:
            graph = ncgnn.load(name, arguments.data_dir, download=False)
        except ncgnn.NcgnnError as error:
            print(f"{name}: skipped ({error})")
            continue
        compare(name, graph, arguments.rounds, flops, copying)
        memory(name, arguments.data_dir)


if __name__ == "__main__":
    main()
