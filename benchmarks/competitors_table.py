"""The table of competitors in RESULTS.md from the stored results of benchmarks/competitors.py.

python benchmarks/competitors_table.py            # prints it
python benchmarks/competitors_table.py --write    # puts it into RESULTS.md
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from typing import Any

from accuracy_table import RESULTS, paper_row, replace_between
from competitors import CHOICES, MODELS, PLAN, SEARCH_SEED, STORE

from ncgnn.experiments._published import published

BEGIN, END = "<!-- competitors begin -->", "<!-- competitors end -->"
GRAPHS = tuple(PLAN)
Records = dict[tuple[str, str], list[dict[str, Any]]]


def stored() -> tuple[Records, Records]:
    """Records of the search and of the seeds after it, by model and graph."""
    search: Records = defaultdict(list)
    final: Records = defaultdict(list)
    for line in STORE.read_text().splitlines():
        record = json.loads(line)
        config = record["config"]
        cell = (config["model"]["name"], config["data"]["dataset"])
        kind = search if config["training"]["seed"] == SEARCH_SEED else final
        kind[cell].append(record)
    return search, final


def scores(records: list[dict[str, Any]], score: str) -> list[float]:
    return [100 * record["result"]["scores"]["test"][score] for record in records]


def cell(records: list[dict[str, Any]], score: str) -> str:
    if not records:
        return ""
    values = scores(records, score)
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread} ({len(values)})"


def chosen(records: list[dict[str, Any]]) -> str:
    """Learning rate, weight decay and dropout of the runs that count."""
    if not records:
        return ""
    config = records[0]["config"]
    parts = [config["training"]["learning_rate"], config["training"]["weight_decay"]]
    dropout = config["model"].get("dropout")
    return ", ".join(f"{part:g}" for part in [*parts, *([] if dropout is None else [dropout])])


def table() -> str:
    _, final = stored()
    present = [model for model in MODELS if any((model, graph) in final for graph in GRAPHS)]
    head = [f"| | {' | '.join(GRAPHS)} |", f"|{' --- |' * (len(GRAPHS) + 1)}"]
    lines = [
        "Test accuracy, mean ± sample standard deviation (number of seeds), `paper` split.",
        "",
    ]
    lines += head
    for model in present:
        cells = [cell(final[model, graph], "accuracy") for graph in GRAPHS]
        lines.append(f"| {model} | {' | '.join(cells)} |")
        if model in published("table1"):
            lines.append(f"| paper | {paper_row(model, GRAPHS)} |")
    majority = [
        statistics.fmean(
            [100 * r["result"]["majority_baseline"] for m in MODELS for r in final[m, graph]] or [0]
        )
        for graph in GRAPHS
    ]
    lines.append(f"| majority class | {' | '.join(f'{v:.2f}' for v in majority)} |")
    lines += ["", "Test macro-F1.", "", *head]
    for model in present:
        cells = [cell(final[model, graph], "macro_f1") for graph in GRAPHS]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    lines += [
        "",
        "Learning rate, weight decay and dropout that validation chose, among "
        f"{len(CHOICES)} settings or fewer (benchmarks/competitors.py).",
        "",
        *head,
    ]
    for model in present:
        cells = [chosen(final[model, graph]) for graph in GRAPHS]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        print(table())
        return
    RESULTS.write_text(replace_between(RESULTS.read_text(), BEGIN, END, table()))


if __name__ == "__main__":
    main()
