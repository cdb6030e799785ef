"""A small graph, runs on it, and the metrics straight from their definitions."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np

from ncgnn.data import save
from ncgnn.graph import Graph
from ncgnn.paper import Request, reproduce, target, target_names
from ncgnn.training import train_run

NODES, CLASSES = 90, 3
TARGETS = {name: target(name) for name in target_names() if target(name).kind == "figure"}
TINY = (("hidden", 8), ("epochs", 6), ("learning_rate", 0.05))


def small_edges():
    """Many edges join nodes of one class, others join anybody; node 7 has none."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, CLASSES, NODES)
    pairs = rng.integers(0, NODES, (400, 2))
    kept = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) | (rng.random(400) < 0.6)
    pairs = pairs[kept & (pairs[:, 0] != pairs[:, 1]) & (pairs != 7).all(1)]
    edges = {(int(u), int(v)) for u, v in pairs} | {(int(v), int(u)) for u, v in pairs}
    return sorted(edges), labels


def small_graph(folder):
    """The path of its file."""
    edges, labels = small_edges()
    features = np.random.default_rng(6).normal(size=(NODES, 5)) + labels[:, None]
    graph = Graph.from_edge_index(
        np.array(edges).T, labels=labels, features=features.astype(np.float32), num_nodes=NODES
    )
    return str(save(graph, folder / "small.npz"))


def ask(name, dataset, models=(), seeds=(0, 1), settings=TINY):
    models = tuple(models) or TARGETS[name].models
    return Request((dataset,), models, seeds, "stratified", None, settings)


def train(name, request, runs):
    """Every cell of a figure, trained or found finished."""
    return {cell.name: train_run(cell, runs) for cell in TARGETS[name].cells(request)}


def make(name, request, runs=()):
    """The figure from finished runs; its numbers must be plain enough for JSON."""
    made = reproduce(name, dict(runs).values(), request=request)
    json.dumps(made.plain(), allow_nan=False)
    return made


def ball(node, hops):
    """The node and all from which it is reached in at most so many steps."""
    edges, _ = small_edges()
    reached = {node}
    for _ in range(hops):
        reached |= {u for u, v in edges if v in reached}
    return reached


def true_confusion(hops):
    """Eq. (3) of the paper."""
    _, labels = small_edges()
    values = []
    for node in range(NODES):
        counts = Counter(int(labels[other]) for other in ball(node, hops))
        share = max(counts.values()) / sum(counts.values())
        values.append(-math.log(share) / math.log(CLASSES))
    return values


def true_homophily(*, closed):
    """Eq. (1) of the paper, and the same with the node itself counted; None of nobody."""
    _, labels = small_edges()
    values = []
    for node in range(NODES):
        members = ball(node, 1) if closed else ball(node, 1) - {node}
        same = sum(labels[m] == labels[node] for m in members)
        values.append(same / len(members) if members else None)
    return values


def tenth(value):
    """0 for [0, 0.1), …, 9 for [0.9, 1]."""
    return min(int(value * 10 + 1e-9), 9)
