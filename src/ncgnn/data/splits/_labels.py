"""Labels as every split sees them: checked, 64-bit, with -1 for an unlabelled node."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

#: Tables with a row per class must fit into memory.
_MOST_CLASSES = 1 << 24


@runtime_checkable
class LabelledGraph(Protocol):
    """What a graph offers to the splits."""

    @property
    def labels(self) -> ArrayLike:
        """Class per node, -1 for an unlabelled node."""
        ...

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        ...

    @property
    def shipped_splits(self) -> Mapping[str, NDArray[Any]]:
        """The splits that came with the graph, under the keys of ``SHIPPED_SPLITS``."""
        ...


def as_array(values: object, name: str) -> NDArray[Any]:
    """Turn lists, numpy arrays and CPU tensors into a numpy array."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as an array: {error}") from error


def checked_labels(
    labels: ArrayLike | LabelledGraph, num_classes: int | None = None
) -> tuple[NDArray[np.int64], int]:
    """Return the labels as int64 [n] and the number of classes.

    Args:
        labels: Class per node with -1 for an unlabelled node, or a graph.
        num_classes: How many classes there are. Without it a graph says so itself, and for plain
            labels it is the highest class plus one.

    Raises:
        InputError: Labels that are not one row of integers ≥ -1, that name a class outside
            ``num_classes`` or far above the number of nodes, or of which none is a class.
    """
    if isinstance(labels, LabelledGraph):
        num_classes = labels.num_classes if num_classes is None else num_classes
        labels = labels.labels
    found = as_array(labels, "labels")
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"labels must be one row of integers, -1 for an unlabelled node, "
            f"but they are {found.dtype} of shape {found.shape}."
        )
    found = found.astype(np.int64)
    highest = int(found.max(initial=-1))
    if highest < 0:
        raise InputError("no node has a label, so there is nothing to split.")
    if int(found.min()) < -1:
        raise InputError(f"labels must be ≥ -1, but one is {int(found.min())}.")
    if num_classes is None:
        if highest >= max(1000, found.size):
            raise InputError(
                f"labels reach {highest} in a graph of {found.size} nodes; "
                "number the classes from 0 on, without gaps."
            )
        num_classes = highest + 1
    num_classes = _class_count(num_classes)
    if highest >= num_classes:
        raise InputError(f"labels name class {highest}, but num_classes is {num_classes}.")
    return found, num_classes


def _class_count(num_classes: int) -> int:
    try:
        count = index(num_classes)
    except TypeError as error:
        raise InputError(f"num_classes must be an integer, not {num_classes!r}.") from error
    if not 1 <= count <= _MOST_CLASSES:
        raise InputError(f"num_classes must be 1 … {_MOST_CLASSES}, but it is {count}.")
    return count


def class_counts(labels: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    """Count the nodes of each class, unlabelled nodes left out."""
    return np.bincount(labels[labels >= 0], minlength=num_classes).astype(np.int64)
