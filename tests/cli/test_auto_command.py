"""The command train where it chooses the model itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.training import load_run

FEW = ("--set", "candidates=logistic,mlp,gcn", "--set", "epochs=8", "--set", "hidden=8")
RATE = ("--set", "learning_rate=0.03")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "mine.npz"
    ncgnn.save(ncgnn.generate(240, 900, classes=3, features=10, homophily=0.8, seed=1), path)
    return path


@pytest.fixture(scope="module")
def trained(place, tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    done = run("train", place, *FEW, *RATE, "--time", "1h", "--refit", "--runs", runs)
    assert done.exit_code == 0, done.output
    return runs, done


def test_a_graph_of_ones_own_is_trained_by_auto(trained):
    runs, done = trained
    assert "Leaderboard" in done.stdout
    assert "logistic, penalty 10" in done.stdout
    assert "raph" in done.stdout  # what it adds
    assert "6 candidates of 3 models (logistic, mlp, gcn): about " in done.stderr
    assert "at most 60 min" in done.stderr
    assert "refitted on all 240 labels" in done.stderr
    latest = load_run(runs / "latest")
    assert latest.refitted is not None
    page = (runs / "latest" / "report.html").read_text()
    assert "How it was chosen" in page
    assert latest.auto["sentence"] in page


def test_the_same_command_finds_it_finished_and_speaks_json(trained, place):
    runs, _ = trained
    again = run("train", place, *FEW, *RATE, "--time", "1h", "--runs", runs, "--json")
    (facts,) = json.loads(again.stdout)["runs"]
    assert "Found finished" in again.stderr
    assert {row["model"] for row in facts["auto"]["candidates"]} == {"logistic", "mlp", "gcn"}
    assert [path.name for path in runs.iterdir() if path.name not in (".auto", "latest")] == [
        facts["folder"].rsplit("/", 1)[-1]
    ]


def test_other_commands_take_the_run(trained):
    runs, _ = trained
    for words in (("evaluate",), ("predict", "--force"), ("report",)):
        done = run(words[0], "latest", *words[1:], "--runs", runs)
        assert done.exit_code == 0, done.output
    assert run("explain", "latest", "3", "--runs", runs).exit_code == 0
    listed = run("results", "--runs", runs)
    assert listed.exit_code == 0
    assert "not shown" not in listed.stderr


def test_a_file_says_the_same(place, tmp_path, trained):
    config = tmp_path / "c.toml"
    config.write_text(
        f'[data]\ndataset = "{place}"\n[model]\nname = "auto"\ntime = "1h"\nhidden = 8\n'
        'candidates = ["logistic", "mlp", "gcn"]\n[training]\nepochs = 8\nlearning_rate = 0.03\n'
    )
    again = run("train", "--config", config, "--runs", trained[0])
    assert again.exit_code == 0, again.output
    assert again.stderr.index("nothing was trained") < again.stderr.index("Found finished")


def test_known_datasets_and_named_models_are_trained_as_before(place, tmp_path):
    for words in (("digits",), (place, "--model", "mlp"), (place, "--set", "model.name=gcn")):
        done = run("train", *words, "--dry-run")
        assert done.exit_code == 0, done.output
        assert done.stdout.count("[model]") == 1
    shown = run("train", place, "--dry-run", *FEW, *RATE).stdout
    assert shown.count("[model]") == shown.count("[training]") == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--time", "soon"),
            "time must be some seconds, like 90, or like 90s, 10m or 1h30m; got 'soon'",
        ),
        (("--time", "5m", "--model", "gcn"), "--time is how long auto may take"),
        (("--model", "auto", "--start-from", "latest"), "start_from must be left out with auto"),
        (("--set", "candidates=gnc"), "unknown model 'gnc'"),
        (("--tensorboard",), "--tensorboard must be left out with auto"),
    ],
)
def test_wrong_words_are_one_line(place, tmp_path, words, message):
    done = run("train", place, *words, "--runs", tmp_path)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_keeps_what_is_done(place, tmp_path):
    words = [sys.executable, "-m", "ncgnn", "train", str(place), "--time", "1h"]
    words += ["--set", "epochs=400", "--set", "patience=400", "--runs", str(tmp_path)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    search = tmp_path / ".auto"
    until = time.monotonic() + 120
    while time.monotonic() < until and not list(search.glob("*/candidates/*-gcn-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command continues" in said
    rows = json.loads(next(search.glob("*/search.json")).read_text())["rows"].values()
    assert {"majority", "mlp"} <= {row["model"] for row in rows if row["state"] == "finished"}
