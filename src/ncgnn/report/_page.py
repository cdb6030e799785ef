"""The pieces that every HTML report is made of."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from ncgnn._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

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
