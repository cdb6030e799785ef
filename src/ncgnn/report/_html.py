"""A report of one analysis as a single HTML file that needs nothing else."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from ncgnn._version import __version__
from ncgnn.report._figures import class_figure, distribution_figure, picture
from ncgnn.report._words import class_rows, facts, meaning, most_confused, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from ncgnn.metrics import Analysis

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; } .muted { color: #666; }
"""


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
        _table((), facts(analysis)),
        "<h2>How confused are the nodes?</h2>",
        _image(distribution_figure(analysis), "Distributions of 1 − NH and NC"),
        "<p>Neighborhood Confusion (NC) is 0 where a node and its neighbours all have the same "
        "label and 1 where all classes are equally common among them. Unlike homophily it does not "
        "ask whether they agree with the node itself. Means are over the nodes where a metric is "
        "defined.</p>",
        _table(("metric", "value", "meaning"), metrics),
        "<h2>Classes</h2>",
        _table(("class", "nodes", "mean NH, closed", f"mean NC, k={first}"), class_rows(analysis)),
        _image(class_figure(analysis), "Shares of edges between classes"),
        "<h2>The most confused nodes</h2>",
        _table(nodes_head, most_confused(analysis)),
        f'<p class="muted">Made by ncgnn {__version__}.</p>',
    ]
    title = f"<title>{escape(graph.name)} · ncgnn</title>"
    head = f'<meta charset="utf-8">{title}<style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{titles}</tr>' if head else ''}{lines}</table>"


def _cell(value: str) -> str:
    digits = value.replace(",", "").replace(".", "").removesuffix("%").isdigit()
    return f"<td{' class=number' if digits else ''}>{escape(value)}</td>"


def _image(figure: Figure, text: str) -> str:
    data = b64encode(picture(figure, "png", dpi=130)).decode()
    return f'<p><img alt="{escape(text)}" src="data:image/png;base64,{data}"></p>'
