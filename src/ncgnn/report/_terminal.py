"""Tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from ncgnn.report._words import facts, meaning, number

if TYPE_CHECKING:
    from ncgnn.metrics import Analysis


def analysis_tables(analysis: Analysis) -> list[Table]:
    """The graph's facts and its metrics."""
    about = Table(title=escape(analysis.graph.name), show_header=False, title_justify="left")
    for name, value in facts(analysis):
        about.add_row(name, value)
    metrics = Table("metric", "value", "meaning", title="Means", title_justify="left")
    metrics.columns[1].justify = "right"
    for key, value in analysis.means.items():
        title, explanation = meaning(key)
        metrics.add_row(title, number(value), explanation, style="bold" if "nc_" in key else "")
    return [about, metrics]
