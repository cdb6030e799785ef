"""Tables of runs: planned ones, finished ones over seeds, and a search."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.experiments import short_names
from ncgnn.report.scores import graph_name, model_on_graph, score_row
from ncgnn.report.style import percent
from ncgnn.report.tables import Marked, Table
from ncgnn.training import (
    FEWEST_NODES,
    METRICS,
    SCORE_NAMES,
    Spread,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ncgnn.experiments import Cell, Row, TrueGroupRow, TuneResult
    from ncgnn.training import RunResult, Summary

_STATES = ("finished", "running", "interrupted", "damaged", "failed", "missing")


def plan_table(planned: Sequence[Cell]) -> Table:
    """The number of runs in every state, for every dataset, split family and model."""
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
    head = ("dataset", "split", "model", *_STATES)
    return Table(f"Runs: {len(planned)}", head, (*rows, (), last), left=3)


def results_tables(rows: Sequence[Row]) -> list[Table]:
    """One table per split family; families never share one."""
    families = sorted({row.split for row in rows})
    return [_family_table(family, [r for r in rows if r.split == family]) for family in families]


def _family_table(split: str, rows: Sequence[Row]) -> Table:
    compared = any(row.difference for row in rows)
    several = any(row.content for row in rows)
    others = [name for name in METRICS[1:] if name in {row.metric for row in rows}]
    scores = {
        "validation accuracy": ("val", "accuracy"),
        "test accuracy": ("test", "accuracy"),
        "test macro-F1": ("test", "macro_f1"),
    }
    for name in others:
        scores[f"validation {SCORE_NAMES[name]}"] = ("val", name)
        scores[f"test {SCORE_NAMES[name]}"] = ("test", name)
    lines: list[tuple[str, ...]] = []
    before, called = rows[0].dataset, short_names([row.dataset for row in rows])
    for row in rows:
        lines += [()] if row.dataset != before else []
        before, majority = row.dataset, row.mean_of("majority_baseline")
        cells = (
            called[row.dataset],
            row.title,
            *([row.content] if several else []),
            f"{len(row.records)}{'‡' if len(row.codes) > 1 else ''}",
            *(percent(row.spread(part, score)) for part, score in scores.values()),
            "" if majority is None else percent(majority.mean),
            f"{row.seconds.mean:.1f}",
            *([SCORE_NAMES[row.metric]] if others else []),
        )
        lines.append((*cells, _difference(row)) if compared else cells)
    notes = [
        "Mean ± sample standard deviation over seeds, in percent. A model is named with the "
        "options in which it differs from most of its runs on that dataset."
    ]
    if several:
        notes.append("Content: the first digits of the hash of what the dataset held then.")
    if others:
        notes.append("Selected by: the validation score that is highest in a run's best epoch.")
    if any(len(row.codes) > 1 for row in rows):
        notes.append("‡ The runs were trained by different versions of this package.")
    if compared:
        notes.append(
            "Difference: of test accuracy, seed by seed. p: paired t test over common seeds, "
            "corrected for overlapping splits; ° all seeds share one split, so that only the "
            "initial weights vary; none where too little is known of the splits. Without any "
            "difference, one such test in twenty has p < 0.05."
        )
    head = (
        "dataset",
        "model",
        *(["content"] if several else []),
        "seeds",
        *scores,
        "majority class",
        "seconds",
    )
    head += ("selected by",) if others else ()
    head += ("difference",) if compared else ()
    return Table(
        f"Finished runs, {split} split", head, tuple(lines), tuple(notes), left=2 + several
    )


def _difference(row: Row) -> str:
    found = row.difference
    if found is None:
        return ""
    chance = ""
    if found.p_value is not None:
        value = "< 0.001" if found.p_value < 0.0005 else f"{found.p_value:.3f}"
        chance = f"p {value}{'' if found.over in (None, 'splits') else '°'}, "
    return f"{round(100 * found.mean, 2) + 0.0:+.2f} ({chance}n {found.seeds})"


def results_columns(rows: Sequence[Row]) -> dict[str, NDArray[Any]]:
    """One line per row and one column per fact, for programs; what is unknown is NaN."""
    facts = [_facts(row) for row in rows]
    return {name: np.array([one[name] for one in facts]) for name in (facts[0] if facts else ())}


def _facts(row: Row) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "dataset": row.dataset,
        "split": row.split,
        "model": row.model,
        "options": row.options,
        "content": row.content,
        "metric": row.metric,
        "seeds": " ".join(str(seed) for seed in row.records),
        "n": len(row.records),
    }
    spreads = {
        "val_accuracy": row.spread("val"),
        "test_accuracy": row.spread("test"),
        "test_macro_f1": row.spread("test", "macro_f1"),
        "val_score": row.spread("val", row.metric),
        "test_score": row.spread("test", row.metric),
        "majority_baseline": row.mean_of("majority_baseline"),
        "seconds": row.seconds,
        "epochs": row.mean_of("epochs"),
    }
    for name, spread in spreads.items():
        facts[name] = _number(spread and spread.mean)
        facts[f"{name}_std"] = _number(spread and spread.std)
    found = row.difference
    return facts | {
        "against": found.against if found else "",
        "pairs": found.seeds if found else 0,
        "difference": _number(found and found.mean),
        "p_value": _number(found and found.p_value),
        "p_value_over": (found and found.over) or "",
        "code_versions": len(row.codes),
        "runs": " ".join(record.name for record in row.records.values()),
    }


def true_group_tables(rows: Sequence[TrueGroupRow]) -> list[Table]:
    """Accuracy on nodes that are truly low or high in NC, one table per split family."""
    tables: list[Table] = []
    for split in sorted({one.row.split for one in rows}):
        some = [one for one in rows if one.row.split == split]
        called = short_names([one.row.dataset for one in some])
        compared = any(one.high and one.high.difference for one in some)
        lines: list[tuple[str, ...]] = []
        before = some[0].row.dataset
        for one in some:
            lines += [()] if one.row.dataset != before else []
            before, row = one.row.dataset, one.row
            cells = (called[row.dataset], row.title, f"{len(row.records)}", one.division)
            cells += (f"{one.low_nodes:,.0f}", _accuracy(one.low, one.low_nodes))
            cells += (f"{one.high_nodes:,.0f}", _accuracy(one.high, one.high_nodes))
            lines.append((*cells, _difference(one.high) if compared and one.high else ""))
        notes = [
            "Test accuracy in percent on nodes of low and high NC by the true labels, mean ± "
            "sample standard deviation over seeds, with the mean number of such test nodes. Runs "
            f"with fewer than {FEWEST_NODES} of them do not count."
        ]
        if compared:
            notes.append(
                "Difference: on nodes of high NC, seed by seed, p by a paired t test corrected for "
                "overlapping splits, between runs that divide NC alike. ° as in other results."
            )
        head = ("dataset", "model", "seeds", "divided at", "low", "accuracy", "high", "accuracy")
        head += ("difference",) if compared else ()
        lines = [line if compared else line[:8] for line in lines]
        title = f"Truly confused nodes, {split} split"
        tables.append(Table(title, head, tuple(lines), tuple(notes), left=2, text=(3,)))
    return tables


def _accuracy(row: Row | None, nodes: float) -> str:
    """Accuracy on the nodes of a group, of which a run may have tested hardly any."""
    if row is None:
        return "too few" if nodes else ""
    return percent(row.spread("test"))


def true_group_columns(rows: Sequence[TrueGroupRow]) -> dict[str, NDArray[Any]]:
    """One line per row and one column per fact, for programs; what is unknown is NaN."""
    facts: list[dict[str, Any]] = []
    for one in rows:
        row = one.row
        fact: dict[str, Any] = {
            name: getattr(row, name) for name in ("dataset", "split", "model", "options", "content")
        }
        fact |= {"seeds": " ".join(str(seed) for seed in row.records), "division": one.division}
        nodes = {"low": one.low_nodes, "high": one.high_nodes}
        for name, found in (("low", one.low), ("high", one.high)):
            spread = None if found is None else found.spread("test")
            fact |= {
                f"{name}_nodes": nodes[name],
                f"{name}_accuracy": _number(spread and spread.mean),
            }
            fact[f"{name}_accuracy_std"] = _number(spread and spread.std)
        found = None if one.high is None else one.high.difference
        fact |= {"against": found.against if found else "", "pairs": found.seeds if found else 0}
        fact |= {
            "high_difference": _number(found and found.mean),
            "p_value": _number(found and found.p_value),
            "p_value_over": (found and found.over) or "",
        }
        facts.append(fact)
    return {name: np.array([one[name] for one in facts]) for name in (facts[0] if facts else ())}


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def summary_table(results: Sequence[RunResult]) -> Table:
    """Mean ± standard deviation over seeds, beside what always answering one class would get."""
    config, over = results[0].config, summary(results)
    rows: list[tuple[str | Marked, ...]] = [("validation accuracy", percent(over.val_accuracy))]
    if over.metric != "accuracy":
        rows.append((f"validation {SCORE_NAMES[over.metric]}", percent(over.val_score)))
    rows += [
        score_row(f"test {SCORE_NAMES[name]}", name == over.metric, percent(spread))
        for name, spread in over.test.items()
    ]
    if (calibrated := _calibrated_errors(results)) is not None:
        rows.append(("… with temperatures", percent(Spread.of(calibrated))))
    notes: tuple[str, ...] = ()
    if over.majority_baseline is not None:
        rows.append(("majority class of test", percent(over.majority_baseline)))
        if _no_better(over):
            notes = ("No better on test nodes than always answering their majority class.",)
    combined = config.model.options.get("trained") == "apart"
    if not combined:
        rows.append(("epochs", _spread(over.epochs, ".0f")))
    seconds = "seconds of all experts" if combined else "seconds"
    rows.append((seconds, _spread(over.seconds, ".1f")))
    if over.never_evaluated:
        rows.append(("never evaluated", _classes(over.never_evaluated, results[0].result)))
    title = f"{model_on_graph(config)}, {_seeds(over.seeds)}"
    return Table(title, (), tuple(rows), notes)


def _calibrated_errors(results: Sequence[RunResult]) -> list[float] | None:
    """The error of probabilities with temperatures, of each run; None where one has none."""
    found: list[float] = []
    for result in results:
        said = result.result.get("calibration", {})
        error = said.get("after", {}).get("calibration_error")
        if error is None or result.result["evaluated"] != "test" or not said["temperature_by_kind"]:
            return None
        found.append(float(error))
    return found


def comparison_table(per_model: Sequence[Sequence[RunResult]]) -> Table:
    """One row per model, over the same seeds of the same split family."""
    config, overs = per_model[0][0].config, [summary(results) for results in per_model]
    names, metric = [results[0].config.model.name for results in per_model], overs[0].metric
    validated = dict.fromkeys(("accuracy", metric))
    tested = dict.fromkeys(("accuracy", "macro_f1", metric))
    best = max(range(len(overs)), key=lambda place: overs[place].val_score.mean)
    rows: list[tuple[str | Marked, ...]] = []
    for place, (model, over) in enumerate(zip(names, overs, strict=True)):
        cells = [model, percent(over.val_accuracy)]
        cells += [percent(over.val_score)] if len(validated) > 1 else []
        cells += [percent(over.test.get(name)) for name in tested]
        cells += [_spread(over.epochs, ".0f"), _spread(over.seconds, ".1f")]
        rows.append(tuple(Marked(cell, "best" if place == best else "") for cell in cells))
    head = ("model", *(f"validation {SCORE_NAMES[name]}" for name in validated))
    head += (*(f"test {SCORE_NAMES[name]}" for name in tested), "epochs", "seconds")
    baseline = overs[0].majority_baseline
    if baseline is not None:
        shown = {"model": "majority class", "test accuracy": percent(baseline)}
        rows.append(tuple(shown.get(name, "") for name in head))
    by = "" if metric == "accuracy" else f" by {SCORE_NAMES[metric]}"
    notes = [f"Best on validation{by}: {names[best]}."]
    if idle := [name for name, over in zip(names, overs, strict=True) if _no_better(over)]:
        notes.append(f"No better than the majority class: {', '.join(idle)}.")
    if overs[0].never_evaluated:
        unseen = _classes(overs[0].never_evaluated, per_model[0][0].result)
        notes.append(f"Never evaluated: {unseen}.")
    title = f"{graph_name(config)}, {config.data.split} split, {_seeds(overs[0].seeds)}"
    return Table(title, head, tuple(rows), tuple(notes))


def search_table(result: TuneResult) -> Table:
    """The best parameters of a search, and their scores in it and with fresh seeds."""
    config, metric = result.config, result.config.training.metric
    rows: list[tuple[str | Marked, ...]] = [
        (option, str(value)) for option, value in result.parameters.items()
    ]
    score = f"validation {SCORE_NAMES[metric]}"
    rows += [(), (f"{score} in the search, {_seeds(result.seeds)}", percent(result.value))]
    if result.runs:
        over = summary(result.runs)
        fresh = f"fresh {_seeds(over.seeds)}"
        rows.append((f"{score}, {fresh}", percent(over.val_score)))
        rows += [
            score_row(f"test {SCORE_NAMES[name]}, {fresh}", name == metric, percent(spread))
            for name, spread in over.test.items()
            if name in ("accuracy", "macro_f1", metric)
        ]
        if over.majority_baseline is not None:
            rows.append((f"majority class, {fresh}", percent(over.majority_baseline)))
    rows.append(("trials", result.state.summary))
    return Table(model_on_graph(config), (), tuple(rows), left=2)


def _classes(labels: Sequence[int], result: Mapping[str, Any]) -> str:
    """Classes by their names, where a result tells these."""
    known = [str(row["class"]) for row in result.get("classes", ())]
    names = [known[label] if label < len(known) else str(label) for label in labels]
    return f"{'class' if len(labels) == 1 else 'classes'} {', '.join(names)}"


def _no_better(over: Summary) -> bool:
    baseline = over.majority_baseline
    return bool(over.test) and baseline is not None and over.test["accuracy"].mean <= baseline.mean


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(seed) for seed in seeds)}"


def _spread(spread: Spread, form: str) -> str:
    return f"{spread.mean:{form}}" + ("" if spread.std is None else f" ± {spread.std:{form}}")
