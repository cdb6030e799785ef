"""Making the split of a family for a seed.

Rounding shares to whole nodes so that the totals come out right.

Splits that a person brings along.

Random orders that are the same on every platform and with every version of numpy.

numpy promises that the raw 64-bit stream of a bit generator never changes, and promises nothing of
the kind for the distributions and shuffles built on it (NEP 19). So only raw words are used, and a
random order is the stable argsort of one word per element.

What a family of splits is asked for, and what it answers.

Families whose parts are drawn at random.

Splits that came with the graph.

The registry of the families, by name.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ncgnn.data.npz import SHIPPED_SPLITS
from ncgnn.data.splits.report import never_evaluated
from ncgnn.data.splits.split import LabelledGraph, Split, as_array, checked_labels, class_counts
from ncgnn.errors import InputError, NcgnnWarning, UnknownNameError
from ncgnn.graph import as_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.data.splits.split import Origin

#: Products such as 0.29 · 100 fall a hair below the integer they stand for.
_ROUNDING_DIGITS = 9


def check_shares(shares: Sequence[float], name: str) -> NDArray[np.float64]:
    """Return shares as an array that sums to 1, after checking that they do and are ≥ 0."""
    values = np.asarray(shares, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise InputError(f"{name} must be one row of numbers, but its shape is {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError(f"{name} must be finite and not negative: {values.tolist()}.")
    if not math.isclose(float(values.sum()), 1.0, abs_tol=1e-9):
        raise InputError(f"{name} must sum to 1, but {values.tolist()} sum to {values.sum():.6g}.")
    # The sum may be off by a hair, which in a large graph is a node or more.
    return values / values.sum()


def apportion(total: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Divide ``total`` by the largest-remainder method; ties go to the first.

    Every share gets ⌊total · share⌋, and what is left goes one by one to the largest remainders,
    so the result sums to ``total`` and each entry is off by less than one.
    """
    ideal = np.round(total * (shares / shares.sum()), _ROUNDING_DIGITS)
    whole = np.floor(ideal).astype(np.int64)
    order = np.argsort(-(ideal - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def allocate(
    counts: NDArray[np.int64], shares: NDArray[np.float64], least: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Divide every row's count by the same shares, rounding so that rows and columns add up.

    Row r gets ⌊count · share⌋ in each column, raised to ``least``. The nodes that are then left
    over in the rows go to the cells with the largest remainders, among the columns that have not
    reached their part of the grand total (:func:`apportion`). So every row sums to its count and
    every column to its part of the total, unless ``least`` lifts a column above that.

    Args:
        counts: Nodes per row [rows]. Ties between rows go to the first.
        shares: Share per column [columns], summing to 1.
        least: At least this many per cell [rows, columns]; no more per row than its count.

    Returns:
        Nodes per cell [rows, columns].
    """
    ideal = np.round(counts[:, None] * shares[None, :], _ROUNDING_DIGITS)
    cells = np.maximum(np.floor(ideal).astype(np.int64), least)
    _take_back(cells, cells.sum(axis=1) - counts, least)
    left = counts - cells.sum(axis=1)
    wanted = apportion(int(counts.sum()), shares) - cells.sum(axis=0)
    remainders = ideal - cells
    for flat in np.argsort(-remainders, axis=None, kind="stable"):
        row, column = divmod(int(flat), shares.size)
        if left[row] > 0 and wanted[column] > 0:
            _give(cells, left, wanted, row, column)
    for row in np.flatnonzero(left > 0):
        while left[row] > 0:
            _give(cells, left, wanted, int(row), int(np.argmax(wanted)))
    return cells


def _give(
    cells: NDArray[np.int64],
    left: NDArray[np.int64],
    wanted: NDArray[np.int64],
    row: int,
    column: int,
) -> None:
    cells[row, column] += 1
    left[row] -= 1
    wanted[column] -= 1


def _take_back(
    cells: NDArray[np.int64], excess: NDArray[np.int64], least: NDArray[np.int64]
) -> None:
    """Where ``least`` made a row too long, shorten its most plentiful cells."""
    for row in np.flatnonzero(excess > 0):
        for _ in range(int(excess[row])):
            cells[row, np.argmax(cells[row] - least[row])] -= 1


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


def stream_key(stream: str, seed: int) -> int:
    """Return the 128-bit key of a named random stream.

    Two streams share nothing unless both name and seed agree, since the key is the head of
    SHA-256 over the two.
    """
    digest = hashlib.sha256(f"ncgnn/{stream}/{seed}".encode()).digest()
    return int.from_bytes(digest[:16], "little")


def random_words(stream: str, seed: int, count: int) -> NDArray[np.uint64]:
    """Return the first ``count`` words of a named stream (Philox 4x64 with counter 0)."""
    return np.asarray(np.random.Philox(key=stream_key(stream, seed)).random_raw(count))


def shuffled(nodes: NDArray[np.int64], num_nodes: int, stream: str, seed: int) -> NDArray[np.int64]:
    """Put some of the nodes 0 … ``num_nodes`` - 1 in a random order.

    Every node of the graph owns one word of the stream, whether it takes part or not: leaving a
    node out does not change the order of the others.
    """
    words = random_words(stream, seed, num_nodes)[nodes]
    return nodes[np.argsort(words, kind="stable")]


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


def ships(request: SplitRequest, name: str) -> bool:
    """Tell whether the graph came with the splits of that name, which then must be complete."""
    found = [key for key in SHIPPED_SPLITS[name] if key in request.shipped]
    missing = [key for key in SHIPPED_SPLITS[name] if key not in request.shipped]
    if found and missing:
        raise InputError(
            f"the graph ships {', '.join(found)} but not {', '.join(missing)}, "
            f"so its '{name}' split is incomplete."
        )
    return bool(found)


def shipped_indices(request: SplitRequest, name: str) -> Parts:
    """Take the one split that came as index arrays, the same for every seed."""
    return _labelled_parts(request, [_indices(request, key) for key in SHIPPED_SPLITS[name]])


def shipped_masks(request: SplitRequest, name: str) -> Parts:
    """Take variant seed mod V of the V masks that came with the graph."""
    masks = [_masks(request, key) for key in SHIPPED_SPLITS[name]]
    variants = {mask.shape[0] for mask in masks}
    if len(variants) > 1:
        raise InputError(
            f"{', '.join(SHIPPED_SPLITS[name])} must have the same number of variants, "
            f"but they have {', '.join(str(mask.shape[0]) for mask in masks)}."
        )
    variant = request.seed % variants.pop()
    return _labelled_parts(request, [np.flatnonzero(mask[variant]) for mask in masks])


def _indices(request: SplitRequest, key: str) -> NDArray[np.int64]:
    nodes = as_array(request.shipped[key], key)
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise InputError(
            f"{key} must be one row of node indices, "
            f"but it is {nodes.dtype} of shape {nodes.shape}."
        )
    if nodes.size and not 0 <= int(nodes.min()) <= int(nodes.max()) < request.labels.size:
        raise InputError(f"{key} holds nodes outside 0 … {request.labels.size - 1}.")
    return nodes.astype(np.int64)


def _masks(request: SplitRequest, key: str) -> NDArray[np.bool_]:
    masks: NDArray[Any] = np.atleast_2d(as_array(request.shipped[key], key))
    if masks.ndim != 2 or masks.shape[1] != request.labels.size or not masks.shape[0]:
        raise InputError(
            f"{key} must be masks of shape [variants, {request.labels.size}], "
            f"but its shape is {masks.shape}."
        )
    if masks.dtype != np.bool_ and not np.isin(masks, (0, 1)).all():
        raise InputError(f"{key} must be boolean masks, but it holds {masks.dtype} values.")
    return masks.astype(np.bool_)


def _labelled_parts(request: SplitRequest, parts: list[NDArray[np.int64]]) -> Parts:
    train, val, test = (part[request.labels[part] >= 0] for part in parts)
    return Parts("shipped", train, val, test)


_DRAWN = ("stratified", "paper", "uniform", "planetoid")


@dataclass(frozen=True)
class Family:
    """A rule that makes splits.

    Attributes:
        make: Turns a request into the three parts.
        summary: One line for people.
        takes_fractions: Whether the sizes of the parts may be chosen.
    """

    make: Callable[[SplitRequest], Parts]
    summary: str
    takes_fractions: bool = False


def _published(request: SplitRequest) -> Parts:
    if ships(request, "published"):
        return shipped_masks(request, "published")
    others = [name for name in ("planetoid", "uniform") if ships(request, name)]
    also = f"it ships {' and '.join(map(repr, others))}, and " if others else ""
    drawn = [name for name in _DRAWN if name not in others and _can_be_made(request, name)]
    raise InputError(
        f"this graph ships no published masks ({', '.join(SHIPPED_SPLITS['published'])}); "
        f"{also}families {', '.join(map(repr, drawn))} can be drawn on it."
    )


def _can_be_made(request: SplitRequest, name: str) -> bool:
    try:
        return FAMILIES[name].make(replace(request, family=name)).train.size > 0
    except InputError:
        return False


def _planetoid(request: SplitRequest) -> Parts:
    if ships(request, "planetoid"):
        return shipped_indices(request, "planetoid")
    return draw_planetoid(request)


def _uniform(request: SplitRequest) -> Parts:
    if ships(request, "uniform"):
        return shipped_indices(request, "uniform")
    return draw_uniform(request)


FAMILIES: dict[str, Family] = {
    "paper": Family(draw_paper, "the same number of training nodes from every class"),
    "stratified": Family(draw_stratified, "60/20/20 within every class", takes_fractions=True),
    "published": Family(_published, "the masks that the graph's authors publish"),
    "planetoid": Family(_planetoid, "20 per class to train on, 500 validation, 1000 test"),
    "uniform": Family(_uniform, "60/20/20 without regard to class", takes_fractions=True),
}


def split_families() -> dict[str, str]:
    """Return the names that :func:`make_split` knows, each with one line on what it does."""
    return {name: family.summary for name, family in FAMILIES.items()}


def make_split(
    labels: ArrayLike | LabelledGraph,
    family: str = "stratified",
    seed: int = 0,
    *,
    num_classes: int | None = None,
    shipped: Mapping[str, NDArray[Any]] | None = None,
    fractions: tuple[float, float, float] = DEFAULT_FRACTIONS,
    warn: bool = True,
) -> Split:
    """Make a split of the labelled nodes of a graph.

    The result depends on nothing but the arguments: it is the same on every platform and with
    every version of numpy, and families draw from independent streams.

    Args:
        labels: Class per node with -1 for an unlabelled node, a PyG ``Data``, or a graph (anything
            with ``labels``, ``num_classes`` and ``shipped_splits``). Unlabelled nodes are in no
            part.
        family: One of :func:`split_families`:

            * ``stratified``: ``fractions`` within every class.
            * ``paper``: train takes round(0.6·n/C) nodes of every class; of the rest, shuffled,
              round(0.2·n) are validation and the remainder is test.
            * ``published``: the masks that ship with the graph, variant seed mod their number.
            * ``planetoid``: the shipped split, whatever the seed; where there is none, 20 nodes
              per class, 500 validation and 1000 test nodes are drawn.
            * ``uniform``: the shipped split, whatever the seed; where there is none, ``fractions``
              are drawn without regard to class.
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
    rule = _family(family)
    if hasattr(labels, "edge_index") and not isinstance(labels, LabelledGraph):
        labels = as_graph(labels)
    if isinstance(labels, LabelledGraph) and shipped is None:
        shipped = labels.shipped_splits
    classes, num_classes = checked_labels(labels, num_classes)
    request = SplitRequest(
        family, classes, num_classes, _seed(seed), shipped or {}, _shares(fractions)
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
            f"the '{family}' split of {request.labelled.size} labelled nodes in {num_classes} "
            "classes has no training node; family 'stratified' splits graphs of any size."
        )
    split = Split(family, parts.origin, request.seed, parts.train, parts.val, parts.test)
    if warn:
        _warn_about_unseen_classes(split, classes, num_classes)
    return split


def _family(name: str) -> Family:
    if name == "custom":
        raise InputError("a custom split is made by custom_split(train, val, test, labels=...).")
    if name not in FAMILIES:
        raise UnknownNameError("split family", name, list(FAMILIES))
    return FAMILIES[name]


def _seed(seed: int) -> int:
    try:
        value = index(seed)
    except TypeError as error:
        raise InputError(f"seed must be an integer, not {seed!r}.") from error
    if value < 0:
        raise InputError(f"seed must not be negative, but it is {value}.")
    return value


def _shares(fractions: tuple[float, float, float]) -> NDArray[np.float64]:
    shares = check_shares(fractions, "fractions")
    if shares.size != 3 or not shares[0]:
        raise InputError(f"fractions must be three shares, the first above 0: {shares.tolist()}.")
    return shares


def _warn_about_unseen_classes(split: Split, labels: NDArray[np.int64], num_classes: int) -> None:
    unseen = never_evaluated(split, labels, num_classes)
    if unseen:
        names = ", ".join(map(str, unseen[:10])) + (" …" if len(unseen) > 10 else "")
        warnings.warn(
            f"the '{split.family}' split has {len(unseen)} of {num_classes} classes in neither "
            f"validation nor test ({names}): no accuracy on it says anything about them.",
            NcgnnWarning,
            stacklevel=3,
        )
