"""What a search leaves for people: the best configuration and a table of all trials."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from ncgnn._files import write_text
from ncgnn.experiments.tuning._state import failed_trials
from ncgnn.training._toml import to_toml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from optuna.trial import FrozenTrial

    from ncgnn.experiments.tuning._plan import Plan

BEST, TRIALS = "best.toml", "trials.csv"


def write_trials(path: Path, plan: Plan, trials: Sequence[FrozenTrial]) -> None:
    """Write a row per trial that has ended; all copies of a trial are one row."""
    names = list(plan.space.choices)
    failed = {trial.number for trial in failed_trials(trials)}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["trial", "state", "val_accuracy", "epochs", "seconds", *names, "error"])
    for trial in trials:
        state, error = trial.state.name.lower(), trial.user_attrs.get("error", "")
        if state not in ("complete", "pruned") and trial.number not in failed:
            continue
        scores: list[dict[str, Any]] = trial.user_attrs.get("scores", [])
        spent = [sum(score[key] for score in scores) if scores else "" for key in _SPENT]
        values = [trial.params.get(name, "") for name in names]
        # Optuna's value of a pruned trial is its last report, which compares with no other.
        value = trial.value if state == "complete" else ""
        writer.writerow([trial.number, state, value, *spent, *values, error])
    write_text(path, stream.getvalue())


_SPENT = ("epochs", "seconds")


def write_best(path: Path, plan: Plan, best: FrozenTrial, counts: str) -> None:
    """Write the best trial as a configuration that ``ncgnn train --config`` takes.

    Args:
        path: The file.
        plan: What was searched.
        best: The best trial.
        counts: How many trials there were, in words.
    """
    tree = plan.config(best.params, plan.seeds[0]).model_dump(mode="json")
    del tree["training"]["seed"]  # whoever trains it says which
    seeds = ", ".join(str(seed) for seed in plan.seeds)
    header = (
        f"# Found by 'ncgnn tune' ({counts}): trial {best.number} had the best mean validation\n"
        f"# accuracy, {best.value:.4f}, over seed {seeds}. Searched: "
        f"{', '.join(plan.space.values)}.\n\n"
    )
    write_text(path, header + to_toml(tree))
