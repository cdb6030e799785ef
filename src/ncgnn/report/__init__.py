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
    from ncgnn.report._grid import Grid, Marked, as_latex, as_markdown, as_rich
    from ncgnn.report._html import html_report
    from ncgnn.report._model_tables import model_details, model_tables, option_facts
    from ncgnn.report._nodes import node_columns, write_nodes, write_table
    from ncgnn.report._paper_render import paper_figure, paper_grids, write_reproduction
    from ncgnn.report._plan_table import plan_grid
    from ncgnn.report._results_tables import results_columns, results_grids
    from ncgnn.report._run_figures import curves_figure, groups_figure, interplay_figure
    from ncgnn.report._run_html import run_report
    from ncgnn.report._run_write import write_run_report
    from ncgnn.report._tensorboard import EventWriter, write_events
    from ncgnn.report._terminal import analysis_tables
    from ncgnn.report._training_tables import (
        comparison_table,
        evaluation_tables,
        summary_table,
    )
    from ncgnn.report._write import write_analysis

__all__ = [
    "EventWriter",
    "Grid",
    "Marked",
    "analysis_tables",
    "as_latex",
    "as_markdown",
    "as_rich",
    "class_figure",
    "comparison_table",
    "curves_figure",
    "distribution_figure",
    "evaluation_tables",
    "groups_figure",
    "html_report",
    "interplay_figure",
    "model_details",
    "model_tables",
    "node_columns",
    "option_facts",
    "paper_figure",
    "paper_grids",
    "plan_grid",
    "results_columns",
    "results_grids",
    "run_report",
    "save_figure",
    "summary_table",
    "theory_figure",
    "write_analysis",
    "write_events",
    "write_nodes",
    "write_reproduction",
    "write_run_report",
    "write_table",
]

_MODULES = {
    "_figures": ("class_figure", "distribution_figure", "save_figure", "theory_figure"),
    "_grid": ("Grid", "Marked", "as_latex", "as_markdown", "as_rich"),
    "_html": ("html_report",),
    "_model_tables": ("model_details", "model_tables", "option_facts"),
    "_nodes": ("node_columns", "write_nodes", "write_table"),
    "_paper_render": ("paper_figure", "paper_grids", "write_reproduction"),
    "_plan_table": ("plan_grid",),
    "_results_tables": ("results_columns", "results_grids"),
    "_run_figures": ("curves_figure", "groups_figure", "interplay_figure"),
    "_run_html": ("run_report",),
    "_run_write": ("write_run_report",),
    "_tensorboard": ("EventWriter", "write_events"),
    "_terminal": ("analysis_tables",),
    "_training_tables": ("comparison_table", "evaluation_tables", "summary_table"),
    "_write": ("write_analysis",),
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
)
