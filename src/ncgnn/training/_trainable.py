"""Whether a graph and a split can train anything at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncgnn.data import make_split
from ncgnn.errors import InputError
from ncgnn.nn._inputs import check_features

if TYPE_CHECKING:
    from ncgnn.data import Split
    from ncgnn.graph import Graph


def check_trainable(graph: Graph, split: Split) -> None:
    """Complain of what no model could be trained with.

    Raises:
        InputError: Features, classes, training or validation nodes, or labels of theirs are
            missing.
    """
    check_features(graph)
    if not len(split.train) or not len(split.val):
        raise InputError("training needs training and validation nodes; the split lacks them.")
    if graph.labels[np.concatenate([split.train, split.val, split.test])].min() < 0:
        raise InputError("the split holds unlabelled nodes.")
    if graph.num_classes < 2:
        raise InputError("the graph has one class only; there is nothing to classify.")


def trainable_split(graph: Graph, dataset: str, family: str, seed: int) -> Split:
    """A split to train with.

    Args:
        graph: The graph.
        dataset: Its name, which begins an error.
        family: Split family.
        seed: Of the split.

    Raises:
        InputError: The graph cannot be split so, or nothing can be trained with it.
    """
    try:
        split = make_split(graph, family, seed, warn=False)
        check_trainable(graph, split)
    except InputError as error:
        raise InputError(f"{dataset}: {error}") from None
    return split
