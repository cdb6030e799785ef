"""From tables to answers on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Sixty things of two kinds with words that give them away, ten of them without a label."""
    random = np.random.default_rng(0)
    kind = np.arange(70) % 2
    words = (("sweet apple fruit", "round pear fruit"), ("sharp steel tool", "heavy iron tool"))
    text = [words[k][int(random.integers(2))] for k in kind]
    label = [None if i % 6 == 5 else ("food", "tools")[k] for i, k in enumerate(kind)]
    things = pa.table(
        {
            "thing": [f"t{i}" for i in range(70)],
            "aisle": label,
            "price": random.lognormal(size=70),
            "text": text,
        }
    )
    ends = random.integers(35, size=(2, 300)) * 2 + random.integers(2, size=300)
    pairs = pa.table({"a": [f"t{i}" for i in ends[0]], "b": [f"t{i}" for i in ends[1]]})
    old = np.array([i < 60 for i in range(70)])
    both = (ends < 60).all(axis=0)
    for name, table in (
        ("things", things.filter(pa.array(old))),
        ("pairs", pairs.filter(pa.array(both))),
        ("new-things", things.filter(pa.array(~old)).drop_columns(["aisle"])),
        ("new-pairs", pairs.filter(pa.array(~both))),
    ):
        pc.write_csv(table, tmp_path / f"{name}.csv")
    return tmp_path


IMPORT = ("import", "things.csv", "pairs.csv", "--id", "thing", "--label", "aisle")


def test_import_shows_what_it_found_and_writes_only_when_told(run, shop: Path) -> None:
    done = run(*IMPORT)
    assert done.exit_code == 0, done.output
    for word in ("thing", "the id", "the label", "category", "price", "food", "unlabeled"):
        assert word in done.stdout
    assert "Nothing was written" in done.stderr
    assert run(*IMPORT, "--out", "shop").exit_code == 0
    graph = ncgnn.load("shop")
    assert (graph.num_nodes, graph.class_names) == (60, ("food", "tools"))
    again = run(*IMPORT, "--out", "shop")
    assert again.exit_code == 2
    assert "holds a dataset already; say --force" in again.stderr
    assert run(*IMPORT, "--out", "shop", "--force").exit_code == 0


def test_options_reach_the_graph(run, shop: Path) -> None:
    done = run(*IMPORT, "--column", "price=ignore", "--direction", "forward", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["schema"]["columns"]["price"] == "ignore"
    assert found["schema"]["edges"]["direction"] == "forward"
    assert found["path"] is None
    assert any("itself" in said for said in found["report"]["notes"])


def test_mistakes_are_one_line(run, shop: Path) -> None:
    for words, message in (
        (("--column", "price"), "--column must be NAME=KIND"),
        (("--column", "price=numbr"), "did you mean number"),
        (("--source", "c"), "no column 'c' (source)"),
        (("--kinds", "x"), "name it (--kind)"),
        (("--weight", "a"), "is not a number"),
    ):
        done = run(*IMPORT, *words, "--out", "shop")
        assert done.exit_code == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (shop / "shop").exists()


def test_from_tables_to_answers_for_new_rows(run, shop: Path) -> None:
    assert run(*IMPORT, "--out", "shop").exit_code == 0
    done = run("analyze", "shop", "--json")
    assert done.exit_code == 0, done.output
    words = ("train", "shop", "--model", "sage", "--set", "hidden=8", "--set", "epochs=30")
    done = run(*words, "--runs", "runs")
    assert done.exit_code == 0, done.output
    folder = next(path.parent for path in (shop / "runs").glob("*/done.json"))
    done = run("predict", folder, "--only", "unlabeled", "--out", "old.csv")
    assert done.exit_code == 0, done.output
    old = pc.read_csv(shop / "old.csv")
    assert old.num_rows == 10
    new = ("--nodes", "new-things.csv", "--edges", "new-pairs.csv", "--out", "new.csv")
    done = run("predict", folder, *new)
    assert done.exit_code == 0, done.output
    answers = pc.read_csv(shop / "new.csv").to_pydict()
    assert answers["id"] == [f"t{i}" for i in range(60, 70)]
    right = [
        answer == ("food", "tools")[number % 2]
        for number, answer in zip(range(60, 70), answers["predicted"], strict=True)
    ]
    assert sum(right) >= 9
    done = run("explain", folder, "t61", *new[:4], "--out", "why.html")
    assert done.exit_code == 0, done.output
    assert f"t61: predicted {answers['predicted'][1]} (" in done.output
    assert "text" in done.output
    page = (shop / "why.html").read_text("utf-8")
    assert f"Why was {answers['predicted'][1]} predicted for t61?" in page
    said = json.loads(run("explain", folder, "t3", "--json").stdout)
    assert {one["name"] for one in said["effects"] if one["part"] == "column"} == {"price", "text"}
    old = run("explain", folder, "t3", "--nodes", "things.csv")
    assert "It is an old node" in old.stdout
    assert f"By {ncgnn.training.find_run(folder).name}, with its own weights." in old.stdout
    refused = run("explain", folder, "t61")
    assert refused.exit_code == 2
    assert "has no node t61" in refused.output


def test_new_rows_with_unknown_ends_and_rows_that_are_known(run, shop: Path) -> None:
    assert run(*IMPORT, "--out", "shop").exit_code == 0
    words = ("train", "shop", "--model", "sage", "--set", "hidden=8", "--set", "epochs=3")
    assert run(*words).exit_code == 0
    with (shop / "new-pairs.csv").open("a") as stream:
        stream.write('"t61","nobody"\n')
    new = ("predict", "latest", "--nodes", "new-things.csv", "--edges", "new-pairs.csv")
    refused = run(*new, "--out", "new.csv")
    assert refused.exit_code == 2
    assert "nobody; add their rows, or say what to do with such edges (--unknown drop)" in (
        refused.stderr
    )
    done = run(*new, "--unknown", "drop", "--out", "new.csv")
    assert done.exit_code == 0, done.output
    assert "1 edges left out: an end of them is no node" in done.stdout
    old = ("predict", "latest", "--nodes", "things.csv", "--out", "none.csv")
    assert "0 answers\n60 rows left out: the graph has these nodes already" in run(*old).stdout
    assert "has changed since" not in done.stderr
    assert run(*IMPORT, "--column", "price=ignore", "--out", "shop", "--force").exit_code == 0
    assert "shop has changed since this run was trained" in run(*old, "--force").stderr


def test_next_steps_fit_what_was_imported(run, shop: Path) -> None:
    assert "import it again with --label" in run(*IMPORT[:5], "--out", "bare").stderr
    alone = run("import", "things.csv", "--id", "thing", "--label", "aisle", "--out", "alone")
    assert "it has no edges" in alone.stderr
    assert "ncgnn train alone --refit" in alone.stderr


def test_misspelt_names_get_a_suggestion(run, shop: Path) -> None:
    assert run(*IMPORT, "--out", "shop").exit_code == 0
    assert "unknown dataset 'shpo'; did you mean shop?" in run("analyze", "shpo").stderr
    assert "there is no run runs/latest" in run("predict", "latest").stderr.replace("\\", "/")
    assert "shop is a dataset and no run" in run("evaluate", "shop").stderr
    (shop / "empty").mkdir()
    assert "empty is a folder without a dataset" in run("analyze", "empty").stderr
    with pytest.raises(ncgnn.InputError, match="no node T7; did you mean t7"):
        ncgnn.load("shop").find(["T7"])
