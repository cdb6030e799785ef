"""Accuracy with the paper's parameters: runs what is missing, and keeps the outcome as JSON lines.

    OMP_NUM_THREADS=1 python benchmarks/accuracy.py --data-dir DIR --part 0/2 &
    OMP_NUM_THREADS=1 python benchmarks/accuracy.py --data-dir DIR --part 1/2

Cells are taken in the order of CELLS. Stopping it loses at most a few seconds of work; the same
command goes on. Finished cells are appended to results/accuracy.jsonl, from which
benchmarks/accuracy_table.py makes the tables of RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

from ncgnn._memory import keep_freed_memory

SMALL = ("chameleon-filtered", "squirrel-filtered", "actor", "photo", "pubmed")
LARGE = ("computers", "coauthor-cs", "coauthor-physics")
MODES = ("renormalised", "strict", "source", "ego")
STORE = Path(__file__).parent.parent / "results" / "accuracy.jsonl"


def cells() -> list[tuple[str, str, dict[str, object], int]]:
    """Data set, model, settings and seed of every run, most wanted first."""
    wanted: list[tuple[str, str, dict[str, object], int]] = []

    def add(datasets, model, settings, seeds):
        wanted.extend((d, model, settings, s) for s in seeds for d in datasets)

    for mode in MODES:
        add(SMALL[:4], "ncgcn", {"model.separation": mode}, range(3))
    for mode in MODES:
        add(SMALL[4:], "ncgcn", {"model.separation": mode}, range(1))
    add(SMALL, "ncsage", {}, range(1))
    # What is the second channel good for when nobody is in it? No node is ever above T = 1.
    add(SMALL[:4], "ncgcn", {"model.separation": "ego", "model.threshold": 1.0}, range(3))
    add(SMALL[:4], "ncgcn", {"model.separation": "none"}, range(3))
    add(SMALL[:4], "ncgcn", {"model.separation": "target-only"}, range(3))
    add(SMALL[:4], "ncgcn", {"model.guidance": "nh", "model.threshold": 0.5}, range(3))
    add(LARGE, "ncgcn", {"model.separation": "renormalised"}, range(1))
    add(SMALL, "ncsage", {}, range(3))
    for mode in MODES:
        add(SMALL[4:], "ncgcn", {"model.separation": mode}, range(1, 3))
    add(SMALL, "ncgcn", {"model.separation": "renormalised"}, range(3, 10))
    add(LARGE, "ncsage", {}, range(1))
    add(SMALL, "ncsage", {}, range(3, 10))
    add(LARGE, "ncgcn", {"model.separation": "renormalised"}, range(1, 3))
    add(LARGE, "ncsage", {}, range(1, 3))
    return wanted


def main() -> None:
    from ncgnn.training._presets import make_config
    from ncgnn.training._run import train_run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/accuracy"))
    parser.add_argument("--split", default="paper")
    parser.add_argument("--part", default="0/1", help="take every n-th cell: 0/2 and 1/2 are all")
    arguments = parser.parse_args()
    keep_freed_memory()
    warnings.simplefilter("ignore")
    STORE.parent.mkdir(exist_ok=True)
    known = set()
    if STORE.is_file():
        known = {json.loads(line)["name"] for line in STORE.read_text().splitlines()}
    part, parts = (int(number) for number in arguments.part.split("/"))
    for dataset, model, settings, seed in cells()[part::parts]:
        config = make_config(
            dataset=dataset, model=model, split=arguments.split, seed=seed, settings=settings
        )
        if config.name in known:
            continue
        outcome = train_run(config, arguments.runs, data_dir=arguments.data_dir)
        record = {
            "name": config.name,
            "config": config.model_dump(mode="json"),
            "result": outcome.result,
            "seconds": round(outcome.seconds, 1),
        }
        with STORE.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
        known.add(config.name)
        val, test = (outcome.result["scores"][part]["accuracy"] for part in ("val", "test"))
        chosen = " ".join(f"{key}={value}" for key, value in settings.items())
        print(
            f"{dataset:20} {model:7} {chosen:50} seed {seed}  val {100 * val:.2f}  test "
            f"{100 * test:.2f}  {outcome.seconds:.0f} s, {outcome.result['epochs']} epochs",
            flush=True,
        )


if __name__ == "__main__":
    main()
