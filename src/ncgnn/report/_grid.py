"""Tables that are printed, put into a document, or typeset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class Marked:
    """A cell that stands out."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True)
class Grid:
    """A table of words.

    Attributes:
        title: What it shows.
        head: Names of the columns; the first ``left`` hold names, the others numbers.
        rows: Cells; an empty row draws a line.
        notes: Sentences below it.
        left: Number of columns that are aligned to the left.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | Marked, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1


def as_rich(grid: Grid) -> Group:
    """For the terminal; the best is bold, the second best underlined."""
    table = Table()
    for place, name in enumerate(grid.head):
        table.add_column(escape(name), justify="left" if place < grid.left else "right")
    styles = {"": "{}", "best": "[bold]{}[/bold]", "second": "[underline]{}[/underline]"}
    for row in grid.rows:
        if not row:
            table.add_section()
            continue
        table.add_row(*(styles[_mark(cell)].format(escape(_text(cell))) for cell in row))
    # Beside the table and not of it: a narrow one would break them into many lines.
    notes = [Text(" ".join(grid.notes), style="dim italic")] if grid.notes else []
    return Group(Text(grid.title, style="italic"), table, *notes)


def as_markdown(grid: Grid) -> str:
    """For a document; the best is bold, the second best italic."""
    align = ["---"] * grid.left + ["---:"] * (len(grid.head) - grid.left)
    styles = {"": "{}", "best": "**{}**", "second": "*{}*"}
    lines = [_line([_plain(name) for name in grid.head]), _line(align)]
    for row in grid.rows:
        if row:
            lines.append(_line([styles[_mark(c)].format(_plain(_text(c))) for c in row]))
    parts = [
        f"**{_plain(grid.title)}**",
        "\n".join(lines),
        *([" ".join(grid.notes)] * bool(grid.notes)),
    ]
    return "\n\n".join(parts) + "\n"


def as_latex(grid: Grid) -> str:
    r"""For a paper, with ``booktabs``; the best is bold, the second best underlined."""
    styles = {"": "%s", "best": r"\textbf{%s}", "second": r"\underline{%s}"}
    columns = "l" * grid.left + "r" * (len(grid.head) - grid.left)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(grid.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(_latex(name) for name in grid.head) + r" \\",
        r"\midrule",
    ]
    for row in grid.rows:
        cells = [styles[_mark(cell)] % _latex(_text(cell)) for cell in row]
        lines.append(" & ".join(cells) + r" \\" if row else r"\midrule")
    notes = [rf"\par\medskip {_latex(note)}" for note in grid.notes]
    lines += [r"\bottomrule", r"\end{tabular}", *notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _text(cell: str | Marked) -> str:
    return cell.text if isinstance(cell, Marked) else cell


def _mark(cell: str | Marked) -> Mark:
    return cell.mark if isinstance(cell, Marked) else ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "±": r"$\pm$", "−": "$-$", "–": "--", "≤": r"$\leq$"}
    special |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    special |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", "α": r"$\alpha$"}
    inside = text.lstrip(" ")
    indent = r"\quad " if len(inside) < len(text) else ""
    return indent + "".join(special.get(sign, sign) for sign in inside)
