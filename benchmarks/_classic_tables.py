"""Tables of tuned classic models and separated ones, on the splits of the former's authors.

    ncgnn reproduce classic-published --seeds 10 --runs RUNS --data-dir DIR
    ncgnn reproduce classic-uniform --seeds 3 --runs RUNS --data-dir DIR
    ncgnn results --runs RUNS --add-to results/published.jsonl

make the runs; this file makes the tables of what is stored.
"""

from __future__ import annotations

from pathlib import Path

from ncgnn.experiments import read_stored, reproduce, request_for
from ncgnn.report import as_markdown, paper_grids

STORE = Path(__file__).parent.parent / "results" / "published.jsonl"
SEEDS = {"classic-published": 10, "classic-uniform": 3}


def tables() -> str:
    """Accuracy and macro-F1 of both families, each in tables of its own."""
    stored = read_stored(STORE)
    texts: list[str] = []
    for name, seeds in SEEDS.items():
        request, absent = request_for(name, seeds=seeds, stored=stored, train=False)
        made = reproduce(name, (), request=request, absent=absent, stored=stored)
        texts += [as_markdown(grid) for grid in paper_grids(made)]
    return "\n".join(texts)
