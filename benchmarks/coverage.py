"""Prediction sets at 90 %: do they hold for clear and for confused nodes alike?

python benchmarks/coverage.py --data FOLDER [--graphs cora,…] [--splits 10] [--picture FILE]

For every graph some stratified splits; sets are calibrated on validation nodes and counted on test
nodes, in fifths of the NC that the model estimates, equal values together. Runs are kept in --runs,
and the command continues where it was interrupted. Nothing is chosen with labels of test nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import ncgnn
from ncgnn._io import write_text
from ncgnn.report import Table
from ncgnn.training import (
    SetRule,
    load_run,
    make_config,
    nc_edges,
    nc_group,
    train_run,
    with_best,
)

FORMAT = 1
COVERAGE = 0.9
#: The larger graphs get at most this many splits.
LARGE, FEW = ("dblp", "pubmed", "computers", "debian"), 3
GRAPHS = (
    *("cora", "citeseer", "cora-ml", "photo", "actor-undirected"),
    *("pubmed", "dblp", "computers", "debian"),
)
#: A two-layer network with residuals; people's own tables have a preset.
OPTIONS = {
    "hidden": 64,
    "layers": 2,
    "residual": True,
    "learning_rate": 0.01,
    "weight_decay": 5e-4,
    "epochs": 150,
    "patience": 30,
}
RULES = {
    f"{score}{' by NC' if by else ''}": (score, by)
    for score in ("lac", "aps", "aps-random")
    for by in (False, True)
}
#: A fifth counts where it has as many evaluated nodes on average over splits.
FEWEST = 100
LOW, HIGH = 0.88, 0.92


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("NCGNN_DATA"))
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=Path("coverage-runs"))
    parser.add_argument("--picture", type=Path, help="also draw a PNG file")
    chosen = parser.parse_args()
    if chosen.data is None:
        sys.exit("name the folder of the graphs with --data or NCGNN_DATA.")
    warnings.simplefilter("ignore", ncgnn.NcgnnWarning)
    found = {}
    for name in chosen.graphs.split(","):
        splits = min(chosen.splits, FEW) if name in LARGE else chosen.splits
        found[name] = [split_facts(name, seed, chosen) for seed in range(splits)]
        show(name, found[name])
    for table in tables(found):
        print(table.markdown(), flush=True)
    if chosen.picture is not None:
        draw(found, chosen.picture)


def split_facts(name: str, seed: int, chosen: argparse.Namespace) -> dict:
    """What sets do on one split of a graph, from a file if it was measured before."""
    kept = chosen.runs / f"{name}-{seed}.json"
    if kept.is_file() and (facts := json.loads(kept.read_text()))["format"] == FORMAT:
        return facts
    began = time.perf_counter()
    if name == "debian":
        dataset, model, options = str(debian(chosen)), "tuned-sage", {}
    else:
        dataset, model, options = name, "tuned-gcn", OPTIONS
    config = make_config(dataset=dataset, model=model, seed=seed, settings=options)
    run = train_run(config, chosen.runs / "runs", data_dir=chosen.data)
    facts = measure(load_run(run.folder, chosen.data), seed)
    write_text(kept, json.dumps({"format": FORMAT, **facts}))
    seconds = time.perf_counter() - began
    print(f"{name}, split {seed}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return facts


def debian(chosen: argparse.Namespace) -> Path:
    """Debian's bookworm as a dataset folder."""
    place, tables = chosen.runs / "debian", chosen.data / "debian" / "bookworm"
    if not ncgnn.data.is_folder(place):
        graph = ncgnn.read_tables(
            tables / "packages.parquet",
            tables / "dependencies.parquet",
            id="package",
            label="section",
            kind="kind",
        )
        ncgnn.data.write_folder(graph, place)
    return place


def measure(trained: ncgnn.training.TrainedModel, seed: int) -> dict:
    """Coverage and sizes on test nodes, and what fresh calibration nodes would give."""
    val, test, graph = trained.split.val, trained.split.test, trained.graph
    shares, confusion, labels = trained.probabilities(), trained.outcome.confusion, graph.labels
    fifth = nc_group(confusion[test], nc_edges(confusion[test]))
    result = trained.evaluate(COVERAGE)
    facts = {
        "accuracy": result["scores"]["test"]["accuracy"],
        "errors": [result["calibration"][when]["calibration_error"] for when in ("before", "after")],
        "fifths": np.bincount(fifth[fifth >= 0]).tolist(),
        "nc": [float(confusion[test][fifth == one].mean()) for one in range(fifth.max() + 1)],
        "rules": {},
        "fresh": {},
    }
    # Half of the test nodes calibrate, which have selected nothing; the others are counted.
    halves = np.array_split(np.random.default_rng(seed).permutation(test), 2)
    for name, (score, by) in RULES.items():

        def fit(nodes, score=score, by=by):
            return SetRule.fit(
                shares[nodes],
                labels[nodes],
                confusion[nodes] if by else None,
                coverage=COVERAGE,
                score=score,
                ids=graph.ids[nodes],
            )

        def sets(rule, nodes):
            found = rule.sets(shares[nodes], confusion[nodes], graph.ids[nodes], allow_empty=True)
            return found, found[np.arange(len(nodes)), labels[nodes]]

        bare, holds = sets(fit(val), test)
        given = with_best(bare, shares[test])
        kept = given[np.arange(len(test)), labels[test]]
        each = [fifth == one for one in range(fifth.max() + 1)]
        facts["rules"][name] = {
            "coverage": float(holds.mean()),
            "fifths": [float(holds[part].mean()) for part in each],
            "kept_coverage": float(kept.mean()),
            "kept_fifths": [float(kept[part].mean()) for part in each],
            "size": float(given.sum(1).mean()),
            "sizes": [float(given[part].sum(1).mean()) for part in each],
            "empty": float((~bare.any(1)).mean()),
        }
        both = [sets(fit(halves[one]), halves[1 - one])[1] for one in (0, 1)]
        facts["fresh"][name] = float(np.mean([one.mean() for one in both]))
    return facts


def mean_of(facts: list[dict], read) -> np.ndarray:
    """The mean over splits of something per fifth; splits with other ties have fewer fifths."""
    usual = int(np.median([len(one["fifths"]) for one in facts]))
    rows = [read(one) for one in facts if len(one["fifths"]) == usual]
    return np.mean(rows, axis=0)


def show(name: str, facts: list[dict]) -> None:
    """One graph in a few lines, as soon as it is measured."""
    accuracy = 100 * np.mean([one["accuracy"] for one in facts])
    print(f"{name}: {len(facts)} splits, accuracy {accuracy:.2f}", file=sys.stderr, flush=True)
    for rule in RULES:
        fifths = 100 * mean_of(facts, lambda one, rule=rule: one["rules"][rule]["fifths"])
        text = " ".join(f"{one:.1f}" for one in fifths)
        print(f"  {rule:<18} {text}", file=sys.stderr, flush=True)


def tables(found: dict[str, list[dict]]) -> list[Table]:
    """Coverage in fifths, sizes, and what selection on validation nodes costs."""
    fifths, sizes, fresh = [], [], []
    for name, facts in found.items():
        counts = mean_of(facts, lambda one: one["fifths"])
        accuracy = np.mean([one["accuracy"] for one in facts])
        head = (name, f"{len(facts)}", f"{100 * accuracy:.1f}")

        def cell(rule, key="fifths", facts=facts, counts=counts):
            shares = mean_of(facts, lambda one: one["rules"][rule][key])
            pairs = zip(shares, counts, strict=True)
            return " · ".join(f"{100 * s:.1f}" if n >= FEWEST else f"({100 * s:.1f})" for s, n in pairs)

        kept = cell("lac by NC", "kept_fifths")
        fifths.append((*head, cell("lac"), cell("lac by NC"), cell("aps"), cell("aps by NC"), kept))

        def mean(rule, key, facts=facts):
            return np.mean([one["rules"][rule][key] for one in facts])

        sizes.append((name, *(f"{mean(rule, 'size'):.2f}" for rule in RULES)))
        errors = np.mean([one["errors"] for one in facts], axis=0)
        told = [f"{100 * mean(rule, 'coverage'):.1f}" for rule in ("lac", "lac by NC")]
        other = [
            f"{100 * np.mean([one['fresh'][rule] for one in facts]):.1f}"
            for rule in ("lac", "lac by NC")
        ]
        empty = f"{100 * mean('lac by NC', 'empty'):.1f}"
        fresh.append((name, *told, *other, empty, *(f"{one:.3f}" for one in errors)))
    note = f"Fifths with fewer than {FEWEST} test nodes on average in parentheses."
    names = ("LAC", "LAC by NC", "APS", "APS by NC")
    return [
        Table(
            "Coverage in percent in fifths of estimated NC, lowest first; 90 promised",
            ("graph", "splits", "accuracy", *names, "LAC by NC, never empty"),
            tuple(fifths),
            (note,),
        ),
        Table("Mean size of sets, never empty", ("graph", *RULES), tuple(sizes)),
        Table(
            "Coverage over all nodes, calibrated on validation nodes and on fresh ones",
            (
                *("graph", "LAC", "LAC by NC", "LAC, fresh", "LAC by NC, fresh", "empty sets, %"),
                *("calibration error before", "and after"),
            ),
            tuple(fresh),
        ),
    ]


def draw(found: dict[str, list[dict]], path: Path) -> None:
    """A panel per graph: coverage in every fifth, with one limit and with limits by NC."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from ncgnn._io import atomic_write
    from ncgnn.report import BLUE, GRAY, STYLE, VERMILION, picture, show_percent

    with rc_context(STYLE):
        columns = 5
        rows = -(-len(found) // columns)
        figure = Figure(figsize=(2.3 * columns, 2.2 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for axis, (name, facts) in zip(grid.flat, found.items(), strict=False):
            counts = mean_of(facts, lambda one: one["fifths"])
            confusion = mean_of(facts, lambda one: one["nc"])
            places = np.arange(len(counts))
            axis.axhspan(LOW, HIGH, color=GRAY, alpha=0.15, linewidth=0)
            axis.axhline(COVERAGE, color=GRAY, linestyle="--", linewidth=1)
            for rule, color, marker, label in (
                ("lac", VERMILION, "s", "one limit for all nodes"),
                ("lac by NC", BLUE, "o", "a limit for every group of NC"),
            ):
                shares = mean_of(facts, lambda one, rule=rule: one["rules"][rule]["fifths"])
                axis.plot(places, shares, color=color, marker=marker, markersize=4.5, label=label)
            axis.set_xticks(places, [f"{one:.2f}" for one in confusion], fontsize=7.5)
            axis.set_xlim(-0.4, len(counts) - 0.6)
            axis.set_title(f"{name} ({len(facts)} splits)", fontsize=9)
            show_percent(axis.yaxis)
        for axis in list(grid.flat)[len(found) :]:
            axis.set_axis_off()
        grid.flat[0].set_ylim(0.55, 1.0)
        figure.supxlabel("mean estimated NC of each fifth of the test nodes", fontsize=9)
        figure.supylabel("LAC sets that hold the class, 90% promised", fontsize=9)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False)
        with atomic_write(path) as stream:
            stream.write(picture(figure, "png"))


if __name__ == "__main__":
    main()
