"""Does grouping help where confused nodes need other weights? Generated graphs, with controls.

    python benchmarks/grouping.py --out FOLDER

Half of the nodes are clear: nine in ten of their neighbors are of their class. The neighbors of the
others, the confused ones, are of any class alike. Features of a clear node tell its class; those of
a confused one tell, with a probability that is the strength of the conflict, the class after it.
Features then mean one thing at clear nodes and another at confused ones, and neighbors tell which
of both a node is. In the second kind of graph (``neighbors``) features always tell the class, and
it is messages that mean something else: a confused node of class c has neighbors of the classes
c + 1 and c + 2.

Every seed draws a graph, a stratified split and first weights anew, so that differences over seeds
are independent and are tested without a correction. ``oracle`` groups by NC of the true labels,
also of test nodes: no model could do so, it shows what better groups would be worth.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

import ncgnn
from ncgnn.experiments import adjust_for_many, paired_test
from ncgnn.graph import Graph
from ncgnn.metrics import neighborhood_confusion
from ncgnn.nn import register_guidance
from ncgnn.paper.plans.store import difference_text
from ncgnn.report import LOOKS, STYLE, Table, percent, save_figure, show_percent
from ncgnn.training import Spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    #: By kind of graph, strength, model and seed: accuracies by part, and who is in the high group.
    Outcomes = dict[tuple[str, float, str, int], dict[str, float]]

NODES, CLASSES, DEGREE, FEATURES, SIGNAL, CLEAR = 2000, 5, 10, 32, 2.0, 0.9
STRENGTHS = {"features": (0.0, 0.5, 1.0), "neighbors": (0.0, 1.0)}
#: NC of clear nodes is 0.06 on average, that of confused ones 0.64, and 0.36 in the second kind
#: with full strength, where the larger threshold misses most of them.
LOWER, UPPER = {"threshold": 0.25}, {"threshold": 0.4}
OPTIONS: dict[str, Any] = {"hidden": 64, "learning_rate": 0.01, "epochs": 200, "patience": 50}
_STRICT, _ORACLE = {"separation": "strict"}, {"guidance": "oracle"}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "NCGCN, T = 0.25": ("ncgcn", LOWER),
    "NCGCN, T = 0.4": ("ncgcn", UPPER),
    "NCGCN, oracle, T = 0.25": ("ncgcn", LOWER | _ORACLE),
    "strict, T = 0.25": ("ncgcn", LOWER | _STRICT),
    "strict, T = 0.4": ("ncgcn", UPPER | _STRICT),
    "strict, oracle, T = 0.25": ("ncgcn", LOWER | _STRICT | _ORACLE),
    "nobody high": ("ncgcn", {"grouped": False}),
    "no separation": ("ncgcn", {"separation": "none"}),
    "GraphSAGE": ("sage", {}),
    "GCN": ("gcn", {}),
    "MLP": ("mlp", {}),
}
#: What is compared: the first minus the second, its control, which computes the same without
#: groups; that of ``strict`` is the model without separation.
PAIRS = {
    f"{name} − {control}": (name, control)
    for name, control in (
        ("NCGCN, T = 0.25", "nobody high"),
        ("NCGCN, T = 0.4", "nobody high"),
        ("strict, T = 0.25", "no separation"),
        ("strict, T = 0.4", "no separation"),
    )
}
GROUPED = tuple(name for name, _ in PAIRS.values())
PARTS = {"all": "all test nodes", "confused": "confused test nodes"}


@cache
def draw(kind: str, strength: float, seed: int) -> tuple[Graph, NDArray[np.bool_]]:
    """A directed graph, and which of its nodes are confused."""
    random = np.random.default_rng(seed)
    labels = random.integers(CLASSES, size=NODES)
    confused = random.random(NODES) < 0.5
    shown = labels.copy()
    law = np.full((2, CLASSES, CLASSES), 1 / CLASSES)
    law[0] = (1 - CLEAR) / (CLASSES - 1)
    np.fill_diagonal(law[0], CLEAR)
    if kind == "features":
        turned = confused & (random.random(NODES) < strength)
        shown[turned] = (labels[turned] + 1) % CLASSES
    else:
        after = (np.roll(np.eye(CLASSES), 1, axis=1) + np.roll(np.eye(CLASSES), 2, axis=1)) / 2
        law[1] = strength * after + (1 - strength) / CLASSES
    means = random.standard_normal((CLASSES, FEATURES))
    means *= SIGNAL / np.linalg.norm(means, axis=1, keepdims=True)
    features = means[shown] + random.standard_normal((NODES, FEATURES))
    steps = law[confused.astype(int), labels].cumsum(axis=1)
    classes = (random.random((NODES, DEGREE, 1)) > steps[:, None, :-1]).sum(axis=2)
    order, counts = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=CLASSES)
    starts = counts.cumsum() - counts
    picked = (random.random((NODES, DEGREE)) * counts[classes]).astype(int)
    sources = order[starts[classes] + picked].ravel()
    edges = np.stack([sources, np.repeat(np.arange(NODES), DEGREE)])
    graph = Graph.from_edge_index(
        edges[:, edges[0] != edges[1]],
        labels=labels,
        features=features.astype(np.float32),
        num_classes=CLASSES,
        name=f"{kind} {strength:g}",
    )
    return graph, confused


def run(kind: str, strength: float, name: str, seed: int) -> dict[str, float]:
    """Train one model, and say how often it is right, and whom it calls confused."""
    graph, confused = draw(kind, strength, seed)
    model, options = MODELS[name]
    trained = ncgnn.fit(graph, model, seed=seed, **OPTIONS, **options)
    test = trained.split.test
    right = trained.logits().argmax(1).numpy()[test] == graph.labels[test]
    high = trained.grouping.group.numpy() > 0
    return {
        "all": float(right.mean()),
        "confused": float(right[confused[test]].mean()),
        "high": float(high[confused].mean()),
        "clear high": float(high[~confused].mean()),
    }


def tables(found: Outcomes, seeds: int) -> list[Table]:
    """Accuracies of every kind of graph, with the differences that grouping makes."""
    made: list[Table] = []
    for kind, strengths in STRENGTHS.items():
        for part, title in PARTS.items():
            values = partial(_values, found, kind, part, seeds)
            rows = [
                (name, *(percent(Spread.of(values(name, one))) for one in strengths))
                for name in MODELS
            ]
            rows += [(), *_differences(values, strengths)]
            head = (f"strength of the conflict, {kind}", *(f"{one:g}" for one in strengths))
            made.append(Table(f"Test accuracy, {title}", head, tuple(rows)))
    rows = [
        (f"{name}, {kind}", *(_share(found, kind, one, name, seeds) for one in strengths))
        for kind, strengths in STRENGTHS.items()
        for name in GROUPED
    ]
    note = "First number: of the confused nodes, second one: of the clear nodes."
    width = max(map(len, STRENGTHS.values()))
    padded = tuple((*row, *[""] * (1 + width - len(row))) for row in rows)
    head = ("in the high group, percent", *("" for _ in range(width)))
    return [*made, Table("Who is called confused", head, padded, (note,))]


def _values(
    found: Outcomes, kind: str, part: str, seeds: int, name: str, strength: float
) -> list[float]:
    """One score of a model, by seed."""
    return [found[kind, strength, name, seed][part] for seed in range(seeds)]


def _differences(
    values: Callable[[str, float], list[float]], strengths: tuple[float, ...]
) -> list[tuple[str, ...]]:
    """What grouping gains, with p after Holm's correction for all tests of the table."""
    tests = [
        paired_test(values(first, one), values(second, one))
        for first, second in PAIRS.values()
        for one in strengths
    ]
    adjusted = adjust_for_many([one.p_value for one in tests])
    texts = [difference_text(one, p) for one, p in zip(tests, adjusted, strict=True)]
    count = len(strengths)
    return [(name, *texts[i * count :][:count]) for i, name in enumerate(PAIRS)]


def _share(found: Outcomes, kind: str, strength: float, name: str, seeds: int) -> str:
    runs = [found[kind, strength, name, seed] for seed in range(seeds)]
    return ", ".join(
        f"{100 * np.mean([one[key] for one in runs]):.1f}" for key in ("high", "clear high")
    )


def draw_figure(found: Outcomes, seeds: int) -> Figure:
    """What grouping gains, by kind of graph and strength, with 95 % intervals."""
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True, sharex=True)
    cases = [(kind, one) for kind, strengths in STRENGTHS.items() for one in strengths]
    for axis, (part, title) in zip(axes, PARTS.items(), strict=True):
        for place, ((first, second), look) in enumerate(zip(PAIRS.values(), LOOKS, strict=False)):
            tests = [
                paired_test(
                    *(
                        _values(found, case[0], part, seeds, name, case[1])
                        for name in (first, second)
                    )
                )
                for case in cases
            ]
            heights = np.arange(len(cases)) + 0.16 * (place - (len(PAIRS) - 1) / 2)
            means, margins = [one.mean for one in tests], [one.margin or 0.0 for one in tests]
            style: dict[str, Any] = {"color": look[0], "marker": look[2], "linestyle": "none"}
            style |= {"markersize": 4.5, "elinewidth": 1, "capsize": 2}
            axis.errorbar(means, heights, xerr=margins, label=f"{first} − {second}", **style)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(f"what groups add, 95 % interval over {seeds} graphs")
        show_percent(axis.xaxis)
    axes[0].set_yticks(range(len(cases)), [f"{kind}, {one:g}" for kind, one in cases])
    axes[0].invert_yaxis()
    axes[0].set_ylabel("what means something else, strength")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def main() -> None:
    """Train all models on all graphs and show tables and figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("grouping"))
    options = parser.parse_args()
    # A control has nobody in its high group, which fit() would warn of.
    warnings.simplefilter("ignore", ncgnn.errors.NcgnnWarning)
    register_guidance("oracle", lambda graph, labels: neighborhood_confusion(graph))
    found: Outcomes = {}
    for kind, strengths in STRENGTHS.items():
        for strength in strengths:
            for name in MODELS:
                for seed in range(options.seeds):
                    found[kind, strength, name, seed] = run(kind, strength, name, seed)
            print(f"{kind} {strength:g} done", flush=True)
    shown = tables(found, options.seeds)
    for table in shown:
        Console(width=200).print(table)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "grouping.md").write_text("\n".join(one.markdown() for one in shown))
    plain = [{"case": list(key), **value} for key, value in found.items()]
    (options.out / "grouping.json").write_text(json.dumps({"format": 1, "runs": plain}))
    from matplotlib import rc_context

    with rc_context(STYLE):
        save_figure(draw_figure(found, options.seeds), options.out, "grouping")


if __name__ == "__main__":
    main()
