"""The pieces that every HTML report is made of.

Tables that are printed, put into a document, or typeset.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ncgnn._version import __version__

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


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; } .muted { color: #666; }
"""


def page(title: str, parts: Sequence[str], style: str = "") -> str:
    """A whole HTML page that needs no other file.

    Args:
        title: What the browser shows in the tab, as text.
        parts: The body, as HTML; a line that names the program ends it.
        style: CSS beside that of all reports.
    """
    made_by = f'<p class="muted">Made by ncgnn {__version__}.</p>'
    head = (
        f'<meta charset="utf-8"><title>{escape(title)} · ncgnn</title>'
        f"<style>{_STYLE}{style}</style>"
    )
    body = "".join([*parts, made_by])
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as a table; without titles where ``head`` is empty."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{titles}</tr>' if head else ''}{lines}</table>"


def image(png: bytes, text: str) -> str:
    """A picture within the page; ``text`` is for those who cannot see it."""
    data = b64encode(png).decode()
    return f'<p><img alt="{escape(text)}" src="data:image/png;base64,{data}"></p>'


def _cell(value: str) -> str:
    digits = value.replace(",", "").replace(".", "").removesuffix("%").isdigit()
    return f"<td{' class=number' if digits else ''}>{escape(value)}</td>"
