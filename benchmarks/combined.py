"""Separated learning at its best: searched by validation, beside the best printed numbers.

    python benchmarks/combined.py --data-dir DIR                     # all that is planned
    python benchmarks/combined.py --data-dir DIR --split published chameleon-filtered

For every graph and family of splits, `ncgnn tune` searches how nodes are separated on the tuned
classic backbone (SPACE; width, depth and rates are those of the backbone's authors, but for
MORE_SPACE and NARROWER); models with no trials in PLAN keep their preset and are judged by one run.
The model with the best validation accuracy is trained with the seeds that count. On `paper` splits
all are corrected for class shares.
The backbone without groups, as its authors tuned it, is trained beside it and never chosen; where a
narrower model was chosen, it is not.

Choices are kept in results/combined-choices.json, runs in results/combined.jsonl, from which
benchmarks/results.py makes the tables.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from ncgnn.experiments import Record
    from ncgnn.training import RunConfig

FILTERED = ("chameleon-filtered", "squirrel-filtered")
_GCN, _SAGE = "nctuned-gcn", "nctuned-sage"
#: Trials by model, for every family of splits and graph; none: the preset as it is.
PLAN: dict[str, dict[str, dict[str, int]]] = {
    "published": {
        # GraphSAGE was two and four points behind on validation in first searches.
        "chameleon-filtered": {_GCN: 80},
        "squirrel-filtered": {_GCN: 30},
    },
    "uniform": {
        # Of the two backbones, the better one by what its authors print.
        "photo": {_SAGE: 6},
        **{graph: {_GCN: 2, _SAGE: 2} for graph in ("coauthor-physics", "coauthor-cs")},
        "computers": {_GCN: 1, _SAGE: 1},
    },
    "paper": {
        **{graph: {_GCN: 8, _SAGE: 8, "ncgcn": 0, "ncsage": 0} for graph in FILTERED},
        "actor": {"ncgcn": 0, "ncsage": 0},
        "pubmed": {"ncgcn": 0, "ncsage": 0},
        "photo": {_GCN: 1, _SAGE: 2, "ncgcn": 0, "ncsage": 0},
        "coauthor-physics": {_GCN: 1, _SAGE: 1},
    },
}
#: Seeds of the search, and how many count, from 0 on. A published mask is a seed; the uniform split
#: is one, and its seeds are first weights.
SEEDS: dict[str, tuple[tuple[int, ...], int]] = {
    "paper": ((100,), 3),
    "published": ((0, 1), 10),
    "uniform": ((0,), 3),
}
#: Where a run takes a minute at most, as many seeds count as in the paper.
MORE_COUNTED = {("paper", graph): 10 for graph in (*FILTERED, "actor")}
#: Where a run takes seconds, more seeds make a trial, and rates, width and depth are searched too.
MORE_SEEDS = {
    ("published", "chameleon-filtered"): tuple(range(10)),
    ("published", "squirrel-filtered"): (0, 1, 2),
}
_MORE: dict[str, list[Any]] = {
    "training.learning_rate": [0.001, 0.003, 0.01],
    "training.weight_decay": [5e-4, 1e-3, 5e-3, 2e-2],
    "training.averaging": [0.0, 0.9, 0.99],
    "model.hidden": [64, 128, 256],
    "model.layers": [2, 3, 4],
    "model.dropout": [0.2, 0.5, 0.7],
    "model.norm": ["none", "layer", "batch"],
    "model.residual": [False, True],
    "model.raw": [False],
}
MORE_SPACE = {("published", graph): _MORE for graph in FILTERED}
FIXED: dict[str, dict[str, Any]] = {
    "paper": {"training.class_shares": "val"},
    "published": {},
    "uniform": {},
}
#: Width where that of the backbone's authors makes a run of an hour; the backbone without groups is
#: not trained beside it there.
NARROWER = dict.fromkeys([("computers", _GCN), ("coauthor-cs", _GCN), ("coauthor-cs", _SAGE)], 128)
#: Epochs without a better validation accuracy after which the separated tuned models stop; their
#: preset, as that of the backbone, never stops early.
PATIENCE = {
    "chameleon-filtered": 80,
    "squirrel-filtered": 60,
    "photo": 250,
    **dict.fromkeys(("computers", "coauthor-cs", "coauthor-physics"), 150),
}
SPACE: dict[str, list[Any]] = {
    "training.learning_rate": [],
    "training.weight_decay": [],
    "training.averaging": [0.0, 0.9],
    "model.dropout": [],
    "model.layers": [],
    "model.norm": [],
    "model.residual": [],
    "model.shared": [],
    "model.separation": ["strict", "target-only"],
    "model.raw": [False, True],
    "model.deviation": [0.1, 0.3, 1.0],
    "model.hops": [],
    "model.threshold": [0.3, 0.5, 0.7],
}
#: The same backbone without groups.
BESIDE = {_GCN: "tuned-gcn", _SAGE: "tuned-sage"}
_RESULTS = Path(__file__).parent.parent / "results"
STORE, CHOICES = _RESULTS / "combined.jsonl", _RESULTS / "combined-choices.json"


@dataclass(frozen=True)
class Choice:
    """What a search found best for a model.

    Attributes:
        split: Family of splits.
        dataset: The graph.
        model: The model.
        value: Mean validation accuracy over the seeds of the search.
        trials: Number of trials; 0 where there was no search.
        parameters: The values that were chosen, by ``section.option``.
        search: What was searched, as :func:`search_key` has it.
        seen: Share of the test nodes of the seeds that count which the search trained or validated.
    """

    split: str
    dataset: str
    model: str
    value: float
    trials: int
    parameters: dict[str, Any]
    search: str
    seen: float | None

    def configs(self) -> list[RunConfig]:
        """The runs that count."""
        return configs_of(self.model, self.dataset, self.split, self.parameters)


def configs_of(
    model: str, dataset: str, split: str, parameters: dict[str, Any], seeds: Iterable[int] = ()
) -> list[RunConfig]:
    """Runs of a model with some parameters, by default with the seeds that count."""
    from ncgnn.training import make_config

    settings = fixed(split, dataset, model) | parameters
    return [
        make_config(dataset=dataset, model=model, split=split, seed=seed, settings=settings)
        for seed in tuple(seeds) or range(counted(split, dataset))
    ]


def fixed(split: str, dataset: str, model: str) -> dict[str, Any]:
    """What differs from a model's preset in every run."""
    if model not in BESIDE:
        return FIXED[split]
    width = NARROWER.get((dataset, model))
    narrower = {} if width is None else {"model.hidden": width}
    return FIXED[split] | {"training.patience": PATIENCE[dataset]} | narrower


def search_seeds(split: str, dataset: str) -> tuple[int, ...]:
    """The seeds by which a choice is made."""
    return MORE_SEEDS.get((split, dataset), SEEDS[split][0])


def counted(split: str, dataset: str) -> int:
    """How many seeds count, from 0 on."""
    return MORE_COUNTED.get((split, dataset), SEEDS[split][1])


def space_of(split: str, dataset: str) -> dict[str, list[Any]]:
    """What is searched."""
    return SPACE | MORE_SPACE.get((split, dataset), {})


def search_key(split: str, dataset: str, model: str) -> str:
    """A hash of all that makes a choice: another search is another choice."""
    trials, seeds = PLAN[split][dataset][model], search_seeds(split, dataset)
    first = configs_of(model, dataset, split, {}, seeds)[0].model_dump(mode="json")
    about = [trials, first, seeds, counted(split, dataset)]
    about += [space_of(split, dataset)] if trials else []
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:10]


def read_choices() -> list[Choice]:
    """All choices so far."""
    return [Choice(**one) for one in json.loads(CHOICES.read_text())] if CHOICES.is_file() else []


def chosen(split: str, dataset: str, choices: Iterable[Choice]) -> Choice | None:
    """The best choice by validation; None until every planned model has one."""
    planned = PLAN[split][dataset]
    there = {
        one.model: one
        for one in choices
        if (one.split, one.dataset) == (split, dataset)
        and one.model in planned
        and one.search == search_key(split, dataset, one.model)
    }
    return max(there.values(), key=lambda one: one.value) if len(there) == len(planned) else None


def make_choice(
    split: str, dataset: str, model: str, trials: int, given: argparse.Namespace
) -> Choice:
    """Search, or judge the preset by its runs with the seeds of the search."""
    from ncgnn.data import load
    from ncgnn.experiments import tune
    from ncgnn.experiments.tuning.space import seen_share

    seeds, count = search_seeds(split, dataset), counted(split, dataset)
    if trials:
        found = tune(
            *(dataset, model),
            split=split,
            trials=trials,
            seeds=seeds,
            evaluate_seeds=0,
            settings=fixed(split, dataset, model),
            search=space_of(split, dataset),
            data_dir=given.data_dir,
            runs=given.runs,
            workers=given.workers,
            retry_failed=given.retry_failed,
        )
        value, parameters, first = found.value, found.parameters, found.config
    else:
        tried = configs_of(model, dataset, split, {}, seeds)
        keep_missing(tried, given)
        kept = stored()
        if absent := [config.name for config in tried if config.name not in kept]:
            sys.exit(f"{', '.join(absent)} could not be trained; --retry-failed tries again.")
        value = fmean(kept[config.name].result["scores"]["val"]["accuracy"] for config in tried)
        parameters, first = {}, tried[0]
    graph = load(dataset, given.data_dir)
    seen = seen_share(graph, first.data, seeds, tuple(range(count)))
    key = search_key(split, dataset, model)
    return Choice(split, dataset, model, value, trials, parameters, key, seen)


def stored() -> dict[str, Record]:
    """All kept runs, by name, those of benchmarks/accuracy.py included."""
    from accuracy import STORE as OTHER

    from ncgnn.experiments import read_stored

    return {
        record.name: record
        for path in (OTHER, STORE)
        if path.is_file()
        for record in read_stored(path)
    }


def keep_missing(configs: Iterable[RunConfig], given: argparse.Namespace) -> None:
    """Train what no store holds yet."""
    from _kept import keep

    known = stored()
    keep([config for config in configs if config.name not in known], STORE, given)


def add_choice(choice: Choice) -> None:
    """Keep a choice, in place of an earlier one."""
    from ncgnn._io import locked, write_text

    mine = (choice.split, choice.dataset, choice.model)
    with locked(CHOICES.with_name(f".{CHOICES.name}.lock")):
        others = [one for one in read_choices() if (one.split, one.dataset, one.model) != mine]
        write_text(CHOICES, json.dumps([vars(one) for one in (*others, choice)], indent=1) + "\n")


def beside(choice: Choice) -> list[RunConfig]:
    """The backbone as its authors tuned it, without groups; none if a choice has no such one."""
    costly = (choice.dataset, choice.model) in NARROWER
    model = None if costly else BESIDE.get(choice.model)
    return configs_of(model, choice.dataset, choice.split, {}) if model else []


def main() -> None:
    from _kept import arguments

    parser = arguments(__doc__, "runs/combined")
    parser.add_argument("--split", choices=PLAN, help="by default all three")
    parser.add_argument("--datasets", help="by default all that are planned")
    given = parser.parse_args()
    for split in [given.split] if given.split else PLAN:
        asked = given.datasets.split(",") if given.datasets else PLAN[split]
        for dataset in (name for name in asked if name in PLAN[split]):
            for model, trials in PLAN[split][dataset].items():
                known = [(c.split, c.dataset, c.model, c.search) for c in read_choices()]
                if (split, dataset, model, search_key(split, dataset, model)) not in known:
                    add_choice(make_choice(split, dataset, model, trials, given))
            best = chosen(split, dataset, read_choices())
            if best is not None:
                keep_missing((*best.configs(), *beside(best)), given)


if __name__ == "__main__":
    main()
