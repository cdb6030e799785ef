"""What the labels around a node say of it: four kinds of nodes, and the most striking of a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ncgnn._numba import even_blocks, over_blocks
from ncgnn.errors import InputError
from ncgnn.graph import check_labels, to_numpy, whole_number
from ncgnn.metrics._kernels import rank_classes
from ncgnn.metrics.homophily import class_pairs
from ncgnn.metrics.neighborhoods import Neighborhoods, label_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.metrics.neighborhoods import LabelCounts, LabeledGraph

Kind = Literal["clear", "mixed", "contrary", "alone"]
#: The kinds of nodes, in the order in which tables and pictures show them.
KINDS: tuple[Kind, ...] = ("clear", "mixed", "contrary", "alone")
#: The place after the last kind: neighbors agree, but nobody knows the node's own class.
UNKNOWN = len(KINDS)
# Two-sided 95 %.
_Z = 1.959964


def node_kinds(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    *,
    predicted: ArrayLike | None = None,
    num_classes: int | None = None,
) -> NDArray[np.str_]:
    """The kind of every node, by the labeled neighbors it has (itself not counted).

    * ``"clear"``: more than half of them are of the node's own class.
    * ``"mixed"``: no class holds more than half of them.
    * ``"contrary"``: more than half of them are of one other class.
    * ``"alone"``: there are none.

    A node without a label is mixed or alone as any other; where most of its neighbors are of one
    class, it is clear or contrary by its predicted class, and ``""`` without a prediction.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: Class per node, -1 = unlabeled; by default the graph's own.
        predicted: Predicted class per node: the own class of nodes without a label. Predictions of
            neighbors are not counted; to count them, put them into ``labels``.
        num_classes: Number of classes; by default the graph's.

    Example:
        >>> import numpy as np, ncgnn
        >>> star = np.array([[1, 2, 3, 0, 0, 0], [0, 0, 0, 1, 2, 3]])
        >>> ncgnn.node_kinds(star, labels=[0, 1, 1, 0]).tolist()
        ['contrary', 'contrary', 'contrary', 'clear']
    """
    given = label_graph(graph, labels, num_classes)
    own = None
    if predicted is not None:
        guesses = check_labels(predicted, given.graph.num_nodes)
        own = np.where(given.labels < 0, guesses, given.labels)
    # Without predictions the node's own label is all that is asked for, which is counted faster.
    counts = Neighborhoods(given.graph).count(
        given.classes, given.num_classes, closed=False, leader=own is not None
    )
    return np.array([*KINDS, ""])[kinds_of(counts, given.labels, own)]


def kinds_of(
    counts: LabelCounts, labels: NDArray[np.int64], own: NDArray[np.int64] | None = None
) -> NDArray[np.int8]:
    """Kinds as places in :data:`KINDS` from counts of open neighborhoods; :data:`UNKNOWN` = none.

    Args:
        counts: With ``same``; with ``leader`` too where ``own`` is given.
        labels: The labels that were counted.
        own: The class of every node where it is not its label, -1 = unknown.
    """
    agreed = 2 * counts.top > counts.size
    if own is None:
        own, clear = labels, 2 * counts.same > counts.size
    else:
        clear = agreed & (counts.leader == own)
    kinds = np.full(len(labels), KINDS.index("mixed"), dtype=np.int8)
    kinds[agreed] = np.where(own[agreed] < 0, UNKNOWN, KINDS.index("contrary"))
    kinds[clear] = KINDS.index("clear")
    kinds[counts.size == 0] = KINDS.index("alone")
    return kinds


def neighbor_classes(
    graph: GraphLike,
    nodes: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    most: int | None = None,
    num_classes: int | None = None,
) -> list[dict[str, int]]:
    """How many neighbors of some nodes are of which class, the commonest first.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        nodes: Numbers of nodes; ``graph.find`` has those of ids.
        labels: Class per node, -1 = unlabeled; by default the graph's own.
        most: At most so many classes of each node; by default all.
        num_classes: Number of classes; by default the graph's.

    Returns:
        For each node the counts by the names of classes, or by their numbers as text.

    Example:
        >>> import numpy as np, ncgnn
        >>> star = np.array([[1, 2, 3], [0, 0, 0]])
        >>> ncgnn.neighbor_classes(star, [0], labels=[0, 1, 1, 0])
        [{'1': 2, '0': 1}]
    """
    given = label_graph(graph, labels, num_classes)
    chosen = np.atleast_1d(to_numpy(nodes, "nodes"))
    whole = np.issubdtype(chosen.dtype, np.integer) or not chosen.size
    if not whole or chosen.ndim != 1:
        raise InputError(f"nodes must be whole numbers; got {chosen.dtype} {list(chosen.shape)}.")
    if chosen.size and not 0 <= int(chosen.min()) <= int(chosen.max()) < given.graph.num_nodes:
        wrong = int(chosen.min()) if int(chosen.min()) < 0 else int(chosen.max())
        last = given.graph.num_nodes - 1
        raise InputError(f"nodes must be numbers from 0 to {last}; got {wrong}.")
    most = given.num_classes if most is None else whole_number(most, "most", 1)
    found = commonest_classes(given, chosen.astype(np.int64), min(most, given.num_classes))
    return found.by_name(class_names(given.graph, given.num_classes))


def class_names(graph: Graph, num_classes: int | None = None) -> tuple[str, ...]:
    """The names of the classes, or their numbers as text."""
    count = graph.num_classes if num_classes is None else num_classes
    named = graph.class_names
    return named if named and len(named) == count else tuple(str(c) for c in range(count))


class NeighborClasses(NamedTuple):
    """The commonest classes among the neighbors of some nodes.

    Attributes:
        classes: Class numbers, the commonest first, -1 where there are no more, [nodes, most].
        counts: How many neighbors they have, [nodes, most].
        size: How many labeled neighbors a node has, [nodes].
    """

    classes: NDArray[np.int32]
    counts: NDArray[np.int32]
    size: NDArray[np.int64]

    def by_name(self, names: Sequence[str]) -> list[dict[str, int]]:
        """Counts by the names of classes, node by node."""
        classes: list[list[int]] = self.classes.tolist()
        counts: list[list[int]] = self.counts.tolist()
        return [
            {names[c]: k for c, k in zip(*pair, strict=True) if c >= 0}
            for pair in zip(classes, counts, strict=True)
        ]

    def as_texts(self, names: Sequence[str]) -> list[str]:
        """Texts such as "libs 12, python 9, 4 more", node by node."""
        rest = (self.size - self.counts.sum(axis=1)).tolist()
        texts: list[str] = []
        for named, more in zip(self.by_name(names), rest, strict=True):
            parts = [f"{name} {count:,}" for name, count in named.items()]
            texts.append(", ".join(parts + ([f"{more:,} more"] if more else [])))
        return texts


def commonest_classes(given: LabeledGraph, nodes: NDArray[np.int64], most: int) -> NeighborClasses:
    """The ``most`` commonest classes among each node's neighbors, lower numbers first if equal."""
    shape = (len(nodes), most)
    found = NeighborClasses(
        np.full(shape, -1, dtype=np.int32),
        np.zeros(shape, dtype=np.int32),
        np.zeros(len(nodes), dtype=np.int64),
    )
    rows = (nodes, given.graph.indptr, given.graph.indices)
    blocks = even_blocks(len(nodes))
    over_blocks(blocks, rank_classes, *rows, given.classes, given.num_classes, *found)
    return found


class StrikingNode(NamedTuple):
    """A node that stands out among those of its kind.

    Attributes:
        node: Its number.
        evidence: What it is ranked by; see :func:`striking_nodes`.
        share: The share of its commonest class among the labeled neighbors.
        usual: How often a neighbor of a node with this label is of that class, in the whole graph;
            NaN for a node without a label.
        neighbors: All classes among its neighbors by name, the commonest first, with their counts.
    """

    node: int
    evidence: float
    share: float
    usual: float
    neighbors: dict[str, int]


def striking_nodes(
    graph: GraphLike,
    kind: Literal["mixed", "contrary"],
    count: int = 50,
    labels: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
) -> list[StrikingNode]:
    r"""The most mixed or the most contrary nodes, the clearest cases first.

    A share that few neighbors show is little evidence: both kinds are ranked by the lower end of
    Wilson's 95 % interval for a share p among m labeled neighbors,

    .. math:: L(p, m) = \frac{p + z^2/2m - z \sqrt{p(1 - p)/m + z^2/4m^2}}{1 + z^2/m},
        \qquad z = 1.96

    (https://doi.org/10.1080/01621459.1927.10502953). ``"mixed"`` nodes are ranked by L of the share
    of neighbors outside the commonest class. ``"contrary"`` ones by L of the share of the commonest
    class, less the share that this class usually has among the neighbors of nodes with the same
    label: where a class lives among another one anyway, its nodes are no surprise.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        kind: ``"mixed"`` or ``"contrary"``, as :func:`node_kinds` defines them.
        count: How many at most.
        labels: Class per node, -1 = unlabeled; by default the graph's own.
        num_classes: Number of classes; by default the graph's.
    """
    if kind not in ("mixed", "contrary"):
        raise InputError(f"kind must be 'mixed' or 'contrary'; got '{kind}'.")
    given = label_graph(graph, labels, num_classes)
    around = Neighborhoods(given.graph)
    counts = around.count(given.classes, given.num_classes, closed=False, leader=True)
    return striking_of(given, counts, class_pairs(given)[0], kind, whole_number(count, "count", 1))


def striking_of(
    given: LabeledGraph,
    counts: LabelCounts,
    pairs: NDArray[np.int64],
    kind: Literal["mixed", "contrary"],
    count: int,
) -> list[StrikingNode]:
    """The same from counts of open neighborhoods and from the edges between classes."""
    nodes = np.flatnonzero(kinds_of(counts, given.labels) == KINDS.index(kind))
    size, top = counts.size[nodes].astype(np.int64), counts.top[nodes].astype(np.int64)
    label, leader = given.labels[nodes], counts.leader[nodes]
    ends = pairs.sum(axis=1)
    usual = np.where(label < 0, np.nan, pairs[label, leader] / np.maximum(ends[label], 1))
    evidence = lowest_share(size - top, size)
    if kind == "contrary":
        evidence = lowest_share(top, size) - usual
    order = np.lexsort((nodes, -size, -evidence))[:count]
    chosen = nodes[order]
    names = class_names(given.graph, given.num_classes)
    around = commonest_classes(given, chosen, given.num_classes).by_name(names)
    columns = (chosen, evidence[order], (top / size)[order], usual[order])
    rows = zip(*(column.tolist() for column in columns), around, strict=True)
    return [StrikingNode(*row) for row in rows]


def lowest_share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Lower end of Wilson's interval for a share; ``whole`` is positive."""
    share, spread = part / whole, _Z**2 / whole
    margin = _Z * np.sqrt(share * (1 - share) / whole + spread / (4 * whole))
    return (share + spread / 2 - margin) / (1 + spread)
