"""Experiments: many runs, what came of them, and the tables of the paper."""

from typing import TYPE_CHECKING

from ncgnn._lazy import lazy_exports

if TYPE_CHECKING:
    from ncgnn.experiments._engine import Watcher
    from ncgnn.experiments._grid import grid
    from ncgnn.experiments._plan import PlannedRun, plan
    from ncgnn.experiments._records import Record, as_records, read_runs
    from ncgnn.experiments._reproduce import (
        Reproduction,
        is_timed,
        reproduce,
        takes_stored,
        target,
        targets,
    )
    from ncgnn.experiments._request import Request, Target
    from ncgnn.experiments._requesting import request_for
    from ncgnn.experiments._results import results_table
    from ncgnn.experiments._rows import Row
    from ncgnn.experiments._significance import Difference, paired_test
    from ncgnn.experiments._stored import of_this_graph, read_stored, write_stored
    from ncgnn.experiments._sweep import SweepResult, finished_runs, sweep
    from ncgnn.experiments.tuning._result import TuneResult, TuneWatcher
    from ncgnn.experiments.tuning._tune import tune

__all__ = [
    "Difference",
    "PlannedRun",
    "Record",
    "Reproduction",
    "Request",
    "Row",
    "SweepResult",
    "Target",
    "TuneResult",
    "TuneWatcher",
    "Watcher",
    "as_records",
    "finished_runs",
    "grid",
    "is_timed",
    "of_this_graph",
    "paired_test",
    "plan",
    "read_runs",
    "read_stored",
    "reproduce",
    "request_for",
    "results_table",
    "sweep",
    "takes_stored",
    "target",
    "targets",
    "tune",
    "write_stored",
]

_MODULES = {
    "_engine": ("Watcher",),
    "_grid": ("grid",),
    "_plan": ("PlannedRun", "plan"),
    "_records": ("Record", "as_records", "read_runs"),
    "_stored": ("of_this_graph", "read_stored", "write_stored"),
    "_reproduce": (
        *("Reproduction", "is_timed", "reproduce", "takes_stored", "target", "targets"),
    ),
    "_request": ("Request", "Target"),
    "_requesting": ("request_for",),
    "_results": ("results_table",),
    "_rows": ("Row",),
    "_significance": ("Difference", "paired_test"),
    "tuning._result": ("TuneResult", "TuneWatcher"),
    "tuning._tune": ("tune",),
    "_sweep": ("SweepResult", "finished_runs", "sweep"),
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
)
