"""The paper's competitors: a small search on validation accuracy, then the seeds that count.

Learning rate, weight decay and dropout are chosen among :data:`CHOICES`, the same for every model,
and its authors' values for a graph where its preset has some (GloGNN), by validation accuracy on a
split with a seed of its own, on larger graphs within a hundred epochs, or thirty where an epoch
takes seconds; all else is the model's preset. As in any search on one graph, nodes that are tested
later were trained on or validated then. Models that the paper did not tune (CPGNN, GBKSage, HOG)
keep all of their preset. On stratified splits NCGCN and NCSAGE are searched too, with the paper's
own parameters as one choice more; there the :data:`LARGE` graphs have no search of their own, but
what was chosen on their ``paper`` splits, and the paper's own for NCGCN and NCSAGE. On these graphs
the twelve :data:`HEAVY` competitors keep all of their presets, too, and are run with one seed.

Runs that count come cheapest first, by what the same model took on other graphs, so that a plan
that is given little time makes the most of it.

Cells that are more than :data:`SHORT` points below the paper are run once more with the correction
for class shares (``class_shares=val``), to see how much of the gap that shift explains. As they are
picked by their test accuracy, that does not say what the correction does elsewhere.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from ncgnn.data import find_dataset
from ncgnn.paper.plans.store import (
    Plan,
    Store,
    configs_for,
    graph_table,
    majority_row,
    pick,
    score_rows,
    test_cell,
)
from ncgnn.paper.printed import OTHER_GRAPHS, printed, printed_text, published
from ncgnn.training import RunConfig, preset, search_space

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncgnn.experiments import Record
    from ncgnn.report import Table

    #: Records by row, graph by graph.
    Runs = dict[str, list[list[Record]]]

MODELS = (
    *("mlp", "gcn", "sage", "gat", "h2gcn", "gprgnn", "fagcn", "acmgcn"),
    *("cpgnn", "wrgat", "gbksage", "hog", "glognn", "sngnn", "sngnn++", "cagnn"),
    *("appnp", "gcnii", "mixhop", "linkx", "bernnet", "sgc"),
)
#: The same channels and parameters as a separated model, and nobody in the high group.
CONTROLS = {"ncgcn, nobody high": "ncgcn", "ncsage, nobody high": "ncsage"}
#: Rows for another variant of a model.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sngnn++": ("sngnn", {"model.variant": "plusplus"}),
    **{row: (model, {"model.grouped": False}) for row, model in CONTROLS.items()},
}
#: On the largest graphs, and beside the paper's own models on stratified splits.
BASIC = ("mlp", "gcn", "sage")
OURS = ("ncgcn", "ncsage")
#: The paper's other competitors, for which there was no time to search on large graphs.
HEAVY = (
    *("gat", "h2gcn", "gprgnn", "fagcn", "acmgcn", "cpgnn"),
    *("wrgat", "gbksage", "hog", "glognn", "sngnn", "cagnn"),
)
LARGE = ("computers", "coauthor-cs", "coauthor-physics")
SEARCHED = ("training.learning_rate", "training.weight_decay", "model.dropout")
#: Their values; each from the paper's search space.
CHOICES = (
    (0.01, 5e-4, 0.5),
    (0.01, 5e-5, 0.2),
    (0.05, 5e-5, 0.8),
    (0.001, 1e-4, 0.5),
    (0.05, 1e-3, 0.2),
    (0.005, 0.0, 0.8),
)
#: Number of choices tried, of epochs to try them, and of seeds, by dataset.
PLAN = {
    "chameleon-filtered": (6, 500, 3),
    "squirrel-filtered": (6, 500, 3),
    "actor": (4, 100, 3),
    "photo": (3, 100, 1),
    "pubmed": (3, 100, 1),
    **dict.fromkeys(LARGE, (2, 100, 1)),
}
#: Epochs to try a choice where an epoch takes several seconds.
FEWER_EPOCHS = {("photo", "h2gcn"): 30, ("photo", "wrgat"): 30, ("pubmed", "wrgat"): 30}
SEARCH_SEED = 100
#: Where more than this many points are missing, a reason must be given.
SHORT = 2.0
PRESETS_HEAD = """\
# What validation chose among a few settings on a `paper` split with a seed of its own, at the width
# and depth of each model's preset: for the paper's competitors, whose parameters it searched and
# did not print, and for six models more. They serve `paper` splits alone; most test nodes of other
# seeds trained or validated in that search, as in the paper's own. Written by `ncgnn reproduce
# results --write` from results/competitors.jsonl.
"""


_ABOUT = (
    "Learning rate, weight decay and dropout were chosen by validation accuracy on a split with a "
    "seed of its own, all else is the preset of each model. Mean ± sample standard deviation "
    "(number of seeds), `{}` split."
)


class Competitors(Plan):
    """All models on the paper's splits; kept in a file of the plan's name."""

    name = "competitors"
    title = "The paper's competitors on its splits"
    split = "paper"
    #: Sentences below the parameters that were chosen.
    about_values: tuple[str, ...] = ()
    #: Seeds that count where they are more than the plan's.
    more_seeds: Mapping[str, int] = {"photo": 3, "pubmed": 3}

    about = _ABOUT.format(split)
    graphs = tuple(PLAN)

    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Train the seeds that count, search where that decides them, and correct what is short.

        Every stage takes the cheapest runs first, and what needs no search comes before it.
        """
        cells = [(row, one) for one in datasets or PLAN for row in self.rows(one)]
        cells.sort(key=lambda cell: self.expected_seconds(*cell, store))
        for stage in (self.final, self.search, self.final, self.corrected):
            store.train([c for cell in cells for c in stage(*cell, store)], self.name)

    def rows(self, dataset: str) -> tuple[str, ...]:
        """Models and variants that are run on a dataset."""
        return (*BASIC, *HEAVY) if dataset in LARGE else MODELS

    def is_searched(self, row: str, dataset: str) -> bool:
        """Whether parameters of a row are chosen on a dataset; else it keeps its preset."""
        return is_tuned(row) and not (dataset in LARGE and row in HEAVY)

    def expected_seconds(self, row: str, dataset: str, store: Store) -> float:
        """How long a run will take, by the slowest of the same model in relation to the graph.

        Without any it is unknown, and such a run comes last.
        """
        model, size, known = _model(row), _work(dataset), list[float]()
        for record in store.kept(self.name).values():
            graph = record.config["data"]["dataset"]
            if record.config["model"]["name"] == model and graph in PLAN:
                known.append(record.seconds * size / _work(graph))
        return max(known, default=float("inf"))

    def search(self, row: str, dataset: str, store: Store | None = None) -> list[RunConfig]:
        """The runs by which a choice is made; none where nothing is searched."""
        if not self.is_searched(row, dataset):
            return []
        epochs = FEWER_EPOCHS.get((dataset, row), PLAN[dataset][1])
        count = len(choices_of(_model(row), dataset))
        return [c for i in range(count) for c in self._runs(row, dataset, i, [SEARCH_SEED], epochs)]

    def final(self, row: str, dataset: str, store: Store) -> list[RunConfig]:
        """The best choice with the seeds that count; none while the search lacks runs."""
        choice = self.choice(row, dataset, store)
        seeds = range(max(PLAN[dataset][2], self.more_seeds.get(dataset, 0)))
        return [] if choice is None else self._runs(row, dataset, choice, seeds)

    def corrected(self, row: str, dataset: str, store: Store) -> list[RunConfig]:
        """The runs that count once more, corrected for class shares, where they are short."""
        kept = store.kept(self.name)
        done = [config for config in self.final(row, dataset, store) if config.name in kept]
        if not is_short(row, dataset, pick(done, kept)):
            return []
        shares = {"class_shares": "val"}
        return [
            config.model_copy(update={"training": config.training.model_copy(update=shares)})
            for config in done
        ]

    def choice(self, row: str, dataset: str, store: Store) -> int | None:
        """The place of the best choice by validation; None while the search lacks runs."""
        tried = self.search(row, dataset)
        found = pick(tried, store.kept(self.name))
        if len(found) < len(tried):
            return None
        values = [record.result["scores"]["val"]["accuracy"] for record in found]
        return values.index(max(values)) if values else 0

    def _runs(
        self, row: str, dataset: str, choice: int, seeds: Sequence[int], epochs: int | None = None
    ) -> list[RunConfig]:
        """Runs of a row with one of the choices, for a number of epochs or for its preset's."""
        model, settings = VARIANTS.get(row, (row, {}))
        settings = settings if epochs is None else settings | {"training.epochs": epochs}
        if self.is_searched(row, dataset):
            settings = settings | choices_of(model, dataset)[choice]
        return configs_for(dataset, model, self.split, seeds, settings)

    def tables(self, store: Store) -> list[Table]:
        """Accuracy beside the paper's, macro-F1, and the parameters that were chosen."""
        kept = store.kept(self.name)
        found = {
            (row, graph): records
            for graph in PLAN
            for row in self.rows(graph)
            if (records := pick(self.final(row, graph, store), kept))
        }
        if not found:
            return []
        graphs = [graph for graph in PLAN if any(graph == place for _, place in found)]
        rows = [row for row in (*MODELS, *OURS, *CONTROLS) if any(row == name for name, _ in found)]
        runs = {row: [found.get((row, graph), []) for graph in graphs] for row in rows}
        return [
            self.accuracy_table(graphs, runs, store),
            graph_table("Test macro-F1", graphs, score_rows(runs, "test", "macro_f1")),
            graph_table(
                "Learning rate, weight decay and dropout that validation chose",
                graphs,
                {
                    row: [
                        _chosen_values(one)
                        if self.is_searched(row, graph)
                        else "preset" * bool(one)
                        for graph, one in zip(graphs, by, strict=True)
                    ]
                    for row, by in runs.items()
                },
                f"Among {len(CHOICES)} settings or fewer, and those of a model's authors for the "
                "graph, where there are some; `preset`: not searched.",
                *self.about_values,
            ),
        ]

    def accuracy_table(self, graphs: Sequence[str], runs: Runs, store: Store) -> Table:
        """Ours, the paper's, and ours with the correction for class shares where we are short."""
        kept, lines, below = store.kept(self.name), dict[str, list[str]](), list[str]()
        for row, by_graph in runs.items():
            lines[row] = [test_cell(records) for records in by_graph]
            if row not in published("table1"):
                continue
            beside, again = list[str](), list[str]()
            for graph, records in zip(graphs, by_graph, strict=True):
                paper, mark = printed("table1", row, graph), ""
                corrected = pick(self.corrected(row, graph, store), kept) if records else []
                if is_short(row, graph, records) and isinstance(paper, tuple):
                    mark, then = " *", f" → {_mean(corrected):.2f}" if corrected else ""
                    ours = f"{_mean(records):.2f}{then}"
                    below.append(f"{row} on {graph} {ours} (paper {paper[0]:.2f})")
                beside.append(f"{printed_text(paper)}{mark}")
                again.append(test_cell(corrected))
            lines[f"{row}, paper"] = beside
            lines |= {f"{row}, shares": again} if any(again) else {}
        return graph_table(
            "Test accuracy",
            graphs,
            lines | majority_row(runs.values()),
            f"\\* more than {SHORT:g} points below the paper; `shares`: those runs once more with "
            "`class_shares=val`; ‡ runs of one cell by several versions of this package.",
            f"More than {SHORT:g} points below, → with `class_shares=val`: {'; '.join(below)}.",
            *self._about_missing(graphs, runs),
            OTHER_GRAPHS,
        )

    def _about_missing(self, graphs: Sequence[str], runs: Runs) -> list[str]:
        """What of the paper's competitors was not trained, for want of hours."""
        told = list[str]()
        for place, graph in enumerate(graphs):
            wanted = [row for row in self.rows(graph) if row in published("table1")]
            missing = [row for row in wanted if row not in runs or not runs[row][place]]
            told += [f"{', '.join(missing)} on {graph}"] if missing else []
        return [f"Not trained so far: {'; '.join(told)}."] if told else []

    def presets(self, store: Store) -> str:
        """The parameters that the search chose, as the file of presets that `ncgnn train` reads."""
        lines = [PRESETS_HEAD]
        for model in MODELS:
            if model in VARIANTS or not is_tuned(model):
                continue
            chosen: list[str] = []
            for dataset in PLAN:
                if model not in self.rows(dataset) or not self.is_searched(model, dataset):
                    continue
                if runs := self.final(model, dataset, store):
                    values = searched_values(runs[0]).items()
                    table = ", ".join(f"{key} = {value!r}" for key, value in values)
                    chosen.append(f"{dataset} = {{ {table} }}")
            lines += [f"[{model}]", *chosen, ""] if chosen else []
        return "\n".join(lines)


class Stratified(Competitors):
    """The paper's own models beside plain ones on stratified splits."""

    name = split = "stratified"
    more_seeds = {}  # noqa: RUF012
    title = "Separated and plain models on stratified splits"
    about = _ABOUT.format(split)
    about_values = (
        "Those of NCGCN and NCSAGE, and in any case their hops, threshold and self-loops, are the "
        "paper's, which were searched on other splits of the same graphs. On Computers, Coauthor "
        "CS and Physics nothing was searched: there the values are those chosen on a `paper` split "
        "of the same graph, for NCGCN and NCSAGE the paper's own, so that labels of test nodes had "
        "a part in them.",
    )

    def rows(self, dataset: str) -> tuple[str, ...]:
        """The same on every dataset."""
        return (*BASIC, *OURS, *CONTROLS)

    def search(self, row: str, dataset: str, store: Store | None = None) -> list[RunConfig]:
        """None on large graphs, whose choice was made on other splits, nor for controls."""
        return [] if dataset in LARGE or row in CONTROLS else super().search(row, dataset, store)

    def choice(self, row: str, dataset: str, store: Store) -> int | None:
        """On large graphs that of the paper's splits, for our models the paper's own.

        A control has the choice of its model.
        """
        row = CONTROLS.get(row, row)
        if dataset not in LARGE:
            return super().choice(row, dataset, store)
        if row in OURS:
            return len(choices_of(row, dataset)) - 1
        return Competitors().choice(row, dataset, store)

    def corrected(self, row: str, dataset: str, store: Store) -> list[RunConfig]:
        """Nothing: the paper prints no numbers of these splits."""
        return []

    def accuracy_table(self, graphs: Sequence[str], runs: Runs, store: Store) -> Table:
        """Ours alone."""
        lines = {row: [test_cell(records) for records in by] for row, by in runs.items()}
        return graph_table("Test accuracy", graphs, lines | majority_row(runs.values()))


def _model(row: str) -> str:
    return VARIANTS.get(row, (row, {}))[0]


def is_tuned(row: str) -> bool:
    """Whether parameters of a row are to be searched; the paper did not search all."""
    return "training.learning_rate" in search_space(_model(row))


def choices_of(model: str, dataset: str) -> list[dict[str, Any]]:
    """What is tried of a model on a graph, in this order; its authors' own values come last."""
    known = search_space(model)
    tried = [dict(zip(SEARCHED, values, strict=True)) for values in CHOICES[: PLAN[dataset][0]]]
    places = [name.split(".") for name in SEARCHED]
    anywhere, here = preset(model, ""), preset(model, dataset)
    own = {
        f"{section}.{option}": here[section][option]
        for section, option in places
        if here.get(section, {}).get(option) != anywhere.get(section, {}).get(option)
    }
    tried += [own] if len(own) == len(SEARCHED) else []
    return [{name: value for name, value in one.items() if name in known} for one in tried]


def searched_values(config: RunConfig) -> dict[str, Any]:
    """Learning rate, weight decay and dropout of a run, as far as its model's are searched."""
    known, tables = search_space(config.model.name), config.model_dump(mode="json")
    places = [name.split(".") for name in SEARCHED if name in known]
    return {option: tables[section][option] for section, option in places}


def _work(dataset: str) -> int:
    """What a run on a dataset costs, in no particular unit: its nodes and edges."""
    facts = find_dataset(dataset)
    return (facts.nodes or 0) + (facts.edges or 0)


def _chosen_values(records: list[Record]) -> str:
    if not records:
        return ""
    values = searched_values(RunConfig.model_validate(records[0].config)).values()
    several = [value if isinstance(value, list) else [value] for value in values]
    return ", ".join("/".join(f"{one:g}" for one in group) for group in several)


def _mean(records: Sequence[Record]) -> float:
    return fmean(100 * record.result["scores"]["test"]["accuracy"] for record in records)


def is_short(row: str, dataset: str, records: Sequence[Record]) -> bool:
    """Whether runs are below what the paper prints by more than :data:`SHORT`."""
    paper = printed("table1", row, dataset)
    return isinstance(paper, tuple) and bool(records) and paper[0] - _mean(records) > SHORT
