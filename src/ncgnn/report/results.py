"""Results of training as tables for the terminal.

Where the runs of a sweep stand, as a table.

Finished runs as tables for people and for other programs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from ncgnn.experiments import short_names
from ncgnn.report.tables import Grid
from ncgnn.training import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.experiments import PlannedRun, Row
    from ncgnn.training import RunConfig, RunResult, Spread, Summary

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


_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "auroc": "AUROC",
    "calibration_error": "calibration error",
}


def summary_table(results: Sequence[RunResult]) -> Table:
    """Mean ± standard deviation over seeds, beside what always answering one class would get."""
    config, over = results[0].config, summary(results)
    title = (
        f"{config.model.name} on {_graph(config)}, {config.data.split} split, {_seeds(over.seeds)}"
    )
    table = _table(title)
    table.add_row("validation accuracy", percent(over.val_accuracy))
    for name, spread in over.test.items():
        table.add_row(f"test {_TITLES[name]}", percent(spread), style=_style(name))
    if over.majority_baseline is not None:
        table.add_row("always the commonest test class", percent(over.majority_baseline))
        if _no_better(over):
            table.caption = "On test nodes no better than always giving that answer."
    table.add_row("epochs", _spread(over.epochs, 1, ".0f"))
    table.add_row("seconds", _spread(over.seconds, 1, ".1f"))
    if over.never_evaluated:
        table.add_row("never evaluated", _classes(over.never_evaluated))
    return table


def comparison_table(per_model: Sequence[Sequence[RunResult]]) -> Table:
    """One row per model, over the same seeds of the same split family."""
    config, overs = per_model[0][0].config, [summary(results) for results in per_model]
    title = f"{_graph(config)}, {config.data.split} split, {_seeds(overs[0].seeds)}"
    table = Table("model", title=escape(title), title_justify="left")
    for column in ("validation", "test accuracy", "test macro-F1", "epochs", "seconds"):
        table.add_column(column, justify="right")
    best = max(range(len(overs)), key=lambda i: overs[i].val_accuracy.mean)
    for number, (results, over) in enumerate(zip(per_model, overs, strict=True)):
        scores = [percent(over.test[k]) if over.test else "" for k in ("accuracy", "macro_f1")]
        costs = (_spread(over.epochs, 1, ".0f"), _spread(over.seconds, 1, ".1f"))
        name, style = results[0].config.model.name, "bold" if number == best else ""
        table.add_row(name, percent(over.val_accuracy), *scores, *costs, style=style)
    baseline = overs[0].majority_baseline
    if baseline is not None:
        table.add_row("majority class", "", percent(baseline))
    idle = [r[0].config.model.name for r, o in zip(per_model, overs, strict=True) if _no_better(o)]
    best_name = per_model[best][0].config.model.name
    table.caption = f"Best on validation: {best_name}."
    if idle:
        table.caption += f" No better than the majority class: {', '.join(idle)}."
    if overs[0].never_evaluated:
        table.caption += f" Never evaluated: {_classes(overs[0].never_evaluated)}."
    return table


def _classes(labels: Sequence[int]) -> str:
    return f"{'class' if len(labels) == 1 else 'classes'} {', '.join(map(str, labels))}"


def _no_better(over: Summary) -> bool:
    baseline = over.majority_baseline
    return bool(over.test) and baseline is not None and over.test["accuracy"].mean <= baseline.mean


def evaluation_tables(result: dict[str, Any], config: RunConfig) -> list[Table]:
    """Scores of one run, and its accuracy where nodes are confused and where not."""
    scores = Table(
        "score",
        *result["scores"],
        title=escape(f"{config.model.name} on {_graph(config)}, {config.data.split} split"),
        title_justify="left",
    )
    for name, title in _TITLES.items():
        values = [part[name] for part in result["scores"].values()]
        if None not in values:
            scores.add_row(title, *(f"{100 * v:.2f}" for v in values), style=_style(name))
    groups = Table("test nodes", "number", "accuracy", title="Accuracy", title_justify="left")
    for key in ("accuracy_by_true_group", "accuracy_by_group", "accuracy_by_nh_decile"):
        for row in result.get(key, ()):
            accuracy = f"{100 * row['accuracy']:.2f}"
            groups.add_row(_part(key, row["part"], result), f"{row['nodes']:,}", accuracy)
    return [scores, groups]


def _part(key: str, part: int, result: dict[str, Any]) -> str:
    if key == "accuracy_by_nh_decile":
        return f"NH {part / 10:.1f} to {(part + 1) / 10:.1f}"
    group = ("low", "high")[part] if len(result["thresholds"]) == 1 else str(part)
    return f"NC of true labels: {group}" if "true" in key else f"estimated group: {group}"


def _table(title: str) -> Table:
    table = Table(title=escape(title), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    return table


def _graph(config: RunConfig) -> str:
    """The name of a data set, or of a file without its folders."""
    return config.data.dataset.replace("\\", "/").rsplit("/", 1)[-1]


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(seed) for seed in seeds)}"


def _style(name: str) -> str:
    return "bold" if name == "accuracy" else ""


def _spread(spread: Spread, factor: float, form: str) -> str:
    deviation = "" if spread.std is None else f" ± {factor * spread.std:{form}}"
    return f"{factor * spread.mean:{form}}{deviation}"
