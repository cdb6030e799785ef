"""Random graphs whose homophily is known: a contextual stochastic block model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncgnn.data.draws import allocate, apportion, check_shares, stream_key
from ncgnn.errors import InputError
from ncgnn.graph import Graph, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

DEFAULT_HOMOPHILY = 0.8


def generate(
    nodes: int,
    edges: int,
    *,
    classes: int = 2,
    homophily: float | ArrayLike | None = None,
    groups: Sequence[tuple[float, float | ArrayLike]] | None = None,
    features: int = 0,
    feature_signal: float = 1.0,
    class_shares: Sequence[float] | None = None,
    seed: int = 0,
    name: str = "csbm",
) -> Graph:
    r"""Draw a graph from a contextual stochastic block model.

    After Deshpande et al., "Contextual Stochastic Block Models"
    (https://arxiv.org/abs/1807.09596), with a fixed number of edges, any preferences between
    classes, and groups of nodes that differ in them.

    **Edges.** A draw picks an end :math:`i` uniformly among all nodes, the class :math:`d` of its
    neighbor from row :math:`c_i` of the preference matrix :math:`P^{(g_i)}` of its group, and the
    other end :math:`j` uniformly in class :math:`d`. The graph is made of the first ``edges``
    distinct pairs :math:`i \ne j` of an endless sequence of such draws.

    **What a node's neighbors look like.** A node starts m/n edges on average and those follow its
    own row. It also receives edges, as an end that others have picked whatever its own group, and
    those follow the wishes of the others. In a sparse graph with class shares :math:`\pi_c` and
    :math:`\bar P = \sum_g \mathrm{share}_g P^{(g)}`, the expected part of class d among the
    neighbors of the nodes of class c and group g is

    .. math:: \frac{\pi_c P^{(g)}_{cd} + \pi_d \bar P_{dc}}
                   {\pi_c + \sum_b \pi_b \bar P_{bc}}.

    With one group, equal classes and a symmetric matrix this is :math:`P_{cd}` itself. With groups
    of homophily :math:`h_g` and equal classes, the nodes of group g end up with
    :math:`(h_g + \bar h) / 2` where :math:`\bar h` is the mean over all nodes.

    **Features.** The mean of a class is a random direction of length ``feature_signal``; a node's
    features are the mean of its class plus standard normal noise.

    The result depends on the arguments (and the release of NumPy) only. Features do not change the
    edges of a seed.

    Args:
        nodes: Number of nodes n.
        edges: Number of undirected edges m, met exactly.
        classes: Number of classes C.
        homophily: A number h for h on the diagonal of P and (1 - h)/(C - 1) elsewhere, or P
            [C, C] with rows that sum to 1; 0.8 if neither this nor ``groups`` is given. Entries
            below 1e-30 count as 0.
        groups: In place of ``homophily``, a sequence of (share, homophily) for groups of nodes;
            every class is divided by the same shares, rounded.
        features: Number of features d; 0 for none.
        feature_signal: Length of the class means.
        class_shares: Shares of the classes [C], rounded to whole nodes; equal if None.
        seed: Seed, not negative.
        name: Name of the graph.

    Raises:
        InputError: Arguments that cannot be used, or more edges than there can be.
    """
    options = {
        "classes": classes,
        "homophily": homophily,
        "groups": groups,
        "features": features,
        "feature_signal": feature_signal,
        "class_shares": class_shares,
        "seed": seed,
    }
    if homophily is not None and groups is not None:
        raise InputError("homophily and groups exclude each other; each group has a homophily.")
    if groups is None:
        groups = [(1.0, DEFAULT_HOMOPHILY if homophily is None else homophily)]
    nodes, classes = (
        whole_number(nodes, "nodes", 1, 2**31 - 1),
        whole_number(classes, "classes", 1, 2**24),
    )
    edges, features = whole_number(edges, "edges"), whole_number(features, "features")
    seed = whole_number(seed, "seed")
    if not np.isfinite(feature_signal):
        raise InputError(f"feature_signal must be a finite number; got {feature_signal}.")
    law = EdgeLaw.of(nodes, classes, groups, class_shares)
    law.check_room(edges)
    types, members = deal_types(law, seed)
    labels = (types // len(groups)).astype(np.int64)
    indptr, indices = _neighbor_lists(*_draw_edges(law, edges, members, seed), nodes)
    for array in (indptr, indices, labels):
        array.flags.writeable = False  # so that the graph shares them instead of copying
    given = {key: value for key, value in options.items() if value is not None}
    settings = ", ".join(f"{key}={value!r}" for key, value in sorted(given.items()))
    return Graph.from_csr(
        indptr,
        indices,
        labels=labels,
        features=_draw_features(labels, classes, features, feature_signal, seed),
        num_classes=classes,
        name=name,
        origin=f"generated: csbm(nodes={nodes}, edges={edges}, {settings})",
    )


@dataclass(frozen=True, eq=False)
class EdgeLaw:
    """The law of the edges. A node's type is its class and group: class · G + group.

    Attributes:
        sizes: Nodes per type, int64 [T].
        probability: Entry (a, b), a ≤ b: probability that one draw ties two different nodes of
            types a and b, float64 [T, T].
        capacity: Entry (a, b), a ≤ b: how many such pairs there are, int64 [T, T].
    """

    sizes: NDArray[np.int64]
    probability: NDArray[np.float64]
    capacity: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        nodes: int,
        classes: int,
        groups: Sequence[tuple[float, float | ArrayLike]],
        class_shares: Sequence[float] | None,
    ) -> EdgeLaw:
        """Work out sizes and probabilities.

        A draw goes from a node of type a to one of type b with probability
        n_a / n · P_a[class of b] · n_b / n_{class of b}, and a pair may be drawn from either end.

        Raises:
            InputError: Shares or preferences that make no sense, or a class that should be a
                neighbor but has no node.
        """
        try:
            pairs = [(share, homophily) for share, homophily in groups]
        except (TypeError, ValueError):
            raise InputError(f"groups must be (share, homophily) each; got {groups!r}.") from None
        if not pairs:
            raise InputError("groups must name at least one (share, homophily).")
        group_shares = check_shares([share for share, _ in pairs], "shares of the groups")
        shares = np.full(classes, 1 / classes)
        if class_shares is not None:
            shares = check_shares(class_shares, "class_shares")
            if shares.size != classes:
                raise InputError(f"class_shares has {shares.size} entries for {classes} classes.")
        counts = apportion(nodes, shares)
        no_minimum = np.zeros((classes, len(groups)), dtype=np.int64)
        sizes = allocate(counts, group_shares, no_minimum).ravel()
        preferences = np.stack([_preferences(wish, classes) for _, wish in groups], axis=1)
        preferences = preferences.reshape(-1, classes)
        empty = np.flatnonzero((preferences[sizes > 0] > 0).any(axis=0) & (counts == 0))
        if empty.size:
            raise InputError(
                f"class {empty[0]} should be a neighbor but has no node; "
                "ask for more nodes, fewer classes or other class_shares."
            )
        share_in_class = sizes / np.repeat(np.maximum(counts, 1), len(groups))
        wishes = np.repeat(preferences, len(groups), axis=1) * share_in_class
        directed = sizes[:, None] / nodes * wishes
        no_loops = np.maximum(sizes - 1, 0) / np.maximum(sizes, 1)
        probability = np.triu(directed + directed.T, 1) + np.diag(np.diag(directed) * no_loops)
        capacity = np.triu(np.outer(sizes, sizes), 1) + np.diag(sizes * (sizes - 1) // 2)
        return cls(sizes, probability, capacity)

    def check_room(self, edges: int) -> None:
        """Raise an :class:`InputError` if there are fewer than ``edges`` possible pairs."""
        nodes, possible = int(self.sizes.sum()), int(self.capacity[self.probability > 0].sum())
        pairs = nodes * (nodes - 1) // 2
        if edges > pairs:
            raise InputError(f"edges must be at most {pairs} for {nodes} nodes; got {edges}.")
        if edges > possible:
            raise InputError(
                f"edges must be at most {possible} with this homophily; got {edges}; "
                "ask for fewer edges or let more classes be neighbors."
            )


def _preferences(wish: float | ArrayLike, classes: int) -> NDArray[np.float64]:
    """P [C, C]: row c says from which class a node of class c draws its neighbors."""
    matrix = np.array(wish, dtype=np.float64)
    if matrix.ndim == 0:
        homophily = float(matrix)
        if not 0 <= homophily <= 1:
            raise InputError(f"homophily must be within 0 … 1; got {homophily}.")
        if classes == 1 and homophily != 1:
            raise InputError("with one class, homophily can only be 1.")
        matrix = np.full((classes, classes), (1 - homophily) / max(classes - 1, 1))
        np.fill_diagonal(matrix, homophily)
    if matrix.shape != (classes, classes):
        raise InputError(
            f"a homophily matrix must have shape ({classes}, {classes}); got {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InputError("a homophily matrix must be finite and without negative entries.")
    sums = matrix.sum(axis=1, keepdims=True)
    if (np.abs(sums - 1) > 1e-9).any():
        raise InputError(f"rows of a homophily matrix must sum to 1; got {sums.ravel().tolist()}.")
    # Smaller ones would vanish in products with them.
    matrix[matrix < 1e-30] = 0.0
    return matrix / sums


def deal_types(law: EdgeLaw, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Deal the types out at random: the type of each node, and the nodes ordered by type."""
    nodes = int(law.sizes.sum())
    members = _random("types", seed).permutation(np.arange(nodes, dtype=np.int32))
    types = np.empty(nodes, dtype=np.int32)
    types[members] = np.repeat(np.arange(law.sizes.size, dtype=np.int32), law.sizes)
    return types, members


def _draw_edges(
    law: EdgeLaw, edges: int, members: NDArray[np.int32], seed: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Both ends of the first ``edges`` distinct pairs of an endless sequence of draws.

    All pairs of two types are equally likely: given how many of them are edges, these are a
    uniformly random subset.
    """
    starts = np.concatenate([[0], np.cumsum(law.sizes)])
    random = _random("edges", seed)
    counts = _count_by_types(law, edges, random)
    ends = np.empty((2, edges), dtype=np.int32)
    done = 0
    for a, b in np.argwhere(counts):
        chosen = _draw_subset(int(law.capacity[a, b]), int(counts[a, b]), random)
        first, second = _pairs(chosen, int(law.sizes[a]), None if a == b else int(law.sizes[b]))
        part = slice(done, done := done + chosen.size)
        ends[0, part] = members[starts[a] : starts[a + 1]][first]
        ends[1, part] = members[starts[b] : starts[b + 1]][second]
    return ends[0], ends[1]


def _count_by_types(law: EdgeLaw, edges: int, random: np.random.Generator) -> NDArray[np.int64]:
    """How many of the first ``edges`` distinct pairs tie types a and b, int64 [T, T].

    Let draws arrive as a Poisson process. Then every pair waits for its first arrival an
    exponential time of its own, at the rate p(a, b) / capacity(a, b), so that the pairs that
    arrive within some time are binomially many, and time can be let pass in steps until there are
    ``edges`` of them. Of the step that has too many, the latest ones are dropped.
    """
    rate = law.probability / np.maximum(law.capacity, 1)
    free = np.where(rate > 0, law.capacity, 0)
    counts = np.zeros_like(free)
    while missing := edges - int(counts.sum()):
        # A step that most likely ends a little early leaves few pairs to compare by time.
        goal = missing - 4 * missing**0.5 if missing > 10_000 else missing
        passed = -np.expm1(-rate * _time_until(goal, rate, free - counts))
        arrived = random.binomial(free - counts, passed)
        if int(arrived.sum()) > missing:
            block = np.repeat(np.arange(free.size), arrived.ravel())
            share = random.random(block.size) * passed.ravel()[block]
            times = -np.log1p(-share) / rate.ravel()[block]
            first = block[np.argpartition(times, missing - 1)[:missing]]
            arrived = np.bincount(first, minlength=free.size).reshape(free.shape)
        counts += arrived
    return counts


def _time_until(goal: float, rate: NDArray[np.float64], free: NDArray[np.int64]) -> float:
    """The time after which ``goal`` of the free pairs are expected to have arrived."""
    if goal >= free.sum():
        return float(np.finfo(np.float64).max)

    def expected(time: float) -> float:
        return float((free * -np.expm1(-rate * time)).sum())

    low, high = 0.0, 1.0
    while expected(high) < goal:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) < goal else (low, middle)
    return high


def _draw_subset(bound: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """``count`` different numbers below ``bound``, all subsets equally likely, in rising order."""
    if 2 * count > bound:
        return np.delete(np.arange(bound), _draw_subset(bound, bound - count, random))
    chosen = np.empty(0, dtype=np.int64)
    while missing := count - chosen.size:
        drawn = (random.random(missing) * bound).astype(np.int64)
        drawn.sort()
        drawn = drawn[np.diff(drawn, prepend=-1) > 0]
        if chosen.size:
            place = np.searchsorted(chosen, drawn)
            new = chosen[np.minimum(place, chosen.size - 1)] != drawn
            drawn = np.insert(chosen, place[new], drawn[new])
        chosen = drawn
    return chosen


def _pairs(
    numbers: NDArray[np.int64], size: int, other_size: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair number k of all pairs of two sets, or (without ``other_size``) within one set.

    Within an odd number q of nodes, node r is paired with the (q - 1) / 2 nodes after it, round
    the circle; a last node that makes the number even is paired with all others.
    """
    if other_size is not None:
        first = numbers // other_size
        return first, numbers - first * other_size
    circle = size if size % 2 else size - 1
    first = numbers // (size // 2)
    step = numbers - first * (size // 2) + 1
    second = first + step
    second[second >= circle] -= circle
    if circle != size:
        second[step == size // 2] = size - 1
    return first, second


def _neighbor_lists(
    first: NDArray[np.int32], second: NDArray[np.int32], nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Row starts and sorted neighbors, each edge in both directions."""
    entries = np.concatenate([first, second]).astype(np.int64)
    entries <<= 32
    entries[: first.size] |= second
    entries[first.size :] |= first
    entries.sort()
    indptr = np.searchsorted(entries, np.arange(nodes + 1) << 32)
    return indptr, entries.astype(np.int32)  # the lower half of every number


def _draw_features(
    labels: NDArray[np.int64], classes: int, features: int, signal: float, seed: int
) -> NDArray[np.float32] | None:
    if not features:
        return None
    means = _random("means", seed).standard_normal((classes, features))
    means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
    rows = _random("noise", seed).standard_normal((labels.size, features), dtype=np.float32)
    rows += means.astype(np.float32)[labels]
    rows.flags.writeable = False
    return rows


def _random(stream: str, seed: int) -> np.random.Generator:
    """The generator of a named stream."""
    return np.random.Generator(np.random.SFC64(stream_key(f"csbm/{stream}", seed)))
