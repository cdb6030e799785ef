"""The metrics straight from their definitions, with sets and loops only.

A graph is a number of nodes and a list of edges (source, target). The neighbors of a node are the
sources of the edges that end in it; a node is never its own neighbor. Labels are a list of class
numbers, -1 for unlabeled.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np

NAN = float("nan")


def sources(num_nodes, edges):
    """For every node the set of its neighbors."""
    found = [set() for _ in range(num_nodes)]
    for source, target in edges:
        if source != target:
            found[target].add(source)
    return found


def within(neighbors, node, hops):
    """The nodes from which ``node`` is reached in 1 to ``hops`` steps, without itself."""
    reached = {node}
    frontier = {node}
    for _ in range(hops):
        frontier = {u for v in frontier for u in neighbors[v]} - reached
        reached |= frontier
    return reached - {node}


def counts(num_nodes, edges, labels, hops, closed):
    """For every node a counter of the labels in its neighborhood."""
    neighbors = sources(num_nodes, edges)
    found = []
    for node in range(num_nodes):
        members = within(neighbors, node, hops)
        if closed:
            members = members | {node}
        found.append(Counter(labels[j] for j in members if labels[j] >= 0))
    return found


def relative_confusion(num_nodes, edges, labels, num_classes, hops=1, closed=True, empty=NAN):
    """NC over that of as many nodes dealt out to the classes in turn."""
    now = confusion(num_nodes, edges, labels, num_classes, hops, closed, empty)
    found = []
    for counter, value in zip(counts(num_nodes, edges, labels, hops, closed), now, strict=True):
        size = sum(counter.values())
        dealt = Counter(place % num_classes for place in range(size))
        if not counter:
            found.append(empty)
        elif max(dealt.values()) == size:
            found.append(0.0)
        else:
            found.append(value / (math.log(size / max(dealt.values())) / math.log(num_classes)))
    return found


def confusion(num_nodes, edges, labels, num_classes, hops=1, closed=True, empty=NAN):
    """Eq. (3) of the paper."""
    values = []
    for counter in counts(num_nodes, edges, labels, hops, closed):
        if not counter:
            values.append(empty)
        elif num_classes == 1:
            values.append(0.0)
        else:
            share = max(counter.values()) / sum(counter.values())
            values.append(-math.log(share) / math.log(num_classes))
    return values


def node_homophily(num_nodes, edges, labels, hops=1, closed=False, empty=NAN):
    """Eq. (1) of the paper, and the same with the node itself in the neighborhood."""
    values = []
    for node, counter in enumerate(counts(num_nodes, edges, labels, hops, closed)):
        if labels[node] < 0:
            values.append(NAN)
        elif not counter:
            values.append(empty)
        else:
            values.append(counter[labels[node]] / sum(counter.values()))
    return values


def entropy_of(weights):
    """Entropy in bits of a distribution that is proportional to ``weights``."""
    total = math.fsum(weights)
    return -math.fsum(w / total * math.log2(w / total) for w in weights if w > 0)


def entropy(num_nodes, edges, labels, hops=1, closed=True, empty=NAN):
    """Eq. (4) of the paper."""
    return [
        entropy_of(counter.values()) if counter else empty
        for counter in counts(num_nodes, edges, labels, hops, closed)
    ]


def distribution(num_nodes, edges, labels, num_classes, hops=1, closed=True, empty=NAN):
    """Share of every class in every neighborhood."""
    rows = []
    for counter in counts(num_nodes, edges, labels, hops, closed):
        total = sum(counter.values())
        rows.append([counter[c] / total if total else empty for c in range(num_classes)])
    return rows


def labeled_edges(edges, labels):
    """The distinct edges that are no self-loops and whose ends both have a label."""
    return sorted({(u, v) for u, v in edges if u != v and labels[u] >= 0 and labels[v] >= 0})


def class_pairs(edges, labels, num_classes):
    """Number of edges by class of target (rows) and class of source (columns)."""
    table = [[0] * num_classes for _ in range(num_classes)]
    for source, target in labeled_edges(edges, labels):
        table[labels[target]][labels[source]] += 1
    return table


def edge_homophily(edges, labels):
    """Share of the edges whose ends have the same label."""
    kept = labeled_edges(edges, labels)
    return sum(labels[u] == labels[v] for u, v in kept) / len(kept) if kept else NAN


def class_insensitive_homophily(edges, labels):
    """Mean excess of the classes' homophily over their share of the nodes."""
    kept = labeled_edges(edges, labels)
    known = [label for label in labels if label >= 0]
    occurring = sorted(set(known))
    if len(occurring) < 2:
        return NAN
    total = 0.0
    for c in occurring:
        inside = [(u, v) for u, v in kept if labels[v] == c]
        if inside:
            share = sum(labels[u] == c for u, _ in inside) / len(inside)
            total += max(0.0, share - known.count(c) / len(known))
    return total / (len(occurring) - 1)


def adjusted_homophily(edges, labels):
    """The assortativity coefficient of the labels."""
    kept = labeled_edges(edges, labels)
    if not kept:
        return NAN
    by_source = Counter(labels[u] for u, _ in kept)
    by_target = Counter(labels[v] for _, v in kept)
    chance = math.fsum(by_source[c] / len(kept) * (by_target[c] / len(kept)) for c in by_source)
    if len(by_source) == len(by_target) == 1 and by_source.keys() == by_target.keys():
        return NAN
    return (edge_homophily(edges, labels) - chance) / (1 - chance)


def informativeness_of_edges(edges, labels):
    """I(target's label, source's label) / H(target's label) of an edge drawn uniformly."""
    kept = labeled_edges(edges, labels)
    targets = Counter(labels[v] for _, v in kept)
    if len(targets) < 2:
        return NAN
    among_sources = Counter(labels[u] for u, _ in kept)
    pairs = Counter((labels[u], labels[v]) for u, v in kept)
    own = entropy_of(targets.values())
    return (own + entropy_of(among_sources.values()) - entropy_of(pairs.values())) / own


def informativeness_of_nodes(num_nodes, edges, labels):
    """The same for a node drawn uniformly and then one of its neighbors.

    As published: sum of p(a, b) · log(p(a, b) / (p(a) · p̄(b))) over H(p), with p(a) the class
    shares of the labeled nodes and p̄(b) the class shares among the sources of edges.
    """
    kept = labeled_edges(edges, labels)
    neighbors = sources(num_nodes, kept)
    drawn = [v for v in range(num_nodes) if neighbors[v]]
    known = Counter(label for label in labels if label >= 0)
    if not drawn or len(known) < 2:
        return NAN
    among_sources = Counter(labels[u] for u, _ in kept)
    joint = Counter()
    for v in drawn:
        for u in neighbors[v]:
            joint[labels[v], labels[u]] += 1 / (len(drawn) * len(neighbors[v]))
    told = math.fsum(
        p * math.log2(p / (known[a] / known.total() * (among_sources[b] / len(kept))))
        for (a, b), p in joint.items()
    )
    return told / entropy_of(known.values())


def repeated(keys):
    """(nodes - distinct keys) / nodes."""
    keys = list(keys)
    return (len(keys) - len(set(keys))) / len(keys)


def duplicated_neighbors(num_nodes, edges, labels, direction="out"):
    """Share of labeled nodes whose label and set of neighbors, self-loops kept, are not new."""
    sets = [set() for _ in range(num_nodes)]
    for source, target in edges:
        if direction == "out":
            sets[source].add(target)
        else:
            sets[target].add(source)
    return repeated((labels[v], frozenset(sets[v])) for v in range(num_nodes) if labels[v] >= 0)


def duplicated_features(rows, labels, binary=False):
    """Share of labeled nodes whose label and row of features are not new."""
    return repeated(
        (label, tuple(value != 0 for value in row) if binary else tuple(row))
        for row, label in zip(rows, labels, strict=True)
        if label >= 0
    )


def kinds(num_nodes, edges, labels, predicted=None):
    """The kind of every node, from a count of its neighbors' labels."""
    found = []
    for node, around in enumerate(counts(num_nodes, edges, labels, 1, closed=False)):
        own = labels[node]
        if own < 0 and predicted is not None:
            own = predicted[node]
        most = [label for label, count in around.items() if 2 * count > around.total()]
        if not around:
            found.append("alone")
        elif not most:
            found.append("mixed")
        elif own < 0:
            found.append("")
        else:
            found.append("clear" if most == [own] else "contrary")
    return found


def two_hop_similarity(num_nodes, edges, labels, empty=NAN):
    """Share of walks of two steps that do not return and end at the label they began with."""
    neighbors = sources(num_nodes, edges)
    values = []
    for node in range(num_nodes):
        ends = [labels[far] for near in neighbors[node] for far in neighbors[near] if far != node]
        ends = [label for label in ends if label >= 0]
        if labels[node] < 0:
            values.append(NAN)
        else:
            values.append(ends.count(labels[node]) / len(ends) if ends else empty)
    return values


def aggregation_similarity(num_nodes, edges, labels, num_classes):
    """Share of labeled nodes nearer to their class, with all pairs of nodes and exact fractions."""
    known = [node for node in range(num_nodes) if labels[node] >= 0]
    if len({labels[node] for node in known}) < 2:
        return NAN
    around = counts(num_nodes, edges, labels, 1, closed=True)
    rows = {
        v: [Fraction(around[v][c], around[v].total()) for c in range(num_classes)] for v in known
    }
    nearer = 0
    for v in known:
        alike, unlike = [], []
        for u in known:
            product = sum(a * b for a, b in zip(rows[v], rows[u], strict=True))
            (alike if labels[u] == labels[v] else unlike).append(product)
        nearer += sum(alike) / len(alike) >= sum(unlike) / len(unlike)
    return nearer / len(known)


def density_aware_homophily(edges, labels, num_classes):
    """From the densities of all pairs of classes."""
    nodes = Counter(label for label in labels if label >= 0)
    if len(nodes) < 2:
        return NAN
    table = class_pairs(edges, labels, num_classes)
    excess = []
    for k in nodes:
        between = [max(table[k][m], table[m][k]) / (nodes[k] * nodes[m]) for m in nodes if m != k]
        excess.append(table[k][k] / nodes[k] ** 2 - max(between))
    return (1 + min(excess)) / 2


def local_assortativity(num_nodes, edges, labels, alpha, empty=NAN):
    """The published e(g, h) of every node, with the whole matrix of walks that start again."""
    neighbors = sources(num_nodes, edges)
    step = np.zeros((num_nodes, num_nodes))
    for node, near in enumerate(neighbors):
        step[node, sorted(near)] = 1 / max(len(near), 1)
    kept = labeled_edges(edges, labels)
    if alpha is None:  # the mean over α, by Gauss and Legendre
        points, shares = np.polynomial.legendre.leggauss(80)
        alphas = [((1 + point) / 2, share / 2) for point, share in zip(points, shares, strict=True)]
    else:
        alphas = [(alpha, 1.0)]
    eye = np.eye(num_nodes)
    walks = sum(share * (1 - a) * np.linalg.inv(eye - a * step) for a, share in alphas)
    chance = math.fsum(
        sum(labels[u] == c for u, _ in kept) * sum(labels[v] == c for _, v in kept)
        for c in set(labels)
    ) / (len(kept) ** 2 or 1)
    values = []
    for node in range(num_nodes):
        seen = [(walks[node, v] / len(neighbors[v]), labels[u] == labels[v]) for u, v in kept]
        total = math.fsum(weight for weight, _ in seen)
        if chance == 1:
            values.append(NAN)
        elif total < 1e-12:
            values.append(empty)
        else:
            share = math.fsum(weight for weight, alike in seen if alike) / total
            values.append((share - chance) / (1 - chance))
    return values
