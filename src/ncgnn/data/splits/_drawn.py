"""Families whose parts are drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncgnn.data.splits._allocation import allocate
from ncgnn.data.splits._request import Parts
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data.splits._request import SplitRequest

PLANETOID_TRAIN_PER_CLASS = 20
PLANETOID_VAL = 500
PLANETOID_TEST = 1000


def draw_paper(request: SplitRequest) -> Parts:
    """Draw the split that the paper calls 60/20/20, which is a fixed count per class.

    With n labelled nodes and C classes, train takes round(0.6·n/C) nodes of every class. What is
    left is shuffled: the first round(0.2·n) nodes are validation, the remainder is test. A class no
    larger than that count is wholly in train and is never evaluated. The rule goes back to the
    "dense" splits of Chien et al., "Adaptive Universal Generalized PageRank Graph Neural Network"
    (https://arxiv.org/abs/2006.07988). ``round`` is Python's: halves go to the even integer.
    """
    total = request.labelled.size
    per_class = round(0.6 * total / request.num_classes)
    train, rest = _first_of_each_class(request, per_class)
    val_size = round(0.2 * total)
    return Parts("drawn", train, rest[:val_size], rest[val_size:])


def draw_stratified(request: SplitRequest) -> Parts:
    """Divide every class by the same fractions.

    Rounding follows the largest remainders so that the sizes of the parts are right as well. Every
    class has a node in train, and a class of three nodes or more has one in every part; only many
    such tiny classes can move the sizes of the parts. Renaming the classes changes nothing.
    """
    order = request.shuffled(request.labelled, "order")
    classes = request.labels[order]
    rank = _rank_within_class(classes)
    by_appearance = classes[rank == 0]
    counts = request.counts[by_appearance]
    least = np.zeros((counts.size, 3), dtype=np.int64)
    least[:, 0] = 1
    least[counts >= 3] = request.fractions > 0
    sizes = np.zeros((request.num_classes, 3), dtype=np.int64)
    sizes[by_appearance] = allocate(counts, request.fractions, least)
    ends = sizes.cumsum(axis=1)[classes]
    in_train, in_test = rank < ends[:, 0], rank >= ends[:, 1]
    return Parts("drawn", order[in_train], order[~in_train & ~in_test], order[in_test])


def draw_uniform(request: SplitRequest) -> Parts:
    """Draw without regard to class: ⌊0.6·n⌋ train, ⌊0.2·n⌋ validation, the rest test.

    The sizes follow the stored uniform splits of Luo et al., "Classic GNNs are Strong Baselines"
    (https://arxiv.org/abs/2406.08993), for the same fractions.
    """
    order = request.shuffled(request.labelled, "order")
    exact = np.round(request.fractions * order.size, 9)
    train_size = max(1, int(exact[0]))
    val_end = train_size + int(exact[1])
    return Parts("drawn", order[:train_size], order[train_size:val_end], order[val_end:])


def draw_planetoid(request: SplitRequest) -> Parts:
    """Draw 20 training nodes per class, then 500 validation and 1000 test nodes.

    The sizes are those of Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings"
    (https://arxiv.org/abs/1603.08861).
    """
    small = np.flatnonzero(request.counts < PLANETOID_TRAIN_PER_CLASS)
    if small.size:
        raise InputError(
            f"a 'planetoid' split trains on {PLANETOID_TRAIN_PER_CLASS} nodes of every class, but "
            f"class {small[0]} has {request.counts[small[0]]} labelled nodes; "
            "family 'stratified' splits classes of any size."
        )
    train, rest = _first_of_each_class(request, PLANETOID_TRAIN_PER_CLASS)
    test_end = PLANETOID_VAL + PLANETOID_TEST
    if rest.size < test_end:
        raise InputError(
            f"a 'planetoid' split of {request.num_classes} classes needs "
            f"{train.size + test_end} labelled nodes, but there are {request.labelled.size}; "
            "family 'stratified' splits graphs of any size."
        )
    return Parts("drawn", train, rest[:PLANETOID_VAL], rest[PLANETOID_VAL:test_end])


def _first_of_each_class(
    request: SplitRequest, per_class: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``per_class`` nodes of every class and shuffle the others.

    The second order is drawn anew: what the first one leaves of a small class stands late in it,
    so its remainder is not in random order.
    """
    order = request.shuffled(request.labelled, "train")
    chosen = _rank_within_class(request.labels[order]) < per_class
    return order[chosen], request.shuffled(order[~chosen], "evaluation")


def _rank_within_class(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count, for each position, the earlier positions that hold the same class."""
    counts = np.bincount(classes)
    # The narrowest type lets numpy sort by radix.
    by_class = np.argsort(classes.astype(np.min_scalar_type(counts.size)), kind="stable")
    starts = np.cumsum(counts) - counts
    rank = np.empty(classes.size, dtype=np.int64)
    rank[by_class] = np.arange(classes.size) - starts[classes[by_class]]
    return rank
