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

from ncgnn._io import write_text
from ncgnn.errors import InputError
from ncgnn.metrics import KINDS, STRIKING, class_names, confusion_masks, mean
from ncgnn.report.mixing import class_figure, class_kinds
from ncgnn.report.style import BLUE, ORANGE, STYLE, number, picture, save_figure, show_percent
from ncgnn.report.tables import Marked, Table, render
from ncgnn.training import write_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.metrics import Analysis, StrikingNode
    from ncgnn.metrics.sql import SqlAnalysis

TableFormat = Literal["csv", "parquet"]


def write_analysis(
    analysis: Analysis,
    folder: Path | str,
    table_format: TableFormat = "csv",
    *,
    for_spreadsheet: bool = False,
) -> list[Path]:
    """Write summary, tables of nodes, figures and HTML report; returns the paths, report first.

    Files of an earlier analysis in the folder are replaced.

    Args:
        analysis: What was measured.
        folder: Where to write.
        table_format: Of the tables of nodes.
        for_spreadsheet: Whether texts in CSV that a spreadsheet would take for a formula begin with
            an apostrophe.
    """
    folder = Path(folder)
    tables = {
        "nodes": node_columns(analysis),
        "mixed": striking_columns(analysis, analysis.mixed),
        "contrary": striking_columns(analysis, analysis.contrary),
    }
    written: list[Path] = []
    for name, columns in tables.items():
        place = folder / f"{name}.{table_format}"
        path = write_columns(columns, place, table_format, for_spreadsheet=for_spreadsheet)
        for other in {folder / f"{name}.csv", folder / f"{name}.parquet"} - {path}:
            other.unlink(missing_ok=True)  # of an earlier analysis in the other format
        written.append(path)
    summary = folder / "summary.json"
    write_text(summary, json.dumps(analysis.to_json(), indent=2) + "\n")
    distribution, classes = distribution_figure(analysis), class_figure(analysis)
    report = folder / "report.html"
    write_text(report, _report(analysis, distribution, classes))
    pictures = save_figure(distribution, folder, "distribution")
    return [report, summary, *written, *pictures, *save_figure(classes, folder, "classes")]


def html_report(analysis: Analysis) -> str:
    """The whole report as one HTML file that needs nothing else, pictures included."""
    return _report(analysis, distribution_figure(analysis), class_figure(analysis))


def _report(analysis: Analysis, distribution: Figure, pairs: Figure) -> str:
    facts, means, kinds = analysis_tables(analysis)
    mixed, contrary = striking_tables(analysis)
    return render(
        "analysis.html",
        title=analysis.graph.name,
        origin=analysis.graph.origin,
        headline=_headline(analysis),
        facts=facts,
        means=means,
        kinds=kinds,
        classes=_class_table(analysis),
        mixed=mixed,
        contrary=contrary,
        distribution=b64encode(picture(distribution, "png", dpi=130)).decode(),
        pairs=b64encode(picture(pairs, "png", dpi=130)).decode(),
    )


def _headline(analysis: Analysis) -> str:
    counts, total = analysis.kind_counts(), analysis.graph.num_nodes
    shares = [f"{count / total:.0%} are {kind}" for kind, count in counts.items() if count]
    return f"Of {total:,} nodes {', '.join(shares)}."


def analysis_tables(analysis: Analysis) -> list[Table]:
    """The graph's facts, its metrics, and the kinds of its nodes."""
    facts = Table(analysis.graph.name, (), tuple(_facts(analysis)), left=2)
    return [facts, _mean_table(analysis.means), _kind_table(analysis)]


def sql_tables(analysis: SqlAnalysis, title: str) -> list[Table]:
    """What SQL says about two tables: the facts and the means."""
    kind = "undirected" if analysis.direction == "both" else "directed"
    rows = [
        ("Nodes", f"{analysis.nodes:,}"),
        ("Edges", f"{analysis.edges:,} {kind}"),
        ("Classes", f"{analysis.classes:,}"),
        ("Unlabeled nodes", f"{analysis.unlabeled:,}"),
        (_ISOLATED[kind], f"{analysis.isolated:,}"),
    ]
    for hops, share in analysis.high_share.items():
        rows.append((f"Nodes with NC > {analysis.threshold:g}, k={hops}", f"{share:.1%}"))
    return [Table(title, (), tuple(rows), left=2), _mean_table(analysis.means)]


_ISOLATED = {"undirected": "Isolated nodes", "directed": "Nodes without incoming edges"}


def _mean_table(means: Mapping[str, float | None]) -> Table:
    rows: list[tuple[str | Marked, ...]] = []
    for key, value in means.items():
        title, meaning = _meaning(key)
        mark = "best" if key.startswith("nc_") else ""
        shown = number(math.nan if value is None else value)
        rows.append((Marked(title, mark), Marked(meaning, mark), Marked(shown, mark)))
    return Table("Means", ("metric", "meaning", "value"), tuple(rows), left=2)


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
    "two_hop_similarity": ("2NCS", "two steps away, the node's label"),
    "local_assortativity": ("Local assortativity", "equal labels around, 0 = chance"),
    "aggregation_similarity": ("Aggregation similarity", "nodes nearest to their own class"),
    "density_aware_homophily": ("Density-aware homophily", "the worst class, 0.5 = none"),
    "label_informativeness_node": ("Label informativeness, node", "the same, nodes weighted alike"),
}


def _meaning(metric: str) -> tuple[str, str]:
    """Title and one-line explanation of a metric."""
    if metric.startswith("nc_"):
        k = metric.removeprefix("nc_")
        return f"Neighborhood Confusion, k={k}", "0 = labels agree, 1 = all mixed"
    if metric.startswith("relative_nc_"):
        return (
            f"Relative NC, k={metric.removeprefix('relative_nc_')}",
            "share of what is attainable",
        )
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
        (_ISOLATED[kind], f"{alone:,}"),
    ]
    if graph.num_self_loops:
        rows.append(("Self-loops (not counted)", f"{graph.num_self_loops:,}"))
    for hops, share in analysis.high_share.items():
        could = analysis.reach[hops]
        reach = f" ({could:.1%} have enough neighbors)" if could < 0.95 else ""
        rows.append((f"Nodes with NC > {analysis.threshold:g}, k={hops}", f"{share:.1%}{reach}"))
    copies = analysis.duplication
    rows.append(("Copies: same neighbors and label", f"{copies.neighbors:.2%}"))
    if not math.isnan(copies.features):
        rows.append(("Copies: same features and label", f"{copies.features:.2%}"))
    broken = analysis.broken_rules()
    rules = f"not a benchmark: {'; '.join(broken)}" if broken else "met"
    rows.append(("The paper's rules for datasets", rules))
    return rows


def _class_table(analysis: Analysis) -> Table:
    """The classes, the largest first, with the kinds of their nodes."""
    graph, first = analysis.graph, analysis.hops[0]
    confusion, homophily = analysis.per_node[f"nc_{first}"], analysis.per_node["nh_closed"]
    kinds, names = class_kinds(analysis), class_names(graph)
    rows: list[tuple[str, ...]] = []
    for c in np.argsort(-kinds.sum(axis=1), kind="stable"):
        members, nodes = graph.labels == c, int(kinds[c].sum())
        shares = [f"{count / nodes:.1%}" if nodes else "–" for count in kinds[c]]
        means = (number(mean(homophily[members])), number(mean(confusion[members])))
        rows.append((names[c], f"{nodes:,}", *shares, *means))
    head = ("class", "nodes", *KINDS, "mean NH, closed", f"mean NC, k={first}")
    return Table("", head, tuple(rows), searchable=len(rows) > 10)


_KIND_MEANINGS = {
    "clear": "most labeled neighbors are of its own class",
    "mixed": "no class holds more than half of them",
    "contrary": "most are of one other class",
    "alone": "it has no labeled neighbor",
    "unknown": "most are of one class, its own is not known",
}


def _kind_table(analysis: Analysis) -> Table:
    rows = [
        (kind, _KIND_MEANINGS[kind], f"{count:,}", f"{count / analysis.graph.num_nodes:.1%}")
        for kind, count in analysis.kind_counts().items()
    ]
    return Table("Kinds of nodes", ("kind", "meaning", "nodes", "share"), tuple(rows), left=2)


def striking_tables(analysis: Analysis, count: int = STRIKING, most: int = 6) -> list[Table]:
    """The most mixed and the most contrary nodes with up to ``most`` classes around each."""
    names, graph = class_names(analysis.graph), analysis.graph
    tables: list[Table] = []
    for kind, nodes in (("mixed", analysis.mixed), ("contrary", analysis.contrary)):
        rows: list[tuple[str, ...]] = []
        for one in nodes[:count]:
            label = int(graph.labels[one.node])
            own = names[label] if label >= 0 else "–"
            counted = f"{sum(one.neighbors.values()):,}", f"{one.share:.0%}"
            usual = () if kind == "mixed" else (f"{one.usual:.0%}",)
            rows.append((str(graph.ids[one.node]), own, _around(one, most), *counted, *usual))
        head = ("node", "class", "neighbors", "number", "top share")
        head += () if kind == "mixed" else ("usual",)
        title = f"The most {kind} nodes"
        tables.append(Table(title, head, tuple(rows), left=3, compact=True, searchable=True))
    return tables


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


def node_columns(analysis: Analysis) -> dict[str, NDArray[Any]]:
    """One column per fact about a node.

    ``id`` is the user's identifier, ``label`` the class, ``kind`` what :func:`ncgnn.node_kinds`
    says, ``neighbors`` the commonest classes around the node with their counts, ``commonest`` the
    commonest class among the node and its neighbors, ``group_k`` whether NC at hop count k is low
    or high. Classes are names, or numbers where they have none; what is unknown is masked.
    """
    graph = analysis.graph
    columns: dict[str, NDArray[Any]] = {
        "id": graph.ids,
        "label": _classes(graph, graph.labels),
        "kind": analysis.kinds,
        "degree": graph.degrees,
        "neighbors": np.array(analysis.neighbors(), dtype=object),
        "commonest": _classes(graph, analysis.commonest),
        **analysis.per_node,
    }
    for hops in analysis.hops:
        high = confusion_masks(analysis.per_node[f"nc_{hops}"], analysis.threshold)[1]
        columns[f"group_{hops}"] = np.where(high, "high", "low")
    return columns


def _classes(graph: Graph, numbers: NDArray[np.int64]) -> NDArray[Any]:
    """The names of classes, or their numbers; masked where there is none."""
    names = np.arange(graph.num_classes) if graph.class_names is None else graph.class_names
    return np.ma.masked_array(np.array([*names, names[0]])[numbers], mask=numbers < 0)


def striking_columns(
    analysis: Analysis, nodes: Sequence[StrikingNode], most: int = 10
) -> dict[str, NDArray[Any]]:
    """The most mixed or contrary nodes by columns, with up to ``most`` classes around each."""
    graph, first = analysis.graph, analysis.hops[0]
    places = np.array([one.node for one in nodes], dtype=np.int64)
    return {
        "id": graph.ids[places],
        "label": _classes(graph, graph.labels[places]),
        "neighbors": np.array([_around(one, most) for one in nodes], dtype=object),
        "labeled_neighbors": np.array([sum(one.neighbors.values()) for one in nodes], dtype=int),
        "share": np.array([one.share for one in nodes], dtype=np.float64),
        "usual": np.array([one.usual for one in nodes], dtype=np.float64),
        "evidence": np.array([one.evidence for one in nodes], dtype=np.float64),
        f"nc_{first}": analysis.per_node[f"nc_{first}"][places],
    }


def _around(one: StrikingNode, most: int) -> str:
    """The commonest classes around a node, with their counts."""
    shown = [f"{name} {count:,}" for name, count in [*one.neighbors.items()][:most]]
    rest = sum([*one.neighbors.values()][most:])
    return ", ".join(shown + ([f"{rest:,} more"] if rest else []))


def write_columns(
    columns: Mapping[str, NDArray[Any]],
    path: Path,
    table_format: TableFormat = "csv",
    *,
    for_spreadsheet: bool = False,
) -> Path:
    """Write columns of equal length; NaN is empty (CSV) or null (Parquet)."""
    import pyarrow as pa  # costs a command without a file of columns much of its start

    if table_format not in ("csv", "parquet"):
        raise InputError(f"format must be csv or parquet; got '{table_format}'.")
    table = pa.table({name: pa.array(some, from_pandas=True) for name, some in columns.items()})
    return write_table(table, path, table_format, for_spreadsheet=for_spreadsheet)
