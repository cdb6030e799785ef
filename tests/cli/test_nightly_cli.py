"""The same three commands on two nights."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from night_tables import tables

TRAIN = ("train", "mine", "--model", "tuned-sage", "--set", "hidden=8", "--set", "epochs=3")


@pytest.fixture
def run(tmp_path, monkeypatch, quick):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def invoke(*words):
        result = runner.invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result

    return invoke


def write(first, last, *more, **options):
    for name, table in zip(("nodes", "edges"), tables(first, last, *more, **options), strict=True):
        pc.write_csv(pa.table(table), f"{name}.csv")


def imports(run):
    run("import", "nodes.csv", "edges.csv", "--label", "aisle", "--column", "text=text",
        "--out", "mine", "--force")  # fmt: skip


def test_two_nights(run, tmp_path):
    write(0, 90)
    imports(run)
    first = run(*TRAIN, "--start-from", "latest", "--refit")
    assert "there is no latest run yet" in first.stderr
    assert "refitted on all 78 labels" in first.stderr
    answered = run("predict", "latest", "--only", "unlabeled", "--out", "a.parquet", "--json")
    said = json.loads(answered.stdout)
    assert said["refitted"]
    name = Path(said["run"]).name
    assert f"runs/latest is {name}" in first.stderr
    again = run(*TRAIN, "--start-from", "latest", "--refit")
    assert re.search(r"refitted on all 78 labels, \d+ epochs, found finished;", again.stderr)
    assert "Written:" not in again.stderr
    assert f"Found finished:\n  runs/{name}" in again.stderr
    assert f"Written:\n  runs/{name}" in first.stderr
    assert "no latest run yet" not in again.stderr
    old = pq.read_table("a.parquet")

    write(10, 120, "food tools toys", "fresh", seed=1)
    imports(run)
    second = run(*TRAIN, "--start-from", "latest", "--refit")
    assert f"starts from {name}, which knows" in second.stderr
    assert "2 of 3 classes" in second.stderr
    assert f"since {name}:\n  110 nodes: 30 new, 10 gone." in second.stderr
    assert "Classes that are new: toys." in second.stderr
    run("predict", "latest", "--only", "unlabeled", "--out", "a.parquet", "--force")
    assert pq.read_table("a.parquet").num_rows == 16
    latest = ncgnn.training.find_run(tmp_path / "runs" / "latest")
    kept = json.loads((latest / "changes.json").read_text())
    assert (kept["format"], kept["run"], kept["new_classes"]) == (1, name, ["toys"])
    # Yesterday's run still answers as it did.
    run("predict", name, "--only", "unlabeled", "--out", "b.parquet")
    assert pq.read_table("b.parquet") == old
    shown = json.loads(run("changes", name, "latest", "--json").stdout)
    assert (shown["before"], shown["after"]) == (name, latest.name)
    assert kept == {**shown, "format": 1, "run": name, "before": "mine", "after": "mine"}
    assert f"From {name} to mine\n" in run("changes", name, "mine").stdout
    rows = json.loads(run("results", "--json").stdout)
    assert (len(rows["rows"]), rows["problems"]) == (2, {})
    assert {row["options"] for row in rows["rows"]} == {""}
    assert {row["content"] for row in rows["rows"]} == {
        one.name.split("-")[1] for one in (tmp_path / "runs" / name, latest)
    }


def test_scores_are_never_those_of_the_refit(run):
    write(0, 90)
    imports(run)
    honest = json.loads(run(*TRAIN, "--json").stdout)["runs"][0]
    again = json.loads(run(*TRAIN, "--refit", "--json").stdout)["runs"][0]
    assert again == honest
    evaluated = json.loads(run("evaluate", "latest", "--json").stdout)
    assert evaluated["scores"] == honest["scores"]
    run("predict", "latest", "--only", "unlabeled", "--out", "refit.csv")
    run("predict", "latest", "--only", "unlabeled", "--out", "plain.csv", "--no-refit")
    assert Path("refit.csv").read_text() != Path("plain.csv").read_text()


def test_the_report_is_written_again_after_a_refit(run, monkeypatch):
    told = []

    def write_report(folder):
        told.append(ncgnn.training.refit_facts(folder) is not None)
        return []

    monkeypatch.setattr(ncgnn.report, "write_run_report", write_report)
    write(0, 90)
    imports(run)
    run(*TRAIN, "--refit")
    assert told == [False, True]
    run(*TRAIN, "--refit")
    assert told == [False, True]


def test_of_several_runs_the_best_by_validation_is_the_latest(run):
    write(0, 90)
    imports(run)
    result = run(*TRAIN, "--seeds", "3", "--json")
    runs = json.loads(result.stdout)["runs"]
    best = max(runs, key=lambda one: one["scores"]["val"]["accuracy"])
    assert f"runs/latest is {Path(best['folder']).name}, the best of these" in result.stderr


def test_all_seeds_answer_together(run):
    write(0, 90)
    imports(run)
    run(*TRAIN, "--seeds", "3", "--refit")
    run(*TRAIN, "--set", "hidden=9")  # another model, which has no part in it
    run(*TRAIN, "--seeds", "3")
    words = ("predict", "latest", "--only", "unlabeled", "--probabilities")
    said = json.loads(run(*words, "--all-seeds", "--out", "all.parquet", "--json").stdout)
    assert sorted(said["seeds"]) == [0, 1, 2]
    assert said["refitted"]
    runs = [path.parent for path in Path("runs").glob("*-s?-*/refit") if path.is_dir()]
    assert len(runs) == 3
    single = [ncgnn.load_run(one).predict(only="unlabeled", probabilities=True) for one in runs]
    together = pq.read_table("all.parquet")
    for name in [name for name in together.column_names if name.startswith("probability_")]:
        mean = sum(answers[name] for answers in single) / 3
        assert together[name].to_numpy() == pytest.approx(mean, rel=1e-6)
    alone = run(*words, "--out", "one.parquet").stdout
    assert "other seeds" not in alone
    assert "and the runs of 2 other seeds" in run(*words, "--all-seeds", "--force").stdout


def test_start_from_that_is_not_there_is_one_line(run, tmp_path):
    write(0, 90)
    imports(run)
    words = [*TRAIN, "--start-from", "nothing"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: there is no run nothing")
    both = CliRunner().invoke(app, [*words, "--set", "start_from=latest"])
    assert "--start-from and --set start_from=… contradict each other" in both.stderr


def test_changes_shows_tables(run):
    write(0, 90)
    imports(run)
    Path("mine").rename("before")
    write(10, 120, seed=1)
    imports(run)
    shown = run("changes", "before", "mine").stdout
    assert "From before to mine" in shown
    assert "nodes that stayed" in shown
    assert "110 nodes:" not in shown  # the table has it
    for word in ("Drift", "maker", "category", "Neighborhood Confusion", "110"):
        assert word in shown
