"""Tables from the stored results of benchmarks/accuracy.py."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

from _tables import cell, head, majority
from accuracy import LARGE, STORE, configs

from ncgnn.experiments import read_stored
from ncgnn.paper.request import published
from ncgnn.training import make_config

GRAPHS = ("pubmed", "photo", *LARGE, "actor", "chameleon-filtered", "squirrel-filtered")
PAPER = {
    "NCGCN": "ncgcn",
    "NCSAGE": "ncsage",
    "w/o Separ.": "without-separation",
    "w/o Mess. Separ.": "without-message-separation",
    "NH Separ.": "nh-separation",
    "NCGCN (k=3)": "three-hops",
}
Runs = dict[str, list[dict[str, Any]]]


def variant(config: dict[str, Any]) -> str:
    """The model, its mode, and what else differs from the paper's parameters."""
    model, paper = (
        config["model"],
        paper_options(config["model"]["name"], config["data"]["dataset"]),
    )
    name = f"{model['name']} {model['separation']}"
    changed = {key for key, value in model.items() if paper.get(key) != value} - {"separation"}
    if model["threshold"] == [1.0]:
        return f"{name}, nobody ever high"
    if len(model["threshold"]) > 1:
        return f"{name}, {len(model['threshold']) + 1} groups"
    words = {
        "guidance": "guided by NH",
        "hops": f"k = {model['hops']}",
        "known_labels": "training labels known",
        "activation": "ReLU after layer 2",
        "threshold_kind": "half of the nodes high",
    }
    found = [words[key] for key in words if key in changed]
    if config["data"]["scaling"] != paper_scaling(model["name"], config["data"]["dataset"]):
        found.append(f"{config['data']['scaling']} features")
    if config["training"]["patience"] >= config["training"]["epochs"]:
        found.append("never stopped early")
    if config["training"].get("class_shares") == "val":
        found.append("class shares of validation")
    return ", ".join([name, *found])


@functools.cache
def paper_options(model: str, dataset: str) -> dict[str, Any]:
    return make_config(dataset=dataset, model=model).model_dump(mode="json")["model"]


@functools.cache
def paper_scaling(model: str, dataset: str) -> str:
    return make_config(dataset=dataset, model=model).data.scaling


def stored() -> dict[str, Runs]:
    """Results of planned runs by variant and data set, in the order of their seeds."""
    kept = {record.name: record for record in read_stored(STORE)}
    planned = {config.name: config for config in configs()}
    found: dict[str, Runs] = defaultdict(lambda: defaultdict(list))
    for config in sorted(planned.values(), key=lambda one: one.training.seed):
        if config.name in kept:
            tables = config.model_dump(mode="json")
            found[variant(tables)][config.data.dataset].append(kept[config.name].result)
    return found


def rows(found: dict[str, Runs], part: str, score: str = "accuracy") -> list[str]:
    lines = head(GRAPHS)
    for name in sorted(found):
        cells = [cell(found[name].get(graph, []), part, score) for graph in GRAPHS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def high_shares(found: dict[str, Runs]) -> list[str]:
    """How many nodes were in the high group in the best epoch, in percent."""
    lines = head(GRAPHS)
    for name in sorted(found):
        cells = []
        for graph in GRAPHS:
            sizes = [r["group_sizes"] for r in found[name].get(graph, [])]
            shares = [f"{100 * s[-1] / sum(s):.1f}" for s in sizes]
            cells.append(", ".join(shares[:3]))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def tables() -> str:
    """Scores of every variant on every graph, and the sizes of its groups."""
    found = stored()
    paper = [f"| paper: {title} | {paper_row(row)} |" for title, row in PAPER.items()]
    everything = [[r for runs in found.values() for r in runs.get(g, [])] for g in GRAPHS]
    parts = [
        "### Test accuracy at the best validation epoch",
        "",
        "Mean ± sample standard deviation (number of seeds), `paper` split.",
        "",
        *rows(found, "test"),
        *paper,
        majority(everything),
        "",
        "### Validation accuracy, by which modes are chosen",
        "",
        *rows(found, "val"),
        "",
        "### Training accuracy at the same epoch",
        "",
        *rows(found, "train"),
        "",
        "### Test macro-F1",
        "",
        *rows(found, "test", "macro_f1"),
        "",
        "### Nodes in the high group in the best epoch, percent, first three seeds",
        "",
        *high_shares(found),
    ]
    return "\n".join(parts)


def paper_row(row: str) -> str:
    """What the paper prints in a row of its main table."""
    return " | ".join(f"{published('table1')[row][graph][0]:.2f}" for graph in GRAPHS)
