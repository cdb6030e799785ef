"""Making the split of a family for a seed."""

from __future__ import annotations

import warnings
from operator import index
from typing import TYPE_CHECKING, Any

from ncgnn.data.splits._allocation import checked_shares
from ncgnn.data.splits._families import FAMILIES
from ncgnn.data.splits._labels import LabelledGraph, checked_labels
from ncgnn.data.splits._report import never_evaluated
from ncgnn.data.splits._request import DEFAULT_FRACTIONS, SplitRequest
from ncgnn.data.splits._split import Split
from ncgnn.errors import InputError, NcgnnWarning, UnknownNameError
from ncgnn.graph import as_graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.data.splits._families import Family


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
    shares = checked_shares(fractions, "fractions")
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
