"""Random graphs whose homophily is known: a contextual stochastic block model."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._compile import even_blocks, over_blocks
from ncgnn.data._csbm_edges import draw_edges
from ncgnn.data._csbm_plan import make_plan
from ncgnn.data._csbm_random import key_of, noisy_rows, permutation, unit_rows
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.data._csbm_plan import Plan

DEFAULT_HOMOPHILY = 0.8


@dataclass(frozen=True, eq=False)
class CsbmArrays:
    """An undirected graph without self-loops and duplicates, as neighbour lists.

    Attributes:
        indptr: The neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``; int64 [n + 1].
        indices: Neighbours, sorted within each node, every edge in both directions; int32 [2m],
            or int64 where there are too many nodes for that.
        labels: Class per node, int64 [n].
        groups: Group per node, int32 [n].
        features: Node features float32 [n, d], or None.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    labels: NDArray[np.int64]
    groups: NDArray[np.int32]
    features: NDArray[np.float32] | None

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return self.labels.size

    @property
    def num_edges(self) -> int:
        """Number of undirected edges m."""
        return self.indices.size // 2


def csbm(
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
) -> CsbmArrays:
    r"""Draw a graph from a contextual stochastic block model.

    After Deshpande et al., "Contextual Stochastic Block Models"
    (https://arxiv.org/abs/1807.09596), with a fixed number of edges, any preferences between
    classes, and groups of nodes that differ in them.

    **Edges.** A draw picks an end :math:`i` uniformly among all nodes, the class :math:`d` of its
    neighbour from row :math:`c_i` of the preference matrix :math:`P^{(g_i)}` of its group, and the
    other end :math:`j` uniformly in class :math:`d`. The graph is made of the first ``edges``
    distinct pairs :math:`i \ne j` of an endless sequence of such draws.

    **What a node's neighbours look like.** A node starts m/n edges on average and those follow its
    own row. It also receives edges, as an end that others have picked whatever its own group, and
    those follow the wishes of the others. In a sparse graph with class shares :math:`\pi_c` and
    :math:`\bar P = \sum_g \mathrm{share}_g P^{(g)}`, the expected part of class d among the
    neighbours of the nodes of class c and group g is

    .. math:: \frac{\pi_c P^{(g)}_{cd} + \pi_d \bar P_{dc}}
                   {\pi_c + \sum_b \pi_b \bar P_{bc}}.

    With one group, equal classes and a symmetric matrix this is :math:`P_{cd}` itself. With groups
    of homophily :math:`h_g` and equal classes, the nodes of group g end up with
    :math:`(h_g + \bar h) / 2` where :math:`\bar h` is the mean over all nodes.

    **Features.** The mean of a class is a random direction of length ``feature_signal``; a node's
    features are the mean of its class plus standard normal noise.

    The result depends on the arguments only, not on the number of threads.

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

    Raises:
        InputError: Arguments that cannot be used, or more edges than there can be.
    """
    if homophily is not None and groups is not None:
        raise InputError("homophily and groups exclude each other; each group has a homophily.")
    if groups is None:
        groups = [(1.0, DEFAULT_HOMOPHILY if homophily is None else homophily)]
    nodes, edges = _whole("nodes", nodes), _whole("edges", edges)
    classes, features = _whole("classes", classes), _whole("features", features)
    seed = _whole("seed", seed)
    if not np.isfinite(feature_signal):
        raise InputError(f"feature_signal must be a finite number, not {feature_signal}.")
    plan = make_plan(nodes, classes, groups, class_shares)
    _check_room(plan, nodes, edges)
    types, members = _types(plan, nodes, seed)
    indptr, indices = draw_edges(plan, edges, seed, types, members)
    labels = types.astype(np.int64) // plan.groups
    return CsbmArrays(
        indptr=indptr,
        indices=indices,
        labels=labels,
        groups=types % np.int32(plan.groups),
        features=_features(labels, classes, features, feature_signal, seed) if features else None,
    )


def _types(
    plan: Plan, nodes: int, seed: int
) -> tuple[NDArray[np.int32], NDArray[np.signedinteger[Any]]]:
    """Deal the types out at random: the type of each node, and the nodes by type."""
    members = np.empty(nodes, dtype=np.int32 if nodes <= np.iinfo(np.int32).max else np.int64)
    permutation(key_of("types", seed), members)
    types = np.empty(nodes, dtype=np.int32)
    sizes = np.diff(plan.type_starts)
    types[members] = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
    return types, members


def _features(
    labels: NDArray[np.int64], classes: int, features: int, signal: float, seed: int
) -> NDArray[np.float32]:
    means = np.empty((classes, features), dtype=np.float64)
    unit_rows(key_of("means", seed), means)
    rows = np.empty((labels.size, features), dtype=np.float32)
    key, scaled = key_of("noise", seed), signal * means
    over_blocks(
        even_blocks(labels.size, max(1, (1 << 18) // features)),
        lambda begin, end: noisy_rows(key, labels, scaled, rows, begin, end),
    )
    return rows


def _whole(name: str, value: int) -> int:
    try:
        whole = index(value)
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, not {value!r}.") from error
    if whole < 0:
        raise InputError(f"{name} must not be negative, but it is {whole}.")
    return whole


def _check_room(plan: Plan, nodes: int, edges: int) -> None:
    pairs = nodes * (nodes - 1) // 2
    if edges > pairs:
        raise InputError(f"{nodes} nodes have room for {pairs} edges, but {edges} are wanted.")
    if edges > plan.reachable_pairs:
        raise InputError(
            f"the homophily allows only {plan.reachable_pairs} different edges, but {edges} are "
            "wanted; ask for fewer edges or let more classes be neighbours."
        )
