"""Time per epoch and peak memory of every model, side by side; or whether each fits large graphs.

    python benchmarks/models.py --data-dir DIR                  # Pubmed, hidden 64, 2 layers
    python benchmarks/models.py --data-dir DIR --scale          # hidden 512 on large graphs

Every model runs in a process of its own, which measures its peak of resident memory. Epochs hold
one training step and one validation; of models that train in stages the last stage counts, after
one epoch of each before. Times are multiples of GCN's, which is measured again beside
every model, so that the noise of the machine hits both alike; the paper's multiples of its own
table stand beside them. With ``--scale`` a model must stay below 16 GiB or refuse beforehand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

LARGE = ("coauthor-physics", "fb100-cornell5")
MOST_GIB = 16.0


def trainer_of(model: str, dataset: str, hidden: int, data_dir: Path | None) -> Any:
    import ncgnn
    from ncgnn.training import make_config, new_trainer

    graph = ncgnn.load(dataset, data_dir)
    config = make_config(dataset=dataset, model=model, split="paper", settings=sized(model, hidden))
    return new_trainer(config, graph, ncgnn.make_split(graph, "paper", 0, warn=False))


def sized(model: str, hidden: int) -> dict[str, Any]:
    """Width and depth of the paper's comparison, short stages and a limit, where there are such."""
    from ncgnn.nn.registry import model_class

    fields = model_class(model).Options.model_fields
    wanted = {"hidden": hidden, "layers": 2, "pretraining": 1, "memory_limit": MOST_GIB}
    return {f"model.{name}": value for name, value in wanted.items() if name in fields}


def epochs_of(model: str, dataset: str, hidden: int, count: int, data_dir: Path | None) -> None:
    """Print seconds per epoch, seconds until the first one, and the peak of memory in GiB."""
    from ncgnn._memory import keep_freed_memory
    from ncgnn.errors import NcgnnError

    keep_freed_memory()
    started = time.perf_counter()
    try:
        trainer = trainer_of(model, dataset, hidden, data_dir)
        while trainer.state.phase < len(trainer.phases) - 1:
            trainer.epoch()
    except NcgnnError as error:
        print(json.dumps({"refused": str(error)}))
        return
    first = time.perf_counter() - started
    seconds: list[float] = []
    for _ in range(count - 1):
        start = time.perf_counter()
        trainer.epoch()
        seconds.append(time.perf_counter() - start)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 2**20
    print(json.dumps({"seconds": sum(seconds) / len(seconds), "first": first, "gib": peak}))


def measured(model: str, dataset: str, hidden: int, count: int, data_dir: str | None) -> Any:
    command = [sys.executable, __file__, "--one", model, "--dataset", dataset]
    command += ["--hidden", str(hidden), "--epochs", str(count)]
    command += ["--data-dir", data_dir] if data_dir else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"failed": f"exit {done.returncode}: {last}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def efficiency(names: list[str], data_dir: str | None, epochs: int) -> None:
    print(f"{'model':<12} {'x GCN':>8} {'paper':>8} {'ms':>8} {'GiB':>6}  (Pubmed, hidden 64)")
    for name in names:
        gcn = measured("gcn", "pubmed", 64, epochs, data_dir)
        found = measured(name, "pubmed", 64, epochs, data_dir)
        if "seconds" not in found:
            print(f"{name:<12} {next(iter(found.values()))}", flush=True)
            continue
        own, reference = paper_ms(name), paper_ms("gcn")
        paper = f"{own / reference:8.2f}" if own and reference else " " * 8
        ratio, ms = found["seconds"] / gcn["seconds"], 1e3 * found["seconds"]
        print(f"{name:<12} {ratio:8.2f} {paper} {ms:8.1f} {found['gib']:6.2f}", flush=True)


def paper_ms(name: str) -> float | None:
    """Milliseconds per epoch in the paper's table (Pubmed, hidden 64, 2 layers, a GPU)."""
    from ncgnn.paper import published

    row = published("efficiency").get(name)
    return None if row is None else row["epoch"][0]


def scale(names: list[str], datasets: list[str], data_dir: str | None) -> None:
    for dataset in datasets:
        for name in names:
            found = measured(name, dataset, 512, 3, data_dir)
            if "gib" not in found:
                print(f"{dataset:<18} {name:<12} {next(iter(found.items()))}", flush=True)
                continue
            fits = "fits" if found["gib"] <= MOST_GIB else "TOO LARGE"
            print(
                f"{dataset:<18} {name:<12} {fits:9} {found['gib']:6.2f} GiB  "
                f"{found['seconds']:7.2f} s per epoch, {found['first']:.0f} s until the first",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--models", help="some of them, with commas between")
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--datasets", default=",".join(LARGE))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--dataset", help=argparse.SUPPRESS)
    parser.add_argument("--hidden", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.one:
        folder = Path(given.data_dir) if given.data_dir else None
        epochs_of(given.one, given.dataset, given.hidden, given.epochs, folder)
        return
    from ncgnn.nn import model_names

    names = given.models.split(",") if given.models else model_names()
    if given.scale:
        scale(names, given.datasets.split(","), given.data_dir)
    else:
        efficiency(names, given.data_dir, given.epochs)


if __name__ == "__main__":
    main()
