"""What a block-model graph is asked to be: checked, and worked out per type of node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncgnn.data.splits._allocation import allocate, apportion, checked_shares
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Plan:
    """The law of the edges. A node's type is its class and group: class · G + group.

    Attributes:
        classes: Number of classes C.
        groups: Number of groups G.
        type_starts: Node positions by type, int64 [T + 1]: a class is a run of types.
        cumulative: Row t holds, for each class, the probability that a node of type t draws its
            neighbour from that class or an earlier one, float64 [T, C].
        probability: Entry (a, b), a ≤ b: probability that one draw ties two different nodes of
            types a and b, float64 [T, T].
        capacity: Entry (a, b), a ≤ b: how many such pairs there are, int64 [T, T].
    """

    classes: int
    groups: int
    type_starts: NDArray[np.int64]
    cumulative: NDArray[np.float64]
    probability: NDArray[np.float64]
    capacity: NDArray[np.int64]

    @property
    def class_starts(self) -> NDArray[np.int64]:
        """Node positions by class, int64 [C + 1]."""
        return self.type_starts[:: self.groups].copy()

    @property
    def reachable_pairs(self) -> int:
        """How many different edges the draws can ever produce."""
        return int(self.capacity[self.probability > 0].sum())


def make_plan(
    nodes: int,
    classes: int,
    groups: Sequence[tuple[float, float | ArrayLike]],
    class_shares: Sequence[float] | None,
) -> Plan:
    """Work out sizes and probabilities.

    Raises:
        InputError: Shares or preferences that make no sense, or a class that is wanted as a
            neighbour but has no node.
    """
    if nodes < 1 or classes < 1:
        raise InputError(f"nodes and classes must be ≥ 1, but they are {nodes} and {classes}.")
    if not groups:
        raise InputError("groups must name at least one (share, homophily).")
    group_shares = checked_shares([share for share, _ in groups], "shares of the groups")
    shares = np.full(classes, 1 / classes)
    if class_shares is not None:
        shares = checked_shares(class_shares, "class_shares")
        if shares.size != classes:
            raise InputError(f"class_shares has {shares.size} entries for {classes} classes.")
    counts = apportion(nodes, shares)
    no_minimum = np.zeros((classes, len(groups)), dtype=np.int64)
    sizes = allocate(counts, group_shares, no_minimum)
    # Type class · G + group prefers what its group prefers.
    preferences = np.stack([preference_matrix(wish, classes) for _, wish in groups], axis=1)
    preferences = preferences.reshape(-1, classes)
    _check_wanted_classes(preferences[sizes.ravel() > 0], counts)
    return Plan(
        classes=classes,
        groups=len(groups),
        type_starts=np.concatenate([[0], np.cumsum(sizes)]),
        cumulative=_cumulative(preferences),
        probability=_pair_probability(sizes, counts, preferences),
        capacity=_pair_capacity(sizes.ravel()),
    )


def preference_matrix(wish: float | ArrayLike, classes: int) -> NDArray[np.float64]:
    """Return P [C, C]: row c says from which class a node of class c draws its neighbours.

    A number h puts h on the diagonal and (1 - h) / (C - 1) elsewhere; a matrix stands for itself.
    """
    matrix = np.array(wish, dtype=np.float64)
    if matrix.ndim == 0:
        homophily = float(matrix)
        if not 0 <= homophily <= 1:
            raise InputError(f"homophily must be within 0 … 1, but it is {homophily}.")
        if classes == 1 and homophily != 1:
            raise InputError("with one class, homophily can only be 1.")
        matrix = np.full((classes, classes), (1 - homophily) / max(classes - 1, 1))
        np.fill_diagonal(matrix, homophily)
    if matrix.shape != (classes, classes):
        raise InputError(
            f"a homophily matrix must have shape ({classes}, {classes}), not {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InputError("a homophily matrix must be finite and without negative entries.")
    sums = matrix.sum(axis=1, keepdims=True)
    if (np.abs(sums - 1) > 1e-9).any():
        raise InputError(f"rows of a homophily matrix must sum to 1, not {sums.ravel().tolist()}.")
    # Smaller ones would vanish in products with them.
    matrix[matrix < 1e-30] = 0.0
    return matrix / sums


def _check_wanted_classes(preferences: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
    wanted_but_empty = np.flatnonzero((preferences > 0).any(axis=0) & (counts == 0))
    if wanted_but_empty.size:
        raise InputError(
            f"class {wanted_but_empty[0]} is wanted as a neighbour but has no node; "
            "ask for more nodes, fewer classes or other class_shares."
        )


def _cumulative(preferences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum up each row so that the first entry above a uniform number names the class drawn."""
    cumulative = np.cumsum(preferences, axis=1)
    # Rounding must not leave room above the last class that can be drawn.
    cumulative[cumulative >= cumulative[:, -1:]] = 1.0
    return cumulative


def _pair_probability(
    sizes: NDArray[np.int64], counts: NDArray[np.int64], preferences: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Probability that a draw ties two different nodes of types a ≤ b.

    A draw goes from a node of type a to one of type b with probability
    n_a / n · P_a[class of b] · n_b / n_{class of b}, and a pair may be drawn from either end.
    """
    groups = sizes.shape[1]
    flat = sizes.ravel().astype(np.float64)
    share_in_class = flat / np.repeat(np.maximum(counts, 1), groups)
    directed = flat[:, None] / flat.sum() * np.repeat(preferences, groups, axis=1) * share_in_class
    both = np.triu(directed + directed.T, 1)
    no_loops = np.maximum(flat - 1, 0) / np.maximum(flat, 1)
    return both + np.diag(np.diag(directed) * no_loops)


def _pair_capacity(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the pairs of different nodes of types a ≤ b."""
    return np.triu(np.outer(sizes, sizes), 1) + np.diag(sizes * (sizes - 1) // 2)
