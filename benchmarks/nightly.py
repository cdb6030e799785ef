"""The next night: training that starts from the last run against training from scratch.

    python benchmarks/nightly.py BEFORE AFTER --model tuned-sage

BEFORE and AFTER are dataset folders of two states of the same tables. A model is trained on the
first; on the second it is trained twice with the same split, in which every node keeps its part,
from scratch and from the first model's weights, one after the other in one process. Printed are
epochs and seconds until validation accuracy first reaches the level that both reach, and the scores
of the best epochs.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import ncgnn

if TYPE_CHECKING:
    from ncgnn.training import TrainedModel


def train(graph: Any, model: str, **options: Any) -> tuple[TrainedModel, list[float]]:
    """A trained model, and when every epoch ended."""
    ends: list[float] = []
    began = time.perf_counter()
    trained = ncgnn.fit(
        graph, model, on_epoch=lambda _: ends.append(time.perf_counter() - began), **options
    )
    return trained, ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--model", default="tuned-sage")
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    before, after = ncgnn.load(chosen.before), ncgnn.load(chosen.after)
    began = time.perf_counter()
    changes = ncgnn.compare_graphs(before, after)
    print(f"comparing: {time.perf_counter() - began:.2f} s", *changes.sentences(), sep="\n  ")
    for seed in range(chosen.seeds):
        first, _ = train(before, chosen.model, seed=seed)
        print(f"seed {seed}, first night: {first}")
        warm, warm_ends = train(after, chosen.model, seed=seed, start_from=first)
        cold, cold_ends = train(after, chosen.model, seed=seed, split=warm.split)
        runs = {"from scratch": (cold, cold_ends), "from the last run": (warm, warm_ends)}
        assert warm.start is not None
        print(f"  {warm.start.sentence()}")
        level = min(max(r["val_accuracy"] for r in one.history) for one, _ in runs.values())
        for name, (trained, ends) in runs.items():
            reached = next(r["epoch"] for r in trained.history if r["val_accuracy"] >= level)
            scores = trained.evaluate()["scores"]
            print(
                f"  {name}: validation {level:.2%} after {reached + 1} epochs, "
                f"{ends[reached]:.0f} s; best epoch {trained.best_epoch + 1} of {len(ends)}, "
                f"{ends[-1]:.0f} s in all; validation {scores['val']['accuracy']:.2%}, "
                f"test {scores['test']['accuracy']:.2%}, macro-F1 {scores['test']['macro_f1']:.3f}"
            )


if __name__ == "__main__":
    main()
