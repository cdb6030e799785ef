from __future__ import annotations

from io import StringIO

import numpy as np
from rich.console import Console

from ncgnn.report import Marked, Table, percent

TABLE = Table(
    "a_b & c",
    ("name", "x|y"),
    (("p*q", Marked("1 ± 2", "best")), (), ("r", Marked("50%", "second"))),
    ("One.", "Two [bold]."),
)


def printed(table: Table, width: int = 60) -> str:
    stream = StringIO()
    Console(file=stream, width=width).print(table)
    return stream.getvalue()


def test_markdown():
    assert TABLE.markdown().splitlines() == [
        "**a_b & c**",
        "",
        "| name | x\\|y |",
        "| --- | ---: |",
        "| p\\*q | **1 ± 2** |",
        "| r | *50%* |",
        "",
        "One. Two [bold].",
    ]


def test_latex():
    lines = TABLE.latex().splitlines()
    assert r"\caption{a\_b \& c}" in lines
    assert r"p*q & \textbf{1 $\pm$ 2} \\" in lines
    assert r"r & \underline{50\%} \\" in lines
    assert lines.count(r"\midrule") == 2


def test_html_is_escaped_and_numbers_stand_at_the_right():
    text = Table("", ("a<b",), (("<i>", Marked("1&2", "best")),)).html()
    assert "<th>a&lt;b</th>" in text
    assert '<td>&lt;i&gt;</td><td class="number"><strong>1&amp;2</strong></td>' in text


def test_csv():
    assert TABLE.csv() == "name,x|y\np*q,1 ± 2\nr,50%\n"


def test_terminal():
    text = printed(TABLE)
    for part in ("a_b & c", "Two [bold].", "1 ± 2"):
        assert part in text


def test_headings_and_columns_that_are_never_broken():
    rows = (("kind",), ("long-name", "words " * 30), ("other",), ("x", "y"))
    text = printed(Table("", (), rows, left=2, unbroken=(0,), widths={1: 20}), width=40)
    assert "long-name" in text
    assert max(map(len, text.splitlines())) < 40
    assert text.index("kind") < text.index("long-name") < text.index("other")


def test_shares_of_numpy_are_percent_too():
    assert percent(np.float32(0.5)) == percent(0.5) == "50.00"
