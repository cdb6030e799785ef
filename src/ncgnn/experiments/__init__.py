"""Experiments: many runs, what came of them, and the tables of the paper."""

from ncgnn.experiments.cells import Cell
from ncgnn.experiments.grids import (
    check_all_used,
    check_settings,
    file_for,
    grid,
    read_config_files,
    seed_list,
    short_names,
)
from ncgnn.experiments.records import (
    Record,
    as_records,
    of_this_graph,
    read_runs,
    read_stored,
    write_stored,
)
from ncgnn.experiments.results import (
    Difference,
    Row,
    flat,
    paired_test,
    results_table,
    short,
    uneven_efforts,
    without_pairs,
)
from ncgnn.experiments.sweeps import (
    SweepResult,
    Watcher,
    finished_runs,
    plan,
    sweep,
)
from ncgnn.experiments.tuning.search import TuneResult, TuneWatcher, tune
from ncgnn.experiments.tuning.study import SearchState

__all__ = [
    "Cell",
    "Difference",
    "Record",
    "Row",
    "SearchState",
    "SweepResult",
    "TuneResult",
    "TuneWatcher",
    "Watcher",
    "as_records",
    "check_all_used",
    "check_settings",
    "file_for",
    "finished_runs",
    "flat",
    "grid",
    "of_this_graph",
    "paired_test",
    "plan",
    "read_config_files",
    "read_runs",
    "read_stored",
    "results_table",
    "seed_list",
    "short",
    "short_names",
    "sweep",
    "tune",
    "uneven_efforts",
    "without_pairs",
    "write_stored",
]
