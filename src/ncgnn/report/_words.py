"""What the numbers are called and what they mean, in one place for terminal and HTML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ncgnn.metrics import mean

if TYPE_CHECKING:
    from ncgnn.metrics import Analysis

_MEANINGS = {
    "nh_open": ("Node homophily, open", "neighbours with the node's label"),
    "nh_closed": ("Node homophily, closed", "the same, the node itself counted"),
    "edge_homophily": ("Edge homophily", "edges between equal labels"),
    "class_insensitive_homophily": (
        "Class-insensitive homophily",
        "beyond class sizes, 0 = chance",
    ),
    "adjusted_homophily": ("Adjusted homophily", "beyond degrees, 0 = chance"),
    "label_informativeness": (
        "Label informativeness, edge",
        "what a neighbour tells, 1 = all",
    ),
    "label_informativeness_node": ("Label informativeness, node", "the same, nodes weighted alike"),
}


def meaning(metric: str) -> tuple[str, str]:
    """Title and one-line explanation of a metric."""
    if metric.startswith("nc_"):
        k = metric.removeprefix("nc_")
        return f"Neighborhood Confusion, k={k}", "0 = labels agree, 1 = all mixed"
    if metric.startswith("entropy_"):
        return f"Neighborhood entropy, k={metric.removeprefix('entropy_')}", "in bits"
    return _MEANINGS[metric]


def number(value: float | None, digits: int = 3) -> str:
    """A number for people; a dash where it is undefined."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def facts(analysis: Analysis) -> list[tuple[str, str]]:
    """The size of the graph and the like."""
    graph = analysis.graph
    alone = int(np.count_nonzero(graph.degrees <= graph.self_loops))
    kind = "directed" if graph.is_directed else "undirected"
    rows = [
        ("Nodes", f"{graph.num_nodes:,}"),
        ("Edges", f"{graph.num_edges:,} {kind}"),
        ("Features", f"{graph.num_features:,}"),
        ("Classes", f"{graph.num_classes:,}"),
        ("Unlabelled nodes", f"{graph.num_unlabelled:,}"),
        ("Nodes without incoming edges" if graph.is_directed else "Isolated nodes", f"{alone:,}"),
    ]
    if graph.num_self_loops:
        rows.append(("Self-loops (not counted)", f"{graph.num_self_loops:,}"))
    for hops, share in analysis.high_share.items():
        rows.append((f"Nodes with NC > {analysis.threshold:g}, k={hops}", f"{share:.1%}"))
    copies = analysis.duplication
    rows.append(("Copies: same neighbours and label", f"{copies.neighbors:.2%}"))
    if not math.isnan(copies.features):
        rows.append(("Copies: same features and label", f"{copies.features:.2%}"))
    return rows


def class_rows(analysis: Analysis) -> list[tuple[str, str, str, str]]:
    """Per class: name, nodes, mean NH (closed), mean NC at the first hop count."""
    graph = analysis.graph
    names = graph.class_names or tuple(str(c) for c in range(graph.num_classes))
    confusion = analysis.per_node[f"nc_{analysis.hops[0]}"]
    rows: list[tuple[str, str, str, str]] = []
    for c, name in enumerate(names):
        members = graph.labels == c
        homophily = mean(analysis.per_node["nh_closed"][members])
        rows.append(
            (name, f"{members.sum():,}", number(homophily), number(mean(confusion[members])))
        )
    return rows


def most_confused(analysis: Analysis, count: int = 15) -> list[tuple[str, ...]]:
    """The nodes with the highest NC, larger neighbourhoods first among equals."""
    graph = analysis.graph
    names = graph.class_names or tuple(str(c) for c in range(graph.num_classes))
    confusion = analysis.per_node[f"nc_{analysis.hops[0]}"]
    order = np.lexsort((-graph.degrees, -np.nan_to_num(confusion, nan=-1.0)))[:count]
    rows: list[tuple[str, ...]] = []
    for node in order:
        label, commonest = int(graph.labels[node]), int(analysis.commonest[node])
        rows.append(
            (
                str(node if graph.node_ids is None else graph.node_ids[node]),
                names[label] if label >= 0 else "–",
                f"{graph.degrees[node]:,}",
                number(float(confusion[node])),
                names[commonest] if commonest >= 0 else "–",
            )
        )
    return rows
