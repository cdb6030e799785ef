"""How many planted wrong labels are found, beside cleanlab and simple rules.

    python benchmarks/suspects.py --data-dir DIR [cora-ml,pubmed,photo,coauthor-cs]

Five percent of the labels of every graph are moved to another class, drawn among all of them, or
with ``--flips confused`` to the class that its nodes are linked to most. All rows of a graph are of
the same folds and opinions; cleanlab (``pip install cleanlab``) is left out where it is not
installed. Labels that were wrong before count as right.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

import ncgnn
from ncgnn.metrics import class_pair_counts
from ncgnn.training.folds import draw_folds
from ncgnn.training.label_noise import count_suspects, label_counts, weigh
from ncgnn.training.suspects import gather_opinions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ncgnn.graph import Graph

GRAPHS = "cora-ml,pubmed,photo,coauthor-cs"
try:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
except ImportError:
    find_label_issues = get_label_quality_scores = None


def flip(graph: Graph, share: float, how: str, seed: int) -> tuple[Graph, NDArray[np.bool_]]:
    """The graph with wrong labels, and which they are."""
    random = np.random.default_rng(seed)
    labeled = np.flatnonzero(graph.labels >= 0)
    chosen = random.choice(labeled, round(share * len(labeled)), replace=False)
    labels, classes = graph.labels.copy(), graph.num_classes
    if how == "confused":
        pairs = np.array(class_pair_counts(graph), dtype=float)
        np.fill_diagonal(pairs, -1)
        labels[chosen] = pairs.argmax(axis=1)[labels[chosen]]
    else:
        labels[chosen] = (labels[chosen] + random.integers(1, classes, len(chosen))) % classes
    wrong = np.zeros(graph.num_nodes, dtype=bool)
    wrong[chosen] = True
    return graph.with_labels(labels), wrong


def judge(graph: Graph, model: str, seed: int) -> Iterator[tuple[str, Any, Any]]:
    """Every way to find wrong labels: its name, whom it calls and how suspect everybody is."""
    fold = draw_folds(graph.labels, 5, seed)
    judged = np.flatnonzero(fold >= 0)
    labels, rows = graph.labels[judged], np.arange(len(judged))
    opinions = gather_opinions(graph, fold, model, seed=seed, settings={})
    found = weigh([one[judged] for one in opinions.as_list()], labels)
    order = np.argsort(-found.score, kind="stable")[: count_suspects(found.score)]
    called = np.zeros(len(judged), dtype=bool)
    called[order] = True
    yield f"ncgnn suspects (estimates {found.score.sum():.0f})", called, found.score
    alone = opinions.features if opinions.model is None else opinions.model
    given = {model: alone[judged], "all opinions": found.probabilities}
    for name, shares in given.items():
        if find_label_issues is not None:
            issues = find_label_issues(labels, shares, n_jobs=1)
            quality = get_label_quality_scores(labels, shares)
            yield f"cleanlab, {name}", issues, 1 - quality
    shares = given[model]
    yield (
        f"another class is likelier, {model}",
        shares.argmax(1) != labels,
        1 - shares[rows, labels],
    )
    counts = label_counts(graph)[judged].toarray()
    size = np.maximum(counts.sum(axis=1), 1)
    against = (np.where(np.eye(graph.num_classes)[labels] > 0, 0, counts)).max(axis=1) / size
    yield (
        "most neighbors are of another class",
        against > 0.5,
        against - counts[rows, labels] / size,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="?", default=GRAPHS)
    parser.add_argument("--data-dir", help="folder with npz files")
    parser.add_argument("--share", type=float, default=0.05, help="share of labels to flip")
    parser.add_argument("--flips", choices=("uniform", "confused"), default="uniform")
    parser.add_argument("--model", default="tuned-sage")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.graphs.split(","):
        graph = ncgnn.load(name, options.data_dir, download=False)
        noisy, wrong = flip(graph, options.share, options.flips, options.seed)
        started = time.perf_counter()
        truth = wrong[noisy.labels >= 0]
        print(f"{name}: {truth.sum()} of {len(truth)} labels moved ({options.flips})")
        print(f"  {'':42} called  precision  recall     F1     AP    AUC")
        for way, called, score in judge(noisy, options.model, options.seed):
            hits = (called & truth).sum()
            f1 = 2 * hits / (called.sum() + truth.sum())
            area = average_precision_score(truth, score), roc_auc_score(truth, score)
            print(
                f"  {way:42} {called.sum():6} {hits / max(called.sum(), 1):10.3f} "
                f"{hits / truth.sum():7.3f} {f1:6.3f} {area[0]:6.3f} {area[1]:6.3f}",
                flush=True,
            )
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
