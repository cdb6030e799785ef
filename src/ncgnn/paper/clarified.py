"""The second observation in numbers: who answers confused nodes, beside its controls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ncgnn.errors import UnknownNameError
from ncgnn.experiments import adjust_for_many, paired_test
from ncgnn.nn import model_names
from ncgnn.paper.accuracy import ABLATIONS
from ncgnn.paper.accuracy import CONTROLS as SEPARATED
from ncgnn.paper.figures import parts
from ncgnn.paper.figures.nodes import answers, evaluated_part, graph_of, observed_rule, share
from ncgnn.paper.figures.observation import observed_options
from ncgnn.paper.printed import model_title, printed, printed_split, printed_text
from ncgnn.paper.targets import Row, Target
from ncgnn.report import PARTS, Table, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.experiments import Difference
    from ncgnn.paper.targets import Request, Runs
    from ncgnn.report import Cell
    from ncgnn.training import RunResult, Spread

#: NCGCN as it is, with one thing taken away.
CONTROLS = {
    row.name: row for row in (SEPARATED["ncgcn-nobody-high"], ABLATIONS["without-separation"])
}
#: The nodes whose accuracies are told apart.
GROUPS = ("all", "low", "high")
_HEAD = ("", "seeds", "all", "low NC", "high NC", "NCGCN less it, high NC", "p")


@dataclass(frozen=True)
class ClarifiedRow:
    """One model.

    Attributes:
        accuracy: By group of nodes (:data:`GROUPS`), for every seed that has such nodes.
        ratio: Of test to training nodes, by which a paired test is corrected.
    """

    name: str
    title: str
    seeds: tuple[int, ...]
    accuracy: dict[str, tuple[float | None, ...]]
    ratio: float

    def spread(self, group: str) -> Spread | None:
        """Mean and deviation over seeds."""
        return parts.spread(self.accuracy[group])


@dataclass(frozen=True)
class ClarifiedPanel:
    """One dataset, by NC of the true labels within ``hops`` (k) and its ``threshold`` (T).

    Attributes:
        part: Whose accuracy is shown, ``test`` or ``val``.
        high_nodes: Number of evaluated nodes with high NC, a mean over runs.
    """

    dataset: str
    split: str
    hops: int
    threshold: float
    part: str
    high_nodes: float
    rows: tuple[ClarifiedRow, ...]


class Clarified(Target[parts.Panels[ClarifiedPanel]]):
    """The accuracies of the second observation, which the paper prints for one run.

    All models have the width and dropout of the paper's standard GCN, and NCGCN separates with the
    k and T by which nodes are observed. GCN and NCGCN differ in more than separation: NCGCN also
    sees raw features, has a readout and other rates. Its control with nobody high (T = 1) is the
    same model with the same channels, of which the second never gets a node; without separation
    that channel goes, too.
    """

    name = "clarified"
    title = "Accuracy on low-NC and high-NC nodes, GCN beside NCGCN and its controls"
    kind = "table"
    datasets = ("coauthor-cs",)
    models = ("gcn", "ncgcn", *CONTROLS)
    ignores_presets = True

    @property
    def takes_stored(self) -> bool:
        """No: which nodes a model answers rightly is in its run alone."""
        return False

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """Models and controls with the paper's standard options."""
        known, rows = [*model_names(), *CONTROLS], list[Row]()
        for name in request.models:
            if name not in known:
                raise UnknownNameError("model", name, known)
            row = CONTROLS.get(name) or Row(name, name, model_title(name))
            options = observed_options(request, dataset, row.model)
            rows.append(replace(row, options=options | dict(row.options)))
        return rows

    def collect(self, request: Request, runs: Runs) -> parts.Panels[ClarifiedPanel]:
        """Accuracies from the predictions of the stored models."""
        found = {name: self.finished(request, name, runs) for name in request.datasets}
        panels = [_panel(request, dataset, rows) for dataset, rows in found.items() if rows]
        return parts.Panels(tuple(panels))

    def tables(self, data: parts.Panels[ClarifiedPanel]) -> list[Table]:
        """A table per dataset, with the paper's numbers where it has some."""
        if not data.panels:
            return [Table(self.name, _HEAD, (), ("No run is finished.",))]
        return [_table(panel) for panel in data.panels]


def _panel(
    request: Request, dataset: str, found: Sequence[tuple[Row, Sequence[RunResult]]]
) -> ClarifiedPanel:
    everything = [run for _, runs in found for run in runs]
    rule = observed_rule(request, dataset)
    high = rule.high(graph_of(everything, dataset, request.data_dir))
    counts: list[int] = []
    rows: list[ClarifiedRow] = []
    for row, runs in found:
        accuracy: dict[str, list[float | None]] = {group: [] for group in GROUPS}
        for run in runs:
            nodes, right = answers(run, request.data_dir)
            counts.append(int(np.count_nonzero(high[nodes])))
            for group, some in zip(GROUPS, _members(high[nodes]), strict=True):
                accuracy[group].append(share(right[some]))
        numbers = runs[0].result["nodes"]
        rows.append(
            ClarifiedRow(
                row.name,
                row.title,
                tuple(run.config.training.seed for run in runs),
                {group: tuple(values) for group, values in accuracy.items()},
                numbers[evaluated_part(runs)] / numbers["train"],
            )
        )
    return ClarifiedPanel(
        parts.short_name(request, dataset),
        request.split,
        rule.hops,
        rule.threshold,
        evaluated_part(everything),
        float(np.mean(counts)),
        tuple(rows),
    )


def _members(high: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    """Which nodes are in each of :data:`GROUPS`."""
    return np.ones_like(high), ~high, high


def _table(panel: ClarifiedPanel) -> Table:
    whole = {row.name: row for row in panel.rows}.get("ncgcn")
    tests = [None if whole is None or row is whole else _test(whole, row) for row in panel.rows]
    adjusted = adjust_for_many([None if test is None else test.p_value for test in tests])
    lines: list[tuple[Cell, ...]] = []
    for row, test, p_value in zip(panel.rows, tests, adjusted, strict=True):
        spreads = [percent(row.spread(group)) for group in GROUPS]
        beside = ("" if test is None else f"{100 * test.mean:+.2f}", _p_text(p_value))
        lines.append((row.title, str(len(row.seeds)), *spreads, *beside))
        known = panel.dataset == "coauthor-cs" and panel.split == printed_split("clarified", "")
        paper = [printed_text(printed("clarified", row.name, group)) for group in GROUPS]
        lines += [("  paper", "1", *paper, "", "")] if known and any(paper) else []
    notes = (
        f"{PARTS[panel.part].capitalize()} accuracy in percent, mean ± sample standard deviation "
        f"over seeds; {panel.high_nodes:.0f} of the nodes have an NC of the true labels above "
        f"T = {panel.threshold:g} (k = {panel.hops}). Differences in points over the seeds that "
        "both have, with a paired test that allows for overlapping splits; p after Holm's "
        "correction for the tests of the table.",
        "Nobody high: the same model with T = 1, so that no node is ever in the high group. "
        "Without separation: without the second channel as well.",
    )
    return Table(f"clarified, {panel.dataset}, {panel.split} split", _HEAD, tuple(lines), notes)


def _p_text(p_value: float | None) -> str:
    return "" if p_value is None else f"{p_value:.3f}"


def _test(whole: ClarifiedRow, row: ClarifiedRow) -> Difference | None:
    """By how much the whole model is ahead on high-NC nodes, and how likely that is chance."""
    mine, theirs = (dict(zip(r.seeds, r.accuracy["high"], strict=True)) for r in (whole, row))
    pairs = [(mine[s], theirs[s]) for s in mine if s in theirs]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known:
        return None
    return paired_test([a for a, _ in known], [b for _, b in known], whole.ratio)
