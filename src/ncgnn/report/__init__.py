"""Tables, figures and reports for people."""

from typing import TYPE_CHECKING

from ncgnn._lazy import lazy_exports

if TYPE_CHECKING:
    from ncgnn.report._figures import (
        class_figure,
        distribution_figure,
        save_figure,
        theory_figure,
    )
    from ncgnn.report._html import html_report
    from ncgnn.report._nodes import node_columns, write_nodes
    from ncgnn.report._terminal import analysis_tables
    from ncgnn.report._write import write_analysis

__all__ = [
    "analysis_tables",
    "class_figure",
    "distribution_figure",
    "html_report",
    "node_columns",
    "save_figure",
    "theory_figure",
    "write_analysis",
    "write_nodes",
]

_MODULES = {
    "_figures": ("class_figure", "distribution_figure", "save_figure", "theory_figure"),
    "_html": ("html_report",),
    "_nodes": ("node_columns", "write_nodes"),
    "_terminal": ("analysis_tables",),
    "_write": ("write_analysis",),
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
)
