"""Tables of tuned classic models and others, on the splits of the former's authors.

    ncgnn reproduce classic-published --seeds 10 --runs RUNS --data-dir DIR
    ncgnn reproduce classic-uniform --seeds 3 --runs RUNS --data-dir DIR
    ncgnn results --runs RUNS --add-to results/published.jsonl

make the runs, each model as its preset says; this file makes the tables of what is stored, also of
the runs that benchmarks/combined.py trains beside its choices.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import combined

from ncgnn.experiments import read_stored
from ncgnn.paper.request import Request
from ncgnn.paper.targets import paper_grids, reproduce, request_for, target

STORE = Path(__file__).parent.parent / "results" / "published.jsonl"
SEEDS = {"classic-published": 10, "classic-uniform": 3}


def tables() -> str:
    """Accuracy and macro-F1 of both families, each in tables of its own."""
    stored = [
        record for path in (STORE, combined.STORE) if path.is_file() for record in read_stored(path)
    ]
    kept = {record.name for record in stored}
    texts: list[str] = []
    for name, seeds in SEEDS.items():
        shown = target(name)
        every = Request(shown.datasets, shown.models, tuple(range(seeds)), name.split("-")[1])
        there = {config.model.name for config in shown.cells(every) if config.name in kept}
        if not there:
            continue
        models = [model for model in shown.models if model in there]
        request, absent = request_for(name, models=models, seeds=seeds, stored=stored, train=False)
        made = reproduce(name, (), request=request, absent=absent, stored=stored)
        # Rows about graphs would depend on what is at hand where this runs.
        made = replace(made, data=replace(made.data, facts={}))
        texts += [grid.markdown() for grid in paper_grids(made)]
    return "\n".join(texts)
