"""Splits that a person brings along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncgnn.data.splits._labels import as_array, checked_labels
from ncgnn.data.splits._split import Split
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.data.splits._labels import LabelledGraph


def custom_split(
    train: ArrayLike, val: ArrayLike, test: ArrayLike, *, labels: ArrayLike | LabelledGraph
) -> Split:
    """Make a split from a person's own parts.

    Args:
        train: Training nodes, as a boolean mask over all nodes or as indices; numpy arrays, lists
            and CPU tensors will do.
        val: Validation nodes, likewise; may be empty.
        test: Test nodes, likewise; may be empty.
        labels: Class per node with -1 for an unlabelled node, or a graph.

    Raises:
        InputError: A part is neither mask nor indices, goes beyond the graph, repeats a node or
            holds an unlabelled one; a node is in two parts; or train is empty.
    """
    classes, _ = checked_labels(labels)
    parts = {
        name: _part(values, name, classes)
        for name, values in (("train", train), ("val", val), ("test", test))
    }
    if not parts["train"].size:
        raise InputError("train is empty, so there is nothing to learn from.")
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = np.intersect1d(parts[first], parts[second], assume_unique=True)
        if shared.size:
            raise InputError(
                f"{first} and {second} share {shared.size} nodes, for example node {shared[0]}."
            )
    return Split("custom", "custom", None, **parts)


def _part(values: ArrayLike, name: str, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    given = as_array(values, name)
    if not given.size and given.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if given.ndim != 1 or given.dtype.kind not in "biu":
        raise InputError(
            f"{name} must be a boolean mask or node indices in one row, "
            f"but it is {given.dtype} of shape {given.shape}."
        )
    nodes = _from_mask(given, name, labels.size) if given.dtype == np.bool_ else given
    if nodes.size and not 0 <= int(nodes.min()) <= int(nodes.max()) < labels.size:
        raise InputError(f"{name} holds nodes outside 0 … {labels.size - 1}.")
    nodes = np.sort(nodes.astype(np.int64))
    repeated = nodes[1:][nodes[1:] == nodes[:-1]]
    if repeated.size:
        raise InputError(
            f"{name} names node {repeated[0]} more than once; a mask must be of boolean type."
        )
    unlabelled = nodes[labels[nodes] < 0]
    if unlabelled.size:
        raise InputError(
            f"{name} holds {unlabelled.size} unlabelled nodes, for example node {unlabelled[0]}."
        )
    return nodes


def _from_mask(mask: NDArray[np.bool_], name: str, num_nodes: int) -> NDArray[np.int64]:
    if mask.size != num_nodes:
        raise InputError(
            f"{name} is a mask of {mask.size} nodes, but the graph has {num_nodes} nodes."
        )
    return np.flatnonzero(mask).astype(np.int64)
