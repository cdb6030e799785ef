"""The tables of competitors in RESULTS.md from the stored results of benchmarks/competitors.py.

python benchmarks/competitors_table.py            # prints them
python benchmarks/competitors_table.py --write    # puts them into RESULTS.md
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from accuracy_table import RESULTS, replace_between
from competitors import CHOICES, MODELS, OURS, PLAN, SEARCH_SEED, SPLITS, STORES

from ncgnn.experiments._published import published

if TYPE_CHECKING:
    from collections.abc import Callable

#: Where more than this many points are missing, a reason must be given.
SHORT = 2.0
Runs = dict[tuple[str, str], list[dict[str, Any]]]


def marks(split: str) -> tuple[str, str]:
    """What a family's tables stand between."""
    name = "competitors" if split == "paper" else split
    return f"<!-- {name} begin -->", f"<!-- {name} end -->"


def stored(split: str) -> Runs:
    """The runs that count, by model and graph; those of the search do not."""
    final: Runs = defaultdict(list)
    for line in STORES[split].read_text().splitlines():
        record = json.loads(line)
        config = record["config"]
        if config["training"]["seed"] != SEARCH_SEED:
            final[config["model"]["name"], config["data"]["dataset"]].append(record)
    return final


def values(records: list[dict[str, Any]], score: str) -> list[float]:
    return [100 * record["result"]["scores"]["test"][score] for record in records]


def cell(records: list[dict[str, Any]], score: str) -> str:
    if not records:
        return ""
    found = values(records, score)
    spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.2f}{spread} ({len(found)})"


def chosen(records: list[dict[str, Any]]) -> str:
    """Learning rate, weight decay and dropout of the runs that count."""
    if not records:
        return ""
    config = records[0]["config"]
    parts = [config["training"]["learning_rate"], config["training"]["weight_decay"]]
    dropout = config["model"].get("dropout")
    return ", ".join(f"{part:g}" for part in [*parts, *([] if dropout is None else [dropout])])


def paper_cell(model: str, graph: str, records: list[dict[str, Any]]) -> str:
    """What the paper prints; marked where we fall short by more than :data:`SHORT`."""
    printed = published("table1")[model].get(graph)
    if not isinstance(printed, list):
        return str(printed or "")
    missing = bool(records) and printed[0] - statistics.fmean(values(records, "accuracy")) > SHORT
    return f"{printed[0]:.2f} ± {printed[1]:.2f}{' *' if missing else ''}"


def tables(split: str) -> str:
    """Accuracy beside the paper's, macro-F1, and the parameters that were chosen."""
    final = stored(split)
    graphs = [graph for graph in PLAN if any(place == graph for _, place in final)]
    present = [m for m in (*MODELS, *OURS) if any((m, graph) in final for graph in graphs)]
    head = [f"| | {' | '.join(graphs)} |", f"|{' --- |' * (len(graphs) + 1)}"]

    def rows(show: Callable[[list[dict[str, Any]]], str]) -> list[str]:
        lines = ((model, [show(final[model, graph]) for graph in graphs]) for model in present)
        return [f"| {model} | {' | '.join(cells)} |" for model, cells in lines]

    accuracy: list[str] = []
    for line, model in zip(rows(lambda found: cell(found, "accuracy")), present, strict=True):
        accuracy.append(line)
        if split == "paper" and model in published("table1"):
            beside = [paper_cell(model, graph, final[model, graph]) for graph in graphs]
            accuracy.append(f"| paper | {' | '.join(beside)} |")
    searched = [model for model in present if model not in OURS]
    majority = [
        statistics.fmean([100 * r["result"]["majority_baseline"] for r in everything])
        for graph in graphs
        if (everything := [r for model in present for r in final[model, graph]])
    ]
    note = f" * more than {SHORT:g} points below the paper." if split == "paper" else ""
    return "\n".join(
        [
            f"Test accuracy, mean ± sample standard deviation (number of seeds), `{split}` split."
            f"{note}",
            *("", *head, *accuracy),
            f"| majority class | {' | '.join(f'{value:.2f}' for value in majority)} |",
            *("", "Test macro-F1.", "", *head, *rows(lambda found: cell(found, "macro_f1"))),
            "",
            "Learning rate, weight decay and dropout that validation chose, among "
            f"{len(CHOICES)} settings or fewer (benchmarks/competitors.py).",
            *("", *head, *rows(chosen)[: len(searched)]),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    for split in SPLITS:
        if not STORES[split].is_file():
            continue
        if not write:
            print(tables(split))
            continue
        text = replace_between(RESULTS.read_text(), *marks(split), tables(split))
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
