"""What runs take, measured in processes of their own, and the coefficients that estimate it.

    python benchmarks/estimate.py measure --data-dir DIR --out measured.jsonl
    python benchmarks/estimate.py fit measured.jsonl --write

``measure`` adds a line for every model and graph, with peak memory (VmHWM of a process that loads,
trains a few epochs, evaluates and writes the report) and the mean time of an epoch after the first
two. ``fit`` finds coefficients that are not negative, by least squares of relative errors, and
prints the estimates beside what was measured, also for graphs that were left out of the fit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

#: Kinds of models: a name, and a mode of separated ones.
KINDS = (
    *("ncgcn renormalized", "ncgcn strict", "gcn", "sage", "tuned-sage", "mlp", "tuned-gcn"),
    *("gat", "tuned-gat", "ncsage renormalized", "ncsage strict", "ncgcn source"),
    *("ncgcn target-only", "ncgcn none"),
)
#: Graphs: a name or a path, settings, epochs.
REAL = {
    "cora": ({}, 10),
    "pubmed": ({}, 5),
    "computers": ({}, 5),
    "coauthor-physics": ({}, 5),
}
#: Generated ones: nodes, degree, features, settings, epochs.
GENERATED: dict[str, tuple[int, int, int, dict[str, Any], int]] = {
    "30k": (30_000, 60, 300, {"hidden": 256}, 5),
    "100k": (100_000, 20, 64, {"hidden": 64}, 5),
    "200k": (200_000, 6, 16, {"hidden": 128}, 5),
    "1M": (1_000_000, 20, 64, {"hidden": 64}, 5),
}
#: For these kinds the largest graph is measured too.
LARGE = ("ncgcn renormalized", "ncgcn strict", "gcn", "sage", "tuned-sage")


def train_once(spec: dict[str, Any]) -> None:
    """In a process of its own: train, and print what it took."""
    warnings.simplefilter("ignore")
    from ncgnn._memory import keep_freed_memory

    keep_freed_memory()
    import ncgnn
    from ncgnn.report import write_run_report
    from ncgnn.training import make_config, train_run
    from ncgnn.training.estimate import Sizes, Speeds

    graph = ncgnn.load(spec["graph"], spec["data_dir"])
    settings = spec["settings"] | {"epochs": spec["epochs"], "memory_check": False}
    config = make_config(dataset=spec["graph"], model=spec["model"], settings=settings)
    seconds: list[float] = []
    began = time.process_time()

    def after(_: Any) -> None:
        nonlocal began
        seconds.append(time.process_time() - began)
        began = time.process_time()

    with tempfile.TemporaryDirectory() as folder:
        train_run(config, Path(folder), graph=graph, on_epoch=after, before_done=write_run_report)
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    sizes = Sizes.of(config, graph)
    work = [sizes.work(Speeds.measure(graph, sizes.hidden)) for _ in range(3)]
    median = {name: statistics.median(one[name] for one in work) for name in work[0]}
    found = {"seconds": statistics.mean(seconds[2:]), "work": median}
    print(json.dumps(found | {"peak": peak, "bytes": sizes.bytes()}))


def measure(out: Path, data_dir: Path, work: Path, folders: list[str], kinds: list[str]) -> None:
    import ncgnn

    graphs: dict[str, tuple[str, dict[str, Any], int]] = {
        name: (name, *told) for name, told in REAL.items()
    }
    graphs |= {Path(one).name: (one, {}, 5) for one in folders}
    for name, (nodes, degree, features, settings, epochs) in GENERATED.items():
        path = work / f"{name}.npz"
        if not path.is_file():
            made = ncgnn.generate(
                nodes=nodes, edges=nodes * degree // 2, features=features, classes=10, homophily=0.6
            )
            ncgnn.save(made, path)
        graphs[name] = (str(path), settings, epochs)
    done = {(one["kind"], one["name"]) for one in read(out)} if out.is_file() else set()
    for kind in kinds:
        for name, (graph, settings, epochs) in graphs.items():
            if (kind, name) in done or (name == "1M" and kind not in LARGE):
                continue
            model, _, mode = kind.partition(" ")
            told = settings | ({"separation": mode} if mode else {})
            spec = {"graph": graph, "data_dir": str(data_dir), "model": model, "epochs": epochs}
            command = [sys.executable, __file__, "once", json.dumps(spec | {"settings": told})]
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode:
                print(kind, name, ran.stderr[-400:], flush=True)
                continue
            record = {"kind": kind, "name": name} | json.loads(ran.stdout.splitlines()[-1])
            with out.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
            peak = record["peak"] / 2**30
            print(f"{kind} on {name}: {peak:.2f} GiB, {record['seconds']:.3f} s", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def fitted(records: list[dict[str, Any]], given: str, wanted: str) -> dict[str, float]:
    """Coefficients, not negative, with the least squares of relative errors."""
    from scipy.optimize import nnls

    names = list(records[0][given])
    matrix = np.array([[one[given][name] / one[wanted] for name in names] for one in records])
    scale = np.maximum(matrix.max(axis=0), 1e-30)
    # A little weight on small coefficients keeps those of pieces that always come together apart.
    ridge = 0.02 * np.eye(len(names))
    lines = np.vstack([matrix / scale, ridge])
    found, _ = nnls(lines, np.concatenate([np.ones(len(records)), np.zeros(len(names))]))
    return {n: float(c / s) for n, c, s in zip(names, found, scale, strict=True) if c > 1e-6}


def guess(coefficients: dict[str, float], amounts: dict[str, float]) -> float:
    return sum(coefficients.get(name, 0.0) * amount for name, amount in amounts.items())


def fit(path: Path, write: bool) -> None:
    import tomli_w

    records = read(path)
    table: dict[str, Any] = {"format": 1}
    print(f"{'kind':22}{'graph':18}{'GiB':>7}{'est.':>7}{'':>6}{'s':>8}{'est.':>8}   left out")
    worst = {"peak": 0.0, "seconds": 0.0}
    for kind in dict.fromkeys(one["kind"] for one in records):
        own = [one for one in records if one["kind"] == kind]
        memory, seconds = fitted(own, "bytes", "peak"), fitted(own, "work", "seconds")
        table[kind] = {"memory": memory, "time": seconds}
        for one in own:
            others = [other for other in own if other is not one]
            gib, time_ = guess(memory, one["bytes"]), guess(seconds, one["work"])
            without = fitted(others, "bytes", "peak"), fitted(others, "work", "seconds")
            alone = guess(without[0], one["bytes"]), guess(without[1], one["work"])
            offs = gib / one["peak"] - 1, time_ / one["seconds"] - 1
            worst["peak"] = max(worst["peak"], abs(offs[0]))
            worst["seconds"] = max(worst["seconds"], abs(offs[1]))
            print(
                f"{kind:22}{one['name']:18}{one['peak'] / 2**30:7.2f}{gib / 2**30:7.2f}"
                f"{offs[0]:+6.0%}{one['seconds']:8.3f}{time_:8.3f}{offs[1]:+6.0%}   "
                f"{alone[0] / one['peak'] - 1:+.0%} {alone[1] / one['seconds'] - 1:+.0%}"
            )
    print(f"largest errors: memory {worst['peak']:.0%}, time {worst['seconds']:.0%}")
    if write:
        place = Path(__file__).parents[1] / "src" / "ncgnn" / "training" / "coefficients.toml"
        place.write_text(tomli_w.dumps(table), encoding="utf-8")
        print(f"written: {place}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("once")
    one.add_argument("spec")
    first = commands.add_parser("measure")
    first.add_argument("--data-dir", type=Path)
    first.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()))
    first.add_argument("--folders", nargs="*", default=[])
    first.add_argument("--kinds", default=",".join(KINDS))
    first.add_argument("--out", type=Path, required=True)
    second = commands.add_parser("fit")
    second.add_argument("measured", type=Path)
    second.add_argument("--write", action="store_true")
    told = parser.parse_args()
    if told.command == "once":
        train_once(json.loads(told.spec))
    elif told.command == "measure":
        measure(told.out, told.data_dir, told.work, told.folders, told.kinds.split(","))
    else:
        fit(told.measured, told.write)


if __name__ == "__main__":
    main()
