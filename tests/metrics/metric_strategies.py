"""Random labeled graphs for property tests of the metrics."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from ncgnn.graph import Graph


@dataclass(frozen=True)
class Case:
    """A labeled graph in plain Python."""

    num_nodes: int
    edges: list[tuple[int, int]]
    labels: list[int]
    num_classes: int

    def graph(self, **fields):
        fields = {"labels": self.labels, "num_classes": self.num_classes} | fields
        return Graph.from_edge_index(self.edge_index(), num_nodes=self.num_nodes, **fields)

    def edge_index(self, dtype=np.int64):
        return np.array(self.edges, dtype=dtype).reshape(-1, 2).T

    def undirected(self):
        both = [*self.edges, *((v, u) for u, v in self.edges)]
        return Case(self.num_nodes, both, self.labels, self.num_classes)


@st.composite
def labels_of(draw, num_nodes, classes):
    values = st.lists(st.integers(-1, classes - 1), min_size=num_nodes, max_size=num_nodes)
    labels = draw(values)
    if max(labels) < 0:
        labels[draw(st.integers(0, num_nodes - 1))] = draw(st.integers(0, classes - 1))
    return labels


@st.composite
def cases(draw, max_nodes=12, classes=(1, 2, 3, 4), directed=(True, False)):
    """Small graphs, also with isolated and unlabeled nodes, loops, repeats and spare classes."""
    nodes = draw(st.integers(1, max_nodes))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges = draw(st.lists(ends, max_size=3 * nodes))
    used = draw(st.sampled_from(classes))
    labels = draw(labels_of(nodes, used))
    case = Case(nodes, edges, labels, used + draw(st.sampled_from([0, 0, 1, 14, 260])))
    return case if draw(st.sampled_from(directed)) else case.undirected()


@st.composite
def larger_cases(draw):
    """Graphs of some hundred nodes from sparse to dense, with one or two hubs."""
    return drawn_case(
        draw(st.integers(0, 2**32)),
        num_nodes=draw(st.integers(60, 240)),
        mean_degree=draw(st.sampled_from([0.5, 2, 6, 20])),
        num_classes=draw(st.sampled_from([1, 2, 5, 16, 17, 255, 256])),
        unlabeled=draw(st.sampled_from([0, 0.3])),
        hubs=draw(st.integers(0, 2)),
        directed=draw(st.booleans()),
    )


def drawn_case(seed, num_nodes, mean_degree, num_classes, *, unlabeled=0.0, hubs=0, directed=True):
    """A random graph with self-loops; hubs receive edges from four fifths of the nodes."""
    draw = random.Random(seed)
    count = int(num_nodes * mean_degree / (1 if directed else 2))
    edges = [(draw.randrange(num_nodes), draw.randrange(num_nodes)) for _ in range(count)]
    for _ in range(hubs):
        hub = draw.randrange(num_nodes)
        edges += [(node, hub) for node in range(num_nodes) if draw.random() < 0.8]
    labels = [
        -1
        if draw.random() < unlabeled
        else min(int(draw.expovariate(4 / num_classes)), num_classes - 1)
        for _ in range(num_nodes)
    ]
    labels[0] = max(labels[0], 0)
    case = Case(num_nodes, edges, labels, num_classes)
    return case if directed else case.undirected()
