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
    assert counts["path"] == 19  # a line per neighbor but that of no effect
    assert counts["circle"] == 20
    assert page.count('class="scale"') == 4
    assert counts["tr"] >= 25
    assert "src=" not in page
    assert not re.findall(r'(?:href|url)\W*["(]?https?:', page)
    assert "<b>exim" not in page
    assert "prefers-color-scheme: dark" in page
    assert LONG.replace("&", "&amp;") in page  # in full in the table
    assert "880 more." in page
    assert "speak for mail" in page
    assert "Why was mail predicted for " in page  # the label may be another


def test_the_question_is_why_it_was_predicted():
    found = make()
    page = explanation_page(Explanation(**{**vars(found), "answer": {**ANSWER, "id": "exim"}}))
    assert "<h1>Why was mail predicted for exim?</h1>" in page


def test_bars_of_all_pictures_have_one_scale():
    page = explanation_page(make())
    bars = re.findall(r'<i class="(for|against)" style="left: ([\d.]+)%; width: ([\d.]+)%"', page)
    sizes = [float(width) for _, _, width in bars]
    unit = 100 / 0.52  # from -0.02 to 0.5
    assert sizes == pytest.approx([0.5 * unit, 0.02 * unit, 0.1 * unit, 0.08 * unit], abs=0.01)
    assert [name for name, _, _ in bars] == ["for", "against", "for", "for"]
    assert float(bars[1][1]) == 0
    assert page.count("All bars have the same scale.") == 1


def test_what_would_read_zero_has_no_bar_but_stays_in_the_table():
    tiny = Effect("column", "mode", -0.0004, -0.01, 0.93, "mail", 0.93)
    found = make(1)
    page = explanation_page(Explanation(**{**vars(found), "effects": (*found.effects, tiny)}))
    assert page.count('class="scale"') == 4
    assert "-0.000<" not in page
    assert "-0.0004" in page
    assert "(1 here)" in page


def test_the_effect_stands_beside_the_name():
    page = explanation_page(make())
    heads = re.findall(r"<th[^>]*>(.*?)</th>", page)
    assert heads[:2] == ["left out", "effect"]
    row = re.search(r"<tr>(<td>text: server</td>.*?)</tr>", page)
    cells = re.findall(r"<td( class=\"number\")?>(.*?)</td>", row[1])
    assert [text for _, text in cells[:2]] == ["text: server", "+0.0800"]
    assert [bool(number) for number, _ in cells] == [False, True, True, True, False, False, False]


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
    assert "labels of training nodes and predictions of all others" in table.notes[1]


def test_files(tmp_path):
    found = make()
    assert "<svg" in write_explanation(found, tmp_path / "why.html").read_text("utf-8")
    assert csv.read_csv(write_explanation(found, tmp_path / "why.csv")).num_rows == len(found)
    with pytest.raises(InputError, match=r"must end in \.html, \.csv"):
        write_explanation(found, tmp_path / "why.pdf")
    assert not (tmp_path / "why.pdf").exists()
