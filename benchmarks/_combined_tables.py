"""Tables from the stored results of benchmarks/combined.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _tables import cell, head, majority, marked, results
from combined import NARROWER, PLAN, beside, chosen, read_choices, stored

from ncgnn.paper.request import printed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from combined import Choice

    from ncgnn.experiments import Record

    Kept = dict[str, Record]

#: What is printed for a family: the table, and its rows.
PRINTED = {
    "paper": ("table1", ("ncgcn", "ncsage")),
    "published": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
    "uniform": ("classic", ("tuned-gcn", "tuned-sage", "tuned-gat")),
}
TITLES = {
    "paper": "`paper` split, ours with the correction for class shares (`class_shares=val`). "
    "Printed: the better of the paper's NCGCN and NCSAGE, without that correction, and for the "
    "filtered graphs on their earlier release",
    "published": "published masks. Printed: the best tuned classic model",
    "uniform": "the one published uniform split, seeds are first weights. Printed: the best tuned "
    "classic model",
}


def tables() -> str:
    """One table per family of splits that has something to show."""
    kept = stored()
    return "\n\n".join(text for split in PLAN if (text := table(split, kept)))


def table(split: str, kept: Kept) -> str:
    """A family's accuracies, and what was chosen; empty if nothing was."""
    best = {graph: chosen(split, graph, read_choices()) for graph in PLAN[split]}
    graphs = [graph for graph, choice in best.items() if choice and _ours(choice, kept)]
    if not graphs:
        return ""

    def row(name: str, show: Callable[[Choice], str]) -> str:
        return f"| {name} | {' | '.join(show(_known(best[graph])) for graph in graphs)} |"

    everyone = [_ours(_known(best[graph]), kept) for graph in graphs]
    lines = [
        row("separated, test", lambda one: marked(_ours(one, kept))),
        row("printed", lambda one: _best_printed(split, one.dataset)),
        row("its backbone as tuned by its authors, test", lambda one: marked(_beside(one, kept))),
        majority([results(runs) for runs in everyone]),
        row("separated, macro-F1", lambda one: cell(results(_ours(one, kept)), score="macro_f1")),
        row("separated, validation", lambda one: cell(results(_ours(one, kept)), part="val")),
        row("its backbone, validation", lambda one: cell(results(_beside(one, kept)), part="val")),
        row("what was chosen", _words),
        row("validation in the search, trials", lambda one: f"{100 * one.value:.2f}, {one.trials}"),
        row("test nodes that the search had seen", _seen),
    ]
    narrow = [g for g in graphs if (g, _known(best[g]).model) in NARROWER]
    note = (
        f" The backbone of {' and '.join(narrow)} is narrower than its authors', for want of time, "
        "and was not trained by itself."
    )
    title = f"Test accuracy, {TITLES[split]}.{note if narrow else ''}"
    return "\n".join([title, "", *head(graphs), *lines])


def _known(choice: Choice | None) -> Choice:
    assert choice is not None
    return choice


def _ours(choice: Choice, kept: Kept) -> list[Record]:
    return [kept[c.name] for c in choice.configs() if c.name in kept]


def _beside(choice: Choice, kept: Kept) -> list[Record]:
    return [kept[config.name] for config in beside(choice) if config.name in kept]


def _words(choice: Choice) -> str:
    width = NARROWER.get((choice.dataset, choice.model))
    shown = choice.parameters if width is None else {"model.hidden": width} | choice.parameters
    values = [f"{key.partition('.')[2]}={_value(v)}" for key, v in shown.items()]
    return ", ".join([f"`{choice.model}`", *values])


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seen(choice: Choice) -> str:
    return "none" if not choice.seen else f"{100 * choice.seen:.0f} %"


def _best_printed(split: str, graph: str) -> str:
    source, rows = PRINTED[split]
    values: Sequence[tuple[float, float]] = [
        value for row in rows if isinstance(value := printed(source, row, graph), tuple)
    ]
    mean, deviation = max(values)
    return f"{mean:.2f} ± {deviation:.2f}"
