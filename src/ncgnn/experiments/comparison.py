"""Whether two models differ: paired tests over the seeds that both have."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ncgnn.experiments.results import Record

#: Variance of differences that are equal but for rounding; accuracies differ by whole nodes.
_NO_VARIANCE = 1e-24
#: How sure intervals are.
LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """How two models differ over the same seeds.

    Attributes:
        mean: Mean of the differences, first minus second.
        std: Their sample standard deviation.
        p_value: Of a two-sided paired test; None with fewer than two seeds or without variance, and
            where the splits are not known.
        seeds: Number of pairs.
        over: What the test is about: other ``splits`` of the graph, or other ``initializations``
            on the one split that all seeds share.
        against: Label of the second model.
        margin: The true mean difference is within so much of ``mean``, with 95 % confidence by the
            same test; None where there is no test.
    """

    mean: float
    std: float | None
    p_value: float | None
    seeds: int
    over: Literal["splits", "initializations"] | None = None
    against: str = ""
    margin: float | None = None


def paired_test(
    first: Sequence[float], second: Sequence[float], test_to_train: float = 0.0
) -> Difference:
    r"""Compare scores that two models reach with the same seeds.

    Student's test on the differences :math:`d_i` with mean :math:`\bar d` and variance
    :math:`s^2`, corrected for splits that overlap because all are drawn from one graph:

    .. math:: t = \bar d / \sqrt{(1/n + n_{test}/n_{train})\, s^2}

    (Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003), with
    :math:`n - 1` degrees of freedom. Without the correction differences look surer than they are.

    ``test_to_train`` is the number of test nodes per training node; 0 leaves the correction out.
    """
    if len(first) != len(second) or not first:
        raise InputError("a paired test needs the same seeds, at least one, of both models.")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean, count = statistics.fmean(differences), len(differences)
    if count < 2:
        return Difference(mean, None, None, count)
    variance = statistics.variance(differences)
    if variance < _NO_VARIANCE:
        return Difference(mean, 0.0, None, count)
    from scipy.stats import t

    error = math.sqrt((1 / count + test_to_train) * variance)
    p_value = float(2 * t.sf(abs(mean) / error, count - 1))
    margin = error * float(t.ppf((1 + LEVEL) / 2, count - 1))
    return Difference(mean, math.sqrt(variance), p_value, count, margin=margin)


def adjust_for_many(p_values: Sequence[float | None]) -> list[float | None]:
    """P values of several tests by Holm's method: below 0.05, none of them is so by chance.

    The i-th smallest of m is multiplied by m - i + 1, and is at least as large as the ones before
    it (S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
    Statistics 6, 1979). None stands for no test.
    """
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[place] = largest
    return adjusted


def accuracy_on_test(record: Record) -> float | None:
    """The accuracy of a run on all its test nodes."""
    return float(record.result["scores"]["test"]["accuracy"])


def compare_runs(
    first: Mapping[int, Record],
    second: Mapping[int, Record],
    score: Callable[[Record], float | None] = accuracy_on_test,
) -> Difference | None:
    """The difference of two models over the seeds and splits that both have; None if there is none.

    Args:
        first: Its runs by seed.
        second: Those of the other.
        score: What is compared; a run for which it is None is left out.
    """
    pairs = [
        (record, second[seed])
        for seed, record in first.items()
        if seed in second and _same_split(record, second[seed])
    ]
    values = [(score(one), score(other)) for one, other in pairs]
    known = [place for place, both in enumerate(values) if None not in both]
    if not known:
        return None
    mine, theirs = ([float(values[i][side] or 0.0) for i in known] for side in (0, 1))
    return _test([pairs[place][0] for place in known], mine, theirs)


def _same_split(first: Record, second: Record) -> bool:
    """Whether both were tested, and, as far as known, on the same nodes of the same graph."""
    if first.graph and second.graph and first.graph != second.graph:
        return False
    tested = "test" in first.result["scores"] and "test" in second.result["scores"]
    one, other = first.result.get("split_sha256"), second.result.get("split_sha256")
    return tested and one is not None and one == other


def _test(runs: Sequence[Record], mine: Sequence[float], theirs: Sequence[float]) -> Difference:
    """A paired test, where it is known what the pairs are drawn from."""
    splits = {run.result.get("split_sha256") for run in runs}
    sizes = [run.result.get("nodes") or {} for run in runs]
    if len(splits) == 1 < len(runs):  # all seeds share one split: weights alone were drawn anew
        return replace(paired_test(mine, theirs), over="initializations")
    if len(splits) == len(runs) and all(nodes.get("train") for nodes in sizes):
        ratio = statistics.fmean(nodes["test"] / nodes["train"] for nodes in sizes)
        return replace(paired_test(mine, theirs, ratio), over="splits")
    return replace(paired_test(mine, theirs), p_value=None, margin=None)
