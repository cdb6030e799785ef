"""Is one model better than another, or were its seeds lucky?"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Variance of differences that are equal but for rounding; accuracies differ by whole nodes.
_NO_VARIANCE = 1e-24


@dataclass(frozen=True)
class Difference:
    """How two models differ over the same seeds.

    Attributes:
        mean: Mean of the differences, first minus second.
        std: Their sample standard deviation.
        p_value: Of a two-sided paired test; None with fewer than two seeds or without variance, and
            where nothing is known of the splits.
        seeds: Number of pairs.
        over: What the test speaks of: other ``splits`` of the graph, or other ``initialisations``
            on the one split that all seeds share.
        against: Label of the second model.
    """

    mean: float
    std: float | None
    p_value: float | None
    seeds: int
    over: Literal["splits", "initialisations"] | None = None
    against: str = ""


def paired_test(
    first: Sequence[float], second: Sequence[float], test_to_train: float = 0.0
) -> Difference:
    r"""Compare scores that two models reach with the same seeds.

    Student's test on the differences :math:`d_i` with mean :math:`\bar d` and variance
    :math:`s^2`, corrected for splits that overlap because all are drawn from one graph:

    .. math:: t = \bar d / \sqrt{(1/n + n_{test}/n_{train})\, s^2}

    (Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003), with
    :math:`n - 1` degrees of freedom. Without the correction differences look surer than they are.

    Args:
        first: Scores of one model.
        second: Scores of the other, in the same order of seeds.
        test_to_train: Number of test nodes per training node; 0 leaves the correction out.
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

    statistic = mean / math.sqrt((1 / count + test_to_train) * variance)
    p_value = float(2 * t.sf(abs(statistic), count - 1))
    return Difference(mean, math.sqrt(variance), p_value, count)
