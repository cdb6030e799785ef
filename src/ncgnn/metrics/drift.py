r"""Whether a column of numbers, categories or text has other values than before.

Two samples of one distribution never look the same. A drift is called notable only if it is large
and if chance does not explain it:

* The population stability index of two samples with shares p and q in B bins,
  :math:`\sum_b (q_b - p_b) \log (q_b / p_b)`, is 0.1 or more, the limit that practice calls a
  moderate shift, and more than 99 of 100 pairs of samples of n and m rows of one distribution have
  by chance, :math:`\chi^2_{B-1} (1/n + 1/m)` (Yurdakul, "Statistical Properties of Population
  Stability Index", 2018).
* A mean has moved by a tenth of the deviation before, and by more than four standard errors.
* One word in twenty was not there before.

Rows that stay are in both samples, so that chance explains less than these limits say.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.data import Tables
    from ncgnn.graph import Graph

#: From here on a population stability index, a shift of the mean in deviations, and a share of
#: words that were not there before are notable.
LEAST_INDEX, LEAST_SHIFT, LEAST_UNSEEN = 0.1, 0.1, 0.05
# So many values of a column are told apart, and the rest counts as one.
_MOST_BINS = 20
_NUMBERS = ("number", "skewed", "date", "list")
# One-sided 99 %, and about as sure over a thousand features.
_Z, _Z_MANY = 2.326348, 4.0


@dataclass(frozen=True)
class Drift:
    """How a column, or a feature, differs from before.

    Attributes:
        name: The column or feature.
        kind: Its kind; ``feature`` where the graph was not made of tables.
        index: Population stability index; None for features.
        chance: What chance makes of the index at most, at 99 %; None for features.
        shift: Of numbers, by how many deviations of before the mean has moved.
        unseen: Share of the values, or of the words (once per row), that were not there before.
        is_notable: Whether it is large, and more than chance.
    """

    name: str
    kind: str
    index: float | None = None
    chance: float | None = None
    shift: float | None = None
    unseen: float | None = None
    is_notable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def sentence(self) -> str:
        """What has changed, for people."""
        parts = [] if self.index is None else [f"stability index {self.index:.2f}"]
        if self.shift is not None and abs(self.shift) >= LEAST_SHIFT:
            parts.append(f"the mean moved by {self.shift:+.2f} deviations")
        if self.unseen is not None and self.unseen >= LEAST_UNSEEN:
            what = "words" if self.kind == "text" else "values"
            parts.append(f"{self.unseen:.0%} of the {what} are new")
        return f"{self.name} ({', '.join(parts)})"


def stability_index(
    before: NDArray[np.int64], after: NDArray[np.int64], rows: tuple[int, int] | None = None
) -> tuple[float, float]:
    """The population stability index of two rows of counts, and what chance makes of it.

    Args:
        before: Counts per bin.
        after: Counts per bin, of the same bins.
        rows: Sizes of the two samples, where a row counts in several bins.
    """
    used = (before > 0) | (after > 0)
    first, second = before[used].astype(np.float64), after[used].astype(np.float64)
    if len(first) < 2 or not first.sum() or not second.sum():
        return 0.0, 0.0
    # Half a row more in every bin keeps an empty one from being infinitely unlikely.
    p = (first + 0.5) / (first.sum() + 0.5 * len(first))
    q = (second + 0.5) / (second.sum() + 0.5 * len(second))
    n, m = (first.sum(), second.sum()) if rows is None else rows
    free = len(first) - 1
    # Wilson and Hilferty's approximation of the quantile of χ².
    quantile = free * (1 - 2 / (9 * free) + _Z * math.sqrt(2 / (9 * free))) ** 3
    return float(((q - p) * np.log(q / p)).sum()), float(quantile * (1 / n + 1 / m))


def is_notable(index: float, chance: float) -> bool:
    """Whether a population stability index is large, and more than chance."""
    return index >= max(LEAST_INDEX, chance)


def column_drifts(before: Graph, after: Graph) -> list[Drift]:
    """The drift of every column of tables, or of features that graphs without tables share."""
    first, second = _columns(before), _columns(after)
    if first is None or second is None:
        return _feature_drifts(before, after)
    return [
        _column_drift(first[name], second[name])
        for name in first
        if name in second and first[name].kind == second[name].kind
    ]


@dataclass(frozen=True, eq=False)
class _Column:
    """The encoded features of one column."""

    name: str
    kind: str
    names: Sequence[str]
    features: Any
    encoder: Any


def _columns(graph: Graph) -> dict[str, _Column] | None:
    """The columns of the tables that a graph was made of; None if it was not."""
    tables: Tables | Any = graph.source
    if tables is None or graph.features is None or not hasattr(tables, "features"):
        return None
    features: Any = graph.features
    matrix = features if isinstance(features, np.ndarray) else features.tocsc()
    found: dict[str, _Column] = {}
    first = 0
    for encoder in tables.features.encoders:
        names = encoder.names
        part = matrix[:, first : first + len(names)]
        first += len(names)
        found[encoder.column] = _Column(encoder.column, encoder.kind, names, part, encoder)
    return found


def _column_drift(before: _Column, after: _Column) -> Drift:
    if before.kind in _NUMBERS:
        return _number_drift(before, after)
    counts = [dict(zip(one.names, _rows_per_feature(one), strict=True)) for one in (before, after)]
    rows = before.features.shape[0], after.features.shape[0]
    if before.kind == "text":
        counts = [
            {word: count for word, count in one.items() if " " not in word.partition(": ")[2]}
            for one in counts
        ]
    else:  # values that an encoder does not keep count together
        other = f"{before.name} = (other)"
        for one, size in zip(counts, rows, strict=True):
            one[other] = size - sum(one.values())
    old, new = counts
    total = sum(new.values())
    unseen = sum(count for name, count in new.items() if name not in old) / max(total, 1)
    index, chance = stability_index(*_bins(old, new), rows)
    notable = is_notable(index, chance) or unseen >= LEAST_UNSEEN
    return Drift(before.name, before.kind, index, chance, None, unseen, notable)


def _rows_per_feature(column: _Column) -> list[int]:
    features = column.features
    if isinstance(features, np.ndarray):
        return np.count_nonzero(features, axis=0).tolist()
    return np.diff(features.indptr).tolist()


def _bins(old: dict[str, int], new: dict[str, int]) -> tuple[Any, Any]:
    """Counts of the values that were commonest before, and of all others together."""
    common = sorted(old, key=lambda name: -old[name])[:_MOST_BINS]
    counts: list[NDArray[np.int64]] = []
    for one in (old, new):
        known = [one.get(name, 0) for name in common]
        counts.append(np.array([*known, sum(one.values()) - sum(known)]))
    return counts[0], counts[1]


def _number_drift(before: _Column, after: _Column) -> Drift:
    """The drift of a column of numbers; of a list the entry that drifts most."""
    old, new = _values(before), _values(after)
    width = min(old.shape[1], new.shape[1])
    if before.kind == "date":
        width = 1  # the others follow from the first
    found = [_values_drift(before, old[:, i], new[:, i]) for i in range(width)]
    return max(found, key=lambda one: (one.is_notable, one.index or 0.0))


def _values(column: _Column) -> NDArray[np.float64]:
    """Numbers as the table held them (skewed ones as logarithms), NaN where there was none."""
    features, encoder = column.features, column.encoder
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    width = len(encoder.scaler.mean_)
    values = dense[:, :width] * encoder.scaler.scale_ + encoder.scaler.mean_
    if encoder.missing:
        values[dense[:, width] != 0] = np.nan
    return values


def _values_drift(column: _Column, old: NDArray[np.float64], new: NDArray[np.float64]) -> Drift:
    known, later = old[~np.isnan(old)], new[~np.isnan(new)]
    if not len(known) or not len(later):
        return Drift(column.name, column.kind)
    # Rounding in float32 must not move a value across an edge.
    edges = np.unique(np.quantile(known, np.linspace(0.1, 0.9, 9))) + 1e-5 * max(known.std(), 1e-9)
    counts: list[NDArray[np.int64]] = []
    for values, sample in ((known, old), (later, new)):
        inside = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
        counts.append(np.append(inside, len(sample) - len(values)))
    index, chance = stability_index(counts[0], counts[1])
    shift = _shift(known.mean(), later.mean(), known.std())
    return Drift(
        column.name,
        column.kind,
        index,
        chance,
        shift,
        None,
        is_notable(index, chance) or _has_moved(shift, len(known), len(later)),
    )


def _shift(before: float, after: float, deviation: float) -> float:
    # What was constant has no deviation; any change of it is a large one.
    return float((after - before) / max(deviation, 1e-6 * max(abs(before), 1e-6)))


def _has_moved(shift: float, before: int, after: int) -> bool:
    error = math.sqrt(1 / before + 1 / after)
    return abs(shift) >= max(LEAST_SHIFT, _Z_MANY * error)


def _feature_drifts(before: Graph, after: Graph) -> list[Drift]:
    """Features whose mean has moved, the furthest first."""
    width = before.num_features
    if not width or width != after.num_features or before.feature_names != after.feature_names:
        return []
    (old, deviation), (new, _) = _moments(before), _moments(after)
    shifts = [_shift(*one) for one in zip(old, new, deviation, strict=True)]
    sizes = before.num_nodes, after.num_nodes
    names = before.feature_names or tuple(f"feature {place}" for place in range(width))
    moved = [place for place, shift in enumerate(shifts) if _has_moved(shift, *sizes)]
    moved.sort(key=lambda place: -abs(shifts[place]))
    return [Drift(names[place], "feature", shift=shifts[place], is_notable=True) for place in moved]


def _moments(graph: Graph) -> tuple[Any, Any]:
    """Mean and deviation of every feature."""
    features: Any = graph.features
    mean = np.asarray(features.mean(axis=0), dtype=np.float64).reshape(-1)
    square = (
        features * features if isinstance(features, np.ndarray) else features.multiply(features)
    )
    second = np.asarray(square.mean(axis=0), dtype=np.float64).reshape(-1)
    return mean, np.sqrt(np.maximum(second - mean**2, 0))
