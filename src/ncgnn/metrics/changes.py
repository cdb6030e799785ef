"""What has changed between two states of a graph, for example of two nights."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.graph import FORWARD, as_graph
from ncgnn.metrics.confusion import neighborhood_confusion
from ncgnn.metrics.drift import Drift, column_drifts, is_notable, stability_index
from ncgnn.metrics.kinds import KINDS, class_names, node_kinds
from ncgnn.metrics.neighborhoods import mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ncgnn.graph import Graph, GraphLike

# From here on a distance of two distributions of NC, and a share of nodes of a kind, is notable.
_LEAST_DISTANCE, _LEAST_SHARE = 0.05, 0.02
# Kolmogorov and Smirnov's limit at 99 %, for one sample of each size.
_KS = 1.628
# Two-sided 99 %.
_Z = 2.575829
# So many examples are named.
_EXAMPLES = 5


@dataclass(frozen=True)
class Counts:
    """How many there were, and what became of them.

    Attributes:
        before: How many there were.
        after: How many there are.
        added: How many are new.
        removed: How many are gone.
    """

    before: int
    after: int
    added: int
    removed: int

    @property
    def kept(self) -> int:
        """How many are in both."""
        return self.before - self.removed


@dataclass(frozen=True)
class ConfusionChange:
    """Neighborhood Confusion before and after, on one scale.

    Attributes:
        before: Its mean before.
        after: Its mean after.
        distance: The largest difference of the two distribution functions (Kolmogorov, Smirnov).
        chance: What chance makes of the distance at most, at 99 %.
        kept: Mean change of nodes that stayed.
        shares_before: Share of the nodes of each kind before; ``unknown`` are those that have none
            for want of labels, where there are some.
        shares_after: The same after.
        moved: Nodes that stayed, by kind before and after, where the two differ.
    """

    before: float
    after: float
    distance: float
    chance: float
    kept: float
    shares_before: dict[str, float]
    shares_after: dict[str, float]
    moved: dict[tuple[str, str], int]

    @property
    def is_notable(self) -> bool:
        """Whether NC is distributed otherwise, by much and not by chance."""
        return self.distance >= max(_LEAST_DISTANCE, self.chance)


@dataclass(frozen=True)
class Changes:
    """What has changed from one graph to another.

    Attributes:
        names: What the two graphs are called.
        by_id: Whether nodes were matched by their ids; otherwise by their numbers.
        nodes: Nodes.
        edges: Edges, each once.
        edges_among_kept: New edges between nodes that were there before.
        features: Features, by name.
        new_features: The first of those that are new.
        labels: Labels of nodes that stayed: those that were changed, added and removed.
        relabeled: How often which class became which other one, the commonest first.
        classes: Labeled nodes per class, before and after.
        class_index: Population stability index of the classes, and what chance makes of it.
        columns: Drift of columns; of graphs without tables only features that have moved.
        confusion: NC and kinds of nodes; None where a graph has no labels.
    """

    names: tuple[str, str]
    by_id: bool
    nodes: Counts
    edges: Counts
    edges_among_kept: int
    features: Counts
    new_features: tuple[str, ...]
    labels: dict[str, int]
    relabeled: dict[tuple[str, str], int]
    classes: dict[str, tuple[int, int]]
    class_index: tuple[float, float]
    columns: tuple[Drift, ...]
    confusion: ConfusionChange | None

    @property
    def new_classes(self) -> list[str]:
        """Classes that had no node."""
        return [name for name, (before, after) in self.classes.items() if after and not before]

    @property
    def gone_classes(self) -> list[str]:
        """Classes that have no node any more."""
        return [name for name, (before, after) in self.classes.items() if before and not after]

    @property
    def notable(self) -> list[Drift]:
        """Columns that have drifted by much, and not by chance; the furthest first."""
        found = [one for one in self.columns if one.is_notable]
        return sorted(found, key=lambda one: -max(one.index or 0, abs(one.shift or 0) / 10))

    def to_json(self) -> dict[str, Any]:
        """Plain values; pairs of names are joined by an arrow."""
        change = self.confusion
        return {
            "before": self.names[0],
            "after": self.names[1],
            "matched_by": "id" if self.by_id else "number",
            "nodes": _plain_counts(self.nodes),
            "edges": _plain_counts(self.edges) | {"added_among_kept": self.edges_among_kept},
            "features": _plain_counts(self.features) | {"examples": list(self.new_features)},
            "labels": self.labels,
            "relabeled": {f"{a} → {b}": count for (a, b), count in self.relabeled.items()},
            "classes": {name: list(counts) for name, counts in self.classes.items()},
            "new_classes": self.new_classes,
            "gone_classes": self.gone_classes,
            "class_index": dict(zip(("value", "chance"), self.class_index, strict=True)),
            "columns": [one.to_json() for one in self.columns],
            "nc": None
            if change is None
            else {
                "before": change.before,
                "after": change.after,
                "distance": change.distance,
                "chance": change.chance,
                "kept": change.kept,
                "kinds_before": change.shares_before,
                "kinds_after": change.shares_after,
                "moved": {f"{a} → {b}": count for (a, b), count in change.moved.items()},
            },
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """What a person should know, one fact each; what chance explains is not mentioned."""
        told = (self._counts(), self._labels(), self._drifts(), self._confusion(), self._moved())
        return [*self._matching(), *(sentence for part in told for sentence in part)]

    def remarks(self) -> list[str]:
        """Those facts that counts, shares and drifts, shown as tables, do not tell."""
        among = self.edges_among_kept
        said = [f"{among:,} of the new edges are between old nodes."] if among else []
        return [*self._matching(), *said, *self._labels(), *self._moved()]

    def _matching(self) -> Iterator[str]:
        if not self.by_id:
            yield "Nodes have no ids; they are matched by their numbers."

    def _counts(self) -> Iterator[str]:
        nodes, edges = self.nodes, self.edges
        if not (nodes.added or nodes.removed or edges.added or edges.removed):
            yield f"The same {nodes.after:,} nodes and {edges.after:,} edges."
            return
        yield f"{nodes.after:,} nodes: {nodes.added:,} new, {nodes.removed:,} gone."
        among = f" ({self.edges_among_kept:,} between old nodes)" if self.edges_among_kept else ""
        yield f"{edges.after:,} edges: {edges.added:,} new{among}, {edges.removed:,} gone."

    def _labels(self) -> Iterator[str]:
        changed, added, removed = (self.labels[k] for k in ("changed", "added", "removed"))
        if changed or added or removed:
            top = [f"{a} → {b} {n:,}" for (a, b), n in [*self.relabeled.items()][:3]]
            top += ["…"] if len(self.relabeled) > len(top) else []
            listed = f" ({', '.join(top)})" if top else ""
            yield (
                f"Of {self.nodes.kept:,} nodes that stayed, {changed:,} have another label"
                f"{listed}, {added:,} have got one, {removed:,} have lost theirs."
            )
        for what, names in (("new", self.new_classes), ("gone", self.gone_classes)):
            if names:
                yield f"Classes that are {what}: {_list(names)}."
        if is_notable(*self.class_index):
            yield f"The shares of the classes differ (stability index {self.class_index[0]:.2f})."

    def _drifts(self) -> Iterator[str]:
        if self.features.added or self.features.removed:
            yield (
                f"{self.features.after:,} features: {self.features.added:,} new, "
                f"{self.features.removed:,} gone."
            )
        if self.notable:
            yield f"Drifted: {_list([one.sentence() for one in self.notable])}."
        elif self.columns:
            yield "No column has drifted notably."

    def _confusion(self) -> Iterator[str]:
        change = self.confusion
        if change is None:
            return
        if change.is_notable:
            yield (
                f"NC is distributed otherwise (distance {change.distance:.2f}): its mean was "
                f"{change.before:.3f} and is {change.after:.3f}."
            )
        else:
            yield f"Mean NC {change.before:.3f}, now {change.after:.3f}."
        shares = [
            f"{kind} {before:.1%} → {after:.1%}"
            for kind, before in change.shares_before.items()
            if self._differ(before, after := change.shares_after[kind])
        ]
        if shares:
            yield f"Kinds of nodes: {', '.join(shares)}."

    def _moved(self) -> Iterator[str]:
        if self.confusion is not None and (moved := self.confusion.moved):
            (was, now), count = next(iter(moved.items()))
            yield (
                f"{sum(moved.values()):,} of {self.nodes.kept:,} nodes that stayed are of another "
                f"kind, most of them {was} → {now} ({count:,})."
            )

    def _differ(self, before: float, after: float) -> bool:
        """Whether two shares of the nodes differ by much, and not by chance."""
        spread = before * (1 - before) / self.nodes.before + after * (1 - after) / self.nodes.after
        return abs(after - before) >= max(_LEAST_SHARE, _Z * math.sqrt(spread))


def compare_graphs(before: GraphLike, after: GraphLike) -> Changes:
    """Say what has changed from one graph to another: rows, classes, features, NC.

    Args:
        before: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        after: The later one. Nodes are matched by their ids, or by their numbers where one of the
            two has none.

    Example:
        >>> import ncgnn
        >>> one = ncgnn.read_tables({"id": ["a", "b"], "y": ["x", "y"], "n": [1, 2]}, label="y")
        >>> two = ncgnn.read_tables({"id": ["b", "c"], "y": ["y", "y"], "n": [2, 3]}, label="y")
        >>> ncgnn.compare_graphs(one, two).nodes
        Counts(before=2, after=2, added=1, removed=1)
    """
    old, new = (as_graph(graph, require_labels=False) for graph in (before, after))
    by_id = old.node_ids is not None and new.node_ids is not None
    place = _places(old, new, by_id)
    nodes, names = _counts(old.num_nodes, new.num_nodes, int((place >= 0).sum())), _names(old, new)
    edges, among = _compare_edges(old, new, place)
    features, examples = _compare_features(old, new)
    first, second = (_renumber(graph, names) for graph in (old, new))
    labels, relabeled = _compare_labels(first, second, place, names)
    counts = [np.bincount(one[one >= 0], minlength=len(names)) for one in (first, second)]
    classes = dict(zip(names, zip(*(one.tolist() for one in counts), strict=True), strict=True))
    return Changes(
        (old.name, new.name),
        by_id,
        nodes,
        edges,
        among,
        features,
        examples,
        labels,
        relabeled,
        classes,
        stability_index(counts[0], counts[1]),
        tuple(column_drifts(old, new)),
        _compare_confusion((old, first), (new, second), place, len(names)),
    )


def _counts(before: int, after: int, kept: int) -> Counts:
    return Counts(before, after, after - kept, before - kept)


def _plain_counts(counts: Counts) -> dict[str, int]:
    keys = ("before", "after", "added", "removed")
    return {key: getattr(counts, key) for key in keys}


def _list(names: list[str]) -> str:
    more = f", and {len(names) - _EXAMPLES:,} more" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more


def _places(old: Graph, new: Graph, by_id: bool) -> NDArray[np.int64]:
    """For every node of the new graph its number in the old one, -1 = it is new."""
    if not by_id:
        numbers = np.arange(new.num_nodes)
        return np.where(numbers < old.num_nodes, numbers, -1)
    found = [old.places.get(name, -1) for name in new.ids.tolist()]
    return np.array(found, dtype=np.int64)


def _names(old: Graph, new: Graph) -> list[str]:
    """The classes of both graphs."""
    return list(dict.fromkeys([*class_names(old), *class_names(new)]))


def _renumber(graph: Graph, names: list[str]) -> NDArray[np.int64]:
    """Labels as places among the classes of both graphs."""
    place = {name: number for number, name in enumerate(names)}
    numbers = np.array([*(place[name] for name in class_names(graph)), -1])
    return numbers[graph.labels]


def _compare_edges(old: Graph, new: Graph, place: NDArray[np.int64]) -> tuple[Counts, int]:
    total = old.num_nodes + new.num_nodes
    fresh = np.flatnonzero(place < 0)
    common = place.copy()
    common[fresh] = old.num_nodes + np.arange(len(fresh))
    directed = old.has_direction and new.has_direction
    mine = _edge_keys(old, np.arange(old.num_nodes), total, directed)
    theirs = _edge_keys(new, common, total, directed)
    added = theirs[~np.isin(theirs, mine, assume_unique=True)]
    sources, targets = added // total, added % total
    among = int(((sources < old.num_nodes) & (targets < old.num_nodes)).sum())
    return _counts(len(mine), len(theirs), len(theirs) - len(added)), among


def _edge_keys(
    graph: Graph, numbers: NDArray[np.int64], total: int, directed: bool
) -> NDArray[np.int64]:
    """One number for every edge; an edge that counts both ways is one."""
    sources, targets = numbers[graph.indices], numbers[graph.targets]
    if directed:
        if graph.edge_directions is not None:
            given = (graph.edge_directions & FORWARD) > 0
            sources, targets = sources[given], targets[given]
        return np.unique(sources * total + targets)
    return np.unique(np.minimum(sources, targets) * total + np.maximum(sources, targets))


def _compare_features(old: Graph, new: Graph) -> tuple[Counts, tuple[str, ...]]:
    mine, theirs = old.feature_names, new.feature_names
    if mine is None or theirs is None:
        kept = min(old.num_features, new.num_features)
        return _counts(old.num_features, new.num_features, kept), ()
    known = set(mine)
    fresh = [name for name in theirs if name not in known]
    return _counts(len(mine), len(theirs), len(theirs) - len(fresh)), tuple(fresh[:_EXAMPLES])


def _compare_labels(
    old: NDArray[np.int64], new: NDArray[np.int64], place: NDArray[np.int64], names: list[str]
) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    stayed = place >= 0
    before, after = old[place[stayed]], new[stayed]
    changed = (before >= 0) & (after >= 0) & (before != after)
    pairs = Counter(zip(before[changed].tolist(), after[changed].tolist(), strict=True))
    counts = {
        "changed": int(changed.sum()),
        "added": int(((before < 0) & (after >= 0)).sum()),
        "removed": int(((before >= 0) & (after < 0)).sum()),
    }
    return counts, {(names[a], names[b]): count for (a, b), count in pairs.most_common(20)}


def _compare_confusion(
    old: tuple[Graph, NDArray[np.int64]],
    new: tuple[Graph, NDArray[np.int64]],
    place: NDArray[np.int64],
    num_classes: int,
) -> ConfusionChange | None:
    if not ((old[1] >= 0).any() and (new[1] >= 0).any()):
        return None
    # With the classes of both, as NC is relative to their number.
    first, second = (
        neighborhood_confusion(graph, labels, num_classes=num_classes)
        for graph, labels in (old, new)
    )
    kinds = [node_kinds(graph, labels, num_classes=num_classes) for graph, labels in (old, new)]
    stayed = place >= 0
    was, now = kinds[0][place[stayed]], kinds[1][stayed]
    other = (was != now) & (was != "") & (now != "")
    moved = Counter(zip(was[other].tolist(), now[other].tolist(), strict=True))
    listed = {kind: kind for kind in KINDS} | (
        {"unknown": ""} if any((one == "").any() for one in kinds) else {}
    )
    shares = [{name: float((one == kind).mean()) for name, kind in listed.items()} for one in kinds]
    distance, chance = _distance(first[~np.isnan(first)], second[~np.isnan(second)])
    change = second[stayed] - first[place[stayed]]
    return ConfusionChange(
        mean(first),
        mean(second),
        distance,
        chance,
        0.0 if np.isnan(change).all() else mean(change),
        shares[0],
        shares[1],
        dict(moved.most_common()),
    )


def _distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """Kolmogorov and Smirnov's distance of two samples, and what chance makes of it."""
    # NC that differs in the last digits is the same.
    first, second = np.sort(first.round(9)), np.sort(second.round(9))
    points = np.union1d(first, second)
    shares = [np.searchsorted(one, points, side="right") / len(one) for one in (first, second)]
    distance = float(np.abs(shares[0] - shares[1]).max(initial=0.0))
    return distance, _KS * math.sqrt(1 / len(first) + 1 / len(second))
