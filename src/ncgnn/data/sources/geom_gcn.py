"""The text files of Geom-GCN's film network, here called Actor.

``out1_node_feature_label.txt`` has a heading and then, separated by tabs, node, indices of the
features that it has, class; ``out1_graph_edges.txt`` has a heading and then source and target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.npz import reading
from ncgnn.data.sources import make_graph, pick_file
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph import Graph


def parse(files: Mapping[str, Path]) -> Graph:
    """Read the directed graph; self-loops stay, repeated edges are merged."""
    node_file = pick_file(files, "node_feature_label.txt")
    labels, features = _nodes(node_file)
    edge_file = pick_file(files, "graph_edges.txt")
    pairs = [
        [_number(node, edge_file, line) for node in ends] for line, ends in _rows(edge_file, 2)
    ]
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return make_graph(edges, edge_file, undirected=False, labels=labels, features=features)


def _nodes(path: Path) -> tuple[NDArray[Any], csr_array[Any]]:
    from scipy.sparse import csr_array

    classes: dict[int, int] = {}
    rows: list[int] = []
    columns: list[int] = []
    for line, (name, indices, label) in _rows(path, 3):
        node = _number(name, path, line)
        if node in classes:
            raise InputError(f"{path}, line {line}: node {node} is listed twice")
        classes[node] = _number(label, path, line)
        # A feature may be listed twice in a line; it is still just there.
        present = {_number(index, path, line) for index in indices.split(",")}
        rows += [node] * len(present)
        columns += sorted(present)
    if not classes or max(classes) != len(classes) - 1:
        raise InputError(
            f"{path}: the {len(classes)} nodes are not numbered 0..{len(classes) - 1}; "
            "get a fresh copy of the file"
        )
    values = np.ones(len(rows), dtype=np.float32)
    features = csr_array(
        (values, (np.array(rows), np.array(columns))), shape=(len(classes), max(columns) + 1)
    )
    return np.array([classes[node] for node in range(len(classes))], dtype=np.int64), features


def _rows(path: Path, width: int) -> Generator[tuple[int, list[str]]]:
    """Line number and fields of every line but the heading and empty ones."""
    with reading(path, "text file"):
        lines = path.read_text("utf-8").splitlines()
    for line, text in enumerate(lines[1:], start=2):
        if not text.strip():
            continue
        fields = text.split("\t")
        if len(fields) != width:
            raise InputError(
                f"{path}, line {line}: must have {width} columns separated by tabs; got "
                f"{len(fields)}; get a fresh copy of the file"
            )
        yield line, fields


def _number(text: str, path: Path, line: int) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and len(plain) < 10):
        raise InputError(
            f"{path}, line {line}: '{text[:40]}' is not a whole number; get a fresh copy"
        )
    return int(plain)
