"""Names from files: they give no orders to a terminal, and are no formulas in a spreadsheet."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.errors import visible

ORDER, FORMULA = "\x1b]0;owned\x07", "=cmd|'/c calc'!A1"
HIDDEN = ("\x1b", "\x07", "\x9b", "\u202e", "\r")

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = ncgnn.generate(120, 360, classes=3, features=4, homophily=0.7, seed=1)
    lines = ["name,x,kind"]
    names = [f"n{i}{ORDER}\u202e" for i in range(120)]
    kinds = [f"red{ORDER}", FORMULA, "plain\x9b31m"]
    values = graph.features[:, 0]
    lines += [f'"{n}",{x:.3f},"{kinds[c]}"' for n, x, c in zip(names, values, graph.labels,
                                                              strict=True)]  # fmt: skip
    (tmp_path / "nodes.csv").write_text("\n".join(lines) + "\n")
    ends = np.array(names)[graph.edge_index()]
    edges = ["a,b", *(f'"{a}","{b}"' for a, b in ends.T)]
    (tmp_path / "edges.csv").write_text("\n".join(edges) + "\n")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_no_name_gives_orders_to_the_terminal(place):
    commands = [
        ["import", "nodes.csv", "edges.csv", "--id", "name", "--label", "kind", "--out", "mine"],
        ["analyze", "mine"],
        ["train", "mine", "--model", "gcn", "--set", "epochs=3"],
        ["evaluate", "latest"],
        ["predict", "latest", "--out", "answers.csv"],
        ["explain", "latest", f"n3{ORDER}\u202e"],
        ["explain", "latest", f"n3{ORDER}"],
        ["evaluate", "latest", "--json"],
    ]
    for command in commands:
        done = run(*command)
        assert done.exit_code == (2 if command[-1] == f"n3{ORDER}" else 0), done.output
        said = done.output + done.stderr
        assert not [one for one in HIDDEN if one in said], command
        if command[-1] == "--json":
            names = [row["class"] for row in json.loads(done.stdout)["classes"]]
            assert f"red{ORDER}" in names


def test_a_spreadsheet_gets_no_formulas_where_that_is_asked_for(place):
    run("import", "nodes.csv", "edges.csv", "--id", "name", "--label", "kind", "--out", "mine")
    run("train", "mine", "--model", "gcn", "--set", "epochs=3")
    spreadsheet = "--for-spreadsheet"
    for wrong in (["suspects", "mine"], ["analyze", "mine"], ["explain", "latest", "n3"]):
        assert "is for CSV and TSV" in run(*wrong, spreadsheet).stderr
    assert "CSV and TSV" in run("predict", "latest", "--out", "a.parquet", spreadsheet).stderr
    assert run("analyze", "mine", "--out", "about", spreadsheet).exit_code == 0
    for name in ("nodes", "mixed"):
        text = (place / "about" / f"{name}.csv").read_text()
        assert f"'{FORMULA}" in text
        assert f',"{FORMULA}' not in text
    for option, found in ((), FORMULA), (("--for-spreadsheet",), f"'{FORMULA}"):
        run("predict", "latest", "--out", "answers.csv", "--force", *option)
        with (place / "answers.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert found in {row["label"] for row in rows}
        assert {row["label"] for row in rows} <= {f"red{ORDER}", found, "plain\x9b31m"}
        assert all(0 <= float(row["nc"]) <= 1 for row in rows)


def test_plain_text_stays_as_it_is():
    text = "Zürich, 東京, α → β, tab\tand\nline, soft\u00a0space, 👩‍💻"
    assert visible(text) == text
    assert visible("a\x1b[0mb\x7f\udc80") == "a\\u001b[0mb\\u007f\\udc80"
