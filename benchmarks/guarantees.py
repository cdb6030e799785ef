"""Prediction sets at 90 %: do they hold for clear and for confused nodes alike?

python benchmarks/guarantees.py --data FOLDER [--graphs cora,…] [--splits 10] [--picture FILE]
    [--new]

For every graph some stratified splits; sets are calibrated on validation nodes and counted on test
nodes, in fifths of the NC that the model estimates, equal values together. Runs are kept in --runs,
and the command continues where it was interrupted. No temperature or limit sees test labels.
With --new, a model of Debian's bookworm also gives sets to the packages that trixie adds.
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
import torch

import ncgnn
from ncgnn._io import write_text
from ncgnn.report import Table
from ncgnn.training import (
    SetRule,
    load_run,
    make_config,
    nc_edges,
    nc_group,
    refit_run,
    telling_confusion,
    train_run,
    with_best,
)
from ncgnn.training.evaluation import calibration_error

FORMAT = 6
ALONE = ("lac", "lac by NC")
COVERAGE = 0.9
#: The larger graphs get at most this many splits.
LARGE, FEW = ("dblp", "pubmed", "computers", "debian"), 3
GRAPHS = (
    *("cora", "citeseer", "cora-ml", "photo", "actor-undirected"),
    *("pubmed", "dblp", "computers", "debian"),
)
#: A two-layer network with residuals.
OPTIONS: dict[str, object] = {
    "hidden": 64,
    "layers": 2,
    "residual": True,
    "learning_rate": 0.01,
    "weight_decay": 5e-4,
    "epochs": 150,
    "patience": 30,
}
#: On some splits nothing is learned in the first thirty epochs.
SLOW = {"computers": {"patience": 100}}
#: The preset of people's own tables, half as wide and with fewer, larger steps.
TABLES: dict[str, object] = {"hidden": 64, "learning_rate": 0.02, "epochs": 60, "patience": 20}
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
    parser.add_argument("--new", action="store_true", help="also sets for Debian's new packages")
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
    if chosen.new:
        print(new_packages(chosen).markdown())


def split_facts(name: str, seed: int, chosen: argparse.Namespace) -> dict:
    """What sets do on one split of a graph, from a file if it was measured before."""
    kept = chosen.runs / f"{name}-{seed}.json"
    if kept.is_file() and (facts := json.loads(kept.read_text()))["format"] == FORMAT:
        return facts
    began = time.perf_counter()
    if name == "debian":
        dataset, model, options = str(debian(chosen)), "tuned-sage", TABLES
    else:
        dataset, model, options = name, "tuned-gcn", OPTIONS | SLOW.get(name, {})
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
    val, test, labels = trained.split.val, trained.split.test, trained.graph.labels
    shares, confusion = trained.probabilities(), trained.outcome.confusion
    like = np.sort(confusion[~trained.seen])
    edges = nc_edges(like)
    fifth = nc_group(confusion[test], edges)
    each = [fifth == one for one in range(fifth.max() + 1)]
    alone = trained.outcome.kinds[test] == "alone"
    result = trained.evaluate(coverage=COVERAGE)
    errors = [result["calibration"][when]["calibration_error"] for when in ("before", "after")]
    facts = {
        "accuracy": result["scores"]["test"]["accuracy"],
        "errors": errors,
        "fifths": [int(part.sum()) for part in each],
        # The part that each fifth ends in: with many equal values it is that of several fifths.
        "parts": nc_group(like[-(-len(like) * np.arange(1, 6) // 5) - 1], edges).tolist(),
        "nc": [float(confusion[test][part].mean()) for part in each],
        "alone": int(alone.sum()),
        "rules": {},
    }
    # Half of the test nodes calibrate, which have selected nothing, and the others are counted.
    halves = np.array_split(np.random.default_rng(seed).permutation(len(test)), 2)
    for name, rule in RULES.items():
        bare = sets_of(trained, *rule, val, test)
        given = with_best(bare, shares[test])
        fresh = np.empty_like(bare)
        for mine, other in (halves, halves[::-1]):
            fresh[mine] = sets_of(trained, *rule, test[other], test[mine])
        columns = {"limit": bare, "given": given, "fresh": fresh}
        facts["rules"][name] = {"size": float(given.sum(1).mean())}
        facts["rules"][name]["empty"] = float((~bare.any(1)).mean())
        for key, sets in columns.items():
            holds = sets[np.arange(len(test)), labels[test]]
            facts["rules"][name][key] = float(holds.mean())
            facts["rules"][name][f"{key}_alone"] = (
                float(holds[alone].mean()) if alone.any() else None
            )
            facts["rules"][name][f"{key}_fifths"] = [float(holds[part].mean()) for part in each]
    return facts


def sets_of(
    trained: ncgnn.training.TrainedModel,
    score: str,
    by: bool,
    calibrating: np.ndarray,
    nodes: np.ndarray,
) -> np.ndarray:
    """The sets of some nodes, which may be empty, when others calibrate."""
    shares, outcome, ids = trained.probabilities(), trained.outcome, trained.graph.ids
    confusion = telling_confusion(outcome.confusion, outcome.kinds)
    rule = SetRule.fit(
        shares[calibrating],
        trained.graph.labels[calibrating],
        confusion[calibrating] if by else None,
        coverage=COVERAGE,
        score=score,
        ids=ids[calibrating],
        like=confusion[~trained.seen],
    )
    return rule.sets(shares[nodes], confusion[nodes], ids[nodes], allow_empty=True)


def new_packages(chosen: argparse.Namespace) -> Table:
    """Coverage on nodes that arrive after training, which are not quite like those before."""
    config = make_config(
        dataset=str(debian(chosen)),
        model="tuned-sage",
        settings={**TABLES, "fractions": (0.9, 0.1, 0.0)},
    )
    run = train_run(config, chosen.runs / "runs")
    trained = refit_run(run.folder)
    release = chosen.data / "debian" / "trixie"
    later = trained.graph.extend(release / "packages.parquet", release / "dependencies.parquet")
    truth = later.labels[trained.graph.num_nodes :]
    rows = [
        new_row(trained, later, truth, refit, rule) for refit in (False, True) for rule in RULES
    ]
    head = ("weights", "accuracy", "calibration error before", "and after", "sets", "coverage")
    return Table(
        f"{len(truth):,} packages that trixie adds to bookworm; sets that are never empty",
        (*head, "size", "in groups of NC", f"kinds: {', '.join(ncgnn.metrics.KINDS)}"),
        tuple(rows),
    )


def new_row(
    trained: ncgnn.training.TrainedModel,
    later: ncgnn.Graph,
    truth: np.ndarray,
    refit: bool,
    rule: str,
) -> tuple[str, ...]:
    """What one rule gives the new packages, by the run or by the refitted model."""
    (score, by), names = RULES[rule], np.array(later.class_names)
    asked = {"coverage": COVERAGE, "sets": score, "sets_by": "nc" if by else "none"}
    answers = trained.predict(later, only="new", refit=refit, probabilities=True, **asked)
    holds = np.array(
        [names[label] in one["set"] for label, one in zip(truth, answers, strict=True)]
    )
    group = nc_group(answers["nc"], trained.set_rule(COVERAGE, score, "nc").edges)
    parts = [group == one for one in range(group.max() + 1)]
    kinds = [answers["kind"] == kind for kind in ncgnn.metrics.KINDS]
    shares = np.stack([answers[f"probability_{name}"] for name in names], axis=1)
    logits = (trained.refitted if refit else trained).look_at(later).answer.logits
    raw = torch.softmax(logits.double(), dim=1).numpy()
    return (
        "refitted" if refit else "the run",
        f"{100 * np.mean(shares.argmax(1) == truth):.1f}",
        *(f"{calibration_error(truth, one):.3f}" for one in (raw, shares)),
        rule,
        f"{100 * holds.mean():.1f}",
        f"{answers['set_size'].mean():.2f}",
        *(" · ".join(f"{100 * holds[one].mean():.1f}" for one in of) for of in (parts, kinds)),
    )


def mean_of(facts: list[dict], read) -> np.ndarray:
    """The mean over splits of something per fifth.

    Equal values stay together, so that a part may be several fifths, which then have its value; in
    which splits that is so depends on chance.
    """
    rows = [np.array(read(one))[one["parts"]] for one in facts]
    return np.mean(rows, axis=0)[first_fifths(facts)]


def first_fifths(facts: list[dict]) -> np.ndarray:
    """The first fifth of each run of fifths that are one part in every split."""
    parts = np.array([one["parts"] for one in facts])
    return np.flatnonzero(np.append(True, (np.diff(parts, axis=1) > 0).any(axis=0)))


def fifth_names(facts: list[dict]) -> list[str]:
    """The fifths of each part, like 1–3."""
    first = first_fifths(facts).tolist()
    pairs = zip(first, [*first[1:], 5], strict=True)
    return [f"{low + 1}" if high == low + 1 else f"{low + 1}–{high}" for low, high in pairs]


def show(name: str, facts: list[dict]) -> None:
    """One graph in a few lines, as soon as it is measured."""
    accuracy = 100 * np.mean([one["accuracy"] for one in facts])
    print(f"{name}: {len(facts)} splits, accuracy {accuracy:.2f}", file=sys.stderr, flush=True)
    for rule in RULES:
        fifths = 100 * mean_of(facts, lambda one, rule=rule: one["rules"][rule]["limit_fifths"])
        pairs = zip(fifth_names(facts), fifths, strict=True)
        text = "  ".join(f"{fifth}: {one:.1f}" for fifth, one in pairs)
        print(f"  {rule:<18} {text}", file=sys.stderr, flush=True)


def tables(found: dict[str, list[dict]]) -> list[Table]:
    """Coverage in fifths, sizes, and what selection on validation nodes costs."""
    names = ("LAC", "LAC by NC", "APS", "APS by NC")
    note = f"Fifths with fewer than {FEWEST} test nodes on average are in parentheses."
    return [
        Table(
            "Coverage in percent in fifths of estimated NC, lowest first; 90 promised",
            ("graph", "splits", "accuracy", "fifths", *names),
            tuple(fifths_row(name, facts) for name, facts in found.items()),
            (note, *misses(found)),
        ),
        Table(
            "Sets that are never empty: mean size, and coverage in fifths of LAC by NC",
            ("graph", *RULES, "coverage"),
            tuple(size_row(name, facts) for name, facts in found.items()),
        ),
        Table(
            "Coverage over all nodes, calibrated on validation nodes and on fresh ones",
            (
                *("graph", "LAC", "LAC by NC", "LAC, fresh", "LAC by NC, fresh", "empty sets, %"),
                *("LAC by NC, fresh, in fifths", "calibration error before", "and after"),
            ),
            tuple(overall_row(name, facts) for name, facts in found.items()),
        ),
        Table(
            "Coverage of nodes without neighbors, sets may be empty",
            ("graph", "such test nodes", "LAC", "LAC by NC"),
            tuple(alone_row(name, facts) for name, facts in found.items() if facts[0]["alone"]),
        ),
    ]


def alone_row(name: str, facts: list[dict]) -> tuple[str, ...]:
    """How many nodes without neighbors there are, and how often their sets hold their class."""
    known = [one for one in facts if one["alone"]]
    told = (f"{100 * mean_over_splits(known, rule, 'limit_alone'):.1f}" for rule in ALONE)
    return (name, f"{np.mean([one['alone'] for one in facts]):.0f}", *told)


def fifths_row(name: str, facts: list[dict]) -> tuple[str, ...]:
    """Coverage of the four rules in every fifth, sets that may be empty."""
    accuracy = 100 * np.mean([one["accuracy"] for one in facts])
    cells = (fifths_cell(facts, rule) for rule in ("lac", "lac by NC", "aps", "aps by NC"))
    return (name, f"{len(facts)}", f"{accuracy:.1f}", " · ".join(fifth_names(facts)), *cells)


def fifths_cell(facts: list[dict], rule: str, key: str = "limit_fifths") -> str:
    shares = 100 * mean_of(facts, lambda one: one["rules"][rule][key])
    counts = mean_of(facts, lambda one: one["fifths"])
    pairs = zip(shares, counts, strict=True)
    return " · ".join(f"{s:.1f}" if n >= FEWEST else f"({s:.1f})" for s, n in pairs)


def misses(found: dict[str, list[dict]]) -> list[str]:
    """Sentences on fifths whose LAC sets by NC are outside of the bar, with their error."""
    told = []
    for name, facts in found.items():
        counts = mean_of(facts, lambda one: one["fifths"])
        shares = mean_of(facts, lambda one: one["rules"]["lac by NC"]["limit_fifths"])
        rows = [np.array(one["rules"]["lac by NC"]["limit_fifths"])[one["parts"]] for one in facts]
        spread = np.std(rows, axis=0, ddof=1) if len(rows) > 1 else np.zeros(5)
        errors = spread[first_fifths(facts)] / np.sqrt(len(rows))
        for fifth, share, error, count in zip(
            fifth_names(facts), shares, errors, counts, strict=True
        ):
            if count >= FEWEST and not LOW <= share <= HIGH:
                told.append(f"Missed: {name}, {fifth}: {100 * share:.1f} ± {100 * error:.1f}.")
    return told


def size_row(name: str, facts: list[dict]) -> tuple[str, ...]:
    sizes = (f"{mean_over_splits(facts, rule, 'size'):.2f}" for rule in RULES)
    return (name, *sizes, fifths_cell(facts, "lac by NC", "given_fifths"))


def overall_row(name: str, facts: list[dict]) -> tuple[str, ...]:
    """What validation nodes promise, and what nodes would that have selected nothing."""
    keys = (("lac", "limit"), ("lac by NC", "limit"), ("lac", "fresh"), ("lac by NC", "fresh"))
    shares = [100 * mean_over_splits(facts, rule, key) for rule, key in keys]
    empty = 100 * mean_over_splits(facts, "lac by NC", "empty")
    errors = np.mean([one["errors"] for one in facts], axis=0)
    told = (f"{one:.1f}" for one in (*shares, empty))
    fresh = fifths_cell(facts, "lac by NC", "fresh_fifths")
    return (name, *told, fresh, *(f"{one:.3f}" for one in errors))


def mean_over_splits(facts: list[dict], rule: str, key: str) -> float:
    return float(np.mean([one["rules"][rule][key] for one in facts]))


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
                shares = mean_of(facts, lambda one, rule=rule: one["rules"][rule]["limit_fifths"])
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
