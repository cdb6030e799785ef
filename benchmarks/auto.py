"""Auto against every candidate, the best baseline, and controls of its combination.

python benchmarks/auto.py --data FOLDER [--graphs cora,…] [--seeds 3] [--time 3m] [--cpu-time]
    [--out FOLDER]

Per graph and seed one search with the package's defaults, on the stratified split; all numbers are
test accuracy in percent, mean over seeds. "best by validation" is what a careful person would take;
"best by test" is the candidate with the highest mean over seeds, which nobody can know beforehand.
Baselines are majority, logistic regression, label propagation and boosting. The gate is shown
beside the plain average, a gate without NC and one that sees NC alone, over the same experts.
"covered" is the share of test nodes whose class is within the limits of 90 % sets by NC, "error"
the calibration error.

debian is the release bookworm, split like the others; trixie is trained on bookworm alone (90 % of
the labels, 10 % validate) and tested on the packages that the next release adds. generated is
another graph per seed, whose features say little. Results are kept
in --out, one file per graph and seed, so that the same command continues.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tables import FRACTIONS, IMPORT, run_command, write_tables

import ncgnn
from ncgnn.training import AutoWatcher, auto_run, load_run, make_auto

GRAPHS = (
    *("cora", "citeseer", "cora-ml", "actor", "pubmed", "dblp", "photo", "computers"),
    "generated",
)
TABLES = ("debian", "trixie")
#: Features say little, and label propagation is best.
WEAK: dict[str, Any] = {
    "nodes": 1500,
    "edges": 5000,
    "classes": 4,
    "features": 16,
    "feature_signal": 0.5,
    "groups": [(0.7, 0.9), (0.3, 0.1)],
}
BASELINES = ("majority", "logistic", "propagation", "boosting")
CONTROLS = {
    "average of": "average",
    "gate over": "gate",
    "gate without NC": "without NC",
    "gate of NC": "NC alone",
}


class Lines(AutoWatcher):
    """A line per candidate."""

    def on_row(self, row) -> None:
        """Print it."""
        score = "" if row.val is None else f"{100 * row.val:.2f}"
        print(f"  {row.title[:70]:<70} {row.state:<9} {score:>6} {row.seconds:6.1f} s  {row.why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("NCGNN_DATA"))
    parser.add_argument("--graphs", default=",".join((*GRAPHS, *TABLES)))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--time", default="3m")
    parser.add_argument("--out", type=Path, default=Path("auto-benchmark"))
    parser.add_argument("--only-show", action="store_true")
    parser.add_argument("--cpu-time", action="store_true", help="on a machine that others use, too")
    chosen = parser.parse_args()
    if chosen.data is None:
        sys.exit("name the folder of the graphs with --data, or NCGNN_DATA.")
    warnings.simplefilter("ignore", ncgnn.NcgnnWarning)
    names = chosen.graphs.split(",")
    chosen.out.mkdir(parents=True, exist_ok=True)
    for seed in range(0 if chosen.only_show else chosen.seeds):
        for name in names:
            path = chosen.out / f"{name}-{seed}.json"
            if not path.is_file():
                print(f"{name}, seed {seed}", flush=True)
                path.write_text(json.dumps(measure(name, seed, chosen), indent=1))
    show(names, chosen.out)


def measure(name: str, seed: int, chosen: argparse.Namespace) -> dict[str, object]:
    """One search, and what all of its models score on test nodes."""
    data, later = Path(chosen.data), None
    settings: dict[str, object] = {"time": chosen.time}
    place = data / f"{'actor-undirected' if name == 'actor' else name}.npz"
    if name == "generated":
        place = chosen.out / f"generated-{seed}.npz"
        ncgnn.save(ncgnn.generate(**WEAK, seed=seed), place)
    if name in TABLES:
        place = import_bookworm(data / "debian", chosen.out)
    if name == "trixie":
        settings["data.fractions"] = FRACTIONS
    graph = ncgnn.load(place)
    if name == "trixie":
        tables = chosen.out.resolve() / "tables"
        later = graph.extend(tables / "new-packages.csv", tables / "new-edges.csv")
    wanted = make_auto(dataset=str(place), seed=seed, settings=settings)
    clock = time.process_time if chosen.cpu_time else time.perf_counter
    runs = chosen.out / "runs"
    run = auto_run(wanted, runs, graph=graph, watcher=Lines(), controls=True, clock=clock)
    facts = json.loads((run.folder / "auto.json").read_text())
    rows = [row for row in facts["candidates"] + facts["combinations"] if row["val"] is not None]
    test = run.result["scores"].get("test", {}).get("accuracy")
    if later is not None:
        search = runs / ".auto" / wanted.name / "candidates"
        for row in rows:
            folder = search / row["name"]
            row["test"] = accuracy_on_new(folder, later) if folder.is_dir() else None
        test = accuracy_on_new(run.folder, later)
    kept = {name: facts[name] for name in ("budget", "seconds", "sentence")}
    kept |= {"calibration": run.result["calibration"], "chosen": facts["chosen"]}
    everyone = next(part for part in run.result["sets"]["parts"] if part["by"] == "all")
    kept["covered"] = everyone["lac_by_nc"]["limit_coverage"]
    return kept | {"test": test, "rows": rows}


def import_bookworm(folder: Path, out: Path) -> Path:
    """The older release as a dataset folder; made once."""
    tables = out.resolve() / "tables"
    if not (tables / "debian").is_dir():
        tables.mkdir(parents=True, exist_ok=True)
        write_tables(folder, tables)
        run_command(
            tables, "import", "old-packages.csv", "old-edges.csv", *IMPORT, "--out", "debian"
        )
    return tables / "debian"


def accuracy_on_new(folder: Path, later: ncgnn.Graph) -> float:
    """The share of right answers for the packages that the next release adds."""
    trained = load_run(folder)
    number = {name: place for place, name in enumerate(trained.graph.class_names)}
    answers = trained.predict(later, only="new")["predicted"]
    found = np.array([number[one] for one in answers])
    return float(np.mean(found == later.labels[trained.graph.num_nodes :]))


def show(names: list[str], out: Path) -> None:
    """A line per graph, and whether the bars hold."""
    head = ("graph", "seeds", "best by val", "best by test", "best baseline", "auto")
    print(f"{head[0]:<10}", *(f"{word:>13}" for word in head[1:]), *(
        f"{word:>11}" for word in (*CONTROLS.values(), "covered", "error", "s")
    ), " chosen")  # fmt: skip
    gaps: dict[str, float] = {}
    for name in names:
        paths = sorted(out.glob(f"{name}-[0-9]*.json"))
        if not paths:
            continue
        found = [json.loads(path.read_text()) for path in paths]
        singles = [[row for row in one["rows"] if row["model"] != "mixture"] for one in found]
        by_val = percent([max(rows, key=lambda row: row["val"])["test"] for rows in singles])
        oracle, candidate = best_mean(singles)
        baseline, which = best_mean(
            [[row for row in rows if row["model"] in BASELINES] for rows in singles]
        )
        auto = percent([one["test"] for one in found])
        gaps[name] = auto - oracle
        numbers = [by_val, oracle, baseline, auto]
        controls = [control(found, word) for word in CONTROLS]
        covered = percent([one["covered"] for one in found])
        error = statistics.fmean(one["calibration"]["after"]["calibration_error"] for one in found)
        seconds = statistics.fmean(one["seconds"] for one in found)
        kinds = ", ".join(one["chosen"].split(" ")[0].strip(",") for one in found)
        print(
            f"{name:<10} {len(found):>13}", *(f"{number:13.2f}" for number in numbers),
            *(f"{number:11.2f}" if number is not None else f"{'–':>11}" for number in controls),
            f"{covered:11.1f} {error:11.3f} {seconds:11.0f}",
            f" {kinds} (best by test {candidate}; baseline {which})",
        )  # fmt: skip
    if gaps:
        worst = min(gaps, key=lambda name: gaps[name])
        above = sum(gap > 0 for gap in gaps.values())
        print(f"least above the best single candidate: {gaps[worst]:+.2f} ({worst}); bar -0.2")
        print(f"above it on {above} of {len(gaps)} graphs; bar half of them")


def percent(shares: list[float]) -> float:
    return 100 * statistics.fmean(shares)


def best_mean(seeds: list[list[dict[str, object]]]) -> tuple[float, str]:
    """The highest mean over seeds of a candidate that every seed has, and its title."""
    scores: dict[str, list[float]] = {}
    for rows in seeds:
        for row in rows:
            scores.setdefault(row["title"], []).append(row["test"])
    means = {title: percent(s) for title, s in scores.items() if len(s) == len(seeds)}
    title = max(means, key=lambda one: means[one])
    return means[title], title


def control(found: list[dict[str, object]], word: str) -> float | None:
    """The mean over those seeds that have a combination of a kind, None where one has none."""
    scores = [
        row["test"] for one in found for row in one["rows"]
        if row["title"].startswith(word) and row["test"] is not None
    ]  # fmt: skip
    return percent(scores) if len(scores) == len(found) else None


if __name__ == "__main__":
    main()
