"""Experiments: sweeps of runs, tables of their results, and parameter searches."""

from ncgnn.experiments.cells import Cell
from ncgnn.experiments.comparison import (
    Difference,
    adjust_for_many,
    compare_runs,
    paired_test,
)
from ncgnn.experiments.ray_train import training_on_ray
from ncgnn.experiments.results import (
    Record,
    Row,
    as_records,
    flatten,
    format_value,
    of_this_graph,
    read_runs,
    read_stored,
    results_table,
    short_names,
    uneven_efforts,
    without_pairs,
    write_stored,
)
from ncgnn.experiments.sweeps import (
    SweepResult,
    Watcher,
    check_all_used,
    check_settings,
    file_for,
    finished_runs,
    grid,
    plan,
    read_config_files,
    seed_list,
    sweep,
)
from ncgnn.experiments.true_groups import TrueGroupRow, by_true_group, other_divisions
from ncgnn.experiments.tuning.search import TuneResult, seen_share, tune
from ncgnn.experiments.tuning.study import SearchState

__all__ = [
    "Cell",
    "Difference",
    "Record",
    "Row",
    "SearchState",
    "SweepResult",
    "TrueGroupRow",
    "TuneResult",
    "Watcher",
    "adjust_for_many",
    "as_records",
    "by_true_group",
    "check_all_used",
    "check_settings",
    "compare_runs",
    "file_for",
    "finished_runs",
    "flatten",
    "format_value",
    "grid",
    "of_this_graph",
    "other_divisions",
    "paired_test",
    "plan",
    "read_config_files",
    "read_runs",
    "read_stored",
    "results_table",
    "seed_list",
    "seen_share",
    "short_names",
    "sweep",
    "training_on_ray",
    "tune",
    "uneven_efforts",
    "without_pairs",
    "write_stored",
]
