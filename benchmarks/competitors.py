"""Accuracy of the paper's competitors: a small search on validation, then the seeds.

    python benchmarks/competitors.py --data-dir DIR

Learning rate, weight decay and dropout are chosen among CHOICES, the same for every model, by
validation accuracy on a split that is not used again, on larger graphs within a hundred epochs; all
else is the model's preset. Models that the paper did not tune (CPGNN, GBKSage, HOG) keep all of
their preset. Everything is kept in results/competitors.jsonl, from which
benchmarks/competitors_table.py makes the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncgnn.experiments import Record
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
#: Number of choices tried, of epochs to try them, and of seeds, by data set.
PLAN = {
    "chameleon-filtered": (6, 500, 3),
    "squirrel-filtered": (6, 500, 3),
    "actor": (4, 100, 3),
    "photo": (3, 100, 1),
    "pubmed": (3, 100, 1),
}
SEARCH_SEED = 100
STORE = Path(__file__).parent.parent / "results" / "competitors.jsonl"


def config_of(
    model: str, dataset: str, choice: int, seed: int, epochs: int | None = None
) -> RunConfig:
    from ncgnn.nn import model_class
    from ncgnn.training import make_config

    settings: dict[str, Any] = {} if epochs is None else {"training.epochs": epochs}
    if is_tuned(model):
        rate, decay, dropout = CHOICES[choice]
        settings |= {"training.learning_rate": rate, "training.weight_decay": decay}
        if "dropout" in model_class(model).Options.model_fields:
            settings["model.dropout"] = dropout
    return make_config(dataset=dataset, model=model, split="paper", seed=seed, settings=settings)


def is_tuned(model: str) -> bool:
    """Whether the paper searched parameters of the model."""
    from ncgnn.training import search_space

    return "training.learning_rate" in search_space(model)


def search(model: str, dataset: str) -> list[RunConfig]:
    """The runs by which a choice is made."""
    count, epochs, _ = PLAN[dataset]
    choices = range(count) if is_tuned(model) else ()
    return [config_of(model, dataset, choice, SEARCH_SEED, epochs) for choice in choices]


def final(model: str, dataset: str, kept: dict[str, Record]) -> list[RunConfig]:
    """The runs of the best choice with the seeds that count; none while the search lacks runs."""
    tried = search(model, dataset)
    if any(config.name not in kept for config in tried):
        return []
    values = [kept[config.name].result["scores"]["val"]["accuracy"] for config in tried]
    choice = values.index(max(values)) if values else 0
    return [config_of(model, dataset, choice, seed) for seed in range(PLAN[dataset][2])]


def main() -> None:
    from _kept import arguments, keep

    parser = arguments(__doc__, "runs/competitors")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--datasets", default=",".join(PLAN))
    given = parser.parse_args()
    for dataset in given.datasets.split(","):
        models = given.models.split(",")
        kept = keep([c for m in models for c in search(m, dataset)], STORE, given)
        keep([c for m in models for c in final(m, dataset, kept)], STORE, given)


if __name__ == "__main__":
    main()
