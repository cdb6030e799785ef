"""Scores of answers with intervals: per class, per part of the nodes, and of two models compared.

Every interval is a 95 % one over nodes: what other nodes like these would have scored with the same
model. It says nothing of other seeds or splits, with which the model would have been another one.

* Shares of nodes (accuracy, precision, recall) have Wilson's interval, which holds for few nodes,
  too, and for shares of 0 and 1, where resampling sees no spread at all.
* F1 of one class is a share in disguise: with :math:`J = TP/(TP + FP + FN)`, the share of right
  ones among the nodes that are of the class or are called so, :math:`F_1 = 2J/(1 + J)`. Its
  interval is Wilson's for J, carried over.
* Means over classes (macro-F1, balanced accuracy) and differences between two models are
  bootstrapped: nodes are drawn again, with what is true and what was answered for them, 1,000
  times with a fixed seed. As macro-F1 of a sample is lower than that of all nodes where classes
  are rare, and that of a resample lower once more, the middle 95 % are bias-corrected (Efron,
  "Better Bootstrap Confidence Intervals", 1987). Means over classes have none with fewer than ten
  nodes for each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from ncgnn.errors import InputError
from ncgnn.metrics import lowest_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    Interval = list[float] | None

#: How often the interval of a sample holds the score of all nodes.
LEVEL = 0.95
#: How often nodes are drawn again.
RESAMPLES = 1000
#: At most so many pairs of confused classes are named, with so many examples each.
MOST_PAIRS, EXAMPLES = 15, 2
#: At most so many classes are in the matrix of those that are confused most.
MOST_CLASSES = 15
#: Means over classes have an interval where there are so many nodes for each class that occurs.
NODES_PER_CLASS = 10
#: How many drawn counts are held at a time.
_BLOCK = 4_000_000
#: Ends of intervals are rounded: by resampling, and by nodes, they are known no better.
_DIGITS = 5


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def bootstrap_difference(
    first: Mask, second: Mask, part: Mask | None = None, *, seed: int = 0
) -> Estimate:
    """How much more accurate one model is than another on the same nodes, with its interval.

    The interval is that of 1,000 paired resamples of the nodes, with half a node more of either
    kind that makes a difference (as Agresti and Min propose, "Simple improved confidence intervals
    for comparing matched proportions", 2005): it holds for few nodes, too.

    Args:
        first: Per node, whether the first model is right [n].
        second: Whether the second one is.
        part: The nodes to look at, as a mask [n]; by default all.
        seed: Of the resampling.

    Returns:
        Accuracy of the first minus that of the second, as a share (0.016 = 1.6 points), with
        ``low`` and ``high``; all are NaN where there are no nodes.

    Example:
        >>> import numpy as np
        >>> from ncgnn.training import bootstrap_difference
        >>> node = np.arange(1000)
        >>> value, low, high = bootstrap_difference(node % 10 > 0, node % 7 > 0)
        >>> round(value, 3), low < value < high
        (0.043, True)
    """
    right, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if right.shape != other.shape or (part is not None and np.shape(part) != right.shape):
        raise InputError("first, second and part must be of the same nodes; got other numbers.")
    if part is not None:
        right, other = right[part], other[part]
    nodes = len(right)
    if not nodes:
        return Estimate(np.nan, np.nan, np.nan)
    # Only a node that one of them alone has right makes a difference.
    mine, theirs = int((right & ~other).sum()), int((other & ~right).sum())
    value = (mine - theirs) / nodes
    more = np.array([mine + 0.5, theirs + 0.5, nodes - mine - theirs + 1.0])
    drawn = [block[:, 0] - block[:, 1] for block in resampled(more, nodes, seed)]
    tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    low, high = np.quantile(np.concatenate(drawn) / nodes, tails).tolist()
    return Estimate(value, min(low, value), max(high, value))


def resampled(weights: NDArray[Any], nodes: int, seed: int = 0) -> Iterator[Numbers]:
    """Counts of nodes drawn again :data:`RESAMPLES` times, in blocks [draws, cells].

    Of nodes in cells, only the number in each matters; that is multinomial.
    """
    random, left = np.random.default_rng(seed), RESAMPLES
    rows = max(1, _BLOCK // len(weights))
    while left:
        size = min(rows, left)
        yield random.multinomial(nodes, weights / weights.sum(), size=size)
        left -= size


def bootstrap_interval(value: float, drawn: Values) -> Interval:
    """The bias-corrected middle 95 % of resampled scores; None where these do not vary."""
    if np.ptp(drawn) < 1e-12:
        return None
    below = (np.mean(drawn < value) + np.mean(drawn <= value)) / 2
    bias = ndtri(np.clip(below, 1 / len(drawn), 1 - 1 / len(drawn)))
    tails = ndtri(np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    low, high = np.quantile(drawn, ndtr(2 * bias + tails))
    return _rounded(min(low, value), max(high, value))


def share_interval(part: float, whole: float) -> Interval:
    """Wilson's 95 % interval of a share; None of nothing."""
    if not whole:
        return None
    counts = np.array([part, whole - part]), np.array([whole, whole])
    low, high = lowest_share(*counts).tolist()
    return _rounded(max(low, 0.0), min(1 - high, 1.0))


def _rounded(low: float, high: float) -> list[float]:
    return [round(float(low), _DIGITS), round(float(high), _DIGITS)]


def _carried_over(interval: Interval) -> Interval:
    """The interval of F1 that belongs to one of J."""
    return None if interval is None else _rounded(*(2 * end / (1 + end) for end in interval))


@dataclass(frozen=True, eq=False)
class Scored:
    """What is true and what was answered of some nodes.

    Attributes:
        true: Class numbers [n].
        predicted: Class numbers [n].
        names: Names of all classes.
        ids: What the nodes are called [n].
    """

    true: Numbers
    predicted: Numbers
    names: Sequence[str]
    ids: NDArray[Any]

    @property
    def right(self) -> Mask:
        """Which answers are right."""
        return self.true == self.predicted

    def of(self, part: Mask | Numbers) -> Scored:
        """Some of the nodes."""
        return Scored(self.true[part], self.predicted[part], self.names, self.ids[part])

    def intervals(self) -> dict[str, Interval]:
        """The intervals of accuracy, macro-F1 and balanced accuracy."""
        cells = Cells.of(self.true, [self.predicted], len(self.names))
        found = cells.bootstrap(lambda counts: (counts.macro_f1(), counts.balanced_accuracy()))
        accuracy = share_interval(int(self.right.sum()), len(self.true))
        return {"accuracy": accuracy} | dict(
            zip(("macro_f1", "balanced_accuracy"), found, strict=True)
        )

    def by_class(self) -> list[dict[str, Any]]:
        """Precision, recall and F1 of every class, with intervals; None where undefined.

        ``support`` are the nodes of the class, ``answered`` those that are called so.
        """
        cells = Cells.of(self.true, [self.predicted], len(self.names))
        counts = cells.count(cells.nodes[None])
        columns = (counts.right[0], counts.true[0], counts.answered[0])
        rows: list[dict[str, Any]] = []
        for place, name in enumerate(self.names):
            right, support, answered = (int(column[place]) for column in columns)
            either = support + answered - right
            row: dict[str, Any] = {"class": name, "support": support, "answered": answered}
            for key, whole in (("precision", answered), ("recall", support)):
                row[key] = right / whole if whole else None
                row[f"{key}_interval"] = share_interval(right, whole)
            row["f1"] = 2 * right / (support + answered) if either else None
            row["f1_interval"] = _carried_over(share_interval(right, either))
            rows.append(row)
        return rows

    def confused_pairs(self, most: int = MOST_PAIRS) -> list[dict[str, Any]]:
        """Which classes were answered instead of which, the commonest first.

        ``share`` is that of the nodes of the true class; ``examples`` are ids of such nodes.
        """
        wrong = np.flatnonzero(~self.right)
        pair = self.true[wrong] * len(self.names) + self.predicted[wrong]
        support = np.bincount(self.true, minlength=len(self.names))
        rows: list[dict[str, Any]] = []
        for true, answered, nodes in self._ranked_pairs()[:most]:
            chosen = wrong[pair == true * len(self.names) + answered]
            rows.append(
                {
                    "true": self.names[true],
                    "answered": self.names[answered],
                    "nodes": nodes,
                    "share": float(nodes / support[true]),
                    "examples": self.ids[chosen[:EXAMPLES]].tolist(),
                }
            )
        return rows

    def _ranked_pairs(self) -> list[tuple[int, int, int]]:
        """True class, answered class and number of nodes of wrong answers, the commonest first."""
        cells = Cells.of(self.true, [self.predicted], len(self.names))
        columns = (cells.true.tolist(), cells.answers[0].tolist(), cells.nodes.tolist())
        found = [pair for pair in zip(*columns, strict=True) if pair[0] != pair[1]]
        return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))

    def most_confused(self, most: int = MOST_CLASSES) -> dict[str, Any]:
        """The confusion matrix among the classes of the commonest confused pairs.

        Returns:
            ``classes``, in the order of their numbers; ``counts``, a row per true class and a
            column per answer; and ``support``, all nodes of each class.
        """
        size, chosen = len(self.names), list[int]()
        for true, answered, _ in self._ranked_pairs():
            new = {true, answered} - set(chosen)
            if len(chosen) + len(new) > most:
                break
            chosen += sorted(new)
        chosen.sort()
        cells = Cells.of(self.true, [self.predicted], size)
        known = dict(zip(zip(cells.true, cells.answers[0], strict=True), cells.nodes, strict=True))
        support = np.bincount(self.true, minlength=size)
        return {
            "classes": [self.names[place] for place in chosen],
            "counts": [[int(known.get((row, col), 0)) for col in chosen] for row in chosen],
            "support": [int(support[place]) for place in chosen],
        }

    def by_part(
        self, part: Numbers, names: Mapping[int, dict[str, Any]], *, macro_f1: bool = False
    ) -> list[dict[str, Any]]:
        """Accuracy within parts of the nodes, with intervals.

        Args:
            part: A number per node, -1 = none.
            names: How the record of a part begins, by its number; parts in this order.
            macro_f1: Whether macro-F1 is among the scores.

        Returns:
            A record per part that has nodes.
        """
        rows: list[dict[str, Any]] = []
        for number, said in names.items():
            chosen = part == number
            if not (nodes := int(chosen.sum())):
                continue
            right = int(self.right[chosen].sum())
            row: dict[str, Any] = said | {"nodes": nodes, "accuracy": right / nodes}
            row["accuracy_interval"] = share_interval(right, nodes)
            if macro_f1:
                cells = Cells.of(self.true[chosen], [self.predicted[chosen]], len(self.names))
                row["macro_f1"] = float(cells.count(cells.nodes[None]).macro_f1()[0])
                (row["macro_f1_interval"],) = cells.bootstrap(lambda found: (found.macro_f1(),))
            rows.append(row)
        return rows


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Numbers of nodes per class, of several samples: of right answers, nodes, and answers."""

    right: Values
    true: Values
    answered: Values

    def macro_f1(self) -> Values:
        """The mean of F1 over the classes that occur among nodes or answers, per sample."""
        return _mean_ratio(2 * self.right, self.true + self.answered)

    def balanced_accuracy(self) -> Values:
        """The mean of recall over the classes that occur among the nodes, per sample."""
        return _mean_ratio(self.right, self.true)


def _mean_ratio(part: Values, whole: Values) -> Values:
    """The mean over classes of a share, of those classes for which it is defined."""
    defined = whole > 0
    shares = np.divide(part, whole, out=np.zeros_like(part), where=defined)
    return shares.sum(1) / defined.sum(1)


@dataclass(frozen=True, eq=False)
class Cells:
    """Nodes by what is true and what one model answered, or several: the cells that occur.

    Attributes:
        true: The true class of a cell.
        answers: The classes that the models answered.
        nodes: How many nodes a cell holds.
        classes: Number of classes.
    """

    true: Numbers
    answers: Sequence[Numbers]
    nodes: Numbers
    classes: int

    @classmethod
    def of(cls, true: Numbers, answers: Sequence[Numbers], classes: int) -> Cells:
        """Count nodes, with an entry each in every array."""
        code = true
        for answer in answers:
            code = code * classes + answer
        _, first, nodes = np.unique(code, return_index=True, return_counts=True)
        return cls(true[first], [answer[first] for answer in answers], nodes, classes)

    def count(self, drawn: NDArray[Any], model: int = 0) -> ClassCounts:
        """Numbers per class of samples with these numbers of nodes per cell [samples, cells]."""
        answer = self.answers[model]
        every, right = np.arange(len(self.true)), np.flatnonzero(self.true == answer)
        return ClassCounts(
            self._sums(drawn, right, self.true[right]),
            self._sums(drawn, every, self.true),
            self._sums(drawn, every, answer),
        )

    def _sums(self, drawn: NDArray[Any], cells: Numbers, classes: Numbers) -> Values:
        """Sums of the columns of drawn counts by class [samples, classes]."""
        shape, ones = (self.classes, len(self.true)), np.ones(len(cells))
        return (csr_array((ones, (classes, cells)), shape=shape) @ drawn.T).T

    @property
    def suffices(self) -> bool:
        """Whether there are nodes enough for intervals of means over classes.

        With fewer, resamples lack classes, and intervals are too narrow.
        """
        return int(self.nodes.sum()) >= NODES_PER_CLASS * len(np.unique(self.true))

    def bootstrap(
        self, scores: Callable[[ClassCounts], tuple[Values, ...]], model: int = 0
    ) -> list[Interval]:
        """The intervals of some means over classes, of one model."""
        values = [float(one[0]) for one in scores(self.count(self.nodes[None], model))]
        if not self.suffices:
            return [None] * len(values)
        total = int(self.nodes.sum())
        drawn = [scores(self.count(block, model)) for block in resampled(self.nodes, total)]
        columns = [np.concatenate(column) for column in zip(*drawn, strict=True)]
        return [bootstrap_interval(*pair) for pair in zip(values, columns, strict=True)]

    def macro_f1_difference(self) -> tuple[float, Interval]:
        """Macro-F1 of the first model minus that of the second, with its paired interval."""

        def difference(drawn: NDArray[Any]) -> Values:
            return self.count(drawn, 0).macro_f1() - self.count(drawn, 1).macro_f1()

        value, total = float(difference(self.nodes[None])[0]), int(self.nodes.sum())
        if not self.suffices:
            return value, None
        drawn = np.concatenate([difference(block) for block in resampled(self.nodes, total)])
        return value, bootstrap_interval(value, drawn)


def compare_answers(
    first: Scored, second: Scored, part: Numbers, names: Mapping[int, dict[str, Any]]
) -> dict[str, Any]:
    """How two models differ on the same nodes, in all and within parts of them.

    Args:
        first: What one has answered.
        second: What the other has answered for the same nodes.
        part: A number per node, -1 = none.
        names: How the record of a part begins, by its number.

    Returns:
        ``nodes``; ``accuracy`` and ``macro_f1``, those of the first minus those of the second, with
        ``…_interval``; ``only_first`` and ``only_second``, how many nodes one of them alone has
        right; and ``parts``, a record each with the same.
    """
    rows = [
        said | _difference(first.of(chosen), second.of(chosen))
        for number, said in names.items()
        if (chosen := part == number).any()
    ]
    return _difference(first, second) | {"parts": rows}


def _difference(first: Scored, second: Scored) -> dict[str, Any]:
    right, other = first.right, second.right
    value, *interval = bootstrap_difference(right, other)
    cells = Cells.of(first.true, [first.predicted, second.predicted], len(first.names))
    macro, macro_interval = cells.macro_f1_difference()
    return {
        "nodes": len(right),
        "only_first": int((right & ~other).sum()),
        "only_second": int((other & ~right).sum()),
        "accuracy": value,
        "accuracy_interval": _rounded(*interval),
        "macro_f1": macro,
        "macro_f1_interval": macro_interval,
    }
