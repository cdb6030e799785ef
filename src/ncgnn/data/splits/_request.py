"""What a family of splits is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ncgnn.data.splits._labels import class_counts
from ncgnn.data.splits._random import shuffled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncgnn.data.splits._split import Origin

DEFAULT_FRACTIONS = (0.6, 0.2, 0.2)


@dataclass(frozen=True, eq=False)
class SplitRequest:
    """Everything a family may look at.

    Attributes:
        family: Name of the family; its draws come from streams of that name.
        labels: Class per node, int64 [n], -1 for an unlabelled node.
        num_classes: Number of classes.
        seed: Which of the family's splits is wanted.
        shipped: Splits that came with the graph, under the keys of ``SHIPPED_SPLITS``.
        fractions: Shares of train, val and test, float64 [3].
    """

    family: str
    labels: NDArray[np.int64]
    num_classes: int
    seed: int
    shipped: Mapping[str, NDArray[Any]]
    fractions: NDArray[np.float64]

    @cached_property
    def labelled(self) -> NDArray[np.int64]:
        """The labelled nodes, the only ones a split may hold."""
        return np.flatnonzero(self.labels >= 0).astype(np.int64)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Labelled nodes per class."""
        return class_counts(self.labels, self.num_classes)

    def shuffled(self, nodes: NDArray[np.int64], step: str) -> NDArray[np.int64]:
        """Put nodes in a random order; each ``step`` of a family draws anew."""
        return shuffled(nodes, self.labels.size, f"split/{self.family}/{step}", self.seed)


class Parts(NamedTuple):
    """A family's answer: where the parts come from, and their nodes in any order."""

    origin: Origin
    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]
