"""Families of splits, by name and seed, and splits of one's own.

Results under two families must never share a table, so every split carries its family. Drawn splits
are the same on every platform and with every version of numpy: a random order is the stable argsort
of one raw random word per node.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ncgnn.data.draws import allocate, check_shares, random_words
from ncgnn.data.npz import SHIPPED_SPLITS
from ncgnn.data.splits import Split, count_classes, find_unevaluated, read_labels
from ncgnn.errors import InputError, NcgnnWarning, UnknownNameError
from ncgnn.graph import Graph, as_graph, check_nodes, check_shipped_splits, to_numpy, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.data.splits import Origin

DEFAULT_FRACTIONS = (0.6, 0.2, 0.2)
PLANETOID_TRAIN_PER_CLASS = 20
PLANETOID_VAL = 500
PLANETOID_TEST = 1000


def make_split(
    labels: ArrayLike | Graph,
    family: str = "stratified",
    seed: int = 0,
    *,
    num_classes: int | None = None,
    shipped: Mapping[str, NDArray[Any]] | None = None,
    fractions: tuple[float, float, float] = DEFAULT_FRACTIONS,
    warn: bool = True,
) -> Split:
    """Make a split of the labeled nodes of a graph.

    The result depends on nothing but the arguments; families draw from independent streams.

    Args:
        labels: Class per node with -1 for an unlabeled node, a PyG ``Data``, or a graph.
            Unlabeled nodes are in no part.
        family: One of :func:`split_families`:

            * ``stratified``: ``fractions`` within every class.
            * ``paper``: train takes round(0.6·n/C) nodes of every class; of the rest, shuffled,
              round(0.2·n) are validation and the remainder is test.
            * ``published``: the masks that ship with the graph, variant seed mod their number.
            * ``planetoid``: the shipped split, whatever the seed; where there is none, 20 nodes
              per class, 500 validation and 1000 test nodes are drawn.
            * ``uniform``: the shipped split, whatever the seed; where there is none, ``fractions``
              are drawn without regard to class.
            * ``time``: the earliest 60 % of the nodes train, the latest 20 % test, where the graph
              was imported with a time column; whatever the seed.
        seed: Which of the family's splits; not negative.
        num_classes: Number of classes, where the labels alone do not tell.
        shipped: Splits that came with the graph, under the keys of ``SHIPPED_SPLITS``; a graph
            brings its own.
        fractions: Shares of train, val and test, for the families that take them.
        warn: Warn about classes that no evaluation sees.

    Raises:
        UnknownNameError: No such family.
        InputError: Arguments that cannot be used, or a split that this graph cannot have.

    Warns:
        NcgnnWarning: A class is in neither validation nor test.
    """
    if family == "custom":
        raise InputError(
            "family must not be 'custom'; use custom_split(train, val, test, labels=...)."
        )
    if family not in FAMILIES:
        raise UnknownNameError("split family", family, list(FAMILIES))
    rule = FAMILIES[family]
    if hasattr(labels, "edge_index"):
        labels = as_graph(labels)
    classes, num_classes = read_labels(labels, num_classes)
    if shipped is not None:
        shipped = check_shipped_splits(shipped, classes.size)
    elif isinstance(labels, Graph):
        shipped = labels.shipped_splits
    shares = check_shares(fractions, "fractions")
    if shares.size != 3 or not shares[0]:
        raise InputError(f"fractions must be three shares, the first above 0: {shares.tolist()}.")
    request = SplitRequest(
        family, classes, num_classes, whole_number(seed, "seed"), shipped or {}, shares
    )
    parts = rule.make(request)
    fixed_sizes = not rule.takes_fractions or parts.origin == "shipped"
    if fixed_sizes and tuple(fractions) != DEFAULT_FRACTIONS:
        raise InputError(
            f"the sizes of this '{family}' split are fixed, so fractions cannot be chosen; "
            "family 'stratified' takes any."
        )
    if not parts.train.size:
        raise InputError(
            f"the '{family}' split of {request.labeled.size} labeled nodes in {num_classes} "
            "classes has no training node; family 'stratified' splits graphs of any size."
        )
    split = Split(family, parts.origin, request.seed, parts.train, parts.val, parts.test)
    if warn:
        _warn_about_unseen_classes(split, classes, num_classes)
    return split


def _warn_about_unseen_classes(split: Split, labels: NDArray[np.int64], num_classes: int) -> None:
    unseen = find_unevaluated(split, labels, num_classes)
    if unseen:
        names = ", ".join(map(str, unseen[:10])) + (" …" if len(unseen) > 10 else "")
        warnings.warn(
            f"the '{split.family}' split has {len(unseen)} of {num_classes} classes in neither "
            f"validation nor test ({names}): no accuracy on it says anything about them.",
            NcgnnWarning,
            stacklevel=3,
        )


def custom_split(
    train: ArrayLike, val: ArrayLike, test: ArrayLike, *, labels: ArrayLike | Graph
) -> Split:
    """Make a split from one's own parts.

    Args:
        train: Training nodes, as a boolean mask over all nodes or as indices, in any form.
        val: Validation nodes, likewise; may be empty.
        test: Test nodes, likewise; may be empty.
        labels: Class per node with -1 for an unlabeled node, or a graph.

    Raises:
        InputError: A part is neither mask nor indices, goes beyond the graph or holds an unlabeled
            node; a node is in two parts or twice in one; or train is empty.
    """
    classes, _ = read_labels(labels)
    parts = {
        name: _read_part(values, name, classes)
        for name, values in (("train", train), ("val", val), ("test", test))
    }
    if not parts["train"].size:
        raise InputError("train is empty, so there is nothing to learn from.")
    return Split("custom", "custom", None, **parts)


def _read_part(values: ArrayLike, name: str, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    given = to_numpy(values, name)
    if not given.size and given.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if given.ndim != 1 or given.dtype.kind not in "biu":
        raise InputError(
            f"{name} must be a boolean mask or node indices in one row; "
            f"got {given.dtype} of shape {given.shape}."
        )
    if given.dtype == np.bool_ and given.size != labels.size:
        raise InputError(
            f"{name} is a mask of {given.size} nodes, but the graph has {labels.size} nodes."
        )
    nodes = (np.flatnonzero(given) if given.dtype == np.bool_ else given).astype(np.int64)
    check_nodes(nodes, name, labels.size)
    if np.unique(nodes).size < nodes.size:
        raise InputError(f"{name} names a node more than once; a mask must be of boolean type.")
    unlabeled = nodes[labels[nodes] < 0]
    if unlabeled.size:
        raise InputError(
            f"{name} holds {unlabeled.size} unlabeled nodes, for example node {unlabeled[0]}."
        )
    return nodes


def split_families() -> dict[str, str]:
    """The names that :func:`make_split` knows, each with one line on what it does."""
    return {name: family.summary for name, family in FAMILIES.items()}


@dataclass(frozen=True, eq=False)
class SplitRequest:
    """Everything a family may look at: the arguments of :func:`make_split`, checked."""

    family: str
    labels: NDArray[np.int64]
    num_classes: int
    seed: int
    shipped: Mapping[str, NDArray[Any]]
    fractions: NDArray[np.float64]

    @cached_property
    def labeled(self) -> NDArray[np.int64]:
        """The labeled nodes, the only ones a split may hold."""
        return np.flatnonzero(self.labels >= 0).astype(np.int64)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Labeled nodes per class."""
        return count_classes(self.labels, self.num_classes)

    def shuffle(self, nodes: NDArray[np.int64], step: str) -> NDArray[np.int64]:
        """Put nodes in a random order; each ``step`` of a family draws anew.

        Every node of the graph owns one word of the stream, whether it takes part or not: leaving
        a node out does not change the order of the others.
        """
        words = random_words(f"split/{self.family}/{step}", self.seed, self.labels.size)
        return nodes[np.argsort(words[nodes], kind="stable")]

    def find_shipped(self, name: str) -> Parts | None:
        """The labeled nodes of the split of that name that came with the graph, if one did."""
        keys = SHIPPED_SPLITS[name]
        missing = [key for key in keys if key not in self.shipped]
        if len(missing) == len(keys):
            return None
        if missing:
            found = [key for key in keys if key in self.shipped]
            raise InputError(
                f"the graph ships {', '.join(found)} but not {', '.join(missing)}, "
                f"so its '{name}' split is incomplete."
            )
        parts = [self.shipped[key] for key in keys]
        if parts[0].dtype == np.bool_:
            parts = [np.flatnonzero(masks[self.seed % len(masks)]) for masks in parts]
        train, val, test = (part[self.labels[part] >= 0].astype(np.int64) for part in parts)
        return Parts("shipped", train, val, test)


class Parts(NamedTuple):
    """A family's answer: where the parts come from, and their nodes in any order."""

    origin: Origin
    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]


def _make_paper(request: SplitRequest) -> Parts:
    """Draw the split that the paper calls 60/20/20, which is a fixed count per class.

    With n labeled nodes and C classes, train takes round(0.6·n/C) nodes of every class. What is
    left is shuffled: the first round(0.2·n) nodes are validation, the remainder is test. A class no
    larger than that count is wholly in train and is never evaluated. The rule goes back to the
    "dense" splits of Chien et al., "Adaptive Universal Generalized PageRank Graph Neural Network"
    (https://arxiv.org/abs/2006.07988). ``round`` is Python's: halves go to the even integer.
    """
    total = request.labeled.size
    per_class = round(0.6 * total / request.num_classes)
    train, rest = _first_of_each_class(request, per_class)
    val_size = round(0.2 * total)
    return Parts("drawn", train, rest[:val_size], rest[val_size:])


def _make_stratified(request: SplitRequest) -> Parts:
    """Divide every class by the same fractions.

    Rounding follows the largest remainders so that the sizes of the parts are right as well. Every
    class has a node in train, and a class of three nodes or more has one in every part; only many
    such tiny classes can move the sizes of the parts. Renaming the classes changes nothing.
    """
    order = request.shuffle(request.labeled, "order")
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


def _make_uniform(request: SplitRequest) -> Parts:
    """The shipped split, or ⌊0.6·n⌋ train, ⌊0.2·n⌋ validation and the rest test of any class.

    The sizes follow the stored uniform splits of Luo et al., "Classic GNNs are Strong Baselines"
    (https://arxiv.org/abs/2406.08993), for the same fractions.
    """
    if shipped := request.find_shipped("uniform"):
        return shipped
    order = request.shuffle(request.labeled, "order")
    exact = np.round(request.fractions * order.size, 9)
    train_size = max(1, int(exact[0]))
    val_end = train_size + int(exact[1])
    return Parts("drawn", order[:train_size], order[train_size:val_end], order[val_end:])


def _make_planetoid(request: SplitRequest) -> Parts:
    """The shipped split, or 20 training nodes per class, 500 validation and 1000 test nodes.

    The sizes are those of Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings"
    (https://arxiv.org/abs/1603.08861).
    """
    if shipped := request.find_shipped("planetoid"):
        return shipped
    small = np.flatnonzero(request.counts < PLANETOID_TRAIN_PER_CLASS)
    if small.size:
        raise InputError(
            f"a 'planetoid' split trains on {PLANETOID_TRAIN_PER_CLASS} nodes of every class, but "
            f"class {small[0]} has {request.counts[small[0]]} labeled nodes; "
            "family 'stratified' splits classes of any size."
        )
    train, rest = _first_of_each_class(request, PLANETOID_TRAIN_PER_CLASS)
    test_end = PLANETOID_VAL + PLANETOID_TEST
    if rest.size < test_end:
        raise InputError(
            f"a 'planetoid' split of {request.num_classes} classes needs "
            f"{train.size + test_end} labeled nodes, but there are {request.labeled.size}; "
            "family 'stratified' splits graphs of any size."
        )
    return Parts("drawn", train, rest[:PLANETOID_VAL], rest[PLANETOID_VAL:test_end])


def _make_published(request: SplitRequest) -> Parts:
    """Variant seed mod V of the V masks that came with the graph."""
    if shipped := request.find_shipped("published"):
        return shipped
    others = [name for name in ("planetoid", "uniform") if request.find_shipped(name)]
    also = f"it ships {' and '.join(map(repr, others))}, and " if others else ""
    raise InputError(
        f"this graph ships no published masks ({', '.join(SHIPPED_SPLITS['published'])}); "
        f"{also}families 'stratified', 'paper' and 'uniform' can be drawn on any graph."
    )


def _make_time(request: SplitRequest) -> Parts:
    """The earliest nodes to train on and the latest to test, by the time column of a table."""
    if shipped := request.find_shipped("time"):
        return shipped
    raise InputError(
        "this graph knows no time; import its tables with a time column, or choose family "
        "'stratified', 'paper' or 'uniform', which can be drawn on any graph."
    )


def _first_of_each_class(
    request: SplitRequest, per_class: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``per_class`` nodes of every class and shuffle the others.

    The second order is drawn anew: what the first one leaves of a small class stands late in it,
    so its remainder is not in random order.
    """
    order = request.shuffle(request.labeled, "train")
    chosen = _rank_within_class(request.labels[order]) < per_class
    return order[chosen], request.shuffle(order[~chosen], "evaluation")


def _rank_within_class(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count, for each position, the earlier positions that hold the same class."""
    counts = np.bincount(classes)
    # The narrowest type lets numpy sort by radix.
    by_class = np.argsort(classes.astype(np.min_scalar_type(counts.size)), kind="stable")
    starts = np.cumsum(counts) - counts
    rank = np.empty(classes.size, dtype=np.int64)
    rank[by_class] = np.arange(classes.size) - starts[classes[by_class]]
    return rank


@dataclass(frozen=True)
class Family:
    """A rule that makes splits, with one line on it; some let the sizes be chosen."""

    make: Callable[[SplitRequest], Parts]
    summary: str
    takes_fractions: bool = False


FAMILIES: dict[str, Family] = {
    "paper": Family(_make_paper, "the same number of training nodes from every class"),
    "stratified": Family(_make_stratified, "60/20/20 within every class", takes_fractions=True),
    "published": Family(_make_published, "the masks that the graph's authors publish"),
    "planetoid": Family(_make_planetoid, "20 per class to train on, 500 validation, 1000 test"),
    "uniform": Family(_make_uniform, "60/20/20 without regard to class", takes_fractions=True),
    "time": Family(_make_time, "the earliest 60 % to train on, the latest 20 % to test"),
}
