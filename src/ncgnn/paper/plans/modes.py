"""The paper's own models with its parameters: modes of separation, ablations, extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.experiments import compare_runs
from ncgnn.paper.plans.store import (
    Kept,
    Plan,
    Store,
    configs_for,
    current,
    difference_text,
    graph_table,
    is_now,
    majority_row,
    pick,
    score_rows,
)
from ncgnn.paper.printed import EARLIER, printed
from ncgnn.training import preset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncgnn.experiments import Record
    from ncgnn.paper.printed import Printed
    from ncgnn.report import Table
    from ncgnn.training import RunConfig

FILTERED: tuple[str, ...] = ("chameleon-filtered", "squirrel-filtered")
#: The paper's own.
SMALLER: tuple[str, ...] = ("chameleon-filtered-864", "squirrel-filtered-2205")
LARGE: tuple[str, ...] = ("computers", "coauthor-cs", "coauthor-physics")
GRAPHS: tuple[str, ...] = ("pubmed", "photo", *LARGE, "actor", *SMALLER, *FILTERED)
_QUICK: dict[str, int] = dict.fromkeys((*FILTERED, "actor"), 3)
_FEW: dict[str, int] = _QUICK | dict.fromkeys(("photo", "pubmed"), 3)
#: Number of seeds of the modes, of the ablations, and of the models as they are.
_MODES: dict[str, int] = _FEW | dict.fromkeys(FILTERED, 10)
_ABLATED: dict[str, int] = _MODES | dict.fromkeys(("pubmed", *LARGE), 1)
_WHOLE = {graph: 3 if graph in LARGE else 10 for graph in GRAPHS}
_NCGCN, _NCSAGE = "ncgcn renormalized", "ncsage renormalized"
_ALONE: dict[str, Any] = {"model.grouped": False}
_SHARES: dict[str, Any] = {"training.class_shares": "val"}
#: By row: what differs from the paper's parameters, and the number of seeds of every graph.
ROWS: dict[str, tuple[dict[str, Any], Mapping[str, int]]] = {
    _NCGCN: ({}, _WHOLE),
    # The control: the same channels. In the other modes it would be what `none` computes.
    f"{_NCGCN}, nobody high": (_ALONE, _WHOLE),
    "ncgcn strict": ({}, _MODES),
    "ncgcn source": ({}, _MODES),
    "ncgcn none": ({}, _WHOLE),
    "ncgcn target-only": ({}, _ABLATED),
    f"{_NCGCN}, guided by NH": ({"model.guidance": "nh", "model.threshold": 0.5}, _ABLATED),
    f"{_NCGCN}, k = 3": ({"model.hops": 3}, dict.fromkeys(GRAPHS, 1) | _QUICK | {"photo": 3}),
    f"{_NCGCN}, training labels known": ({"model.known_labels": True}, _QUICK),
    f"{_NCGCN}, ReLU after layer 2": ({"model.activation": True}, _QUICK),
    f"{_NCGCN}, half of the nodes high": (
        {"model.threshold_kind": "quantile", "model.threshold": 0.5},
        _QUICK,
    ),
    f"{_NCGCN}, 3 groups": ({}, _QUICK),
    f"{_NCGCN}, raw features": (
        {"data.scaling": "raw"},
        {"photo": 3, "pubmed": 1, "computers": 1},
    ),
    f"{_NCGCN}, never stopped early": ({"training.patience": 500}, {"photo": 3}),
    f"{_NCGCN}, raw features, never stopped early": (
        {"data.scaling": "raw", "training.patience": 500},
        {"photo": 3},
    ),
    # Training nodes are balanced by the split rule, other nodes are not: answers corrected.
    f"{_NCGCN}, class shares of validation": (
        _SHARES,
        _FEW | dict.fromkeys(("coauthor-cs", "coauthor-physics"), 3),
    ),
    "ncgcn none, class shares of validation": (_SHARES, _QUICK),
    _NCSAGE: ({}, _WHOLE),
    f"{_NCSAGE}, nobody high": (_ALONE, dict.fromkeys(GRAPHS, 3)),
    f"{_NCSAGE}, begun as in the authors' code": (
        {"model.bias": False, "model.initialization": "pyg"},
        _QUICK | dict.fromkeys(SMALLER, 3),
    ),
    "ncsage strict": ({}, dict.fromkeys(_FEW, 1)),
    "ncsage none": ({}, dict.fromkeys((*_QUICK, "photo"), 1)),
    f"{_NCSAGE}, class shares of validation": (
        _SHARES,
        dict.fromkeys((*_FEW, "computers", "coauthor-physics"), 1) | {"photo": 3},
    ),
}
#: Rows of the paper's main table that stand below ours.
PAPER = {
    "NCGCN": "ncgcn",
    "NCSAGE": "ncsage",
    "w/o Separ.": "without-separation",
    "w/o Mess. Separ.": "without-message-separation",
    "NH Separ.": "nh-separation",
    "NCGCN (k=3)": "three-hops",
}


class Modes(Plan):
    """NCGCN and NCSAGE on the paper's splits, kept in ``accuracy.jsonl``."""

    name = "modes"
    title = "NCGCN and NCSAGE with the paper's parameters, on its splits"
    about = (
        "Mean ± sample standard deviation (number of seeds), `paper` split. Macro-F1 counts a "
        "class that is predicted but never evaluated as 0: on Photo, where two of eight classes "
        "are never evaluated, it cannot be much above 75 unless a model never answers these two. "
        "`nobody high` is the control of `renormalized`: the same channels, and nobody in the high "
        "group; in the other modes such a control computes what `none` does. The paper's filtered "
        "graphs are those of 864 and 2,205 nodes; its numbers stand beside the others too."
    )

    graphs = GRAPHS

    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Train what the store lacks."""
        graphs = GRAPHS if datasets is None else [g for g in GRAPHS if g in datasets]
        configs = [c for row in ROWS for graph in graphs for c in plan_runs(row, graph)]
        store.train(configs, "accuracy")

    def tables(self, store: Store) -> list[Table]:
        """Scores of every row on every graph, and the sizes of its groups."""
        kept = store.kept("accuracy")
        found = {row: [pick(plan_runs(row, g), kept) for g in GRAPHS] for row in sorted(ROWS)}
        found = {row: runs for row, runs in found.items() if any(runs)}
        if not found:
            return []
        paper = {
            f"paper: {title}": [_mean(printed("table1", row, graph)) for graph in GRAPHS]
            for title, row in PAPER.items()
        }
        test = score_rows(found) | paper | majority_row(found.values())
        tables = {
            "Test accuracy at the best validation epoch": test,
            "Validation accuracy, by which modes are chosen": score_rows(found, "val"),
            "Training accuracy at the same epoch": score_rows(found, "train"),
            "Test macro-F1": score_rows(found, "test", "macro_f1"),
            "Nodes in the high group in the best epoch, percent, first three seeds": {
                row: [_high_shares(runs) for runs in by] for row, by in found.items()
            },
        }
        shown = [graph_table(title, GRAPHS, rows) for title, rows in tables.items()]
        changes = {row: [_change(row, graph, kept) for graph in GRAPHS] for row in found}
        changes = {row: cells for row, cells in changes.items() if any(cells)}
        return [*shown, graph_table(CHANGES, GRAPHS, changes, ABOUT_CHANGES)] if changes else shown


CHANGES = "Test accuracy minus that of the model in mode `renormalized`, points"
ABOUT_CHANGES = (
    "Over the splits that both have, with runs of one revision alone: the mean, the 95 % interval "
    "and p of a paired test that takes overlapping splits into account, p without a correction for "
    "the number of tests. Nothing stands where there is one such split."
)


def _change(row: str, graph: str, kept: Kept) -> str:
    """What a row has more than its model as it is, marked where runs are of an earlier revision."""
    whole = _NCSAGE if row.startswith("ncsage") else _NCGCN
    if row == whole:
        return ""
    for now, mark in ((True, ""), (False, f" {EARLIER}")):
        mine, others = (
            {
                int(record.config["training"]["seed"]): record
                for record in pick(plan_runs(one, graph), kept)
                if is_now(record) == now
            }
            for one in (row, whole)
        )
        found = compare_runs(mine, others)
        if found is not None and found.margin is not None:
            return f"{difference_text(found)}{mark}"
    return ""


def plan_runs(row: str, graph: str) -> list[RunConfig]:
    """The runs of a row on a graph; none where it has no seeds there."""
    options, seeds = ROWS[row]
    model, mode = row.partition(",")[0].split()
    settings = {"model.separation": mode} | options
    if row.endswith("3 groups"):
        settings |= _three_groups(graph)
    return configs_for(graph, model, "paper", range(seeds.get(graph, 0)), settings)


def _three_groups(graph: str) -> dict[str, list[float]]:
    """A group between the paper's two: NC from half its threshold to the whole."""
    options = preset("ncgcn", graph)["model"]
    (low, high), limit = options["dropout"], options["threshold"]
    return {
        "model.threshold": [limit / 2, limit],
        "model.dropout": [low, (low + high) / 2, high],
    }


def _high_shares(records: Sequence[Record]) -> str:
    sizes = [record.result["group_sizes"] for record in current(records)[:3]]
    return ", ".join(f"{100 * one[-1] / sum(one):.1f}" for one in sizes)


def _mean(value: Printed | None) -> str:
    return f"{value[0]:.2f}" if isinstance(value, tuple) else ""
