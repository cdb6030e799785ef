from __future__ import annotations

from io import StringIO

from rich.console import Console

from ncgnn.report import Grid, Marked, as_latex, as_markdown, as_rich

GRID = Grid(
    "a_b & c",
    ("name", "x|y"),
    (("p*q", Marked("1 ± 2", "best")), (), ("r", Marked("50%", "second"))),
    ("One.", "Two [bold]."),
)


def test_markdown():
    text = as_markdown(GRID)
    assert text.splitlines() == [
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
    lines = as_latex(GRID).splitlines()
    assert r"\caption{a\_b \& c}" in lines
    assert r"p*q & \textbf{1 $\pm$ 2} \\" in lines
    assert r"r & \underline{50\%} \\" in lines
    assert lines.count(r"\midrule") == 2


def test_terminal():
    stream = StringIO()
    Console(file=stream, width=60).print(as_rich(GRID))
    assert "a_b & c" in stream.getvalue()
    assert "Two [bold]." in stream.getvalue()
    assert "1 ± 2" in stream.getvalue()
