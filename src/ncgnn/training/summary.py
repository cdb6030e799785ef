"""Results of several runs in one: mean and deviation over seeds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncgnn.training.evaluation import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.training.run import RunResult


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation; the latter is None for a single value."""

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one or more values."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation)


@dataclass(frozen=True)
class Summary:
    """Results over seeds.

    Attributes:
        seeds: The seeds.
        metric: The metric that selected the best epochs.
        val_score: Validation score by that metric.
        val_accuracy: Validation accuracy.
        test: Scores on test nodes, by name.
        majority_baseline: Test accuracy of always answering the commonest test class.
        never_evaluated: Classes that some seed's validation and test parts do not hold.
        seconds: Training time.
        epochs: Number of epochs.
    """

    seeds: tuple[int, ...]
    metric: str
    val_score: Spread
    val_accuracy: Spread
    test: dict[str, Spread]
    majority_baseline: Spread | None
    never_evaluated: tuple[int, ...]
    seconds: Spread
    epochs: Spread


def summary(runs: Sequence[RunResult]) -> Summary:
    """Summarize runs of one configuration with different seeds."""
    results = [run.result for run in runs]
    metric = results[0].get("metric", "accuracy")
    parts = [result["scores"].get("test") for result in results]
    test = {
        name: Spread.of([part[name] for part in parts])
        for name in (*METRICS, "calibration_error")
        if all(part is not None and part.get(name) is not None for part in parts)
    }
    baselines = [result["majority_baseline"] for result in results]
    return Summary(
        seeds=tuple(result["seed"] for result in results),
        metric=metric,
        val_score=Spread.of([result["scores"]["val"][metric] for result in results]),
        val_accuracy=Spread.of([result["scores"]["val"]["accuracy"] for result in results]),
        test=test,
        majority_baseline=None if None in baselines else Spread.of(baselines),
        never_evaluated=tuple(sorted({c for result in results for c in result["never_evaluated"]})),
        seconds=Spread.of([run.seconds for run in runs]),
        epochs=Spread.of([result["epochs"] for result in results]),
    )
