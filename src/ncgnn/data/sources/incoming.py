"""The directed files of the heterophilous-graphs collection, without nodes that no edge points at.

So the paper's filtered graphs come about, whose counts are neither those of the directed files nor
those of the undirected ones: what some edge points at is kept, a self-loop counting as one, and
edges then count in both directions. The published masks are of all nodes, and are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncgnn.data.npz import errors_in
from ncgnn.data.sources import make_graph, shrink_features
from ncgnn.data.sources.heterophilous import read_content
from ncgnn.graph import check_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ncgnn.graph import Graph


def parse(files: Mapping[str, Path]) -> Graph:
    """Read a graph whose edges are listed as source and target."""
    path, features, labels, edges, _ = read_content(files)
    with errors_in(path):
        check_nodes(edges.ravel(), "'edges'", len(labels))
    kept = np.unique(edges[:, 1])
    place = np.full(len(labels), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    pairs = place[edges].T
    return make_graph(
        pairs[:, (pairs >= 0).all(axis=0)],
        path,
        undirected=True,
        labels=labels[kept],
        features=shrink_features(features[kept], f"{path}: 'node_features'"),
    )
