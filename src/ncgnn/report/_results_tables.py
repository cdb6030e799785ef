"""Finished runs as tables for people and for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.experiments._names import short_names
from ncgnn.report._grid import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.experiments import Row
    from ncgnn.training import Spread


def results_grids(rows: Sequence[Row]) -> list[Grid]:
    """One table per split family; families never share one."""
    return [_grid(split, [r for r in rows if r.split == split]) for split in _splits(rows)]


def results_columns(rows: Sequence[Row]) -> dict[str, NDArray[Any]]:
    """One line per row and one column per fact; what is unknown is NaN."""
    plain = [_facts(row) for row in rows]
    return {
        name: np.array([facts[name] for facts in plain]) for name in (plain[0] if plain else ())
    }


def _splits(rows: Sequence[Row]) -> list[str]:
    return sorted({row.split for row in rows})


def _grid(split: str, rows: Sequence[Row]) -> Grid:
    compared = any(row.difference for row in rows)
    head = [
        "data set",
        "model",
        "seeds",
        "validation",
        "test",
        "test macro-F1",
        "majority",
        "s per run",
    ]
    notes = [
        "Mean ± sample standard deviation over seeds, percent. A model is named with the options "
        "in which it differs from most of its runs on that data set."
    ]
    if any(len(row.codes) > 1 for row in rows):
        notes.append(
            "‡ The runs were trained by different versions of this package, as far as is known."
        )
    if compared:
        head.append("difference")
        notes.append(
            "p: paired t test over common seeds, corrected for overlapping splits; ° all seeds "
            "share one split, so that it speaks of initialisations only; none where too little is "
            "known of the splits. Of twenty such tests without any difference one has p < 0.05."
        )
    lines: list[tuple[str, ...]] = []
    before, called = rows[0].dataset, short_names([row.dataset for row in rows])
    for row in rows:
        if row.dataset != before:
            lines.append(())
        before = row.dataset
        cells = _cells(row, called[row.dataset])
        lines.append((*cells, *([_difference(row)] if compared else [])))
    title = f"Finished runs, {split} split"
    return Grid(title, tuple(head), tuple(lines), tuple(notes), left=2)


def _cells(row: Row, dataset: str) -> list[str]:
    return [
        dataset,
        row.label,
        f"{len(row.records)}{'‡' if len(row.codes) > 1 else ''}",
        percent(row.spread("val")),
        percent(row.spread("test")),
        percent(row.spread("test", "macro_f1")),
        "" if (base := row.mean_of("majority_baseline")) is None else f"{100 * base.mean:.2f}",
        f"{row.seconds.mean:.1f}",
    ]


def _difference(row: Row) -> str:
    found = row.difference
    if found is None:
        return ""
    mark = "°" if found.over == "initialisations" else ""
    p_value = "" if found.p_value is None else f"p {_p_value(found.p_value)}{mark}, "
    return f"{round(100 * found.mean, 2) + 0.0:+.2f} ({p_value}n {found.seeds})"


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def percent(spread: Spread | None) -> str:
    """Mean ± deviation, in percent."""
    if spread is None:
        return ""
    deviation = "" if spread.std is None else f" ± {100 * spread.std:.2f}"
    return f"{100 * spread.mean:.2f}{deviation}"


def _facts(row: Row) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "dataset": row.dataset,
        "split": row.split,
        "model": row.model,
        "options": row.options,
        "seeds": " ".join(str(seed) for seed in row.records),
        "n": len(row.records),
    }
    for name, spread in (
        ("val_accuracy", row.spread("val")),
        ("test_accuracy", row.spread("test")),
        ("test_macro_f1", row.spread("test", "macro_f1")),
        ("majority_baseline", row.mean_of("majority_baseline")),
        ("seconds", row.seconds),
        ("epochs", row.mean_of("epochs")),
    ):
        facts[name] = _number(None if spread is None else spread.mean)
        facts[f"{name}_std"] = _number(None if spread is None else spread.std)
    found = row.difference
    facts["against"] = "" if found is None else found.against
    facts["pairs"] = 0 if found is None else found.seeds
    facts["difference"] = _number(None if found is None else found.mean)
    facts["p_value"] = _number(None if found is None else found.p_value)
    facts["p_value_over"] = "" if found is None else found.over or ""
    facts["code_versions"] = len(row.codes)
    facts["runs"] = " ".join(record.name for record in row.records.values())
    return facts


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
