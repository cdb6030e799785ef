"""The tables of competitors in RESULTS.md from the stored results of benchmarks/competitors.py.

python benchmarks/competitors_table.py            # prints them
python benchmarks/competitors_table.py --write    # puts them into RESULTS.md
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from accuracy_table import RESULTS, replace_between
from competitors import (
    CHOICES,
    MODELS,
    OURS,
    PLAN,
    SEARCH_SEED,
    SHORT,
    SPLITS,
    STORES,
    is_short,
)

from ncgnn.experiments import Record, read_stored
from ncgnn.experiments._published import printed, published

if TYPE_CHECKING:
    from collections.abc import Callable

Runs = dict[tuple[str, str], list[Record]]


def marks(split: str) -> tuple[str, str]:
    """What a family's tables stand between."""
    name = "competitors" if split == "paper" else split
    return f"<!-- {name} begin -->", f"<!-- {name} end -->"


def stored(split: str) -> tuple[Runs, Runs]:
    """Runs that count, by model and graph, plain and corrected for shares; none of a search."""
    plain: Runs = defaultdict(list)
    corrected: Runs = defaultdict(list)
    for record in read_stored(STORES[split]):
        training = record.config["training"]
        if training["seed"] != SEARCH_SEED:
            found = corrected if training.get("class_shares") == "val" else plain
            found[record.config["model"]["name"], record.config["data"]["dataset"]].append(record)
    return plain, corrected


def values(records: list[Record], score: str) -> list[float]:
    return [100 * record.result["scores"]["test"][score] for record in records]


def cell(records: list[Record], score: str) -> str:
    if not records:
        return ""
    found = values(records, score)
    spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.2f}{spread} ({len(found)})"


def chosen(records: list[Record]) -> str:
    """Learning rate, weight decay and dropout of the runs that count."""
    if not records:
        return ""
    config = records[0].config
    parts = [config["training"]["learning_rate"], config["training"]["weight_decay"]]
    dropout = config["model"].get("dropout")
    return ", ".join(f"{part:g}" for part in [*parts, *([] if dropout is None else [dropout])])


def paper_cell(model: str, graph: str, records: list[Record]) -> str:
    """What the paper prints; marked where we fall short by more than :data:`SHORT`."""
    paper = printed("table1", model, graph)
    if not isinstance(paper, tuple):
        return paper or ""
    return f"{paper[0]:.2f} ± {paper[1]:.2f}{' *' if is_short(model, graph, records) else ''}"


def tables(split: str) -> str:
    """Accuracy beside the paper's, macro-F1, and the parameters that were chosen."""
    final, corrected = stored(split)
    graphs = [graph for graph in PLAN if any(place == graph for _, place in final)]
    present = [m for m in (*MODELS, *OURS) if any((m, graph) in final for graph in graphs)]
    head = [f"| | {' | '.join(graphs)} |", f"|{' --- |' * (len(graphs) + 1)}"]

    def rows(show: Callable[[list[Record]], str]) -> list[str]:
        lines = ((model, [show(final[model, graph]) for graph in graphs]) for model in present)
        return [f"| {model} | {' | '.join(cells)} |" for model, cells in lines]

    accuracy: list[str] = []
    for line, model in zip(rows(lambda found: cell(found, "accuracy")), present, strict=True):
        accuracy.append(line)
        if split == "paper" and model in published("table1"):
            beside = [paper_cell(model, graph, final[model, graph]) for graph in graphs]
            accuracy.append(f"| paper | {' | '.join(beside)} |")
            again = [cell(corrected[model, graph], "accuracy") for graph in graphs]
            if any(again):
                accuracy.append(f"| {model}, shares | {' | '.join(again)} |")
    searched = [model for model in present if model not in OURS]
    majority = [
        statistics.fmean([100 * r.result["majority_baseline"] for r in everything])
        for graph in graphs
        if (everything := [r for model in present for r in final[model, graph]])
    ]
    note = (
        f" * more than {SHORT:g} points below the paper; `shares`: those runs once more with "
        "`class_shares=val`."
    )
    return "\n".join(
        [
            f"Test accuracy, mean ± sample standard deviation (number of seeds), `{split}` split."
            f"{note if split == 'paper' else ''}",
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
