"""What a split holds, and what an accuracy on it is worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.splits.split import PARTS, checked_labels, class_counts
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.data.splits.split import LabelledGraph, Split


@dataclass(frozen=True)
class PartReport:
    """One part of a split.

    Attributes:
        size: Number of nodes.
        share: Size over the number of labelled nodes of the graph.
        class_counts: Nodes per class.
        absent: Classes that the graph has but this part has not.
    """

    size: int
    share: float
    class_counts: tuple[int, ...]
    absent: tuple[int, ...]


@dataclass(frozen=True)
class SplitReport:
    """What a split holds.

    Attributes:
        family: The split's family.
        origin: Where the split comes from.
        seed: The split's seed, if any.
        sha256: The split's hash.
        num_classes: Number of classes of the graph.
        labelled: Number of labelled nodes of the graph.
        train: The training part.
        val: The validation part.
        test: The test part.
        never_evaluated: Classes that the graph has but neither validation nor test.
        majority_class: The commonest class among the test nodes, the first one among equals; None
            without test nodes.
        majority_baseline: Its share of the test nodes: the test accuracy of always answering it,
            which a model must beat; None without test nodes.
    """

    family: str
    origin: str
    seed: int | None
    sha256: str
    num_classes: int
    labelled: int
    train: PartReport
    val: PartReport
    test: PartReport
    never_evaluated: tuple[int, ...]
    majority_class: int | None
    majority_baseline: float | None

    @property
    def absent(self) -> dict[str, tuple[int, ...]]:
        """Per part, the classes that the graph has but the part has not."""
        return {"train": self.train.absent, "val": self.val.absent, "test": self.test.absent}

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, numbers and strings."""
        return _listed(asdict(self))


def split_report(
    split: Split, labels: ArrayLike | LabelledGraph, num_classes: int | None = None
) -> SplitReport:
    """Describe a split of a graph.

    Args:
        split: The split.
        labels: Class per node with -1 for an unlabelled node, or a graph.
        num_classes: Number of classes, where the labels alone do not tell.

    Raises:
        InputError: The split holds nodes that the graph has not or that have no label.
    """
    classes, num_classes = checked_labels(labels, num_classes)
    _check_fits(split, classes)
    present = class_counts(classes, num_classes) > 0
    labelled = int((classes >= 0).sum())
    train, val, test = (
        _part_report(classes[getattr(split, name)], present, labelled) for name in PARTS
    )
    majority = int(np.argmax(test.class_counts)) if test.size else None
    return SplitReport(
        family=split.family,
        origin=split.origin,
        seed=split.seed,
        sha256=split.sha256,
        num_classes=num_classes,
        labelled=labelled,
        train=train,
        val=val,
        test=test,
        never_evaluated=never_evaluated(split, classes, num_classes),
        majority_class=majority,
        majority_baseline=None if majority is None else test.class_counts[majority] / test.size,
    )


def never_evaluated(split: Split, labels: NDArray[np.int64], num_classes: int) -> tuple[int, ...]:
    """List the classes that the labels hold but neither validation nor test."""
    evaluated = labels[np.concatenate([split.val, split.test])]
    unseen = (class_counts(labels, num_classes) > 0) & (class_counts(evaluated, num_classes) == 0)
    return tuple(np.flatnonzero(unseen).tolist())


def _part_report(
    classes: NDArray[np.int64], present: NDArray[np.bool_], labelled: int
) -> PartReport:
    counts = class_counts(classes, present.size)
    return PartReport(
        size=classes.size,
        share=classes.size / labelled,
        class_counts=tuple(counts.tolist()),
        absent=tuple(np.flatnonzero(present & (counts == 0)).tolist()),
    )


def _check_fits(split: Split, labels: NDArray[np.int64]) -> None:
    for name, mask in zip(PARTS, split.masks(labels.size), strict=True):
        unlabelled = np.flatnonzero(mask & (labels < 0))
        if unlabelled.size:
            raise InputError(f"{name} holds node {unlabelled[0]}, which has no label.")


def _listed(value: Any) -> Any:
    """Turn tuples into lists, as JSON would."""
    if isinstance(value, dict):
        return {key: _listed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(inner) for inner in value]
    return value
