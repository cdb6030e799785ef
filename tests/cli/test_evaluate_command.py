from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.data import custom_split
from ncgnn.training import RunFolder, make_config, train_run

#: What results did not hold in earlier versions.
NEW_KEYS = (
    *("intervals", "classes", "confused_pairs", "most_confused", "accuracy_by_estimated_kind"),
    *("accuracy_by_estimated_nc_decile", "accuracy_by_true_nc_decile", "accuracy_by_degree"),
)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two models and of another seed."""
    folder = tmp_path_factory.mktemp("runs")
    for model, seed in (("gcn", 0), ("mlp", 0), ("mlp", 1)):
        settings = {"hidden": 8, "epochs": 8}
        train_run(make_config(dataset="digits", model=model, seed=seed, settings=settings), folder)
    return folder


def named(runs, words):
    (found,) = [path for path in runs.iterdir() if path.name.startswith(words)]
    return found


def test_everything_is_in_the_json_and_in_the_run(runs):
    folder = named(runs, "digits-mlp-stratified-s0")
    told = json.loads(run("evaluate", folder, "--json").stdout)
    stored = RunFolder(folder).read_json("result.json")
    for key in NEW_KEYS:
        assert told[key] == stored[key], key
    assert len(json.dumps(stored)) < 30_000
    scores = {key: value for key, value in stored.items() if key not in ("calibration", "sets")}
    assert len(json.dumps(scores)) < 15_000
    assert len(told["classes"]) == 10
    shown = run("evaluate", folder).stdout
    for words in ("Per class of test nodes", "Most confused classes", "NC, estimated", "Degree"):
        assert words in shown


def test_two_runs_on_the_same_nodes(runs):
    first, second = (named(runs, f"digits-{model}-stratified-s0") for model in ("mlp", "gcn"))
    result = run("evaluate", first, "--against", second.name, "--runs", runs)
    assert result.exit_code == 0, result.output
    assert f"Against {second.name}"[:60] in result.stdout
    assert re.search(r"all\s+359\s+[+-]\d+\.\d \([+-]\d+\.\d to [+-]\d+\.\d\)", result.stdout)
    told = json.loads(run("evaluate", first, "--against", second, "--json").stdout)
    assert told["against"]["run"] == second.name
    scores = [
        RunFolder(path).read_json("result.json")["scores"]["test"] for path in (first, second)
    ]
    difference = scores[0]["accuracy"] - scores[1]["accuracy"]
    assert told["against"]["accuracy"] == pytest.approx(difference)
    assert {row["kind"] for row in told["against"]["parts"]} >= {"clear"}


def test_runs_on_other_nodes_are_refused_in_one_sentence(runs):
    first, second = (named(runs, f"digits-mlp-stratified-s{seed}") for seed in (0, 1))
    result = run("evaluate", first, "--against", second)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: against must be a run with the same test nodes; got one with")
    assert "nowhere" in run("evaluate", first, "--against", "nowhere").stderr
    same = run("evaluate", first, "--against", first)
    assert same.exit_code == 2
    assert f"--against must be another run; got {first.name} on both sides" in same.stderr


def test_runs_of_earlier_versions_still_open(runs, tmp_path):
    old = tmp_path / "runs" / "old"
    shutil.copytree(named(runs, "digits-gcn-stratified-s0"), old)
    folder = RunFolder(old)
    result = {k: v for k, v in folder.read_json("result.json").items() if k not in NEW_KEYS}
    for key in [key for key in result if key.startswith("accuracy_by")]:
        kept = ("kind", "part", "nodes", "accuracy")
        result[key] = [{k: v for k, v in row.items() if k in kept} for row in result[key]]
    folder.write_json("result.json", result)
    folder.mark_done()
    assert "Per class" in run("evaluate", old).stdout  # which computes it anew
    assert run("report", old).exit_code == 0
    page = (old / "report.html").read_text()
    assert "Per class" not in page
    assert "Where is the model right?" in page
    shown = run("results", "--runs", old.parent)
    assert "gcn" in shown.stdout
    assert shown.exit_code == 0


def test_two_classes_and_no_test_nodes(tmp_path):
    graph = ncgnn.generate(120, 300, classes=2, features=4, homophily=0.6, seed=1)
    order = np.random.default_rng(0).permutation(120)
    split = custom_split(order[:60], order[60:], [], labels=graph)
    trained = ncgnn.fit(graph, "gcn", split=split, hidden=4, epochs=5)
    folder = trained.save(tmp_path / "run")
    told = json.loads(run("evaluate", folder, "--json").stdout)
    assert told["evaluated"] == "val"
    assert sum(row["support"] for row in told["classes"]) == 60
    assert len(told["classes"]) == 2
    shown = run("evaluate", folder).stdout
    assert "validation, 95 %" in shown
    assert "Per class of validation nodes" in shown
    assert "test nodes" not in " ".join(shown.split()).replace("has no test nodes", "")
    assert run("report", folder).exit_code == 0
    page = (folder / "report.html").read_text()
    assert "Validation accuracy" in page
    assert "validation nodes</th>" in page
    assert "test nodes</th>" not in page
