"""Explanations as tables for the terminal and as a page of their own."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from pyarrow import csv

from ncgnn.errors import InputError
from ncgnn.report import explanation_page, explanation_tables, write_explanation
from ncgnn.training import Effect, Explanation

ANSWER = {
    "id": "<b>exim</b>",
    "part": "test",
    "label": None,
    "predicted": "mail",
    "probability": 0.93,
    "runner_up": "net",
    "runner_up_probability": 0.05,
    "nc": 0.31,
    "kind": "clear",
    "group": "low",
    "seen": False,
}
LONG = "a package with a very long name that no picture has room for & more"


def make(count=20):
    effects = [
        Effect("neighbors", None, 0.5, 2.9, 0.43, "net", 0.5),
        Effect("features", None, -0.02, -0.4, 0.95, "mail", 0.95),
        Effect("neighbor", LONG, 0.2, 1.6, 0.73, "mail", 0.73, "net", "in", 2.0),
    ]
    effects += [
        Effect("neighbor", f"n{i}", -0.001 * i, -0.1, 0.93, "mail", 0.9, f"c{i}", "out")
        for i in range(count - 1)
    ]
    effects += [
        Effect("column", "text", 0.1, 1.0, 0.83, "mail", 0.83),
        Effect("feature", "text: server", 0.08, 0.9, 0.85, "mail", 0.85, value=0.4),
    ]
    tried = {"neighbors": count, "features": 1}
    return Explanation(ANSWER, tuple(effects), 900, 1, tried, ("880 more.",), "gcn", "debian")


class Elements(HTMLParser):
    """Counts elements and checks that what is opened is closed."""

    def __init__(self):
        super().__init__()
        self.counts, self.open = {}, []

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in ("meta", "input", "circle", "path", "rect", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page):
    elements = Elements()
    elements.feed(page)
    assert not elements.open
    return elements.counts


def test_the_page_shows_everything_and_needs_nothing_else():
    page = explanation_page(make())
    counts = read(page)
    assert counts["path"] == 20  # a line per neighbor
    assert counts["circle"] == 21
    assert counts["rect"] == 4
    assert counts["tr"] >= 25
    assert "src=" not in page
    assert not re.findall(r'(?:href|url)\W*["(]?https?:', page)
    assert "<b>exim" not in page
    assert "prefers-color-scheme: dark" in page
    assert LONG.replace("&", "&amp;") in page  # in full in the table
    assert "880 more." in page
    assert "speak for mail" in page
    assert "predicted to be mail?</h1>" in page  # the label may be another


def test_pages_without_neighbors_or_effects():
    alone = make(0)
    bare = Explanation(
        ANSWER, tuple(alone.of("features")), 0, 3, {"neighbors": 0, "features": 0}, (), "mlp", "g"
    )
    assert "<h2>Neighbors" not in explanation_page(bare)
    empty = Explanation(ANSWER, (), 0, 0, {"neighbors": 0, "features": 0}, (), "mlp", "g")
    read(explanation_page(empty))
    assert explanation_tables(empty) == []


def test_the_table_for_the_terminal():
    (table,) = explanation_tables(make())
    names = [row[0] for row in table.rows]
    assert names[:2] == ["all at once", "  all neighbors"]
    assert [name for name in names if not name.startswith(" ")] == [
        *("all at once", "neighbors", "columns", "features"),
    ]
    assert table.rows[1][4].text == "net (0.50)"
    assert table.rows[1][4].mark == "best"
    assert table.rows[2][4] == "the same"
    shortened = names[4]
    assert shortened.startswith("  ← a package")
    assert shortened.endswith("… (net)")
    assert "0.930" in table.notes[0]


def test_files(tmp_path):
    found = make()
    assert "<svg" in write_explanation(found, tmp_path / "why.html").read_text("utf-8")
    assert csv.read_csv(write_explanation(found, tmp_path / "why.csv")).num_rows == len(found)
    with pytest.raises(InputError, match=r"must end in \.html, \.csv"):
        write_explanation(found, tmp_path / "why.pdf")
    assert not (tmp_path / "why.pdf").exists()
