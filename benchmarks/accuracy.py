"""Accuracy with the paper's parameters: runs what is missing, and keeps the outcome as JSON lines.

    python benchmarks/accuracy.py --data-dir DIR

Stopping it loses at most a few seconds of work; the same command goes on. Finished cells are added
to results/accuracy.jsonl, from which benchmarks/results.py makes the tables of RESULTS.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ncgnn.training import RunConfig

Planned = tuple[str, str, dict[str, object], int]
QUICK = ("chameleon-filtered", "squirrel-filtered", "actor")
SLOW = ("photo", "pubmed")
LARGE = ("computers", "coauthor-cs", "coauthor-physics")
MODES = ("renormalised", "strict", "source", "ego")
OURS = ("ncgcn", "ncsage")
STORE = Path(__file__).parent.parent / "results" / "accuracy.jsonl"


def some(
    datasets: Iterable[str],
    model: str,
    seeds: Iterable[int],
    separation: str = "renormalised",
    **options: object,
) -> list[Planned]:
    """Runs of one model with some options, seed by seed."""
    chosen: dict[str, object] = {"model.separation": separation}
    sections = {"scaling": "data", "patience": "training", "class_shares": "training"}
    chosen |= {f"{sections.get(name, 'model')}.{name}": value for name, value in options.items()}
    return [(dataset, model, chosen, seed) for seed in seeds for dataset in datasets]


def modes(datasets: Sequence[str], seeds: Sequence[int]) -> list[Planned]:
    """The modes of separation.

    What is the second channel good for when nobody is in it? No node is ever above T = 1.
    """
    alone = some(datasets, "ncgcn", seeds, "ego", threshold=1.0)
    return [run for mode in MODES for run in some(datasets, "ncgcn", seeds, mode)] + alone


def ablations(datasets: Sequence[str], seeds: Sequence[int]) -> list[Planned]:
    """Those of the paper."""
    return [
        *some(datasets, "ncgcn", seeds, "none"),
        *some(datasets, "ncgcn", seeds, "target-only"),
        *some(datasets, "ncgcn", seeds, guidance="nh", threshold=0.5),
    ]


def extensions(datasets: Sequence[str], seeds: Sequence[int]) -> list[Planned]:
    """What the paper leaves open."""
    return [
        *some(datasets, "ncgcn", seeds, known_labels=True),
        *some(datasets, "ncgcn", seeds, activation=True),
        *some(datasets, "ncgcn", seeds, threshold_kind="quantile", threshold=0.5),
        *(run for one in datasets for run in some((one,), "ncgcn", seeds, **three_groups(one))),
    ]


def shifted() -> list[Planned]:
    """Training nodes are balanced by the split rule, other nodes are not: answers corrected."""
    corrected = {"class_shares": "val"}
    return [
        *some((*QUICK, *SLOW), "ncgcn", range(3), **corrected),
        *some((*QUICK, *SLOW), "ncsage", range(1), **corrected),
        *some(QUICK, "ncgcn", range(3), "none", **corrected),
        *some((LARGE[2], LARGE[0]), "ncsage", range(1), **corrected),
        *some(SLOW[:1], "ncsage", range(1, 3), **corrected),
        *some(LARGE[1:], "ncgcn", range(3), **corrected),
    ]


def cells() -> list[Planned]:
    """Data set, model, settings and seed of every run, most wanted first."""
    few = (*QUICK, *SLOW)
    return [
        *modes(QUICK, range(3)),
        *modes(SLOW, range(3)),
        *some(SLOW, "ncgcn", range(3), "none"),
        *some(SLOW[:1], "ncgcn", range(3), scaling="raw"),
        *some(SLOW[:1], "ncgcn", range(3), patience=500),
        *ablations((*QUICK, *SLOW[:1]), range(3)),
        *(run for m in MODES[:2] for run in some(few, "ncsage", range(1), m)),
        *some(SLOW[:1], "ncgcn", range(3), scaling="raw", patience=500),
        *some(few, "ncsage", range(1, 3)),
        *some((*SLOW[1:], *LARGE[:1]), "ncgcn", range(1), scaling="raw"),
        *(run for model in OURS for run in some(LARGE, model, range(1))),
        # What the authors' released NCSAGE computes, and no groups at all.
        *some((*QUICK, SLOW[0], LARGE[0]), "ncsage", range(1), "unmasked"),
        *some((*QUICK, SLOW[0]), "ncsage", range(1), "none"),
        *extensions(QUICK, range(3)),
        *shifted(),
        *some(few, "ncgcn", range(3, 10)),
        *some(QUICK, "ncsage", range(3, 10)),
        *(run for model in OURS for run in some(LARGE, model, range(1, 3))),
        *some(SLOW, "ncsage", range(3, 10)),
        *modes(QUICK[:2], range(3, 10)),
        *ablations(QUICK[:2], range(3, 10)),
        *ablations((*SLOW[1:], *LARGE), range(1)),
        *some((*few, *LARGE), "ncgcn", range(1), hops=3),
        *some((*QUICK, SLOW[0]), "ncgcn", range(1, 3), hops=3),
    ]


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
