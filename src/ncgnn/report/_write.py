"""Writing an analysis to a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn._files import write_text
from ncgnn.report._figures import class_figure, distribution_figure, save_figure
from ncgnn.report._html import html_report
from ncgnn.report._nodes import TableFormat, write_nodes

if TYPE_CHECKING:
    from ncgnn.metrics import Analysis


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
