"""Suspect labels on the command line."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app

QUICK = ("--folds", 2, "--set", "epochs=15", "--set", "hidden=16")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


@pytest.fixture
def planted(tmp_path):
    """A graph as a file with 20 wrong labels, and which they are."""
    graph = ncgnn.generate(400, 1600, classes=3, homophily=0.9, features=8, feature_signal=3.0)
    wrong = np.random.default_rng(0).choice(400, 20, replace=False)
    labels = graph.labels.copy()
    labels[wrong] = (labels[wrong] + 1) % 3
    ncgnn.save(graph.with_labels(labels), tmp_path / "graph.npz")
    return set(wrong.tolist())


@pytest.mark.usefixtures("one_thread")
def test_a_table_with_reasons_and_a_file(run, planted, tmp_path):
    result = run("suspects", "graph.npz", *QUICK, "--out", "suspects.csv")
    assert result.exit_code == 0, result.output
    assert "suspects among 400 labels" in result.stdout
    assert "labels (" in result.stdout
    assert "neighbors are class" in result.stdout
    assert "Written: suspects.csv" in result.stderr
    with (tmp_path / "suspects.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    found = {int(row["id"]) for row in rows}
    assert len(found & planted) >= 0.8 * max(len(found), len(planted))
    assert all(row["suspect"] == "true" and row["reason"] for row in rows)
    again = run("suspects", "graph.npz", *QUICK, "--out", "suspects.csv")
    assert again.exit_code == 2
    assert "suspects.csv exists; name another file, or add --force" in again.stderr


@pytest.mark.usefixtures("one_thread")
def test_json_holds_rows_and_what_was_found(run, planted):
    result = run("suspects", "graph.npz", *QUICK, "--only", "all", "--top", 30, "--json", "-q")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["judged"] == 400
    assert said["path"] is None
    assert said["estimated"] == pytest.approx(len(planted), rel=0.4)
    assert len(said["rows"]) == 30
    assert said["rows"][0]["score"] == max(row["score"] for row in said["rows"])
    assert [row["suspect"] for row in said["rows"]].count(True) == said["suspects"]
    assert not result.stderr


@pytest.mark.usefixtures("one_thread")
def test_nothing_found_is_a_sentence_and_no_table(run, tmp_path):
    graph = ncgnn.generate(200, 1200, classes=2, homophily=1.0, features=8, feature_signal=9.0)
    ncgnn.save(graph, tmp_path / "clean.npz")
    result = run("suspects", "clean.npz", *QUICK)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("No label is called a suspect, of 200 that were judged.\n")
    assert "suggested" not in result.stdout
    assert "--only all" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "suspects.xlsx"), "the file must end in .csv"),
        (("--out", "nowhere/suspects.csv"), "there is no folder nowhere"),
        (("--set", "hiden=3"), "hiden: there is no such option; did you mean hidden?"),
        (("--set", "epoch=3"), "epoch: there is no such option; did you mean epochs?"),
        (("--model", "nobody"), "nobody"),
        (("--set", "seed=3"), "training.seed is said by an argument"),
        (("--set", "model.name=gcn"), "--models and --set model.name=… contradict"),
        (("--folds", 999), "folds must be at most the 400 labeled nodes"),
    ],
)
def test_bad_input_is_one_line(run, planted, words, message):
    result = run("suspects", "graph.npz", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
