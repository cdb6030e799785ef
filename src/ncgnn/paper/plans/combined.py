"""Separated learning at its best: searched by validation, beside the best printed numbers.

For every graph and family of splits (:data:`CASES`) a search chooses how nodes are separated on the
tuned classic backbone; width, depth and rates are those of the backbone's authors unless a case
says otherwise. Models without trials keep their preset and are judged by one run. The model with
the best validation accuracy is trained with the seeds that count. On ``paper`` splits all are
corrected for class shares.

Two models stand beside it and are never chosen. Its control is the same model without groups
(``separation = none``), searched with as many trials, the same seeds, space, averaging and
patience: what it has less is what groups are worth. The other one is the backbone as its authors
tuned it; where a narrower model was chosen, it is not trained.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ncgnn._io import locked, write_text
from ncgnn.data import load
from ncgnn.errors import InputError
from ncgnn.experiments import compare_runs, seen_share
from ncgnn.paper.plans.store import (
    Kept,
    Plan,
    Store,
    configs_for,
    difference_text,
    graph_table,
    majority_row,
    pick,
    score_rows,
    test_cell,
)
from ncgnn.paper.printed import printed, printed_text
from ncgnn.training import naming_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ncgnn.experiments import Record
    from ncgnn.report import Table
    from ncgnn.training import RunConfig

_GCN, _SAGE = "nctuned-gcn", "nctuned-sage"
#: The same backbone without groups.
BESIDE = {_GCN: "tuned-gcn", _SAGE: "tuned-sage"}
#: What differs from presets in every run of a family of splits.
FIXED: dict[str, dict[str, Any]] = {"paper": {"training.class_shares": "val"}}
#: An empty list keeps the preset's value.
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
#: Where a run takes seconds, rates, width and depth are searched too.
WIDE_SPACE: dict[str, list[Any]] = SPACE | {
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
#: Options of groups, of which a model without them has nothing to search.
OF_GROUPS = ("model.deviation", "model.hops", "model.threshold", "model.shared")
_NO_GROUPS: dict[str, Any] = {"model.separation": "none"}
CHOICES = "combined-choices.json"


@dataclass(frozen=True)
class Case:
    """A graph with a family of splits, and what is planned there.

    Attributes:
        trials: By model; with none its preset is taken as it is.
        search_seeds: Those by which a choice is made. A published mask is a seed; the uniform split
            is one, and its seeds are first weights.
        counted: How many seeds count, from 0 on.
        patience: Epochs without a better validation accuracy after which the separated tuned models
            stop; their preset, as that of the backbone, never stops early.
        widths: By model, where that of the backbone's authors makes a run of an hour; the backbone
            without groups is not trained beside it there.
        space: What is searched.
    """

    split: str
    dataset: str
    trials: dict[str, int]
    search_seeds: tuple[int, ...]
    counted: int
    patience: int = 0
    widths: dict[str, int] = field(default_factory=dict[str, int])
    space: dict[str, list[Any]] = field(default_factory=lambda: SPACE)

    def settings(self, model: str, *, control: bool = False) -> dict[str, Any]:
        """What differs from a model's preset in every run."""
        fixed = FIXED.get(self.split, {}) | (_NO_GROUPS if control else {})
        if model not in BESIDE:
            return fixed
        width = {"model.hidden": self.widths[model]} if model in self.widths else {}
        return fixed | {"training.patience": self.patience} | width

    def searched(self, *, control: bool = False) -> dict[str, list[Any]]:
        """What is searched, where a control has no groups."""
        if not control:
            return self.space
        kept = {key: values for key, values in self.space.items() if key not in _NO_GROUPS}
        return kept | {key: [] for key in OF_GROUPS}

    def configs(
        self,
        model: str,
        parameters: Mapping[str, Any],
        seeds: Iterable[int] | None = None,
        *,
        control: bool = False,
    ) -> list[RunConfig]:
        """Runs of a model with some parameters, by default with the seeds that count."""
        chosen = range(self.counted) if seeds is None else seeds
        settings = self.settings(model, control=control) | dict(parameters)
        return configs_for(self.dataset, model, self.split, chosen, settings)

    def search_key(self, model: str, *, control: bool = False) -> str:
        """A hash of all that makes a choice: another search is another choice."""
        trials = self.trials[model]
        (first, *_) = self.configs(model, {}, self.search_seeds, control=control)
        tables = naming_options(first.model_dump(mode="json"))
        about = [trials, tables, self.search_seeds, self.counted]
        about += [self.searched(control=control)] if trials else []
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:10]


_OURS = {"ncgcn": 0, "ncsage": 0}
CASES = (
    # GraphSAGE was two and four points behind on validation in first searches.
    Case("published", "chameleon-filtered", {_GCN: 80}, tuple(range(10)), 10, 80, space=WIDE_SPACE),
    Case("published", "squirrel-filtered", {_GCN: 30}, (0, 1, 2), 10, 60, space=WIDE_SPACE),
    # Of the two backbones, the better one by what its authors print.
    Case("uniform", "photo", {_SAGE: 6}, (0,), 3, 250),
    Case("uniform", "coauthor-physics", {_GCN: 2, _SAGE: 2}, (0,), 3, 150),
    Case("uniform", "coauthor-cs", {_GCN: 2, _SAGE: 2}, (0,), 3, 150, {_GCN: 128, _SAGE: 128}),
    Case("uniform", "computers", {_GCN: 1, _SAGE: 1}, (0,), 3, 150, {_GCN: 128}),
    # Where a run takes a minute at most, as many seeds count as in the paper.
    Case("paper", "chameleon-filtered", {_GCN: 8, _SAGE: 8, **_OURS}, (100,), 10, 80),
    Case("paper", "squirrel-filtered", {_GCN: 8, _SAGE: 8, **_OURS}, (100,), 10, 60),
    Case("paper", "actor", _OURS, (100,), 10),
    Case("paper", "pubmed", _OURS, (100,), 3),
    Case("paper", "photo", {_GCN: 1, _SAGE: 2, **_OURS}, (100,), 3, 250),
    Case("paper", "coauthor-physics", {_GCN: 1, _SAGE: 1}, (100,), 3, 150),
)


@dataclass(frozen=True)
class Choice:
    """What a search found best for a model.

    Attributes:
        value: Mean validation accuracy over the seeds of the search.
        trials: Number of trials; 0 where there was no search.
        parameters: The values that were chosen, by ``section.option``.
        search: What was searched, as :meth:`Case.search_key` has it.
        seen: Share of the test nodes of the seeds that count which the search trained or validated.
        control: Whether it is the control of that model, without groups.
    """

    split: str
    dataset: str
    model: str
    value: float
    trials: int
    parameters: dict[str, Any]
    search: str
    seen: float | None
    control: bool = False


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

    graphs = tuple(dict.fromkeys(case.dataset for case in CASES))

    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Search what has no choice yet, and train what was chosen."""
        place = store.folder / CHOICES
        for case in (c for c in CASES if datasets is None or c.dataset in datasets):
            for model in case.trials:
                if model not in find_choices(case, read_choices(place)):
                    add_choice(make_choice(case, model, store), place)
            best = best_choice(case, read_choices(place))
            if best is not None:
                store.train((*counted_runs(case, best), *beside_runs(case, best)), *_FILES)
                if find_control(case, best, read_choices(place)) is None:
                    add_choice(make_choice(case, best.model, store, control=True), place)
                if control := find_control(case, best, read_choices(place)):
                    store.train(counted_runs(case, control), *_FILES)

    def tables(self, store: Store) -> list[Table]:
        """One table per family of splits that has something to show."""
        kept, choices = store.kept(*_FILES[::-1]), read_choices(store.folder / CHOICES)
        families = dict.fromkeys(case.split for case in CASES)
        return [table for split in families if (table := _family_table(split, kept, choices))]


#: Where runs are kept: new ones in the first.
_FILES = ("combined", "accuracy")


def read_choices(place: Path) -> list[Choice]:
    """All choices so far."""
    return [Choice(**one) for one in json.loads(place.read_text())] if place.is_file() else []


def add_choice(choice: Choice, place: Path) -> None:
    """Keep a choice, in place of an earlier one."""
    mine = _place(choice)
    with locked(place.with_name(f".{place.name}.lock")):
        others = [one for one in read_choices(place) if _place(one) != mine]
        write_text(place, json.dumps([vars(one) for one in (*others, choice)], indent=1) + "\n")


def _place(choice: Choice) -> tuple[str, str, str, bool]:
    return choice.split, choice.dataset, choice.model, choice.control


def find_choices(case: Case, choices: Iterable[Choice]) -> dict[str, Choice]:
    """The choices that were made as a case plans them, by model."""
    return {
        one.model: one
        for one in choices
        if (one.split, one.dataset) == (case.split, case.dataset)
        and one.model in case.trials
        and not one.control
        and one.search == case.search_key(one.model)
    }


def find_control(case: Case, choice: Choice, choices: Iterable[Choice]) -> Choice | None:
    """The control of a choice, searched as the case plans it; None until there is one."""
    key = case.search_key(choice.model, control=True)
    mine = (case.split, case.dataset, choice.model, True)
    return next((one for one in choices if _place(one) == mine and one.search == key), None)


def best_choice(case: Case, choices: Iterable[Choice]) -> Choice | None:
    """The best choice by validation; None until every planned model has one."""
    there = find_choices(case, choices)
    return max(there.values(), key=lambda c: c.value) if len(there) == len(case.trials) else None


def make_choice(case: Case, model: str, store: Store, *, control: bool = False) -> Choice:
    """Search, or judge the preset by its runs with the seeds of the search."""
    dataset, seeds, trials = case.dataset, case.search_seeds, case.trials[model]
    if trials:
        if store.search is None:
            raise InputError(f"{model} on {dataset} was not searched yet; leave --no-train out.")
        found = store.search(
            dataset,
            model,
            split=case.split,
            trials=trials,
            seeds=seeds,
            evaluate_seeds=0,
            settings=case.settings(model, control=control),
            search=case.searched(control=control),
        )
        value, parameters, first = found.value, found.parameters, found.config
    else:
        tried = case.configs(model, {}, seeds, control=control)
        store.train(tried, *_FILES)
        records = pick(tried, store.kept(*_FILES[::-1]))
        if len(records) < len(tried):
            raise InputError(f"{model} on {dataset} could not be trained; add --retry-failed.")
        value = fmean(record.result["scores"]["val"]["accuracy"] for record in records)
        parameters, first = {}, tried[0]
    counted = tuple(range(case.counted))
    seen = seen_share(load(dataset, store.data_dir), first.data, seeds, counted)
    key = case.search_key(model, control=control)
    return Choice(case.split, dataset, model, value, trials, parameters, key, seen, control)


def counted_runs(case: Case, choice: Choice) -> list[RunConfig]:
    """The runs of a choice that count."""
    return case.configs(choice.model, choice.parameters, control=choice.control)


def beside_runs(case: Case, choice: Choice) -> list[RunConfig]:
    """The backbone as its authors tuned it, without groups; none if a choice has no such one."""
    model = None if choice.model in case.widths else BESIDE.get(choice.model)
    return case.configs(model, {}) if model else []


#: What is printed for a family: the table, and its rows.
PRINTED = {
    "paper": ("table1", ("ncgcn", "ncsage")),
    "published": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
    "uniform": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
}
TITLES = {
    "paper": "`paper` split, ours with the correction for class shares (`class_shares=val`). "
    "Printed: the better of the paper's NCGCN and NCSAGE, without that correction, and for the "
    "filtered graphs of 864 and 2,205 nodes",
    "published": "published masks. Printed: the best tuned classic model",
    "uniform": "the one published uniform split, seeds are first weights. Printed: the best tuned "
    "classic model",
}


def _family_table(split: str, kept: Kept, choices: Sequence[Choice]) -> Table | None:
    """Accuracies of a family of splits, and what was chosen; None if nothing was."""
    planned = [(case, best_choice(case, choices)) for case in CASES if case.split == split]
    best = [(case, c) for case, c in planned if c and pick(counted_runs(case, c), kept)]
    if not best:
        return None
    ours = [pick(counted_runs(case, choice), kept) for case, choice in best]
    plain = [pick(beside_runs(case, choice), kept) for case, choice in best]
    controls = [find_control(case, choice, choices) for case, choice in best]
    alike = [
        pick(counted_runs(case, control), kept) if control else []
        for (case, _), control in zip(best, controls, strict=True)
    ]
    about_control = {
        "the same without groups, searched alike, test": [test_cell(runs) for runs in alike],
        "separated minus that": [_gain(*runs) for runs in zip(ours, alike, strict=True)],
    }
    rows = {
        "separated, test": [test_cell(runs) for runs in ours],
        **(about_control if any(alike) else {}),
        "printed": [_best_printed(split, case.dataset) for case, _ in best],
        "its backbone as tuned by its authors, test": [test_cell(runs) for runs in plain],
        **majority_row([ours]),
        **score_rows({"separated, macro-F1": ours}, "test", "macro_f1"),
        **score_rows({"separated, validation": ours, "its backbone, validation": plain}, "val"),
        "what was chosen": [_chosen_words(case, choice) for case, choice in best],
        "validation in the search, trials": [f"{100 * c.value:.2f}, {c.trials}" for _, c in best],
        "test nodes that the search had seen": [
            f"{100 * c.seen:.0f} %" if c.seen else "none" for _, c in best
        ],
    }
    narrow = [case.dataset for case, choice in best if choice.model in case.widths]
    note = (
        f"The backbone of {' and '.join(narrow)} is narrower than its authors', to save time, "
        "and was not trained by itself."
    )
    graphs = [case.dataset for case, _ in best]
    return graph_table(f"Test accuracy, {TITLES[split]}", graphs, rows, *([note] if narrow else []))


def _gain(ours: Sequence[Record], control: Sequence[Record]) -> str:
    mine, others = (
        {int(one.config["training"]["seed"]): one for one in runs} for runs in (ours, control)
    )
    return difference_text(compare_runs(mine, others))


def _chosen_words(case: Case, choice: Choice) -> str:
    width = {"model.hidden": case.widths[choice.model]} if choice.model in case.widths else {}
    values = [
        f"{key.partition('.')[2]}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in (width | choice.parameters).items()
    ]
    return ", ".join([f"`{choice.model}`", *values])


def _best_printed(split: str, graph: str) -> str:
    source, rows = PRINTED[split]
    values = [printed(source, row, graph) for row in rows]
    return printed_text(max(value for value in values if isinstance(value, tuple)))
