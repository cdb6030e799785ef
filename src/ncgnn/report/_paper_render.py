"""A reproduced table or figure on the screen and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn._files import write_text
from ncgnn.report import _paper_tables as tables
from ncgnn.report._figures import save_figure
from ncgnn.report._grid import Grid, as_latex, as_markdown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure

    from ncgnn.experiments import Reproduction

_GRIDS: dict[str, tuple[Callable[[Any], Grid], ...]] = {
    "table1": (tables.accuracy_grid, tables.macro_f1_grid),
    "table2": (tables.accuracy_grid, tables.macro_f1_grid),
    "leaderboard": (tables.leaderboard_grid,),
    "duplication": (tables.duplication_grid,),
    "efficiency": (tables.efficiency_grid,),
}


def paper_grids(made: Reproduction) -> list[Grid]:
    """The tables of a reproduction; a figure has none."""
    return [render(made.data) for render in _GRIDS.get(made.target.name, ())]


def paper_figure(made: Reproduction) -> Figure:
    """The figure of a reproduction."""
    from ncgnn.report import _paper_figures as figures

    return figures.DRAWN[made.target.name](made.data)


def write_reproduction(made: Reproduction, folder: Path) -> list[Path]:
    """Write a table as Markdown and LaTeX, or a figure as PNG and SVG; returns the paths."""
    name = made.target.name
    if made.target.kind == "figure":
        return save_figure(paper_figure(made), folder, name)
    grids = paper_grids(made)
    paths: list[Path] = []
    for suffix, render in ((".md", as_markdown), (".tex", as_latex)):
        path = folder / f"{name}{suffix}"
        write_text(path, "\n".join(render(grid) for grid in grids))
        paths.append(path)
    return paths
