"""The one table of this package, and how it is shown: terminal, Markdown, LaTeX, HTML, CSV.

Cells hold text that is ready to be read; numbers for programs are written by
:func:`ncgnn.report.write_columns` or as JSON, without rounding.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup
from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from ncgnn._version import __version__
from ncgnn.errors import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jinja2

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class Marked:
    """A cell that stands out: the best of its kind, or the second best."""

    text: str
    mark: Mark = ""


Cell = str | Marked


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: What it shows.
        head: Names of the columns; empty for a table of names and values.
        rows: Cells. An empty row draws a line, a single cell is a heading of the rows below it.
        notes: Sentences below it.
        left: Number of columns that are aligned to the left; the others hold numbers.
        text: Columns of text to the right of numbers.
        compact: In the terminal, without a frame.
        unbroken: In the terminal, columns that are never wrapped.
        widths: In the terminal, the most letters of a column.
        searchable: In HTML, whether its rows can be filtered, and sorted by a click on the head.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1
    text: tuple[int, ...] = ()
    compact: bool = False
    unbroken: tuple[int, ...] = ()
    widths: Mapping[int, int] = field(default_factory=dict[int, int])
    searchable: bool = False

    @property
    def columns(self) -> int:
        """Number of columns."""
        return max([len(self.head), *(len(row) for row in self.rows)])

    def is_text(self, place: int) -> bool:
        """Whether a column is aligned to the left."""
        return place < self.left or place in self.text

    def __rich__(self) -> Group:
        """For the terminal; the best is bold, the second best underlined."""
        table = RichTable(show_header=bool(self.head))
        if self.compact:
            table.box, table.padding = box.SIMPLE_HEAD, (0, 1, 0, 0)
        for place, name in enumerate(self.head or [""] * self.columns):
            table.add_column(
                escape(visible(name)),
                justify="left" if self.is_text(place) else "right",
                no_wrap=place in self.unbroken,
                max_width=self.widths.get(place),
                overflow="fold",
            )
        styles = {"": "{}", "best": "[bold]{}[/bold]", "second": "[underline]{}[/underline]"}
        for row in self.rows:
            if len(row) <= 1:
                table.add_section()
            if row:
                marks = ["best"] if len(row) == 1 else [_mark(cell) for cell in row]
                texts = [escape(visible(_text(cell))) for cell in row]
                table.add_row(*(styles[m].format(t) for m, t in zip(marks, texts, strict=True)))
        # Beside the table and not of it: a narrow one would break them into many lines.
        title = [Text(visible(self.title), style="italic")] if self.title else []
        notes = [Text(visible(" ".join(self.notes)), style="dim italic")] if self.notes else []
        return Group(*title, table, *notes)

    def markdown(self) -> str:
        """For a document; the best is bold, the second best italic."""
        align = ["---" if self.is_text(place) else "---:" for place in range(self.columns)]
        styles = {"": "{}", "best": "**{}**", "second": "*{}*"}
        lines = [_line([_markdown(name) for name in self.head or [""] * self.columns])]
        lines.append(_line(align))
        for row in self.rows:
            if len(row) == 1:
                lines.append(_line([f"**{_markdown(_text(row[0]))}**"]))
            elif row:
                lines.append(_line([styles[_mark(c)].format(_markdown(_text(c))) for c in row]))
        title = [f"**{_markdown(self.title)}**"] if self.title else []
        notes = [" ".join(self.notes)] if self.notes else []
        return "\n\n".join([*title, "\n".join(lines), *notes]) + "\n"

    def latex(self) -> str:
        r"""For a paper, with ``booktabs``; the best is bold, the second best underlined."""
        styles = {"": "%s", "best": r"\textbf{%s}", "second": r"\underline{%s}"}
        columns = "".join("l" if self.is_text(place) else "r" for place in range(self.columns))
        lines = [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.title)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(_latex(name) for name in self.head) + r" \\",
            r"\midrule",
        ]
        for row in self.rows:
            cells = [styles[_mark(cell)] % _latex(_text(cell)) for cell in row]
            lines.append(" & ".join(cells) + r" \\" if row else r"\midrule")
        notes = [rf"\par\medskip {_latex(note)}" for note in self.notes]
        lines += [r"\bottomrule", r"\end{tabular}", *notes]
        return "\n".join([*lines, r"\end{table}"]) + "\n"

    def html(self) -> Markup:
        """The ``<table>`` element alone, for a page of :func:`render`."""
        return Markup(render("table.html", table=self))  # noqa: S704 (the template escapes)

    def plain(self) -> dict[str, Any]:
        """Title, head, rows and notes as text, for JSON."""
        rows = [[_text(cell) for cell in row] for row in self.rows if row]
        return {"title": self.title, "head": self.head, "rows": rows, "notes": self.notes}

    def csv(self) -> str:
        """Comma-separated; lines between rows and marks are left out."""
        stream = StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([self.head] if self.head else [])
        writer.writerows([_text(cell) for cell in row] for row in self.rows if row)
        return stream.getvalue()


def render(template: str, **values: Any) -> str:
    """An HTML text from a template of this package; all values are escaped."""
    return _templates().get_template(template).render(values, version=__version__)


@cache
def _templates() -> jinja2.Environment:
    # Only here, so that tables in a terminal do not wait for it.
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("ncgnn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"text": _text, "mark": _mark}
    return templates


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Marked) else cell


def _mark(cell: Cell) -> Mark:
    return cell.mark if isinstance(cell, Marked) else ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", "<br>")


def _latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "±": r"$\pm$", "−": "$-$", "–": "--", "≤": r"$\leq$"}
    special |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    special |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", "α": r"$\alpha$"}
    inside = text.lstrip(" ")
    indent = r"\quad " if len(inside) < len(text) else ""
    return indent + "".join(special.get(sign, sign) for sign in inside)
