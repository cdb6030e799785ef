"""What runs take, measured in processes of their own, beside what was estimated.

    python benchmarks/estimate.py check 100k pubmed FOLDER --models ncgcn,sage [--batches]
    python benchmarks/estimate.py measure --data-dir DIR --out measured.jsonl
    python benchmarks/estimate.py fit measured.jsonl --write

``check`` prints estimates beside peak memory (VmHWM of a process that loads, trains, evaluates and
writes the report) and the mean processor time of the epochs after the first one (of the first one
where there is no other), on one thread. Graphs are names, folders or npz files; 100k and 1M are
generated. ``measure`` adds a line for every model and graph with the same peak. ``fit`` finds
coefficients of memory that are not negative, by least squares of relative errors, and prints the
estimates beside what was measured, also for graphs that were left out of the fit.
"""

from __future__ import annotations

import argparse
import json
import os
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
#: Generated ones that estimates are checked on, by their number of nodes.
CHECKED = {"100k": 100_000, "1M": 1_000_000}
#: For these kinds the largest graph is measured too.
LARGE = ("ncgcn renormalized", "ncgcn strict", "gcn", "sage", "tuned-sage")


def settings_of(spec: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run that is measured: memory is checked by measuring it."""
    return spec["settings"] | {"epochs": spec["epochs"], "memory_check": False}


def train_once(spec: dict[str, Any]) -> None:
    """In a process of its own: train, and print what it took."""
    warnings.simplefilter("ignore")
    from ncgnn._memory import keep_freed_memory

    keep_freed_memory()
    import ncgnn
    from ncgnn.report import write_run_report
    from ncgnn.training import make_config, train_run
    from ncgnn.training.cost import Sizes

    graph = ncgnn.load(spec["graph"], spec["data_dir"])
    config = make_config(dataset=spec["graph"], model=spec["model"], settings=settings_of(spec))
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
    found: dict[str, Any] = {"seconds": statistics.mean(seconds[1:] or seconds), "peak": peak}
    if config.training.batch_size is None:
        found["bytes"] = Sizes.of(config, graph).bytes()
    print(json.dumps(found))


def estimate_once(spec: dict[str, Any]) -> None:
    """In a process of its own: estimate the same."""
    warnings.simplefilter("ignore")
    import ncgnn
    from ncgnn.training import estimate_run, make_config

    graph = ncgnn.load(spec["graph"], spec["data_dir"])
    config = make_config(dataset=spec["graph"], model=spec["model"], settings=settings_of(spec))
    began = time.process_time()
    cost = estimate_run(config, graph)
    took = time.process_time() - began
    print(json.dumps({"took": took} | ({} if cost is None else cost.facts())))


def child(what: str, spec: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own says."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    # Modules beside this one have the names of others.
    command = [sys.executable, "-P", __file__, what, json.dumps(spec)]
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | one)
    if ran.returncode:
        return {"error": ran.stderr[-400:]}
    return json.loads(ran.stdout.splitlines()[-1])


def check(told: argparse.Namespace) -> None:
    """Print estimates beside what was measured."""
    head = f"{'graph':18}{'model':12}{'batches':>8}{'GiB':>7}{'est.':>7}{'':>6}"
    print(f"{head}{'s':>8}{'est.':>8}{'':>6}{'took':>7}")
    for graph in told.graphs:
        place, settings = graph, dict[str, Any]()
        if graph in CHECKED:
            place, settings = str(make_checked(told.work, CHECKED[graph])), {"hidden": 64}
        for model in told.models.split(","):
            spec = {"graph": place, "data_dir": told.data_dir and str(told.data_dir)}
            spec |= {"model": model, "epochs": told.epochs}
            batches = {"batch_size": 1024} if told.batches else {}
            more = {} if told.hidden is None else {"hidden": told.hidden}
            spec["settings"] = settings | batches | more
            guessed, found = child("guess", spec), child("once", spec)
            error = guessed.get("error") or found.get("error")
            if error or "memory_gib" not in guessed:
                print(f"{Path(graph).stem:18}{model:12} {error or 'nothing is known'}", flush=True)
                continue
            peak, seconds = found["peak"] / 2**30, found["seconds"]
            print(
                f"{Path(graph).stem:18}{model:12}{'1,024' if told.batches else '–':>8}"
                f"{peak:7.2f}{guessed['memory_gib']:7.2f}{guessed['memory_gib'] / peak - 1:+6.0%}"
                f"{seconds:8.2f}{guessed['epoch_seconds']:8.2f}"
                f"{guessed['epoch_seconds'] / seconds - 1:+6.0%}{guessed['took']:6.1f}s",
                flush=True,
            )


def make_checked(work: Path, nodes: int) -> Path:
    """A generated graph, as a dataset folder."""
    import ncgnn

    path = work / f"estimate-{nodes}"
    if not path.is_dir():
        groups = [(0.7, 0.8), (0.3, 0.3)]
        made = ncgnn.generate(nodes, 10 * nodes, classes=10, features=64, groups=groups, seed=0)
        ncgnn.save(made, path)
    return path


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
            found = child("once", spec | {"settings": told})
            if "error" in found:
                print(kind, name, found["error"], flush=True)
                continue
            record = {"kind": kind, "name": name} | found
            with out.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
            peak = record["peak"] / 2**30
            print(f"{kind} on {name}: {peak:.2f} GiB", flush=True)


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
    print(f"{'kind':22}{'graph':18}{'GiB':>7}{'est.':>7}{'':>6}   left out")
    worst = 0.0
    for kind in dict.fromkeys(one["kind"] for one in records):
        own = [one for one in records if one["kind"] == kind]
        memory = fitted(own, "bytes", "peak")
        table[kind] = {"memory": memory}
        for one in own:
            others = [other for other in own if other is not one]
            gib = guess(memory, one["bytes"])
            off = gib / one["peak"] - 1
            alone = guess(fitted(others, "bytes", "peak"), one["bytes"]) / one["peak"] - 1
            worst = max(worst, abs(off))
            print(
                f"{kind:22}{one['name']:18}{one['peak'] / 2**30:7.2f}{gib / 2**30:7.2f}{off:+6.0%}"
                f"   {alone:+.0%}"
            )
    print(f"largest error: {worst:.0%}")
    if write:
        place = Path(__file__).parents[1] / "src" / "ncgnn" / "training" / "coefficients.toml"
        place.write_text(tomli_w.dumps(table), encoding="utf-8")
        print(f"written: {place}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("once", "guess"):
        commands.add_parser(name).add_argument("spec")
    third = commands.add_parser("check")
    third.add_argument("graphs", nargs="+")
    third.add_argument("--models", default="ncgcn,sage")
    third.add_argument("--batches", action="store_true")
    third.add_argument("--hidden", type=int)
    third.add_argument("--epochs", type=int, default=3)
    third.add_argument("--data-dir", type=Path)
    third.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()))
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
    elif told.command == "guess":
        estimate_once(json.loads(told.spec))
    elif told.command == "check":
        check(told)
    elif told.command == "measure":
        measure(told.out, told.data_dir, told.work, told.folders, told.kinds.split(","))
    else:
        fit(told.measured, told.write)


if __name__ == "__main__":
    main()
