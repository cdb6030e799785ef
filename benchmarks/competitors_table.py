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

from accuracy_table import RESULTS, replace_between
from competitors import CHOICES, MODELS, PLAN, SEARCH_SEED, STORE

BEGIN, END = "<!-- competitors begin -->", "<!-- competitors end -->"
GRAPHS = tuple(PLAN)
#: Test accuracy in the paper, in the order of PLAN.
PAPER = {
    "mlp": (31.99, 44.61, 36.82, 91.28, 86.86),
    "gcn": (42.63, 47.83, 33.15, 93.94, 88.08),
    "sage": (45.15, 51.64, 36.37, 93.32, 88.73),
    "gat": (45.09, 44.11, 36.55, 94.21, 88.74),
    "h2gcn": (45.03, 41.47, 32.62, 95.48, 89.43),
    "gprgnn": (45.15, 45.85, 39.22, 93.97, 90.46),
    "fagcn": (45.20, 53.28, 40.90, 94.89, 89.16),
    "acmgcn": (43.74, 39.64, 39.09, 95.04, 90.40),
    "cpgnn": (39.18, 28.32, 33.52, 90.49, 87.54),
    "wrgat": (42.46, 45.47, 37.91, 92.23, 89.13),
    "gbksage": (45.32, 45.41, 37.27, 81.61, 85.49),
    "hog": (41.87, 39.92, 38.00, 90.88, 85.25),
    "glognn": (44.39, 49.07, 32.88, 92.41, 84.87),
    "sngnn": (41.17, 38.27, 38.68, 90.79, 86.85),
    "cagnn": (43.86, 53.28, 39.83, 92.75, 87.54),
}
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
        if model in PAPER:
            lines.append(f"| paper | {' | '.join(f'{v:.2f}' for v in PAPER[model])} |")
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
