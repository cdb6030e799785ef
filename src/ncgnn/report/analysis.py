"""The analysis of a graph as tables, figures, an HTML report, and a table of all nodes."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ncgnn._io import atomic_write, write_text
from ncgnn.errors import InputError
from ncgnn.metrics import confusion_masks, mean
from ncgnn.report.style import BLUE, ORANGE, STYLE, number, picture, save_figure, show_percent
from ncgnn.report.tables import Marked, Table, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.metrics import Analysis

TableFormat = Literal["csv", "parquet"]


def write_analysis(
    analysis: Analysis, folder: Path | str, table_format: TableFormat = "csv"
) -> list[Path]:
    """Write summary, per-node table, figures and HTML report; returns the paths, report first.

    Files of an earlier analysis in the folder are replaced.
    """
    folder = Path(folder)
    nodes = write_columns(node_columns(analysis), folder / f"nodes.{table_format}", table_format)
    for other in folder.glob("nodes.*"):
        if other != nodes:
            other.unlink()  # of an earlier analysis in the other format
    summary = folder / "summary.json"
    write_text(summary, json.dumps(analysis.to_json(), indent=2) + "\n")
    distribution, classes = distribution_figure(analysis), class_figure(analysis)
    report = folder / "report.html"
    write_text(report, _report(analysis, distribution, classes))
    pictures = save_figure(distribution, folder, "distribution")
    return [report, summary, nodes, *pictures, *save_figure(classes, folder, "classes")]


def html_report(analysis: Analysis) -> str:
    """The whole report as one HTML file that needs nothing else, pictures included."""
    return _report(analysis, distribution_figure(analysis), class_figure(analysis))


def _report(analysis: Analysis, distribution: Figure, pairs: Figure) -> str:
    facts, means = analysis_tables(analysis)
    return render(
        "analysis.html",
        title=analysis.graph.name,
        origin=analysis.graph.origin,
        facts=facts,
        means=means,
        classes=_class_table(analysis),
        nodes=_most_confused(analysis),
        distribution=b64encode(picture(distribution, "png", dpi=130)).decode(),
        pairs=b64encode(picture(pairs, "png", dpi=130)).decode(),
    )


def analysis_tables(analysis: Analysis) -> list[Table]:
    """The graph's facts and its metrics."""
    rows: list[tuple[str | Marked, ...]] = []
    for key, value in analysis.means.items():
        title, meaning = _meaning(key)
        mark = "best" if key.startswith("nc_") else ""
        rows.append((Marked(title, mark), Marked(meaning, mark), Marked(number(value), mark)))
    return [
        Table(analysis.graph.name, (), tuple(_facts(analysis)), left=2),
        Table("Means", ("metric", "meaning", "value"), tuple(rows), left=2),
    ]


_MEANINGS = {
    "nh_open": ("Node homophily, open", "neighbors with the node's label"),
    "nh_closed": ("Node homophily, closed", "the same, the node itself counted"),
    "edge_homophily": ("Edge homophily", "edges between equal labels"),
    "class_insensitive_homophily": (
        "Class-insensitive homophily",
        "beyond class sizes, 0 = chance",
    ),
    "adjusted_homophily": ("Adjusted homophily", "beyond degrees, 0 = chance"),
    "label_informativeness": ("Label informativeness, edge", "what a neighbor tells, 1 = all"),
    "label_informativeness_node": ("Label informativeness, node", "the same, nodes weighted alike"),
}


def _meaning(metric: str) -> tuple[str, str]:
    """Title and one-line explanation of a metric."""
    if metric.startswith("nc_"):
        k = metric.removeprefix("nc_")
        return f"Neighborhood Confusion, k={k}", "0 = labels agree, 1 = all mixed"
    if metric.startswith("entropy_"):
        return f"Neighborhood entropy, k={metric.removeprefix('entropy_')}", "in bits"
    return _MEANINGS[metric]


def _facts(analysis: Analysis) -> list[tuple[str, str]]:
    """The size of the graph and the like."""
    graph = analysis.graph
    alone = int(np.count_nonzero(graph.degrees <= graph.self_loops))
    kind = "directed" if graph.is_directed else "undirected"
    rows = [
        ("Nodes", f"{graph.num_nodes:,}"),
        ("Edges", f"{graph.num_edges:,} {kind}"),
        ("Features", f"{graph.num_features:,}"),
        ("Classes", f"{graph.num_classes:,}"),
        ("Unlabeled nodes", f"{graph.num_unlabeled:,}"),
        ("Nodes without incoming edges" if graph.is_directed else "Isolated nodes", f"{alone:,}"),
    ]
    if graph.num_self_loops:
        rows.append(("Self-loops (not counted)", f"{graph.num_self_loops:,}"))
    for hops, share in analysis.high_share.items():
        rows.append((f"Nodes with NC > {analysis.threshold:g}, k={hops}", f"{share:.1%}"))
    copies = analysis.duplication
    rows.append(("Copies: same neighbors and label", f"{copies.neighbors:.2%}"))
    if not math.isnan(copies.features):
        rows.append(("Copies: same features and label", f"{copies.features:.2%}"))
    return rows


def _class_names(analysis: Analysis) -> tuple[str, ...]:
    graph = analysis.graph
    return graph.class_names or tuple(str(c) for c in range(graph.num_classes))


def _class_table(analysis: Analysis) -> Table:
    first = analysis.hops[0]
    confusion, homophily = analysis.per_node[f"nc_{first}"], analysis.per_node["nh_closed"]
    rows: list[tuple[str, ...]] = []
    for c, name in enumerate(_class_names(analysis)):
        members = analysis.graph.labels == c
        means = (number(mean(homophily[members])), number(mean(confusion[members])))
        rows.append((name, f"{members.sum():,}", *means))
    return Table("", ("class", "nodes", "mean NH, closed", f"mean NC, k={first}"), tuple(rows))


def _most_confused(analysis: Analysis, count: int = 15) -> Table:
    """The nodes with the highest NC, larger neighborhoods first among equals."""
    graph, names, first = analysis.graph, _class_names(analysis), analysis.hops[0]
    confusion = analysis.per_node[f"nc_{first}"]
    order = np.lexsort((-graph.degrees, -np.nan_to_num(confusion, nan=-1.0)))[:count]
    rows: list[tuple[str, ...]] = []
    for node in order:
        label, commonest = int(graph.labels[node]), int(analysis.commonest[node])
        rows.append(
            (
                str(node if graph.node_ids is None else graph.node_ids[node]),
                names[label] if label >= 0 else "–",
                names[commonest] if commonest >= 0 else "–",
                f"{graph.degrees[node]:,}",
                number(float(confusion[node])),
            )
        )
    head = ("node", "class", "commonest class around", "degree", f"NC, k={first}")
    return Table("", head, tuple(rows), left=3)


def distribution_figure(analysis: Analysis) -> Figure:
    """How the nodes are distributed by 1 - NH and by NC, one panel per hop count.

    The figure "Distributions of nodes guided by NH and NC" of "Clarify Confused Nodes via Separated
    Learning"; dashed lines are the means. NH is that of the closed neighborhood, as in the paper's
    table.
    """
    with rc_context(STYLE):
        panels = len(analysis.hops)
        layout = ConstrainedLayoutEngine(wspace=0.06)  # the last tick of a panel needs room
        figure = Figure(figsize=(1.2 + 3.4 * panels, 3.3), layout=layout)
        axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
        heterophily = 1 - analysis.per_node["nh_closed"]
        for axis, hops in zip(axes, analysis.hops, strict=True):
            _histogram(axis, heterophily, BLUE, "1 − NH, closed", hatch="")
            _histogram(axis, analysis.per_node[f"nc_{hops}"], ORANGE, f"NC, k={hops}", hatch="///")
            axis.set_xlabel("value")
            axis.set_xlim(0, 1)
            # Above the panel, where no bar can be.
            axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
        axes[0].set_ylabel("share of nodes")
        show_percent(axes[0].yaxis)
        figure.suptitle(f"{analysis.graph.name}: how confused are the nodes?")
        return figure


def _histogram(axis: Axes, values: NDArray[np.float64], color: str, label: str, hatch: str) -> None:
    defined, average = values[~np.isnan(values)], mean(values)
    axis.hist(
        defined,
        bins=np.linspace(0, 1, 26).tolist(),
        weights=np.full(len(defined), 1 / max(len(defined), 1)),
        histtype="stepfilled",
        label=f"{label} (mean {average:.3f})",
        facecolor=color + "55",
        edgecolor=color,
        linewidth=1.2,
        hatch=hatch,
    )
    if not np.isnan(average):
        axis.axvline(average, color=color, linestyle="--", linewidth=1.4)


def class_figure(analysis: Analysis) -> Figure:
    """With which classes the nodes of each class are connected, as shares of each row."""
    with rc_context(STYLE):
        pairs = analysis.class_pairs
        totals = pairs.sum(axis=1, keepdims=True)
        shares = np.divide(pairs, totals, out=np.full(pairs.shape, np.nan), where=totals > 0)
        count = len(pairs)
        side = min(2.6 + 0.32 * count, 9.0)
        figure = Figure(figsize=(side + 0.9, side), layout="constrained")
        axis = figure.subplots()
        image = axis.imshow(shares, cmap="cividis", vmin=0, vmax=1)
        bar = figure.colorbar(image, ax=axis, label="share of the row's edges", shrink=0.8)
        show_percent(bar.ax.yaxis)
        if count <= 40:
            names = [n if len(n) <= 18 else f"{n[:17]}…" for n in _class_names(analysis)]
            axis.set_xticks(range(count), names, rotation=90 if max(map(len, names)) > 2 else 0)
            axis.set_yticks(range(count), names)
        if count <= 12:
            for (row, column), share in np.ndenumerate(shares):
                if not np.isnan(share):
                    look: dict[str, Any] = {"color": "black" if share > 0.55 else "white"}
                    look |= {"ha": "center", "va": "center", "fontsize": 7}
                    axis.text(column, row, f"{share:.0%}", **look)
        axis.set_xlabel("class of the neighbor")
        axis.set_ylabel("class of the node")
        axis.spines[:].set_visible(False)
        figure.suptitle(f"{analysis.graph.name}: who is connected with whom?")
        return figure


def node_columns(analysis: Analysis) -> dict[str, NDArray[Any]]:
    """One column per fact about a node.

    ``node`` is the user's identifier, ``label`` the class number, ``commonest`` the commonest class
    among the node and its neighbors, ``group_k`` whether NC at hop count k is low or high.
    """
    graph = analysis.graph
    columns: dict[str, NDArray[Any]] = {
        "node": np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids,
        "label": graph.labels,
        "degree": graph.degrees,
        "commonest": analysis.commonest,
        **analysis.per_node,
    }
    if graph.class_names is not None:
        names = np.array([*graph.class_names, ""])  # the last one is of nodes without a label
        columns["class"] = names[graph.labels]
        columns["commonest_class"] = names[analysis.commonest]
    for hops in analysis.hops:
        high = confusion_masks(analysis.per_node[f"nc_{hops}"], analysis.threshold)[1]
        columns[f"group_{hops}"] = np.where(high, "high", "low")
    return columns


def write_columns(
    columns: Mapping[str, NDArray[Any]], path: Path, table_format: TableFormat = "csv"
) -> Path:
    """Write columns of equal length; NaN is empty (CSV) or null (Parquet)."""
    import pyarrow as pa  # costs a command without a file of columns much of its start
    import pyarrow.csv
    import pyarrow.parquet

    if table_format not in ("csv", "parquet"):
        raise InputError(f"format must be csv or parquet; got '{table_format}'.")
    table = pa.table({name: pa.array(some, from_pandas=True) for name, some in columns.items()})
    with atomic_write(path) as stream:
        if table_format == "csv":
            pyarrow.csv.write_csv(table, stream)
        else:
            pyarrow.parquet.write_table(table, stream)
    return path
