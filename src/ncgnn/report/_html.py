"""A report of one analysis as a single HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ncgnn.report._figures import class_figure, distribution_figure, picture
from ncgnn.report._page import image, page, table
from ncgnn.report._words import class_rows, facts, meaning, most_confused, number

if TYPE_CHECKING:
    from ncgnn.metrics import Analysis


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
