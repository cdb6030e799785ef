"""Accuracy of the paper's competitors: a small search on validation, then the seeds.

    OMP_NUM_THREADS=1 python benchmarks/competitors.py --data-dir DIR &    # several share the work
    OMP_NUM_THREADS=1 python benchmarks/competitors.py --data-dir DIR

Learning rate, weight decay and dropout are chosen among CHOICES, the same for every model, by
validation accuracy on a split that is not used again; all else is the model's preset. Models that
the paper did not tune (CPGNN, GBKSage, HOG) keep all of their preset. Everything is kept in
results/competitors.jsonl, from which benchmarks/competitors_table.py makes the table.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _stored_runs import Store

from ncgnn._memory import keep_freed_memory

if TYPE_CHECKING:
    from ncgnn.training import RunConfig

MODELS = (
    *("mlp", "gcn", "sage", "gat", "h2gcn", "gprgnn", "fagcn", "acmgcn"),
    *("cpgnn", "wrgat", "gbksage", "hog", "glognn", "sngnn", "cagnn"),
    *("appnp", "gcnii", "mixhop", "linkx", "bernnet", "sgc"),
)
#: Learning rate, weight decay, dropout; each from the paper's search space.
CHOICES = (
    (0.01, 5e-4, 0.5),
    (0.01, 5e-5, 0.2),
    (0.05, 5e-5, 0.8),
    (0.001, 1e-4, 0.5),
    (0.05, 1e-3, 0.2),
    (0.005, 0.0, 0.8),
)
#: Number of choices tried and of seeds, by data set.
PLAN = {
    "chameleon-filtered": (6, 3),
    "squirrel-filtered": (6, 3),
    "actor": (4, 3),
    "photo": (3, 1),
    "pubmed": (3, 1),
}
SEARCH_SEED = 100
STORE = Path(__file__).parent.parent / "results" / "competitors.jsonl"


def config_of(model: str, dataset: str, choice: int, seed: int) -> RunConfig:
    from ncgnn.nn import model_class
    from ncgnn.training import make_config

    settings: dict[str, Any] = {}
    if is_tuned(model):
        rate, decay, dropout = CHOICES[choice]
        settings = {"training.learning_rate": rate, "training.weight_decay": decay}
        if "dropout" in model_class(model).Options.model_fields:
            settings["model.dropout"] = dropout
    return make_config(dataset=dataset, model=model, split="paper", seed=seed, settings=settings)


def is_tuned(model: str) -> bool:
    """Whether the paper searched parameters of the model."""
    from ncgnn.training import search_space

    return "training.learning_rate" in search_space(model)


def best_choice(store: Store, model: str, dataset: str) -> int | None:
    """The choice with the best validation accuracy of the search; None if it is not complete."""
    if not is_tuned(model):
        return 0
    found: list[float] = []
    for choice in range(PLAN[dataset][0]):
        record = store.run(config_of(model, dataset, choice, SEARCH_SEED), f"search {choice}")
        if record is None:
            return None
        found.append(record["result"]["scores"]["val"]["accuracy"])
    return found.index(max(found))


def finished(store: Store, model: str, dataset: str) -> bool:
    """Work on one cell of the table, and say whether nothing is left to do."""
    choice = best_choice(store, model, dataset)
    if choice is None:
        return False
    seeds = range(PLAN[dataset][1])
    return all(
        store.run(config_of(model, dataset, choice, seed), f"choice {choice}") for seed in seeds
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/competitors"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--datasets", default=",".join(PLAN))
    given = parser.parse_args()
    keep_freed_memory()
    warnings.simplefilter("ignore")
    store = Store(STORE, given.runs, given.data_dir)
    left = [(m, d) for d in given.datasets.split(",") for m in given.models.split(",")]
    before = None
    while left and left != before:  # cells that another process works on come again
        before = left
        left = [cell for cell in left if not finished(store, *cell)]


if __name__ == "__main__":
    main()
