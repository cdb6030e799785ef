"""Tables from the stored results of benchmarks/competitors.py."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

from _tables import cell, head, majority, marked, results
from competitors import (
    CHOICES,
    MODELS,
    OURS,
    PLAN,
    SHORT,
    STORES,
    corrected,
    final,
    is_short,
    is_tuned,
    models_on,
    searched_values,
)

from ncgnn.experiments import Record, read_stored
from ncgnn.paper.request import printed, published
from ncgnn.training import RunConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Runs = dict[tuple[str, str], list[Record]]
_ABOUT_OURS = (
    " Those of NCGCN and NCSAGE, and in any case their hops, threshold and self-loops, are the "
    "paper's, which were searched on other splits of the same graphs. On Computers, Coauthor CS "
    "and Physics nothing was searched: there the values are those chosen on a `paper` split of the "
    "same graph, for NCGCN and NCSAGE the paper's own, so that labels of test nodes had a part in "
    "them."
)


def stored(split: str) -> tuple[Runs, Runs]:
    """The planned runs that are there, by row and graph, plain and corrected for class shares.

    What the file holds beside them, as of presets that have changed since, is left alone.
    """
    kept = {record.name: record for record in read_stored(STORES[split])}
    plain: Runs = defaultdict(list)
    again: Runs = defaultdict(list)
    for dataset in PLAN:
        for row in models_on(dataset, split):
            planned = final(split, row, dataset, kept)
            plain[row, dataset] = [kept[c.name] for c in planned if c.name in kept]
            if split == "paper":
                planned = corrected(row, dataset, kept)
                again[row, dataset] = [kept[c.name] for c in planned if c.name in kept]
    return plain, again


def chosen(row: str, _graph: str, records: list[Record]) -> str:
    """Learning rate, weight decay and dropout, as far as they were searched."""
    if not records:
        return ""
    if not is_tuned(row):
        return "preset"
    values = searched_values(RunConfig.model_validate(records[0].config)).values()
    return ", ".join(_number(value) for value in values)


def _number(value: float | list[float]) -> str:
    """A value, or one per group of nodes."""
    return "/".join(f"{one:g}" for one in value) if isinstance(value, list) else f"{value:g}"


def paper_cell(model: str, graph: str, records: list[Record]) -> str:
    """What the paper prints; marked where we fall short by more than :data:`SHORT`."""
    paper = printed("table1", model, graph)
    if not isinstance(paper, tuple):
        return paper or ""
    return f"{paper[0]:.2f} ± {paper[1]:.2f}{' *' if is_short(model, graph, records) else ''}"


def tables(split: str) -> str:
    """Accuracy beside the paper's, macro-F1, and the parameters that were chosen."""
    found, again = stored(split)
    graphs = [g for g in PLAN if any(place == g and runs for (_, place), runs in found.items())]
    if not graphs:
        return ""
    known = {row for (row, _), runs in found.items() if runs}
    present = [m for m in (*MODELS, *OURS) if m in known]
    note = (
        f" * more than {SHORT:g} points below the paper; `shares`: those runs once more with "
        "`class_shares=val`; ‡ runs of one cell by several versions of this package."
    )
    accuracy = [
        line
        for model in present
        for line in _accuracy(model, graphs, found, again, beside_paper=split == "paper")
    ]
    everything = [[r.result for model in present for r in found[model, g]] for g in graphs]

    def rows(models: Sequence[str], show: Callable[[str, str, list[Record]], str]) -> list[str]:
        return [_row(m, [show(m, graph, found[m, graph]) for graph in graphs]) for m in models]

    return "\n".join(
        [
            f"Test accuracy, mean ± sample standard deviation (number of seeds), `{split}` split."
            f"{note if split == 'paper' else ''}",
            *("", *head(graphs), *accuracy, majority(everything)),
            *(["", short_cells(present, graphs, found, again)] if split == "paper" else []),
            *("", "Test macro-F1.", "", *head(graphs), *rows(present, _macro_f1)),
            "",
            "Learning rate, weight decay and dropout that validation chose, among "
            f"{len(CHOICES)} settings or fewer (CHOICES and PLAN in benchmarks/competitors.py) and "
            "those of a model's authors for the graph, where there are some; `preset`: not "
            f"searched.{_ABOUT_OURS if split == 'stratified' else ''}",
            *("", *head(graphs), *rows(present, chosen)),
        ]
    )


def short_cells(models: Sequence[str], graphs: Sequence[str], found: Runs, again: Runs) -> str:
    """What is below the paper, in a sentence, with what the correction makes of it."""
    told: list[str] = []
    for model in models:
        for graph in graphs:
            runs, paper = found[model, graph], printed("table1", model, graph)
            if not is_short(model, graph, runs) or not isinstance(paper, tuple):
                continue
            ours, corrected_runs = _mean(runs), again[model, graph]
            then = f" → {_mean(corrected_runs):.2f}" if corrected_runs else ""
            told.append(f"{model} on {graph} {ours:.2f}{then} (paper {paper[0]:.2f})")
    return (
        f"More than {SHORT:g} points below the paper, → with `class_shares=val`: {'; '.join(told)}."
    )


def _mean(runs: Sequence[Record]) -> float:
    return fmean(100 * run.result["scores"]["test"]["accuracy"] for run in runs)


def _accuracy(
    model: str, graphs: Sequence[str], found: Runs, corrected: Runs, *, beside_paper: bool
) -> list[str]:
    """A model's rows: ours, the paper's, and ours with the correction for class shares."""
    lines = [_row(model, [marked(found[model, graph]) for graph in graphs])]
    if beside_paper and model in published("table1"):
        beside = [paper_cell(model, graph, found[model, graph]) for graph in graphs]
        lines.append(_row("paper", beside))
        again = [marked(corrected[model, graph]) for graph in graphs]
        lines += [_row(f"{model}, shares", again)] if any(again) else []
    return lines


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _macro_f1(_row_name: str, _graph: str, records: Sequence[Record]) -> str:
    return cell(results(records), score="macro_f1")
