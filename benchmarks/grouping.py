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
from functools import cache
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
STRENGTHS = {"features": (0.0, 0.25, 0.5, 0.75, 1.0), "neighbors": (0.0, 1.0)}
#: NC of clear nodes is 0.06 on average, that of confused ones 0.64, and 0.36 in the second kind.
THRESHOLD = 0.25
OPTIONS: dict[str, Any] = {"hidden": 64, "learning_rate": 0.01, "epochs": 200, "patience": 50}
GROUPED, CONTROL = "NCGCN", "NCGCN, nobody high"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    GROUPED: ("ncgcn", {}),
    "NCGCN, oracle": ("ncgcn", {"guidance": "oracle"}),
    "NCGCN, strict": ("ncgcn", {"separation": "strict"}),
    "NCGCN, strict, oracle": ("ncgcn", {"separation": "strict", "guidance": "oracle"}),
    CONTROL: ("ncgcn", {"grouped": False}),
    "NCGCN, no separation": ("ncgcn", {"separation": "none"}),
    "GraphSAGE": ("sage", {}),
    "GCN": ("gcn", {}),
    "MLP": ("mlp", {}),
}
#: What is compared: the first minus the second, which has the same channels.
PAIRS = {
    "NCGCN − nobody high": (GROUPED, CONTROL),
    "strict − no separation": ("NCGCN, strict", "NCGCN, no separation"),
}
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
    threshold = {"threshold": THRESHOLD} if model == "ncgcn" else {}
    trained = ncgnn.fit(graph, model, seed=seed, **OPTIONS, **threshold, **options)
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

            def values(
                name: str, strength: float, kind: str = kind, part: str = part
            ) -> list[float]:
                return [found[kind, strength, name, seed][part] for seed in range(seeds)]

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
        for name in (GROUPED, "NCGCN, strict")
    ]
    note = "First number: of the confused nodes, second one: of the clear nodes."
    width = max(map(len, STRENGTHS.values()))
    padded = tuple((*row, *[""] * (1 + width - len(row))) for row in rows)
    head = ("in the high group, percent", *("" for _ in range(width)))
    return [*made, Table("Who is called confused", head, padded, (note,))]


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
    """Accuracy against the strength, all nodes and confused ones."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    shown = (GROUPED, "NCGCN, oracle", CONTROL, "NCGCN, no separation", "GraphSAGE", "GCN", "MLP")
    axes = figure.subplots(1, 2, sharey=True)
    strengths = STRENGTHS["features"]
    for axis, (part, title) in zip(axes, PARTS.items(), strict=True):
        for name, (color, dashes, marker) in zip(shown, LOOKS, strict=True):
            spreads = [
                Spread.of([found["features", one, name, seed][part] for seed in range(seeds)])
                for one in strengths
            ]
            bars = [one.std or 0.0 for one in spreads]
            style: dict[str, Any] = {"color": color, "linestyle": dashes, "marker": marker}
            style |= {"markersize": 4.5, "linewidth": 1.4, "elinewidth": 0.8, "capsize": 2}
            axis.errorbar(strengths, [one.mean for one in spreads], bars, label=name, **style)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("share of confused nodes with features of the next class")
        show_percent(axis.yaxis)
    axes[0].set_ylabel(f"test accuracy, mean ± std of {seeds} graphs")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    return figure


def main() -> None:
    """Train all models on all graphs and show tables and figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
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
