"""Separated learning at its best: candidates chosen by validation, beside the best printed numbers.

    python benchmarks/combined.py --data-dir DIR                  # all three families of splits
    python benchmarks/combined.py --data-dir DIR --split uniform --datasets photo

On `paper` splits the candidates are NCGCN, NCSAGE and separated learning on the tuned backbone,
each with the correction for class shares; on `published` masks and the `uniform` split, where
shares agree, the tuned ones, with and without a running mean of the weights. Of the candidates with
all seeds of a graph, the one with the best mean validation accuracy counts. Tuned models without
groups are trained beside them and never chosen.

Everything is kept in results/combined.jsonl, from which benchmarks/results.py makes the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.experiments import Record
    from ncgnn.training import RunConfig

FILTERED = ("chameleon-filtered", "squirrel-filtered")
UNIFORM = ("photo", "computers", "coauthor-cs", "coauthor-physics")
#: Graphs and number of seeds of a family of splits.
FAMILIES = {
    "paper": ((*FILTERED, "actor", "pubmed", *UNIFORM), 3),
    "published": (FILTERED, 10),
    "uniform": (UNIFORM, 3),
}
STORE = Path(__file__).parent.parent / "results" / "combined.jsonl"
#: Runs of other tables that are among these.
ALSO = STORE.with_name("accuracy.jsonl")
SHARES: dict[str, Any] = {"training.class_shares": "val"}


@dataclass(frozen=True)
class Candidate:
    """A model with options, as a row of a table."""

    model: str
    label: str = ""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def row(self) -> str:
        """What the row is called."""
        return f"{self.model}{self.label and ', '}{self.label}"

    @property
    def separated(self) -> bool:
        """Whether it can be chosen."""
        return self.model.startswith("nc")

    def configs(self, dataset: str, split: str) -> list[RunConfig]:
        """Its runs on a graph."""
        from ncgnn.training import make_config

        return [
            make_config(
                dataset=dataset, model=self.model, split=split, seed=seed, settings=self.settings
            )
            for seed in range(FAMILIES[split][1])
        ]


def candidates(split: str) -> list[Candidate]:
    """The rows of a family's table."""
    tuned = ("nctuned-gcn", "nctuned-sage", "tuned-gcn", "tuned-sage")
    if split == "paper":
        return [Candidate(model, "shares", SHARES) for model in ("ncgcn", "ncsage", *tuned)]
    decay = {"published": 0.9, "uniform": 0.99}[split]
    mean = {"training.averaging": decay}
    return [
        candidate
        for model in tuned
        for candidate in (Candidate(model), Candidate(model, f"mean {decay:g}", mean))
    ]


def complete(
    candidate: Candidate, dataset: str, split: str, kept: dict[str, Record]
) -> list[Record]:
    """A candidate's runs on a graph; none unless all are there."""
    runs = [kept[c.name] for c in candidate.configs(dataset, split) if c.name in kept]
    return runs if len(runs) == FAMILIES[split][1] else []


def chosen(dataset: str, split: str, kept: dict[str, Record]) -> Candidate | None:
    """The separated candidate with the best mean validation accuracy."""
    done = {
        candidate.row: (val_accuracy(runs), candidate)
        for candidate in candidates(split)
        if candidate.separated and (runs := complete(candidate, dataset, split, kept))
    }
    return max(done.values(), key=lambda one: one[0])[1] if done else None


def val_accuracy(runs: Sequence[Record]) -> float:
    """Mean validation accuracy of runs."""
    return fmean(run.result["scores"]["val"]["accuracy"] for run in runs)


def stored() -> dict[str, Record]:
    """All kept runs that may belong to a table here, by name."""
    from ncgnn.experiments import read_stored

    return {
        record.name: record
        for path in (ALSO, STORE)
        if path.is_file()
        for record in read_stored(path)
    }


def main() -> None:
    from _kept import arguments, keep

    parser = arguments(__doc__, "runs/combined")
    parser.add_argument("--split", help="by default all three families")
    parser.add_argument("--datasets", help="by default all of the family")
    parser.add_argument("--models", help="by default all of the family")
    given = parser.parse_args()
    for split in given.split.split(",") if given.split else FAMILIES:
        datasets = given.datasets.split(",") if given.datasets else FAMILIES[split][0]
        models = given.models.split(",") if given.models else [c.model for c in candidates(split)]
        known = stored()
        wanted = [
            config
            for dataset in datasets
            for candidate in candidates(split)
            if candidate.model in models
            for config in candidate.configs(dataset, split)
            if config.name not in known
        ]
        keep(wanted, STORE, given)


if __name__ == "__main__":
    main()
