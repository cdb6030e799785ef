"""Accuracy of the paper's competitors: a small search on validation, then the seeds.

    python benchmarks/competitors.py --data-dir DIR
    python benchmarks/competitors.py --data-dir DIR --corrected
    python benchmarks/competitors.py --data-dir DIR --split stratified

Learning rate, weight decay and dropout are chosen among CHOICES, the same for every model, and
its authors' values for a graph where its preset has some (GloGNN), by
validation accuracy on a split with a seed of its own, on larger graphs within a hundred epochs, or
thirty where an epoch takes seconds; all else is the model's preset. As in any search on one graph,
nodes that are tested later were trained on or validated then; `ncgnn tune` says how many. Models
that the paper did not tune (CPGNN, GBKSage, HOG) keep all of their preset. For NCGCN and NCSAGE,
which have the paper's own parameters for its own splits, those are one choice more in the
stratified family. There, the LARGE graphs have no search of their own: parameters are what was
chosen on their `paper` splits, and the paper's own for NCGCN and NCSAGE.

With --corrected, cells that are more than SHORT points below the paper are run once more with the
correction for class shares (class_shares=val), to see how much of the gap that shift explains. As
they are picked by their test accuracy, that does not say what the correction does elsewhere.

Everything is kept in results/competitors.jsonl or results/stratified.jsonl, from which
benchmarks/results.py makes the tables.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.experiments import Record
    from ncgnn.training import RunConfig

MODELS = (
    *("mlp", "gcn", "sage", "gat", "h2gcn", "gprgnn", "fagcn", "acmgcn"),
    *("cpgnn", "wrgat", "gbksage", "hog", "glognn", "sngnn", "sngnn++", "cagnn"),
    *("appnp", "gcnii", "mixhop", "linkx", "bernnet", "sgc"),
)
#: Rows for another variant of a model.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sngnn++": ("sngnn", {"model.variant": "plusplus"})
}
#: On the largest graphs, and beside the paper's own models in the stratified family.
BASIC = ("mlp", "gcn", "sage")
OURS = ("ncgcn", "ncsage")
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
#: Number of choices tried, of epochs to try them, and of seeds, by data set.
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
SPLITS = ("paper", "stratified")
_RESULTS = Path(__file__).parent.parent / "results"
STORES = {"paper": _RESULTS / "competitors.jsonl", "stratified": _RESULTS / "stratified.jsonl"}


def models_on(dataset: str, split: str) -> tuple[str, ...]:
    """The models that are run on a data set."""
    if split == "stratified":
        return (*BASIC, *OURS)
    return BASIC if dataset in LARGE else MODELS


def config_of(
    split: str, row: str, dataset: str, choice: int, seed: int, epochs: int | None = None
) -> RunConfig:
    """A run of a row with one of the choices, for a number of epochs or for its preset's."""
    from ncgnn.training import make_config

    model, variant = VARIANTS.get(row, (row, {}))
    settings = dict(variant) if epochs is None else variant | {"training.epochs": epochs}
    if is_tuned(row):
        settings |= choices_of(model, dataset)[choice]
    return make_config(dataset=dataset, model=model, split=split, seed=seed, settings=settings)


def choices_of(model: str, dataset: str) -> list[dict[str, Any]]:
    """What is tried of a model on a graph, in this order; its authors' own values come last."""
    from ncgnn.training import preset, search_space

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
    from ncgnn.training import search_space

    known, tables = search_space(config.model.name), config.model_dump(mode="json")
    places = [name.split(".") for name in SEARCHED if name in known]
    return {option: tables[section][option] for section, option in places}


def is_tuned(model: str) -> bool:
    """Whether parameters of the model are to be searched; the paper did not search all."""
    from ncgnn.training import search_space

    model, _ = VARIANTS.get(model, (model, {}))
    return "training.learning_rate" in search_space(model)


def search(split: str, model: str, dataset: str) -> list[RunConfig]:
    """The runs by which a choice is made; none where it was made on other splits."""
    if _is_borrowed(split, dataset):
        return []
    epochs = FEWER_EPOCHS.get((dataset, model), PLAN[dataset][1])
    name, _ = VARIANTS.get(model, (model, {}))
    count = len(choices_of(name, dataset)) if is_tuned(model) else 0
    return [
        config_of(split, model, dataset, choice, SEARCH_SEED, epochs) for choice in range(count)
    ]


def final(split: str, model: str, dataset: str, kept: dict[str, Record]) -> list[RunConfig]:
    """The runs of the best choice with the seeds that count; none while the search lacks runs."""
    choice = _choice(split, model, dataset, kept)
    if choice is None:
        return []
    return [config_of(split, model, dataset, choice, seed) for seed in range(PLAN[dataset][2])]


def _choice(split: str, model: str, dataset: str, kept: dict[str, Record]) -> int | None:
    """The place of the best choice by validation; None while the search lacks runs."""
    if _is_borrowed(split, dataset):
        if model in OURS:
            return len(choices_of(model, dataset)) - 1  # the paper's own
        return _choice("paper", model, dataset, _stored("paper"))
    tried = search(split, model, dataset)
    if any(config.name not in kept for config in tried):
        return None
    values = [kept[config.name].result["scores"]["val"]["accuracy"] for config in tried]
    return values.index(max(values)) if values else 0


def _is_borrowed(split: str, dataset: str) -> bool:
    return split == "stratified" and dataset in LARGE


def _stored(split: str) -> dict[str, Record]:
    from ncgnn.experiments import read_stored

    return {record.name: record for record in read_stored(STORES[split])}


def is_short(model: str, dataset: str, records: Sequence[Record]) -> bool:
    """Whether runs are below what the paper prints by more than :data:`SHORT`."""
    from ncgnn.paper.request import printed

    paper = printed("table1", model, dataset)
    if not records or not isinstance(paper, tuple):
        return False
    return paper[0] - fmean(100 * r.result["scores"]["test"]["accuracy"] for r in records) > SHORT


def corrected(model: str, dataset: str, kept: dict[str, Record]) -> list[RunConfig]:
    """The runs that count once more with the correction for class shares, where they are short."""
    done = [config for config in final("paper", model, dataset, kept) if config.name in kept]
    if not is_short(model, dataset, [kept[config.name] for config in done]):
        return []
    shares = {"class_shares": "val"}
    return [
        config.model_copy(update={"training": config.training.model_copy(update=shares)})
        for config in done
    ]


def main() -> None:
    from _kept import arguments, keep

    parser = arguments(__doc__, "runs/competitors")
    parser.add_argument("--models", help="by default all that are planned for a data set")
    parser.add_argument("--datasets", default=",".join(PLAN))
    parser.add_argument("--split", choices=SPLITS, default="paper")
    parser.add_argument("--corrected", action="store_true", help="where the paper is not reached")
    given = parser.parse_args()
    split, store = given.split, STORES[given.split]
    for dataset in given.datasets.split(","):
        models = given.models.split(",") if given.models else models_on(dataset, split)
        kept = keep([c for m in models for c in search(split, m, dataset)], store, given)
        kept = keep([c for m in models for c in final(split, m, dataset, kept)], store, given)
        if given.corrected and split == "paper":
            keep([c for m in models for c in corrected(m, dataset, kept)], store, given)


if __name__ == "__main__":
    main()
