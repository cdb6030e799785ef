"""Accuracy with the paper's parameters: runs what is missing, and keeps the outcome as JSON lines.

    python benchmarks/accuracy.py --data-dir DIR

Stopping it loses at most a few seconds of work; the same command goes on. Finished cells are added
to results/accuracy.jsonl, from which benchmarks/results.py makes the tables of RESULTS.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from ncgnn.training import RunConfig

QUICK = ("chameleon-filtered", "squirrel-filtered", "actor")
SLOW = ("photo", "pubmed")
LARGE = ("computers", "coauthor-cs", "coauthor-physics")
MODES = ("renormalised", "strict", "source", "ego")
STORE = Path(__file__).parent.parent / "results" / "accuracy.jsonl"


def cells() -> list[tuple[str, str, dict[str, object], int]]:
    """Data set, model, settings and seed of every run, most wanted first."""
    wanted: list[tuple[str, str, dict[str, object], int]] = []

    def add(datasets, model, seeds, separation="renormalised", **options):
        chosen = {"model.separation": separation}
        for name, value in options.items():
            section = {"scaling": "data", "patience": "training", "class_shares": "training"}.get(
                name, "model"
            )
            chosen[f"{section}.{name}"] = value
        wanted.extend((d, model, chosen, s) for s in seeds for d in datasets)

    def modes(datasets, seeds):
        for mode in MODES:
            add(datasets, "ncgcn", seeds, mode)
        # What is the second channel good for when nobody is in it? No node is ever above T = 1.
        add(datasets, "ncgcn", seeds, "ego", threshold=1.0)

    def ablations(datasets, seeds):
        for mode in ("none", "target-only"):
            add(datasets, "ncgcn", seeds, mode)
        add(datasets, "ncgcn", seeds, guidance="nh", threshold=0.5)

    def extensions(datasets, seeds):
        for option in ("known_labels", "activation"):
            add(datasets, "ncgcn", seeds, **{option: True})
        add(datasets, "ncgcn", seeds, threshold_kind="quantile", threshold=0.5)
        for dataset in datasets:
            add((dataset,), "ncgcn", seeds, **three_groups(dataset))

    modes(QUICK, range(3))
    modes(SLOW, range(3))
    add(SLOW, "ncgcn", range(3), "none")
    add(SLOW[:1], "ncgcn", range(3), scaling="raw")
    add(SLOW[:1], "ncgcn", range(3), patience=500)
    ablations((*QUICK, *SLOW[:1]), range(3))
    for mode in ("renormalised", "strict"):
        add((*QUICK, *SLOW), "ncsage", range(1), mode)
    add(SLOW[:1], "ncgcn", range(3), scaling="raw", patience=500)
    add((*QUICK, *SLOW), "ncsage", range(1, 3))
    add(LARGE[:1], "ncgcn", range(1))
    add((*SLOW[1:], *LARGE[:1]), "ncgcn", range(1), scaling="raw")
    for model in ("ncgcn", "ncsage"):
        add(LARGE, model, range(1))
    # What the authors' released NCSAGE computes, and no groups at all.
    for mode in ("unmasked", "none"):
        add((*QUICK, *SLOW[:1]), "ncsage", range(1), mode)
    add(LARGE[:1], "ncsage", range(1), "unmasked")
    extensions(QUICK, range(3))
    # Training nodes are balanced by the split rule, other nodes are not: correct answers for that.
    for model in ("ncgcn", "ncsage"):
        add((*QUICK, *SLOW), model, range(3 if model == "ncgcn" else 1), class_shares="val")
    add(QUICK, "ncgcn", range(3), "none", class_shares="val")
    add((LARGE[2], LARGE[0]), "ncsage", range(1), class_shares="val")
    add((*QUICK, *SLOW), "ncgcn", range(3, 10))
    add(QUICK, "ncsage", range(3, 10))
    for model in ("ncgcn", "ncsage"):
        add(LARGE, model, range(1, 3))
    add(SLOW, "ncsage", range(3, 10))
    modes(QUICK[:2], range(3, 10))
    ablations(QUICK[:2], range(3, 10))
    ablations(SLOW[1:], range(1))
    ablations(LARGE, range(1))
    add((*QUICK, *SLOW), "ncgcn", range(1), hops=3)
    add(LARGE, "ncgcn", range(1), hops=3)
    add((*QUICK, SLOW[0]), "ncgcn", range(1, 3), hops=3)
    add(LARGE[1:], "ncgcn", range(1), class_shares="val")
    return wanted


def configs(datasets: Collection[str] = (*QUICK, *SLOW, *LARGE)) -> list[RunConfig]:
    """All runs on some data sets."""
    from ncgnn.training import make_config

    return [
        make_config(dataset=dataset, model=model, split="paper", seed=seed, settings=settings)
        for dataset, model, settings, seed in cells()
        if dataset in datasets
    ]


def three_groups(dataset: str) -> dict[str, list[float]]:
    """A group between the paper's two: NC from half its threshold to the whole."""
    from ncgnn.training import preset

    options = preset("ncgcn", dataset)["model"]
    (low, high), limit = options["dropout"], options["threshold"]
    return {"threshold": [limit / 2, limit], "dropout": [low, (low + high) / 2, high]}


def main() -> None:
    from _kept import arguments, keep

    parser = arguments(__doc__, "runs/accuracy")
    parser.add_argument("--datasets", help="by default all")
    given = parser.parse_args()
    wanted = configs(given.datasets.split(",")) if given.datasets else configs()
    keep(wanted, STORE, given)


if __name__ == "__main__":
    main()
