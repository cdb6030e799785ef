"""A reproduced table or figure on the screen and on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._files import write_text
from ncgnn.experiments._requesting import decided_by_rows, overridden_files
from ncgnn.report import _appendix_tables as appendix
from ncgnn.report import _paper_tables as tables
from ncgnn.report._figures import save_figure
from ncgnn.report._grid import Grid, as_latex, as_markdown
from ncgnn.report._paper_axes import footnote

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from ncgnn.experiments import Reproduction
    from ncgnn.training import ConfigFile

_ACCURACY = (tables.accuracy_grid, tables.macro_f1_grid)
_GRIDS: dict[str, tuple[Callable[[Any], Grid], ...]] = {
    "table1": _ACCURACY,
    "table2": _ACCURACY,
    "classic-uniform": _ACCURACY,
    "classic-published": _ACCURACY,
    "leaderboard": (tables.leaderboard_grid,),
    "duplication": (appendix.duplication_grid,),
    "efficiency": (appendix.efficiency_grid,),
}


def paper_grids(made: Reproduction) -> list[Grid]:
    """The tables of a reproduction; a figure has none."""
    if made.target.kind == "figure":
        return []
    grids = [render(made.data) for render in _GRIDS[made.target.name]]
    said = _settings(made)
    return [replace(grid, notes=(*grid.notes, said)) for grid in grids] if said else grids


def _settings(made: Reproduction) -> str:
    """Options by which the runs differ from what the table or figure shows by itself."""
    partly = decided_by_rows(made)
    overridden = overridden_files(made)
    said = [
        f"options of {file.path.name} for {file.scope}{_found_for(file, made.request.split)}"
        f"{' where a row is not about them' if file.path in overridden else ''}"
        for file in made.request.files
    ]
    said += [
        f"{key}={json.dumps(value)}{' where a row is not about it' if key in partly else ''}"
        for key, value in made.request.settings
    ]
    return f"With {', '.join(said)}." if said else ""


def _found_for(file: ConfigFile, split: str) -> str:
    """Another family of splits, if a file names one: nodes tested here were trained on there."""
    return "" if file.split in (None, split) else f" (found for {file.split} splits)"


def _runs(made: Reproduction) -> str:
    """Split family and seeds of the runs that a figure rests on; nothing if it needs none."""
    if not made.target.models:
        return ""
    several = "s" if len(made.request.seeds) > 1 else ""
    seeds = f"seed{several} {', '.join(str(seed) for seed in made.request.seeds)}"
    return f"{made.request.split.capitalize()} split, {seeds}"


def paper_figure(made: Reproduction) -> Figure:
    """The figure of a reproduction."""
    from ncgnn.report import _paper_figures as figures

    with footnote(". ".join(filter(None, (_runs(made), _settings(made))))):
        return figures.DRAWN[made.target.name](made.data)


def write_reproduction(made: Reproduction, folder: Path | str) -> list[Path]:
    """Write a table as Markdown and LaTeX, or a figure as PNG and SVG; returns the paths."""
    name, folder = made.target.name, Path(folder)
    if made.target.kind == "figure":
        return save_figure(paper_figure(made), folder, name)
    grids = paper_grids(made)
    paths: list[Path] = []
    for suffix, render in ((".md", as_markdown), (".tex", as_latex)):
        path = folder / f"{name}{suffix}"
        write_text(path, "\n".join(render(grid) for grid in grids))
        paths.append(path)
    return paths
