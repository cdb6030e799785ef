"""The tables of RESULTS.md from the stored results of benchmarks/accuracy.py.

python benchmarks/accuracy_table.py            # prints them
python benchmarks/accuracy_table.py --write    # puts them into RESULTS.md
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accuracy import LARGE, STORE

from ncgnn.experiments._published import published
from ncgnn.training import make_config

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent.parent / "RESULTS.md"
BEGIN, END = "<!-- tables begin -->", "<!-- tables end -->"
GRAPHS = ("pubmed", "photo", *LARGE, "actor", "chameleon-filtered", "squirrel-filtered")
PAPER = {
    "NCGCN": "ncgcn",
    "NCSAGE": "ncsage",
    "w/o Separ.": "without-separation",
    "w/o Mess. Separ.": "without-message-separation",
    "NH Separ.": "nh-separation",
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
    """Results by variant and data set."""
    found: dict[str, Runs] = defaultdict(lambda: defaultdict(list))
    for line in STORE.read_text().splitlines():
        record = json.loads(line)
        found[variant(record["config"])][record["config"]["data"]["dataset"]].append(
            record["result"]
        )
    return found


def cell(results: list[dict[str, Any]], part: str, score: str = "accuracy") -> str:
    if not results:
        return ""
    values = [100 * result["scores"][part][score] for result in results]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread} ({len(values)})"


def rows(found: dict[str, Runs], part: str, score: str = "accuracy") -> list[str]:
    head = f"| | {' | '.join(GRAPHS)} |"
    lines = [head, f"|{' --- |' * (len(GRAPHS) + 1)}"]
    for name in sorted(found):
        cells = [cell(found[name].get(graph, []), part, score) for graph in GRAPHS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def high_shares(found: dict[str, Runs]) -> list[str]:
    """How many nodes were in the high group in the best epoch, in percent."""
    lines = [f"| | {' | '.join(GRAPHS)} |", f"|{' --- |' * (len(GRAPHS) + 1)}"]
    for name in sorted(found):
        cells = []
        for graph in GRAPHS:
            sizes = [r["group_sizes"] for r in found[name].get(graph, [])]
            shares = [f"{100 * s[-1] / sum(s):.1f}" for s in sizes]
            cells.append(", ".join(shares[:3]))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def tables() -> str:
    found = stored()
    paper = [f"| paper: {title} | {paper_row(row)} |" for title, row in PAPER.items()]
    baseline: dict[str, list[float]] = defaultdict(list)
    for runs in found.values():
        for graph, results in runs.items():
            baseline[graph] += [100 * r["majority_baseline"] for r in results]
    majority = " | ".join(
        f"{statistics.fmean(baseline[g]):.2f}" if baseline[g] else "" for g in GRAPHS
    )
    parts = [
        "### Test accuracy at the best validation epoch",
        "",
        "Mean ± sample standard deviation (number of seeds), `paper` split.",
        "",
        *rows(found, "test"),
        *paper,
        f"| majority class | {majority} |",
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


def paper_row(row: str, graphs: Sequence[str] = GRAPHS) -> str:
    """What the paper prints in a row of its main table."""
    return " | ".join(f"{published('table1')[row][graph][0]:.2f}" for graph in graphs)


def replace_between(text: str, begin: str, end: str, inside: str) -> str:
    """A text with other words between two marks."""
    before, after = text.split(begin)[0], text.split(end)[1]
    return f"{before}{begin}\n\n{inside}\n\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        print(tables())
        return
    RESULTS.write_text(replace_between(RESULTS.read_text(), BEGIN, END, tables()))


if __name__ == "__main__":
    main()
