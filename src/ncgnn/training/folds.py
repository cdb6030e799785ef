"""Folds of labeled nodes: what models say of nodes whose labels they were trained without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.graph import whole_number
from ncgnn.training.run import fit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.nn import Model

#: The share of every class that selects the epoch and is not trained on.
VALIDATION = 0.1


def draw_folds(labels: NDArray[np.int64], folds: int, seed: int) -> NDArray[np.int64]:
    """A fold per node, 0 … folds-1, that holds the same share of every class.

    Nodes without a label are in no fold, -1, nor is the only node of a class: whoever is trained
    without it does not know the class.

    Raises:
        InputError: There are fewer nodes in classes of two or more than folds.
    """
    whole_number(folds, "folds", 2)
    sizes = np.bincount(labels[labels >= 0])
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    known = order[labels[order] >= 0]
    known = known[sizes[labels[known]] > 1]
    if len(known) < folds:
        raise InputError(
            f"folds must be at most the {len(known)} labeled nodes in classes of two or more; got "
            f"{folds}."
        )
    fold = np.full(len(labels), -1, dtype=np.int64)
    fold[known] = np.arange(len(known)) % folds  # class after class, so that each is dealt out
    return fold


def draw_validation(
    nodes: NDArray[np.int64],
    numbers: NDArray[np.int64],
    fraction: float,
    seed: int,
    name: str = "labels",
) -> Split:
    """Training and validation nodes: the same share of every class, at least one node of each left.

    Args:
        nodes: The nodes to divide.
        numbers: Their classes.
        fraction: The share for validation.
        seed: What they are drawn by.
        name: What the caller calls the classes.

    Raises:
        InputError: Nothing can be left for validation.
    """
    if not 0 < fraction < 1:
        raise InputError(f"validation_fraction must lie between 0 and 1; got {fraction}.")
    random = np.random.default_rng(seed)
    order = random.permutation(len(nodes))
    sizes = np.bincount(numbers)
    most = np.maximum(sizes - 1, 0)
    wanted = np.minimum(np.round(fraction * sizes).astype(np.int64), most)
    if not wanted.any():
        wanted[sizes.argmax()] = min(1, most.max())
    if not wanted.any():
        raise InputError(
            f"{name} must hold a class twice, as one is kept for validation; got {len(nodes)} "
            f"samples of {len(sizes)} classes."
        )
    chosen = [order[numbers[order] == label][:count] for label, count in enumerate(wanted)]
    kept = np.zeros(len(nodes), dtype=bool)
    kept[np.concatenate(chosen)] = True
    return Split("custom", "custom", seed, nodes[~kept], nodes[kept], nodes[:0])


def with_only(graph: Graph, labels: NDArray[np.int64]) -> Graph:
    """The graph with the given labels and no others.

    Its name goes, so that no parameters that were chosen for a known graph come in, and so do
    published splits.
    """
    return replace(graph, labels=labels, name="nodes", origin="", shipped_splits={})


def answer_fold(
    graph: Graph,
    fold: NDArray[np.int64],
    number: int,
    model: str | type[Model],
    *,
    seed: int,
    device: str,
    settings: Mapping[str, Any],
) -> NDArray[np.float64]:
    """Probabilities that a model gives the nodes of one fold, whose labels it has never seen.

    It trains on the other labeled nodes, some of which are validation nodes. The graph that it is
    given holds no label of the fold.

    Returns:
        [nodes of the fold, classes], in the order of the nodes.
    """
    others = np.flatnonzero((graph.labels >= 0) & (fold != number))
    labels = np.full(graph.num_nodes, -1, dtype=np.int64)
    labels[others] = graph.labels[others]
    split = draw_validation(others, labels[others], VALIDATION, seed)
    visible = with_only(graph, labels)
    trained = fit(visible, model, split=split, seed=seed, device=device, **settings)
    return trained.probabilities(calibrated=False)[fold == number]
