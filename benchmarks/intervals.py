"""How often 95 % intervals hold: samples of a known distribution, counted.

    python benchmarks/intervals.py [--trials 400]

Nodes are drawn from a table of true and answered classes, so that every score is known; classes
are the rarer the higher their number. Beside each interval stands how often it held.
"""

from __future__ import annotations

import argparse

import numpy as np

from ncgnn.training import bootstrap_difference
from ncgnn.training.scores import Cells, ClassCounts, Scored, resampled

#: Nodes, classes, and how uneven the classes are.
SETTINGS = ((100, 2, 1.0), (360, 10, 0.0), (1500, 8, 0.7), (1000, 58, 1.0), (12_000, 58, 1.0))
#: Nodes, and the shares that only the first or only the second model has right.
PAIRS = ((10, 0.2, 0.1), (30, 0.06, 0.03), (100, 0.05, 0.02), (1000, 0.02, 0.01))


def main() -> None:
    """Print how often intervals of scores, and of differences, hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    trials = parser.parse_args().trials
    names = ("accuracy", "macro_f1", "balanced_accuracy", "recall", "precision", "f1")
    words = (*names, "macro_f1, plain percentiles", "macro_f1 difference")
    print("| nodes, classes | " + " | ".join(words) + " |")
    print("| --- |" + " --- |" * len(words))
    for nodes, classes, skew in SETTINGS:
        held = score_coverage(nodes, classes, skew, trials)
        print(f"| {nodes:,}, {classes} | " + " | ".join(f"{held[w]:.3f}" for w in words) + " |")
    for nodes, first, second in PAIRS:
        share = difference_coverage(nodes, first, second, trials)
        print(f"difference in accuracy, {nodes:,} nodes, {first:g} against {second:g}: {share:.3f}")


def score_coverage(nodes: int, classes: int, skew: float, trials: int) -> dict[str, float]:
    """How often the intervals of all scores hold; per class, the mean over classes."""
    rng = np.random.default_rng(classes)
    size = 1 / np.arange(1, classes + 1) ** skew
    tables = [made_table(size, accuracy, rng) for accuracy in (0.85, 0.8)]
    joint = tables[0][:, :, None] * tables[1][:, None, :] / tables[0].sum(1)[:, None, None]
    truth = [true_scores(table) for table in tables]
    hits: dict[str, list[float]] = {}
    for _ in range(trials):
        cell = np.repeat(np.arange(classes**3), rng.multinomial(nodes, joint.ravel()))
        true, *answers = np.unravel_index(cell, joint.shape)
        known = Scored(true, answers[0], [str(c) for c in range(classes)], cell)
        found = known.intervals()
        for name in ("accuracy", "macro_f1", "balanced_accuracy"):
            hits.setdefault(name, []).append(holds(found[name], truth[0][name]))
        for name in ("precision", "recall", "f1"):
            pairs = zip(known.by_class(), truth[0][name], strict=True)
            told = [holds(row[f"{name}_interval"], v) for row, v in pairs if row[name] is not None]
            hits.setdefault(name, []).append(float(np.mean(told)))
        cells = Cells.of(true, answers, classes)
        drawn = [cells.count(block).macro_f1() for block in resampled(cells.nodes, nodes)]
        plain = np.quantile(np.concatenate(drawn), [0.025, 0.975]).tolist()
        hits.setdefault("macro_f1, plain percentiles", []).append(
            holds(plain, truth[0]["macro_f1"])
        )
        difference = truth[0]["macro_f1"] - truth[1]["macro_f1"]
        interval = cells.macro_f1_difference()[1]
        hits.setdefault("macro_f1 difference", []).append(holds(interval, difference))
    return {name: float(np.mean(values)) for name, values in hits.items()}


def made_table(size: np.ndarray, accuracy: float, rng: np.random.Generator) -> np.ndarray:
    """Shares of nodes by true and answered class; every class is taken for a few others."""
    classes = len(size)
    wrong = rng.dirichlet(np.full(classes, 0.15), classes)
    table = size[:, None] * ((1 - accuracy) * wrong + accuracy * np.eye(classes))
    return table / table.sum()


def true_scores(table: np.ndarray) -> dict[str, float | np.ndarray]:
    """The scores of all nodes."""
    right, true, answered = np.diag(table)[None], table.sum(1)[None], table.sum(0)[None]
    counts = ClassCounts(right, true, answered)
    return {
        "accuracy": float(right.sum()),
        "macro_f1": float(counts.macro_f1()[0]),
        "balanced_accuracy": float(counts.balanced_accuracy()[0]),
        "precision": (right / answered)[0],
        "recall": (right / true)[0],
        "f1": (2 * right / (true + answered))[0],
    }


def difference_coverage(nodes: int, first: float, second: float, trials: int) -> float:
    """How often the interval of a difference in accuracy holds."""
    rng, hits = np.random.default_rng(nodes), list[float]()
    for _ in range(trials):
        place = rng.random(nodes)
        right, other = place >= second, (place < second) | (place >= first + second)
        found = bootstrap_difference(right, other)
        hits.append(holds((found.low, found.high), first - second))
    return float(np.mean(hits))


def holds(interval: list[float] | tuple[float, float] | None, value: float) -> float:
    """Whether an interval holds a value; one that is not given does not."""
    return float(interval is not None and interval[0] - 1e-5 <= value <= interval[1] + 1e-5)


if __name__ == "__main__":
    main()
