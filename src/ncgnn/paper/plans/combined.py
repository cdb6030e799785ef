"""Separated learning at its best: searched by validation, beside the best printed numbers.

For every graph and family of splits a search chooses how nodes are separated on the tuned classic
backbone (:data:`SPACE`; width, depth and rates are those of the backbone's authors, but for
:data:`MORE_SPACE` and :data:`NARROWER`); models with no trials in :data:`PLAN` keep their preset
and are judged by one run. The model with the best validation accuracy is trained with the seeds
that count. On ``paper`` splits all are corrected for class shares. The backbone without groups, as
its authors tuned it, is trained beside it and never chosen; where a narrower model was chosen, it
is not.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ncgnn._io import locked, write_text
from ncgnn.data import load
from ncgnn.errors import InputError
from ncgnn.experiments import seen_share
from ncgnn.paper.plans.store import (
    Kept,
    Plan,
    Store,
    configs_for,
    graph_table,
    majority_row,
    pick,
    score_rows,
    test_cell,
)
from ncgnn.paper.printed import printed, printed_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ncgnn.report import Table
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
CHOICES = "combined-choices.json"


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


class Combined(Plan):
    """The best of separated learning, kept in ``combined.jsonl`` and ``combined-choices.json``."""

    name = "combined"
    title = "Separated learning at its best"
    about = (
        "Separation as a plug-in on the tuned classic backbone (`nctuned-gcn`, `nctuned-sage`), "
        "searched by `ncgnn tune` on validation accuracy, or NCGCN and NCSAGE as they are, "
        "whichever validates best. No test accuracy has a part in the choice; but a test node of "
        "one split may be a training or validation node of another one in the search, and the last "
        "row says how many are. ‡ runs of one cell by several versions of this package."
    )

    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Search what has no choice yet, and train what was chosen."""
        place = store.folder / CHOICES
        for split, graphs in PLAN.items():
            for dataset in (g for g in graphs if datasets is None or g in datasets):
                for model in graphs[dataset]:
                    known = [(c.split, c.dataset, c.model, c.search) for c in read_choices(place)]
                    if (split, dataset, model, search_key(split, dataset, model)) not in known:
                        add_choice(make_choice(split, dataset, model, store), place)
                best = best_choice(split, dataset, read_choices(place))
                if best is not None:
                    store.train((*best.configs(), *backbone_configs(best)), "combined", "accuracy")

    def tables(self, store: Store) -> list[Table]:
        """One table per family of splits that has something to show."""
        kept, choices = store.kept("accuracy", "combined"), read_choices(store.folder / CHOICES)
        return [table for split in PLAN if (table := _family_table(split, kept, choices))]


def read_choices(place: Path) -> list[Choice]:
    """All choices so far."""
    return [Choice(**one) for one in json.loads(place.read_text())] if place.is_file() else []


def add_choice(choice: Choice, place: Path) -> None:
    """Keep a choice, in place of an earlier one."""
    mine = (choice.split, choice.dataset, choice.model)
    with locked(place.with_name(f".{place.name}.lock")):
        others = [c for c in read_choices(place) if (c.split, c.dataset, c.model) != mine]
        write_text(place, json.dumps([vars(one) for one in (*others, choice)], indent=1) + "\n")


def make_choice(split: str, dataset: str, model: str, store: Store) -> Choice:
    """Search, or judge the preset by its runs with the seeds of the search."""
    seeds, trials = search_seeds(split, dataset), PLAN[split][dataset][model]
    if trials:
        if store.search is None:
            raise InputError(f"{model} on {dataset} was not searched yet; leave --no-train out.")
        found = store.search(
            dataset,
            model,
            split=split,
            trials=trials,
            seeds=seeds,
            evaluate_seeds=0,
            settings=fixed_settings(split, dataset, model),
            search=space_of(split, dataset),
        )
        value, parameters, first = found.value, found.parameters, found.config
    else:
        tried = configs_of(model, dataset, split, {}, seeds)
        store.train(tried, "combined", "accuracy")
        records = pick(tried, store.kept("accuracy", "combined"))
        if len(records) < len(tried):
            raise InputError(f"{model} on {dataset} could not be trained; add --retry-failed.")
        value = fmean(record.result["scores"]["val"]["accuracy"] for record in records)
        parameters, first = {}, tried[0]
    counting = tuple(range(count_seeds(split, dataset)))
    seen = seen_share(load(dataset, store.data_dir), first.data, seeds, counting)
    key = search_key(split, dataset, model)
    return Choice(split, dataset, model, value, trials, parameters, key, seen)


def best_choice(split: str, dataset: str, choices: Iterable[Choice]) -> Choice | None:
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


def configs_of(
    model: str, dataset: str, split: str, parameters: dict[str, Any], seeds: Iterable[int] = ()
) -> list[RunConfig]:
    """Runs of a model with some parameters, by default with the seeds that count."""
    settings = fixed_settings(split, dataset, model) | parameters
    chosen_seeds = tuple(seeds) or range(count_seeds(split, dataset))
    return configs_for(dataset, model, split, chosen_seeds, settings)


def backbone_configs(choice: Choice) -> list[RunConfig]:
    """The backbone as its authors tuned it, without groups; none if a choice has no such one."""
    costly = (choice.dataset, choice.model) in NARROWER
    model = None if costly else BESIDE.get(choice.model)
    return configs_of(model, choice.dataset, choice.split, {}) if model else []


def fixed_settings(split: str, dataset: str, model: str) -> dict[str, Any]:
    """What differs from a model's preset in every run."""
    if model not in BESIDE:
        return FIXED[split]
    width = NARROWER.get((dataset, model))
    narrower = {} if width is None else {"model.hidden": width}
    return FIXED[split] | {"training.patience": PATIENCE[dataset]} | narrower


def search_seeds(split: str, dataset: str) -> tuple[int, ...]:
    """The seeds by which a choice is made."""
    return MORE_SEEDS.get((split, dataset), SEEDS[split][0])


def count_seeds(split: str, dataset: str) -> int:
    """How many seeds count, from 0 on."""
    return MORE_COUNTED.get((split, dataset), SEEDS[split][1])


def space_of(split: str, dataset: str) -> dict[str, list[Any]]:
    """What is searched."""
    return SPACE | MORE_SPACE.get((split, dataset), {})


def search_key(split: str, dataset: str, model: str) -> str:
    """A hash of all that makes a choice: another search is another choice."""
    trials, seeds = PLAN[split][dataset][model], search_seeds(split, dataset)
    first = configs_of(model, dataset, split, {}, seeds)[0].model_dump(mode="json")
    about = [trials, first, seeds, count_seeds(split, dataset)]
    about += [space_of(split, dataset)] if trials else []
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:10]


#: What is printed for a family: the table, and its rows.
PRINTED = {
    "paper": ("table1", ("ncgcn", "ncsage")),
    "published": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
    "uniform": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
}
TITLES = {
    "paper": "`paper` split, ours with the correction for class shares (`class_shares=val`). "
    "Printed: the better of the paper's NCGCN and NCSAGE, without that correction, and for the "
    "filtered graphs on their earlier release",
    "published": "published masks. Printed: the best tuned classic model",
    "uniform": "the one published uniform split, seeds are first weights. Printed: the best tuned "
    "classic model",
}


def _family_table(split: str, kept: Kept, choices: Sequence[Choice]) -> Table | None:
    """Accuracies of a family of splits, and what was chosen; None if nothing was."""
    every = [choice for graph in PLAN[split] if (choice := best_choice(split, graph, choices))]
    best = [choice for choice in every if pick(choice.configs(), kept)]
    if not best:
        return None
    ours = [pick(choice.configs(), kept) for choice in best]
    plain = [pick(backbone_configs(choice), kept) for choice in best]
    rows = {
        "separated, test": [test_cell(runs) for runs in ours],
        "printed": [_best_printed(split, choice.dataset) for choice in best],
        "its backbone as tuned by its authors, test": [test_cell(runs) for runs in plain],
        **majority_row([ours]),
        **score_rows({"separated, macro-F1": ours}, "test", "macro_f1"),
        **score_rows({"separated, validation": ours, "its backbone, validation": plain}, "val"),
        "what was chosen": [_chosen_words(choice) for choice in best],
        "validation in the search, trials": [f"{100 * c.value:.2f}, {c.trials}" for c in best],
        "test nodes that the search had seen": [
            f"{100 * c.seen:.0f} %" if c.seen else "none" for c in best
        ],
    }
    narrow = [c.dataset for c in best if (c.dataset, c.model) in NARROWER]
    note = (
        f"The backbone of {' and '.join(narrow)} is narrower than its authors', for want of time, "
        "and was not trained by itself."
    )
    graphs = [choice.dataset for choice in best]
    return graph_table(f"Test accuracy, {TITLES[split]}", graphs, rows, *([note] if narrow else []))


def _chosen_words(choice: Choice) -> str:
    width = NARROWER.get((choice.dataset, choice.model))
    shown = choice.parameters if width is None else {"model.hidden": width} | choice.parameters
    values = [
        f"{key.partition('.')[2]}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in shown.items()
    ]
    return ", ".join([f"`{choice.model}`", *values])


def _best_printed(split: str, graph: str) -> str:
    source, rows = PRINTED[split]
    values = [printed(source, row, graph) for row in rows]
    return printed_text(max(value for value in values if isinstance(value, tuple)))
