"""Where the runs of a sweep stand, as a table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ncgnn.experiments._names import short_names
from ncgnn.report._grid import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.experiments import PlannedRun

_STATES = ("finished", "running", "interrupted", "damaged", "failed", "missing")


def plan_grid(planned: Sequence[PlannedRun]) -> Grid:
    """The number of runs in every state, for every data set, split family and model."""
    keys = [
        (run.config.data.dataset, run.config.data.split, run.config.model.name) for run in planned
    ]
    counts = Counter((key, run.state) for key, run in zip(keys, planned, strict=True))
    called = short_names(dataset for dataset, _, _ in keys)
    rows = [
        (called[key[0]], *key[1:], *(str(counts[key, state]) for state in _STATES))
        for key in dict.fromkeys(keys)
    ]
    total = Counter(run.state for run in planned)
    last = ("all", "", "", *(str(total[state]) for state in _STATES))
    head = ("data set", "split", "model", *_STATES)
    return Grid(
        "1 run" if len(planned) == 1 else f"{len(planned)} runs", head, (*rows, (), last), left=3
    )
