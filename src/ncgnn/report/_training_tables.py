"""Results of training as tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ncgnn.report._results_tables import percent
from ncgnn.training import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.training import RunConfig, RunResult, Spread, Summary

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
