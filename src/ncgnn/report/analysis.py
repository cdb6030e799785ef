"""Writing an analysis to a folder.

Figures of the metrics: readable in print and by colour-blind people.

What the numbers are called and what they mean, in one place for terminal and HTML.

A report of one analysis as a single HTML file that needs nothing else.

The per-node vectors as a table on disk.

Tables for the terminal.
"""

from __future__ import annotations

import json
import math
import warnings
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.markup import escape as escape_terminal
from rich.table import Table

from ncgnn._io import atomic_write, write_text
from ncgnn.errors import InputError
from ncgnn.metrics import conditional_entropy, confusion_masks, error_lower_bound, mean
from ncgnn.report.tables import image, page, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.metrics import Analysis

# Okabe and Ito's palette.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "svg.hashsalt": "ncgnn",
    "text.parse_math": False,  # names of people's classes are no formulas
}
_BINS = np.linspace(0, 1, 26)


def distribution_figure(analysis: Analysis) -> Figure:
    """How the nodes are distributed by 1 - NH and by NC, one panel per hop count.

    The figure "Distributions of nodes guided by NH and NC" of "Clarify Confused Nodes via Separated
    Learning"; dashed lines are the means. NH is that of the closed neighbourhood, as in the paper's
    table.
    """
    with rc_context(STYLE):
        panels = len(analysis.hops)
        figure = Figure(figsize=(1.2 + 3.4 * panels, 3.3), layout="constrained")
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
        figure.suptitle(f"{analysis.graph.name}: how confused are the nodes?")
        return figure


def _histogram(
    axis: Axes, values: NDArray[np.float64], colour: str, label: str, hatch: str
) -> None:
    defined = values[~np.isnan(values)]
    weights = np.full(len(defined), 1 / max(len(defined), 1))
    average = mean(values)
    name = f"{label} (mean {average:.3f})"
    style: dict[str, Any] = {
        "facecolor": colour + "55",
        "edgecolor": colour,
        "linewidth": 1.2,
        "hatch": hatch,
    }
    style |= {"histtype": "stepfilled", "label": name}
    axis.hist(defined, bins=_BINS.tolist(), weights=weights, **style)
    if not np.isnan(average):
        axis.axvline(average, color=colour, linestyle="--", linewidth=1.4)


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
        figure.colorbar(image, ax=axis, label="share of the row's edges", shrink=0.8)
        names = analysis.graph.class_names or tuple(str(c) for c in range(count))
        if count <= 40:
            axis.set_xticks(range(count), [_short(name) for name in names], rotation=90)
            axis.set_yticks(range(count), [_short(name) for name in names])
        if count <= 12:
            _write_shares(axis, shares)
        axis.set_xlabel("class of the neighbour")
        axis.set_ylabel("class of the node")
        axis.spines[:].set_visible(False)
        figure.suptitle(f"{analysis.graph.name}: who is connected with whom?")
        return figure


def _write_shares(axis: Axes, shares: NDArray[np.float64]) -> None:
    for (row, column), share in np.ndenumerate(shares):
        if not np.isnan(share):
            colour = "black" if share > 0.55 else "white"
            text = f"{share:.2f}".removeprefix("0")
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)


def theory_figure(classes: Sequence[int] = (2, 3, 5, 10, 15)) -> Figure:
    """Conditional entropy and Fano's error bound against NC, for several numbers of classes.

    The curve of the appendix of "Clarify Confused Nodes via Separated Learning".
    """
    if not 1 <= len(classes) <= 8:
        raise InputError(f"{len(classes)} numbers of classes were given; draw 1 to 8 of them.")
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        confusion = np.linspace(0, 1, 401)
        colours = [BLUE, ORANGE, GREEN, VERMILION, PURPLE, "#56B4E9", "#000000", "#F0E442"]
        dashes = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2))]
        for count, colour, dash in zip(classes, colours, dashes, strict=False):
            line: dict[str, Any] = {"color": colour, "linestyle": dash, "label": f"C = {count}"}
            left.plot(confusion, conditional_entropy(confusion, count), **line)
            right.plot(confusion, error_lower_bound(confusion, count), **line)
        right.axhline(0, color="grey", linewidth=0.8)
        left.set_ylabel("conditional entropy (bits)")
        right.set_ylabel("lower bound of the error rate")
        for axis in (left, right):
            axis.set_xlabel("Neighborhood Confusion")
            axis.set_xlim(0, 1)
        right.legend(frameon=False, loc="lower right")
        return figure


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; returns the paths."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        with atomic_write(path) as stream:
            stream.write(picture(figure, path.suffix[1:]))
    return paths


def picture(figure: Figure, image_format: str, dpi: int = 160) -> bytes:
    """A figure as the bytes of a PNG or SVG file, the same for the same figure."""
    stream = BytesIO()
    FigureCanvasAgg(figure)
    metadata: dict[str, Any] = {"Date": None} if image_format == "svg" else {}
    with rc_context(STYLE), warnings.catch_warnings():
        # A script that the font lacks is drawn as boxes; the names are in the tables.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(stream, format=image_format, dpi=dpi, metadata=metadata)
    return stream.getvalue()


def _short(name: str, limit: int = 18) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


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


def html_report(analysis: Analysis) -> str:
    """The whole report as HTML, pictures included."""
    graph = analysis.graph
    first = analysis.hops[0]
    metrics = [
        (meaning(key)[0], number(value), meaning(key)[1]) for key, value in analysis.means.items()
    ]
    nodes_head = ("node", "class", "degree", f"NC, k={first}", "commonest class around")
    parts = [
        f"<h1>{escape(graph.name)}</h1>",
        f'<p class="muted">{escape(graph.origin)}</p>' if graph.origin else "",
        table((), facts(analysis)),
        "<h2>How confused are the nodes?</h2>",
        image(
            picture(distribution_figure(analysis), "png", dpi=130), "Distributions of 1 − NH and NC"
        ),
        "<p>Neighborhood Confusion (NC) is 0 where a node and its neighbours all have the same "
        "label and 1 where all classes are equally common among them. Unlike homophily it does not "
        "ask whether they agree with the node itself. Means are over the nodes where a metric is "
        "defined.</p>",
        table(("metric", "value", "meaning"), metrics),
        "<h2>Classes</h2>",
        table(("class", "nodes", "mean NH, closed", f"mean NC, k={first}"), class_rows(analysis)),
        image(picture(class_figure(analysis), "png", dpi=130), "Shares of edges between classes"),
        "<h2>The most confused nodes</h2>",
        table(nodes_head, most_confused(analysis)),
    ]
    return page(graph.name, parts)


TableFormat = Literal["csv", "parquet"]


def node_columns(analysis: Analysis) -> dict[str, NDArray[Any]]:
    """One column per fact about a node.

    ``node`` is the user's identifier, ``label`` the class number, ``commonest`` the commonest class
    among the node and its neighbours, ``group_k`` whether NC at hop count k is low or high.
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
        columns["class"] = _names(graph.labels, graph.class_names)
        columns["commonest_class"] = _names(analysis.commonest, graph.class_names)
    for hops in analysis.hops:
        high = confusion_masks(analysis.per_node[f"nc_{hops}"], analysis.threshold)[1]
        columns[f"group_{hops}"] = np.where(high, "high", "low")
    return columns


def _names(numbers: NDArray[np.int64], names: tuple[str, ...]) -> NDArray[Any]:
    return np.array([*names, ""])[np.where(numbers < 0, len(names), numbers)]


def write_nodes(analysis: Analysis, path: Path, table_format: TableFormat = "csv") -> Path:
    """Write the per-node table; undefined values are empty (CSV) or null (Parquet)."""
    return write_table(node_columns(analysis), path, table_format)


def write_table(
    columns: Mapping[str, NDArray[Any]], path: Path, table_format: TableFormat = "csv"
) -> Path:
    """Write columns of equal length; NaN is empty (CSV) or null (Parquet)."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if table_format not in ("csv", "parquet"):
        raise InputError(f"format is '{table_format}'; choose csv or parquet.")
    arrays = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    table = pa.table(arrays)
    with atomic_write(path) as stream:
        if table_format == "csv":
            pyarrow.csv.write_csv(table, stream)
        else:
            pyarrow.parquet.write_table(table, stream)
    return path


def analysis_tables(analysis: Analysis) -> list[Table]:
    """The graph's facts and its metrics."""
    about = Table(
        title=escape_terminal(analysis.graph.name), show_header=False, title_justify="left"
    )
    for name, value in facts(analysis):
        about.add_row(name, value)
    metrics = Table("metric", "value", "meaning", title="Means", title_justify="left")
    metrics.columns[1].justify = "right"
    for key, value in analysis.means.items():
        title, explanation = meaning(key)
        metrics.add_row(title, number(value), explanation, style="bold" if "nc_" in key else "")
    return [about, metrics]


def write_analysis(
    analysis: Analysis, folder: Path | str, table_format: TableFormat = "csv"
) -> list[Path]:
    """Write summary, per-node table, figures and HTML report; returns the paths, report first.

    Args:
        analysis: What :func:`ncgnn.analyze` returned.
        folder: Where to; made if it is missing, files of an earlier analysis are replaced.
        table_format: Of the per-node table, ``"csv"`` or ``"parquet"``.
    """
    folder = Path(folder)
    nodes = write_nodes(analysis, folder / f"nodes.{table_format}", table_format)
    for other in folder.glob("nodes.*"):
        if other != nodes:
            other.unlink()  # of an earlier analysis in the other format
    summary = folder / "summary.json"
    write_text(summary, json.dumps(analysis.to_json(), indent=2) + "\n")
    pictures = [
        *save_figure(distribution_figure(analysis), folder, "distribution"),
        *save_figure(class_figure(analysis), folder, "classes"),
    ]
    report = folder / "report.html"
    write_text(report, html_report(analysis))
    return [report, summary, nodes, *pictures]
