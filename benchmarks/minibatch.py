"""Training in batches beside training on the whole graph: accuracy, time and memory.

python benchmarks/minibatch.py accuracy --data FOLDER [--graphs pubmed,…] [--seeds 3]
python benchmarks/minibatch.py size [--nodes 1000000] [--degree 20] [--features 64] [--classes 10]
    [--model ncgcn] [--out FOLDER]

accuracy: test accuracy over seeds on the stratified split, with all nodes at a time and in batches
of 1,024 with a fan-out of 10 and 10, and the processor time until the validation accuracy is first
as high as the lower one of the two in the end, as a ratio.

size: a graph is generated once, and kept as a dataset folder in --out. Epochs in batches, each
with inference for all nodes, NC and new groups, then scores and answers for all nodes, and the
memory that the process has used at most.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import time
import warnings
from pathlib import Path

import ncgnn

BATCHES = {"batch_size": 1024, "fanout": (10, 10)}
MODELS = {"sage": {}, "ncgcn": {}, "tuned-sage": {"layers": 2}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["accuracy", "size"])
    parser.add_argument("--data", type=Path, default=os.environ.get("NCGNN_DATA"))
    parser.add_argument("--graphs", default="pubmed,computers,coauthor-physics")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="60 for accuracy, 2 for size")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--edges", type=int, help="in place of --degree")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--model", default="ncgcn")
    parser.add_argument("--whole", action="store_true", help="size: all nodes at a time instead")
    parser.add_argument("--out", type=Path, default=Path("minibatch-benchmark"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", ncgnn.NcgnnWarning)
    if chosen.what == "size":
        measure_size(chosen)
        return
    if chosen.data is None:
        sys.exit("name the folder of the graphs with --data, or NCGNN_DATA.")
    compare_accuracy(chosen)


def compare_accuracy(chosen: argparse.Namespace) -> None:
    """A line per graph and model."""
    print(f"{'graph':<18} {'model':<12} {'whole':>14} {'batches':>14} {'time to the same':>17}")
    for name in chosen.graphs.split(","):
        path = chosen.data / f"{name}.npz"
        graph = ncgnn.load(path if path.is_file() else Path(name))
        for model in chosen.models.split(","):
            found: list[list[Curve]] = [[], []]
            for seed in range(chosen.seeds):
                for place, more in enumerate(({}, BATCHES)):
                    settings = {"hidden": chosen.hidden, "patience": 20} | MODELS.get(model, {})
                    one = train(graph, model, seed, chosen.epochs or 60, settings | more)
                    found[place].append(one)
            shown = [spread([one.test for one in part]) for part in found]
            ratios = [
                batches.time_to(least) / whole.time_to(least)
                for whole, batches in zip(*found, strict=True)
                if (least := min(max(whole.val), max(batches.val)))
            ]
            ratio = statistics.median(ratios)
            print(
                f"{name:<18} {model:<12} {shown[0]:>14} {shown[1]:>14} {ratio:16.2f}×", flush=True
            )


class Curve:
    """Validation accuracies of a training, with processor time, and the test accuracy."""

    def __init__(self) -> None:
        self.val: list[float] = []
        self.seconds: list[float] = []
        self.test = 0.0

    def time_to(self, accuracy: float) -> float:
        """Seconds until an accuracy was reached first."""
        return next(
            seconds for seconds, val in zip(self.seconds, self.val, strict=True) if val >= accuracy
        )


def train(
    graph: ncgnn.Graph, model: str, seed: int, epochs: int, settings: dict[str, object]
) -> Curve:
    """Train once."""
    curve, began = Curve(), time.process_time()

    def on_epoch(record: dict[str, object]) -> None:
        curve.val.append(float(record["val_accuracy"]))  # pyright: ignore
        curve.seconds.append(time.process_time() - began)

    trained = ncgnn.fit(graph, model, seed=seed, epochs=epochs, on_epoch=on_epoch, **settings)
    curve.test = trained.evaluate()["scores"]["test"]["accuracy"]
    return curve


def spread(shares: list[float]) -> str:
    values = [100 * share for share in shares]
    return (
        f"{statistics.fmean(values):.2f} ± {statistics.stdev(values) if len(values) > 1 else 0:.2f}"
    )


def measure_size(chosen: argparse.Namespace) -> None:
    """One epoch on a generated graph."""
    size = (chosen.nodes, chosen.edges or chosen.degree, chosen.features, chosen.classes)
    path = chosen.out / f"g{'-'.join(map(str, size))}"
    if not path.is_dir():
        chosen.out.mkdir(parents=True, exist_ok=True)
        groups = [(0.7, 0.8), (0.3, 0.3)]
        edges = chosen.edges or chosen.nodes * chosen.degree // 2
        graph = ncgnn.generate(
            chosen.nodes, edges, classes=chosen.classes, features=chosen.features, groups=groups,
        )  # fmt: skip
        ncgnn.save(graph, path)
        print(f"{path} was written; give the same command again to measure.")
        return
    times = [time.process_time()]
    graph = ncgnn.load(path)
    times.append(time.process_time())
    print(f"{graph}: loaded in {times[1] - times[0]:.1f} s, {peak():.2f} GiB at most", flush=True)
    more = {} if chosen.whole else BATCHES

    def on_epoch(record: dict[str, object]) -> None:
        times.append(time.process_time())
        print(
            f"epoch {record['epoch']}: {times[-1] - times[-2]:.1f} s, validation "
            f"{record['val_accuracy']:.4f}, NC {record.get('mean_nc')}, {peak():.2f} GiB at most",
            flush=True,
        )

    epochs = chosen.epochs or 2
    trained = ncgnn.fit(
        graph, chosen.model, hidden=chosen.hidden, epochs=epochs, on_epoch=on_epoch, **more
    )
    for what, ask in (("evaluated", trained.evaluate), ("answered", trained.predict)):
        times.append(time.process_time())
        ask()
        print(f"{what}: {time.process_time() - times[-1]:.1f} s, {peak():.2f} GiB at most")
    print(f"in all {time.process_time() - times[0]:.1f} s of processor time")


def peak() -> float:
    """GiB that the process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
